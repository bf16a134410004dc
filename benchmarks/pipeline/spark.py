"""``surescale dev bench spark``: raw records per second through the snapshot stage, and how fresh its windows are."""

import re
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from benchmarks.machine import conditions
from benchmarks.pipeline.fleet import LAST_ROUND_MS, ROUNDS_MS, Fleet
from benchmarks.pipeline.growth import growth
from benchmarks.pipeline.stage import Stage, flush, stage
from benchmarks.pipeline.usage import cores_used, memory_mb, processor_s
from benchmarks.report import BenchFailed, Document, percentile, say, show
from surescale.contracts.messages import MinuteMarker, TaskSample
from surescale.contracts.topics import SNAPSHOTS, TASK_METRICS, TopicNames
from surescale.contracts.windows import decode_window
from surescale.contracts.wire import encode
from surescale.runtime import options
from surescale.runtime.kafka import LogReader, producer
from surescale.services.local_stack.supervisor import StopRequested
from surescale.spark_streaming.manifest import FOLDER

PARTS = ("backlog", "live", "large", "growth")
WINDOW_MINUTES = 60
BACKLOG_MINUTES = 60  # so that each part starts with full windows
WARM_UP_SHARE = 0.25  # of the backlog; not counted
DRAIN_TIMEOUT_S = 300.0
GROWTH = {1_000: (10, 1.5), 10_000: (5, 6.0)}
"""Of fleets up to so many tasks: how many minutes are measured, and the seconds from one to the next. A larger fleet's minute
takes longer and gives more windows."""
AHEAD_MAX = 400_000  # how far the sender may run ahead of the job while it fills windows, in samples
LOOK_EVERY_S = 0.5
_OF_BATCH = re.compile(r"(manifest|rows|state)-(\d{12})\b.*")
_QUEUE = {"queue.buffering.max.messages": 2_000_000, "queue.buffering.max.kbytes": 1_000_000}


@dataclass(slots=True)
class Sender:
    """Sends a fleet's minutes and counts acknowledged records."""

    pipeline: Stage
    samples: int = 0
    markers: int = 0
    _client: Any = None
    _topic: str = ""

    def __post_init__(self) -> None:
        self._client = producer(self.pipeline.settings, **_QUEUE)
        self._topic = TopicNames(self.pipeline.settings.topic_prefix)(TASK_METRICS)

    def minute(self, fleet: Fleet, minute: int, rounds: tuple[int, ...] = ROUNDS_MS) -> None:
        """Send one minute of every job, each with its marker last."""
        for index in range(fleet.jobs):
            self.samples += self._send(fleet.job(index), fleet.samples(index, minute, rounds))
            self.markers += self._send(fleet.job(index), [fleet.marker(index, minute)])

    def flush(self) -> None:
        """Wait until all records are acknowledged."""
        flush(self._client)

    def acknowledged(self) -> int:
        """Return the number of records the broker has acknowledged."""
        self._client.poll(0)
        return self.samples + self.markers - len(self._client)

    def _send(self, job: str, messages: Iterable[TaskSample | MinuteMarker]) -> int:
        sent, key = 0, job.encode()
        for message in messages:
            while True:
                try:
                    self._client.produce(self._topic, encode(message), key)
                    break
                except BufferError:
                    self._client.poll(0.05)
            sent += 1
        self._client.poll(0)
        return sent


@dataclass(slots=True)
class Watch:
    """The job's progress since an instant, from its own counts."""

    pipeline: Stage
    began_s: float = field(default_factory=time.monotonic)
    counts: Document = field(default_factory=dict)
    processor_s: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.counts, self.processor_s = self.pipeline.health("spark"), processor_s()

    def report(self, now: Document, wall_s: float) -> Document:
        """Return rates, the mean wall time of a batch by stage, and the cores that each kind of process kept busy.

        Between batches Spark plans the next one, or waits for records.
        """
        batches = max(1, now["batches"] - self.counts["batches"])
        stages = {name: (now["stage_ms"][name] - self.counts["stage_ms"][name]) / batches for name in now["stage_ms"]}
        stages = {name: round(value, 1) for name, value in stages.items()}
        samples, after = now["samples"] - self.counts["samples"], processor_s()
        return {
            "seconds": round(wall_s, 1),
            "samples": samples,
            "samples_per_s": round(samples / wall_s),
            "windows": now["windows"] - self.counts["windows"],
            "batches": batches,
            "batch_ms_mean": round(1000 * wall_s / batches, 1),
            "of_it_ms": stages | {"between_batches": round(1000 * wall_s / batches - sum(stages.values()), 1)},
            "cores_busy": cores_used(self.processor_s, after, wall_s),
            "processor_us_per_sample": {
                kind: round(1e6 * (after[kind] - self.processor_s.get(kind, 0.0)) / max(1, samples), 1) for kind in sorted(after)
            },
        }


