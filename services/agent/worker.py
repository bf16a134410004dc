"""The agent as a process: Faust wiring, at-least-once delivery, health, and an orderly shutdown. Decides nothing.

The event loop runs in a thread that can be left behind: Faust may hang in its shutdown, and other roles share the process.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterable, Collection, Coroutine, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import faust
from aiokafka.errors import KafkaError
from faust.types import TP, EventT, StreamT, TopicT

from surescale.contracts.decisions import OVERTAKEN_BY, Decision, ShadowDecision
from surescale.contracts.errors import RecordRejected, SurescaleError
from surescale.contracts.ids import cluster_of
from surescale.contracts.messages import Coordinates, dead_letter, key_of_letter
from surescale.contracts.steps import Timed, untimed
from surescale.contracts.topics import (
    DEAD_LETTERS,
    DECISIONS,
    JOB_SETTINGS,
    POLICY_RELEASES,
    RECORD_BYTES_MAX,
    SHADOW_DECISIONS,
    SNAPSHOTS,
    TopicNames,
    agent_group,
)
from surescale.contracts.wire import encode
from surescale.runtime.backoff import Stopped, Throttle
from surescale.runtime.beats import allowed, beat
from surescale.runtime.health import HealthServer
from surescale.runtime.kafka import wait_for_topics
from surescale.runtime.limited_graphs import Limits
from surescale.runtime.threads import background
from surescale.runtime.tracing.context import GivenHeaders, Headers, context_of
from surescale.runtime.tracing.conventions import processed
from surescale.runtime.tracing.setup import tracer_of
from surescale.runtime.tracing.spans import Attributes, Span, Tracer
from surescale.runtime.watchdog import Watchdog
from surescale.services.agent.counts import AgentCounts
from surescale.services.agent.decider import Decider, LateDecisions, is_late, overtaken_by_ms
from surescale.services.agent.job_settings import JobSettingsView
from surescale.services.agent.settings import AgentSettings
from surescale.services.agent.shadow_process import ShadowProcess
from surescale.services.agent.shadows import Shadows
from surescale.services.agent.transport import (
    Acknowledgements,
    BrokerEnds,
    FaustReading,
    Intake,
    faust_credentials,
    read_committed,
)

if TYPE_CHECKING:
    from surescale.policies.policy import Policy


class TracedAnswer:
    """Times the parts while nobody knows yet whether anything is due; spans are made only for an answer.

    Of ten windows nine ask for nothing, and cost one look at the clock.
    """

    def __init__(self, tracer: Tracer, headers: GivenHeaders, record: Attributes) -> None:
        """``headers``: of the window's record. ``record``: where it came from."""
        self._tracer, self._headers, self._record = tracer, headers, record
        self._parts: list[tuple[str, int, int]] = []
        self._began_ns = time.time_ns() if tracer.is_on else 0

    @property
    def timed(self) -> Timed:
        """What receives the beginning and end of each part of the work."""
        return self._part if self._tracer.is_on else untimed

    def of(self, decision: Decision) -> Span:
        """Return the span of a decision that was made just now; the caller ends it when Kafka has the record."""
        if not self._tracer.is_on:
            return self._tracer.begin("agent.decide")
        policy, acts = decision.policy, decision.action == "act"
        about: Attributes = {
            "surescale.job": decision.job,
            "surescale.decision_id": decision.decision_id,
            "surescale.action": decision.action,
            "surescale.policy": policy.name,
            "surescale.policy.asked": policy.asked or policy.name,
            "surescale.span_end_ms": decision.span_end_ms,
            "surescale.tasks": len(decision.tasks),
            "surescale.tasks.changed": sum(task.desired != task.current for task in decision.tasks) if acts else 0,
        }
        span = self._begun(about)
        if policy.fallback_reason is not None:
            span.event("fallback", {"surescale.fallback_reason": policy.fallback_reason})
        for name, began_ns, ended_ns in self._parts:
            part = self._tracer.begin(f"agent.{name}", span.context, began_ns=began_ns)
            part.end(ended_ns)
        return span

    def refused(self, why: str) -> Span:
        """Return the span of a window that cannot be read."""
        span = self._begun({})
        span.fail(why)
        return span

    def _begun(self, about: Attributes) -> Span:
        above = context_of(self._headers) if self._tracer.is_on else None
        about = {**about, **self._record}
        return self._tracer.begin("agent.decide", above, kind="consumer", attributes=about, began_ns=self._began_ns)

    @contextlib.contextmanager
    def _part(self, name: str, _of: str) -> Iterator[None]:
        began_ns = time.time_ns()
        yield
        self._parts.append((name, began_ns, time.time_ns()))


