"""``surescale dev bench recovery``: time from nothing to the first decision, and recovery after each role is killed."""

import contextlib
import time
from dataclasses import dataclass, field

import click
import msgspec
from confluent_kafka import KafkaException, Message

from benchmarks.machine import conditions
from benchmarks.report import Document, say, show
from surescale.contracts.clock import MINUTE_MS, pipeline_time_ms
from surescale.contracts.commands import EventRecord, Outcome
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import ClockSegment, MinuteMarker, TaskSample
from surescale.contracts.topics import DECISIONS, RESCHEDULE_EVENTS, SNAPSHOTS, TASK_METRICS
from surescale.contracts.windows import decode_window
from surescale.contracts.wire import decode
from surescale.runtime import options
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import LogReader
from surescale.runtime.signals import end_in_order
from surescale.services.local_stack.local_pipeline import LocalPipeline, PipelineOptions
from surescale.services.local_stack.supervisor import StopRequested

JOB = "shop"
MINUTES = 1_440
SPEED = 60.0  # one event minute per second
ROLES = ("monitor", "spark", "agent", "rescaler", "state-service", "kafka")
STEADY_S = 24.0  # watched before the first kill: a little over two spans
START_WITHIN_S = 300.0
RECOVER_WITHIN_S = 300.0
_WATCHED = (TASK_METRICS, SNAPSHOTS, DECISIONS, RESCHEDULE_EVENTS)
_STATIONS = ("monitor", "spark", "agent", "rescaler", "state-service")
_METRIC = TaskSample | MinuteMarker