def backlog(
    pipeline: Stage, sender: Sender, fleet: Fleet, minutes: int, master: str, rounds: tuple[int, ...] = ROUNDS_MS
) -> Document:
    """Send all minutes first, then measure how fast the job processes them. The first quarter warms it up and does not count."""
    say(f"backlog: {minutes} minutes of {fleet.jobs} jobs x {fleet.tasks} tasks x {fleet.subtasks} subtasks")
    for minute in range(minutes):
        sender.minute(fleet, minute, rounds)
    sender.flush()
    began_s = time.monotonic()
    pipeline.start("spark", spark_master=master)
    ready_s = round(time.monotonic() - began_s, 1)
    _await(pipeline, sender.samples * WARM_UP_SHARE)
    watch = Watch(pipeline)
    now = _drained(pipeline, sender.samples)
    return watch.report(now, time.monotonic() - watch.began_s) | {"ready_s": ready_s}


def live(
    pipeline: Stage,
    sender: Sender,
    fleet: Fleet,
    first_minute: int,
    *,
    speed: float,
    seconds: float,
    rounds: tuple[int, ...] = ROUNDS_MS,
) -> Document:
    """Send each minute when it is due, and measure lag and freshness."""
    rate = fleet.records_per_minute(rounds) * speed / 60
    say(f"live: {fleet.jobs * fleet.tasks:,} tasks in {fleet.jobs} jobs at speed {speed:g}, {rate:,.0f} records/s, {seconds:g} s")
    watch, began_s, wall_ms = Watch(pipeline), time.monotonic(), time.time() * 1000
    done_before = sender.samples - watch.counts["samples"]
    if done_before:
        raise BenchFailed(f"the job was {done_before:,} samples behind before the measurement")
    lags: list[tuple[float, int]] = []
    minute = first_minute
    next_look_s = began_s
    while (now_s := time.monotonic()) < began_s + seconds:
        if now_s >= began_s + (minute - first_minute) * 60 / speed:
            sender.minute(fleet, minute, rounds)
            minute += 1
        if now_s >= next_look_s:
            done = pipeline.health("spark")["samples"]
            lags.append((now_s - began_s, sender.acknowledged() - sender.markers - done))
            next_look_s += LOOK_EVERY_S
        time.sleep(0.005)
    behind_s = time.monotonic() - began_s - (minute - first_minute) * 60 / speed
    sender.flush()
    wall_s = time.monotonic() - began_s
    busy = watch.report(pipeline.health("spark"), wall_s)
    _drained(pipeline, sender.samples)
    return {
        "tasks": fleet.jobs * fleet.tasks,
        "jobs": fleet.jobs,
        "subtasks": fleet.subtasks,
        "speed": speed,
        "offered_records_per_s": round(rate),
        "generator_behind_s": round(max(behind_s, 0.0), 2),
        "lag_records": lag_report(lags, rate),
        "freshness_s": _freshness(pipeline, wall_ms),
        "state_kb_of_last_batches": state_kb(pipeline.supervisor.folder / "checkpoint"),
        "memory_mb": {kind: used for kind, used in memory_mb().items() if kind.startswith("spark")},
        **busy,
    }


def filled(
    pipeline: Stage, sender: Sender, fleet: Fleet, *, seconds: float, rounds: tuple[int, ...], speed: float = 1.0
) -> Document:
    """Fill the windows of a fleet with one sample per task and minute, then run it live."""
    thin = replace(fleet, subtasks=1)
    say(f"filling {BACKLOG_MINUTES} minutes of {fleet.jobs * fleet.tasks:,} tasks")
    began_s = time.monotonic()
    for minute in range(BACKLOG_MINUTES):
        sender.minute(thin, minute, LAST_ROUND_MS)
        _await(pipeline, sender.samples - AHEAD_MAX)
    sender.flush()
    _drained(pipeline, sender.samples)
    say(f"filled after {time.monotonic() - began_s:.0f} s")
    return live(pipeline, sender, fleet, BACKLOG_MINUTES, speed=speed, seconds=seconds, rounds=rounds)


def _freshness_of(pipeline: Stage, sender: Sender, fleet: Fleet) -> Document:
    """Return the freshness of a fleet with one sample a minute from each subtask, as most engines give it."""
    minutes, every_s = next(found for tasks, found in GROWTH.items() if fleet.jobs * fleet.tasks <= tasks)
    report = filled(pipeline, sender, fleet, seconds=minutes * every_s, rounds=LAST_ROUND_MS, speed=60 / every_s)
    figures: Document = report["freshness_s"]
    return figures


def _drained(pipeline: Stage, samples: float) -> Document:
    """Wait until the job has read this many samples; return its counts."""
    _await(pipeline, samples)
    return pipeline.health("spark")


def _await(pipeline: Stage, samples: float) -> None:
    pipeline.supervisor.wait(
        lambda: pipeline.health("spark")["samples"] >= samples,
        timeout_s=DRAIN_TIMEOUT_S,
        what=f"{samples:,.0f} samples in the Spark job",
        poll_s=0.05,
    )