def run_in_own_loop(
    serving: Coroutine[Any, Any, None],
    *,
    stop: threading.Event,
    ending: threading.Event,
    stop_within_s: float,
    end_within_s: float,
) -> bool:
    """Run a coroutine in an event loop of its own; return whether it has ended, False if it was left behind.

    Its thread does not keep the process alive, so what is left behind ends with it.

    Args:
        serving: ends by itself, at latest soon after ``stop``.
        stop: the role was told to stop.
        ending: set by the coroutine when it begins to end.
        stop_within_s: how long it may take after ``stop``.
        end_within_s: how long it may take after ``ending``.

    Raises:
        BaseException: what the coroutine raised.
    """
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            outcome.set_result(asyncio.run(serving))
        except BaseException as error:  # raised again in the thread that waits for it
            outcome.set_exception(error)

    background(run, "event loop").start()
    until_s: dict[threading.Event, float] = {}
    while not wait([outcome], timeout=_LOOK_EVERY_S).done:
        beat()
        now_s = time.monotonic()
        for event, within_s in ((stop, stop_within_s), (ending, end_within_s)):
            if event.is_set() and now_s > until_s.setdefault(event, now_s + within_s):
                return False
    outcome.result()
    return True


READS_AND_WRITES = (SNAPSHOTS, JOB_SETTINGS, POLICY_RELEASES, DECISIONS, SHADOW_DECISIONS, DEAD_LETTERS)
WINDOWS_IN_MEMORY = 16  # a window may take 8 MiB
COMMIT_EVERY_S = 1.0
STOP_WITHIN_S = 3.0
STUCK_AFTER_S = 60.0  # Faust can hang in its own shutdown after its fetcher crashed
AGAIN_AFTER_S = 1.0
FRUITLESS_RESTARTS_MAX = 5
"""Restarts of Faust in a row that handled no window. The trouble is not passing, so the process ends and alerts fire."""
ACKNOWLEDGED_WITHIN_S = 1200.0
"""How long the producer tries before it gives a record up: Kafka may be away. Faust's default."""
_LOOK_EVERY_S = 0.05
_SETTLE_EVERY_S = 1.0


def run(settings: AgentSettings, stop: threading.Event, log: logging.Logger) -> None:
    """Decide until told to stop.

    Raises:
        SurescaleError: Faust keeps ending by itself, or hangs in its own shutdown.
        Exception: a bug of ours. The window it happened on was not committed and will be read again.
    """
    for ours in ("surescale.services.agent.transport", "surescale.services.agent.worker"):
        logging.getLogger(ours).setLevel(logging.WARNING)  # Faust logs its own life cycle under the names of our modules
    for handler in logging.getLogger().handlers:
        handler.addFilter(RateLimit("aiokafka", "surescale.librdkafka"))
    warn_of_policy(settings.policy, settings.policy_folder, settings.span_minutes, log)
    counts, tracer = AgentCounts(), tracer_of("agent")
    fruitless = windows_before = 0
    with (
        Watchdog("agent", settings.hung_after_s, log) as watchdog,
        HealthServer(settings, counts.report, watchdog, counts.metrics),
        contextlib.closing(tracer),
        watchdog.loop("the main loop"),
    ):
        while not stop.is_set() and counts.failed is None:
            try:
                wait_for_topics(settings, READS_AND_WRITES, stop=stop, log=log)
            except Stopped:
                return
            ending = threading.Event()
            has_ended = run_in_own_loop(
                _serve(settings, counts, tracer, watchdog, stop, log, ending),
                stop=stop,
                ending=ending,
                stop_within_s=STOP_WITHIN_S,
                end_within_s=STUCK_AFTER_S,
            )
            counts.partitions = 0
            if not has_ended and not (stop.is_set() or counts.failed):
                raise SurescaleError(f"Faust did not stop within {STUCK_AFTER_S:.0f} s; start the agent again")
            fruitless = 0 if counts.windows > windows_before else fruitless + 1
            windows_before = counts.windows
            if fruitless > FRUITLESS_RESTARTS_MAX:
                raise SurescaleError(f"Faust ended by itself {fruitless} times without handling a window; its log says why")
    if counts.failed is not None:
        raise counts.failed