@dataclass(slots=True)
class Follower:
    """How far each station of the pipeline has come, in event time, as a reader sees it."""

    pipeline: LocalPipeline
    newest_ms: dict[str, int] = field(default_factory=dict)
    windows: dict[str, int] = field(default_factory=dict)
    _reader: LogReader | None = None
    _clock: ClockSegment | None = None

    def look(self) -> dict[str, float]:
        """Read new records and return how many event minutes each station is behind the pipeline's clock."""
        for record in self._poll():
            with contextlib.suppress(RecordRejected):
                self._take(record)
        with contextlib.suppress(OSError, KeyError, TypeError):
            found = fetch_json(f"{self.pipeline.http_url}jobs/sim/{JOB}")
            self._seen("state-service", found["window"]["record"]["window_end_ms"])
        now_ms = self.now_ms()
        return {name: (now_ms - self.newest_ms[name]) / MINUTE_MS for name in _STATIONS if name in self.newest_ms}

    def now_ms(self) -> int:
        """Return the pipeline's time. It is read from the engine once, since the engine is never killed here."""
        if self._clock is None:
            self._clock = msgspec.convert(fetch_json(f"{self.pipeline.settings.engine_url}/clock"), ClockSegment)
        return pipeline_time_ms(self._clock, time.time_ns() // 1_000_000)

    def close(self) -> None:
        """Leave the broker."""
        if self._reader is not None:
            self._reader.close()

    def _poll(self) -> list[Message]:
        try:
            if self._reader is None:
                self._reader = LogReader(self.pipeline.settings, _WATCHED)
            return self._reader.poll(0.05)
        except KafkaException:
            if self._reader is not None:
                self._reader.close()
            self._reader = None
            return []

    def _take(self, record: Message) -> None:
        topic, raw = record.topic(), record.value()
        if topic == TASK_METRICS and raw is not None and b'"minute/1"' in raw[:64]:
            self._seen("monitor", decode(raw, MinuteMarker).minute_end_ms)
        elif topic == SNAPSHOTS:
            window = decode_window(raw)
            self.windows[window.id] = self.windows.get(window.id, 0) + 1
            self._seen("spark", window.window_end_ms)
        elif topic == DECISIONS:
            self._seen("agent", decode(raw, Decision).span_end_ms)
        elif topic == RESCHEDULE_EVENTS:
            event = decode(raw, EventRecord)
            if isinstance(event, Outcome):
                self._seen("rescaler", event.span_end_ms)

    def _seen(self, station: str, at_ms: int) -> None:
        self.newest_ms[station] = max(self.newest_ms.get(station, 0), at_ms)


def start_up(pipeline: LocalPipeline, follower: Follower, began_s: float) -> Document:
    """Return the seconds from nothing to a ready pipeline, and to the first decision."""
    pipeline.start()
    ready_s = time.monotonic() - began_s
    pipeline.supervisor.wait(
        lambda: "rescaler" in follower.look(), timeout_s=START_WITHIN_S, what="the first decision", poll_s=0.05
    )
    first_s = time.monotonic() - began_s
    return {
        "ready_s": round(ready_s, 1),
        "first_decision_handled_s": round(first_s, 1),
        "trace_minutes_until_then": pipeline.engine_report().minutes_done,
    }


def undisturbed(follower: Follower) -> dict[str, float]:
    """Return how many event minutes each station falls behind at most while all roles run."""
    steady: dict[str, float] = {}
    ends_s = time.monotonic() + STEADY_S
    while time.monotonic() < ends_s:
        for name, minutes in follower.look().items():
            steady[name] = max(steady.get(name, 0.0), minutes)
        time.sleep(0.1)
    return steady


def recover(pipeline: LocalPipeline, follower: Follower, role: str, steady: dict[str, float]) -> Document:
    """Kill a role, restart it at once, and measure until no station is further behind than before the kill."""
    behind = dict.fromkeys(steady, 0.0)
    began_s = time.monotonic()
    pipeline.supervisor.kill(role)
    pipeline.supervisor.restart(role)
    ready_s = time.monotonic() - began_s
    hit: float | None = None
    while time.monotonic() - began_s < RECOVER_WITHIN_S:
        pipeline.supervisor.check()
        now = follower.look()
        behind = {name: max(behind[name], now[name]) for name in behind}
        late = [name for name in behind if now[name] > steady[name] + 1.0]
        hit = None if late else hit or time.monotonic()
        if hit is not None and time.monotonic() - hit > _settled_s(role):
            break
        time.sleep(0.1)
    worst = max(behind[name] - steady[name] for name in behind)
    return {
        "process_ready_s": round(ready_s, 1),
        "recovered_s": None if hit is None else round(hit - began_s, 1),
        "event_minutes_behind_at_worst": round(max(worst, 0.0), 1),
        "station_furthest_behind": max(behind, key=lambda name: behind[name] - steady[name]),
    }


def _settled_s(role: str) -> float:
    """Return how long all stations must keep up before a recovery counts: a span where work comes once a span."""
    return 14.0 if role in ("agent", "rescaler", "kafka") else 4.0


def _whole(pipeline: LocalPipeline, follower: Follower) -> Document:
    """Return how many windows are missing or repeated so far. None may be missing; some may come twice."""
    follower.look()
    ends = sorted(int(identity.rpartition("@")[2].partition("/")[0]) for identity in follower.windows)
    expected = (ends[-1] - ends[0]) // MINUTE_MS + 1
    repeated = sum(times - 1 for times in follower.windows.values())
    return {"minutes": expected, "windows_missing": expected - len(ends), "windows_repeated": repeated}


@click.command("recovery")
@click.option("--kill", "kills", multiple=True, type=click.Choice(ROLES), help="Role to kill; repeatable. [each in turn]")
@click.option("--speed", type=options.FiniteRange(1, 600), default=SPEED, show_default=True, help="Event seconds per second.")
@click.option("--policy", default="sure", show_default=True, help="Policy by name.")
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the input.")
@options.as_json
def command(kills: tuple[str, ...], speed: float, policy: str, seed: int, as_json: bool) -> None:
    """Start-up of the pipeline, and recovery from kill -9.

    Kills each role in turn, on a pipeline of one job whose clock runs freely.
    """
    report: Document = {"conditions": conditions(seed), "job": JOB, "speed": speed}
    options = PipelineOptions(jobs=(JOB,), minutes=MINUTES, pace="free", speed=speed, seed=seed, policy=policy, twins=())
    end_in_order()
    began_s = time.monotonic()
    try:
        with LocalPipeline(options, say) as pipeline:
            follower = Follower(pipeline)
            report["start"] = start_up(pipeline, follower, began_s)
            steady = undisturbed(follower)
            report["minutes_behind_undisturbed"] = {name: round(minutes, 1) for name, minutes in steady.items()}
            report["after_a_kill"] = {role: _said(role, recover(pipeline, follower, role, steady)) for role in kills or ROLES}
            report["in_all"] = _whole(pipeline, follower)
            follower.close()
    except StopRequested as asked:
        raise SystemExit(asked.exit_code) from None
    show("surescale dev bench recovery", report, as_json=as_json)


def _said(role: str, found: Document) -> Document:
    say(f"after a kill of {role}: {found}")
    return found