def state_kb(checkpoint: Path) -> dict[int, float]:
    """Return what each of the last batches has written to the checkpoint, without Spark's scratch, in thousand bytes."""
    written, kept = Counter[int](), set[int]()
    for path in (checkpoint / FOLDER).iterdir():
        if (found := _OF_BATCH.fullmatch(path.name)) is not None:
            batch = int(found.group(2))
            written[batch] += path.stat().st_size
            kept |= {batch} if found.group(1) == "manifest" else set()
    return {batch: round(written[batch] / 1000, 1) for batch in sorted(kept)}


def lag_report(lags: list[tuple[float, int]], rate: float) -> Document:
    """Return the size of the lag and its growth: the slope of a fitted line, as a share of the offered rate."""
    settled = lags[len(lags) // 4 :]
    mean_at = sum(at for at, _ in settled) / len(settled)
    mean = sum(lag for _, lag in settled) / len(settled)
    spread = sum((at - mean_at) ** 2 for at, _ in settled) or 1.0
    slope = sum((at - mean_at) * (lag - mean) for at, lag in settled) / spread
    return {
        "mean": round(mean),
        "max": max(lag for _, lag in lags),
        "at_end": lags[-1][1],
        "growth_records_per_s": round(slope),
        "growth_share_of_offered": round(slope / rate, 4),
    }


def _freshness(pipeline: Stage, since_wall_ms: float) -> Document:
    """Return the freshness of windows: from the append of the record that closed a minute to the append of its window."""
    reader = LogReader(pipeline.settings, [SNAPSHOTS])
    try:
        found = []
        sizes = []
        for record in reader.read_to_end(120.0):
            appended_ms = record.timestamp()[1]
            if appended_ms >= since_wall_ms:
                window = decode_window(record.value())
                sizes.append(len(record.value() or b""))
                if (window.closed_append_ms or 0) >= since_wall_ms:
                    found.append((appended_ms - (window.closed_append_ms or 0)) / 1000)
    finally:
        reader.close()
    return {
        "windows": len(found),
        "p50": percentile(found, 50),
        "p99": percentile(found, 99),
        "p99_9": percentile(found, 99.9),
        "max": percentile(found, 100),
        "window_kb_mean": round(sum(sizes) / max(1, len(sizes)) / 1000, 1),
    }


@click.command("spark")
@click.option("--part", "parts", multiple=True, type=click.Choice(PARTS), help="Repeatable. [all]")
@click.option(
    "--speed",
    type=options.FiniteRange(min=0.1),
    default=100.0,
    show_default=True,
    help="Speed of `live`, in event seconds per second.",
)
@click.option("--seconds", type=options.FiniteRange(min=5), default=40.0, show_default=True, help="How long `live` runs.")
@click.option("--minutes", type=click.IntRange(min=2), default=BACKLOG_MINUTES, show_default=True, help="Minutes of the backlog.")
@click.option("--large-seconds", type=options.FiniteRange(min=5), default=130.0, show_default=True, help="How long `large` runs.")
@click.option(
    "--samples",
    type=click.IntRange(1, len(ROUNDS_MS)),
    default=len(ROUNDS_MS),
    show_default=True,
    help="Samples a minute of a subtask, but for `growth`: the simulated engine sends 4; Flink, Prometheus and groups 1.",
)
@click.option("--master", default="local[2]", show_default=True, help="Spark master; local-cluster[2,1,1024] runs two executors.")
@click.option("--seed", type=int, default=7, show_default=True, help="Seed of the input.")
@options.as_json
def command(
    parts: tuple[str, ...],
    speed: float,
    seconds: float,
    minutes: int,
    large_seconds: float,
    samples: int,
    master: str,
    seed: int,
    as_json: bool,
) -> None:
    """Throughput, lag and freshness of the Spark job.

    Measures records/s of a backlog, lag and freshness live, 10,000 tasks at speed 1, and how freshness grows with tasks and jobs.
    """
    chosen = parts or PARTS
    report: Document = {"conditions": conditions(seed), "master": master}
    fleet, rounds = Fleet(jobs=50, tasks=20, subtasks=3, seed=seed), ROUNDS_MS[-samples:]
    try:
        if {"backlog", "live"} & set(chosen):
            with stage(say, window_minutes=WINDOW_MINUTES) as pipeline:
                sender = Sender(pipeline)
                report["backlog"] = backlog(pipeline, sender, fleet, minutes, master, rounds)
                if "live" in chosen:
                    report["live"] = live(pipeline, sender, fleet, minutes, speed=speed, seconds=seconds, rounds=rounds)
        if "large" in chosen:
            with stage(say, window_minutes=WINDOW_MINUTES) as pipeline:
                pipeline.start("spark", spark_master=master)
                report["large"] = filled(
                    pipeline, Sender(pipeline), Fleet(500, 20, 3, seed), seconds=large_seconds, rounds=rounds
                )
        if "growth" in chosen:
            with stage(say, window_minutes=WINDOW_MINUTES) as pipeline:
                pipeline.start("spark", spark_master=master)
                report["growth"] = growth(partial(_freshness_of, pipeline, Sender(pipeline)), seed)
    except StopRequested as asked:
        raise SystemExit(asked.exit_code) from None
    show("surescale dev bench spark", report, as_json=as_json)