def warn_of_policy(name: str, folder: str, span_minutes: int, log: logging.Logger) -> None:
    """Warn of a name that no policy has, before anything is waited for, and of a span that the policy does not follow.

    A package may still arrive, so it is no error.
    """
    from surescale.policies.registry import other_span, unknown_policy

    if said := unknown_policy(name, folder) or other_span(name, folder, span_minutes):
        log.warning("%s", said)


def warn_if_unavailable(policy: "Policy", log: logging.Logger) -> None:
    """Warn at start if the agents' own policy cannot be loaded. Each decision says so too, and a rule answers in its place."""
    from surescale.policies.registry import Unavailable

    if isinstance(policy, Unavailable):
        log.warning("policy %s cannot be used, so a rule decides instead: %s", policy.name, policy.reason)


class RateLimit(logging.Filter):
    """Passes one record of the named loggers every few seconds (``runtime.backoff.Throttle``), and every record of all others.

    Kafka clients repeat themselves many times a second while a broker is away.
    """

    def __init__(self, *loggers: str) -> None:
        super().__init__()
        self._prefixes = loggers
        self._seldom = Throttle()

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the record is written."""
        return not record.name.startswith(self._prefixes) or self._seldom.is_time()


async def _serve(
    settings: AgentSettings,
    counts: AgentCounts,
    tracer: Tracer,
    watchdog: Watchdog,
    stop: threading.Event,
    log: logging.Logger,
    ending: threading.Event,
) -> None:
    """Run one Faust app until told to stop, or until it ends by itself because Kafka went away.

    ``ending`` is set when the app should end.
    """
    let_go = threading.Event()  # ends waits for Kafka in threads when this app ends
    view = JobSettingsView(settings, stop=let_go, log=log, rejected=counts.rejected)
    app = build_app(settings)
    with watchdog.loop("the start"):  # the policy is loaded
        reading = FaustReading(app)
        desk = _WindowHandler(settings, view, app, reading, counts, tracer, watchdog, log)
    _wire(app, desk, counts, reading)
    log.info("deciding with policy %s on windows of %s", settings.policy, settings.bootstrap)
    starting = asyncio.ensure_future(app.start())
    beside = [asyncio.ensure_future(desk.shadows.run()), asyncio.ensure_future(desk.settle())]
    intake = Intake(reading, counts, BrokerEnds(settings))
    watched = [asyncio.ensure_future(watchdog.pulse("the event loop"))]
    if settings.hung_after_s:
        watched.append(asyncio.ensure_future(intake.watch(watchdog, settings.hung_after_s)))
    while not (stop.is_set() or counts.failed or app.should_stop or _gave_up(starting, log)):
        await asyncio.sleep(_LOOK_EVERY_S)
    ending.set()
    let_go.set()
    counts.partitions = 0
    for each in beside:
        each.cancel()
    # Faust does not stop while its broker is away. Then it is left behind, and nothing is lost: a window whose decision is not in
    # Kafka was not committed.
    await app.stop()
    view.close()
    for each in watched:
        each.cancel()
    if not (stop.is_set() or counts.failed):
        log.warning("Faust ended by itself and is restarted")
        await asyncio.sleep(AGAIN_AFTER_S)


def _gave_up(starting: "asyncio.Future[None]", log: logging.Logger) -> bool:
    """Say whether Faust could not start because Kafka went away; raise any other error."""
    error = starting.exception() if starting.done() else None
    if error is not None and not isinstance(error, KafkaError):
        raise error
    if error is not None:
        log.warning("Kafka went away while Faust was starting: %s", error)
    return error is not None


class _App(faust.App):
    def _create_directories(self) -> None:
        """Do nothing: Faust's folders hold tables, and this app has none. So even kill -9 leaves nothing behind."""


def build_app(settings: AgentSettings) -> faust.App:
    """Return a Faust app without tables, folders, web server or topics of its own."""
    session_s = settings.agent_session_ms / 1000
    app = _App(
        agent_group(settings.topic_prefix),
        broker=[f"kafka://{server.strip()}" for server in settings.bootstrap.split(",")],
        broker_credentials=faust_credentials(settings),
        autodiscover=False,
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        processing_guarantee="at_least_once",
        broker_session_timeout=session_s,
        broker_heartbeat_interval=session_s / 4,
        broker_request_timeout=60.0,
        broker_max_poll_records=WINDOWS_IN_MEMORY,
        broker_commit_interval=COMMIT_EVERY_S,
        stream_buffer_maxsize=WINDOWS_IN_MEMORY,
        stream_wait_empty=False,
        producer_acks=-1,
        producer_request_timeout=ACKNOWLEDGED_WITHIN_S,
        producer_max_request_size=RECORD_BYTES_MAX,
        worker_redirect_stdouts=False,
    )
    read_committed(app, settings)
    return app


@dataclass(frozen=True, slots=True)
class _Answer:
    """A decision, and what is done with it once it is in Kafka."""

    decision: Decision
    raw: bytes | None
    traced: TracedAnswer
    took_s: float
    event: EventT[bytes]

    @property
    def size_bytes(self) -> int:
        """Of the window."""
        return len(self.raw or b"")


class _WindowHandler:
    """Handles one window after another; each is done once Kafka has acknowledged its answer."""

    def __init__(
        self,
        settings: AgentSettings,
        view: JobSettingsView,
        app: faust.App,
        reading: FaustReading,
        counts: AgentCounts,
        tracer: Tracer,
        watchdog: Watchdog,
        log: logging.Logger,
    ) -> None:
        self._watchdog, self._reading = watchdog, reading
        self._late, self._one_at_a_time = LateDecisions[_Answer](), asyncio.Lock()
        self._acknowledgements = Acknowledgements()
        # A clock of the pipeline's own may run faster than we decide, and a recording is replayed by it: every span counts there.
        self._can_be_late = not settings.pipeline_clock
        full = TopicNames(settings.topic_prefix)
        self.windows = _raw_topic(app, full(SNAPSHOTS))
        self._decisions = _raw_topic(app, full(DECISIONS))
        self._dead_letters = _raw_topic(app, full(DEAD_LETTERS))
        self._record = processed(full(SNAPSHOTS), agent_group(settings.topic_prefix))
        self._view, self._counts, self._tracer, self._log = view, counts, tracer, log
        limited = settings.policy_seconds > 0
        self._answerer = Decider(
            view.of,
            policy=settings.policy,
            folder=settings.policy_folder,
            seed=settings.seed,
            released=view.released,
            former=view.former,
            span_minutes=settings.span_minutes,
            opener=Limits(settings.policy_seconds, settings.policy_memory_mb).open if limited else None,
            pinned=settings.policy_pinned,
        )
        shadow_decisions = _raw_topic(app, full(SHADOW_DECISIONS))

        async def send_shadow(record: ShadowDecision) -> None:
            await _send(shadow_decisions, cluster_of(record.job).encode(), encode(record))

        process = ShadowProcess(
            folder=settings.policy_folder,
            span_minutes=settings.span_minutes,
            seconds=settings.shadow_seconds,
            memory_mb=settings.policy_memory_mb,
        )
        self.shadows = Shadows(process, send_shadow, counts, log)
        self._has_shadows = settings.shadow_seconds > 0
        warn_if_unavailable(self._answerer.policy(settings.policy), log)  # loads it before the first window

    async def handle(self, event: EventT[bytes]) -> None:
        """Answer a window, and acknowledge it once its answer is in Kafka."""
        self._counts.in_hand += 1
        try:
            with self._watchdog.loop("the answer to a window"):
                async with self._one_at_a_time:
                    await self._handle(event)
        finally:
            self._counts.in_hand -= 1

    async def settle(self) -> None:
        """Write late decisions that nothing newer overtakes, until cancelled."""
        waited = True
        while True:
            await asyncio.sleep(_SETTLE_EVERY_S)
            waits, waited = (
                waited or self._reading.waits(),
                self._reading.waits(),
            )  # twice: some may be on their way to the stream
            try:
                async with self._one_at_a_time:
                    for answer in self._late.ready(time.monotonic(), waits=waits):
                        await self._write(answer)
            except Exception as error:
                self._counts.failed = error
                return

    def forget(self) -> None:
        """Forget what is in hand and kept back: its windows go to the agent that has the partitions now."""
        self._late.clear()
        self._acknowledgements.clear()

    async def _handle(self, event: EventT[bytes]) -> None:
        raw, record = event.value, event.message
        self._counts.windows += 1
        self._acknowledgements.begin(event)
        began_s, traced = time.monotonic(), TracedAnswer(self._tracer, record.headers, self._record)
        try:
            decision = await asyncio.to_thread(self._answer, raw, traced.timed)
        except RecordRejected as error:
            at = Coordinates(record.topic, record.partition, record.offset)
            letter = encode(dead_letter(at, raw, error, refused_by="agent"))
            with traced.refused(str(error)) as span:
                await _send(self._dead_letters, key_of_letter(record.key), letter, span.headers())
                self._log.warning("%s[%d]@%d is refused: %s", at.topic, at.partition, at.offset, error)
            self._counts.refused(error.reason)
            self._acknowledgements.done(event)
            return
        if not self._acknowledgements.is_open(event):  # its partition was taken away meanwhile
            return
        job = (record.key or b"").decode(errors="replace") if decision is None else decision.job
        kept = self._late.of(job)
        by_ms = overtaken_by_ms(kept.decision, decision) if kept is not None else None
        if by_ms is not None:
            await self._write(self._late.take(job), by_ms=by_ms)
            kept = None
        if kept is not None and not self._acknowledgements.is_open(kept.event):  # the same record, read again
            self._late.take(job)
            kept = None
        if decision is None or (kept is not None and kept.decision.decision_id == decision.decision_id):
            self._acknowledgements.done(event)
            return
        answer = _Answer(decision, raw, traced, time.monotonic() - began_s, event)
        if kept is not None:  # an older window was sent again
            await self._write(answer, by_ms=kept.decision.span_end_ms)
        elif self._can_be_late and is_late(decision, time.time_ns() // 1_000_000):
            self._late.keep(answer, time.monotonic())
        else:
            await self._write(answer)

    async def _write(self, answer: "_Answer", *, by_ms: int | None = None) -> None:
        """Write a decision; ``by_ms``: the end of a newer window that overtook it, at least."""
        decision = answer.decision
        with answer.traced.of(decision) as span:
            headers = [*span.headers(), *([(OVERTAKEN_BY, str(by_ms).encode())] if by_ms is not None else [])]
            await _send(self._decisions, cluster_of(decision.job).encode(), encode(decision), headers)
            fields = {"job": decision.job, "decision_id": decision.decision_id, "policy": decision.policy.name}
            self._log.debug("%s: %s", decision.action, decision.reason, extra=fields)
        self._acknowledgements.done(answer.event)
        self._counts.decided(decision, answer.took_s)
        if answer.raw is not None and self._has_shadows:
            looking_on = self._view.shadows(decision.job, decision.span_end_ms)
            self.shadows.offer(answer.raw, decision, answer.took_s * 1000, self._view.of(decision.job), looking_on)

    def _answer(self, raw: bytes | None, timed: Timed) -> Decision | None:
        self._view.refresh()
        return self._answerer.answer(raw, timed)


def _raw_topic(app: faust.App, name: str) -> TopicT:
    return app.topic(name, key_type=bytes, value_type=bytes, key_serializer="raw", value_serializer="raw")


async def _send(topic: TopicT, key: bytes | None, value: bytes, headers: Headers | None = None) -> None:
    with allowed(ACKNOWLEDGED_WITHIN_S):
        acknowledged = await topic.send(key=key, value=value, headers=headers or None)
        await acknowledged


def _wire(app: faust.App, desk: _WindowHandler, counts: AgentCounts, reading: FaustReading) -> None:
    async def decide_windows(stream: StreamT[bytes]) -> None:
        assert isinstance(stream, faust.Stream), "agents get a stream, which can leave the acknowledgement to us"
        # Faust would acknowledge a window whenever the loop body is left, even by an exception or the end of the process.
        # Here a window is acknowledged only once its decision is in Kafka.
        events: AsyncIterable[EventT[bytes]] = stream.noack().events()
        reading.stream = stream
        async for event in events:
            if counts.failed is not None:
                return
            try:
                await desk.handle(event)
            except Stopped:
                return
            except Exception as error:
                counts.failed = error
                return

    async def assigned(_app: object, partitions: Collection[TP] = (), /, *_: object, **__: object) -> None:
        counts.partitions = len(partitions)

    async def revoked(*_: object, **__: object) -> None:
        counts.partitions = 0
        desk.forget()

    app.agent(desk.windows, name="decide-windows")(decide_windows)
    app.on_partitions_assigned.connect(assigned, weak=False)
    app.on_partitions_revoked.connect(revoked, weak=False)
