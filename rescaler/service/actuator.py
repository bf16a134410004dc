"""The actuator beside the active rescaler: a thread that reads commands, has them carried out, and reports to its rescaler.

It works at least once: after a restart it repeats every command whose end was not committed, and each step is idempotent. It
writes nothing itself. Its reports, and how far it has come, are committed in the transactions of its rescaler, so a process that
has been fenced can neither report on a command of its successor nor pass over one.
Only commands that its own rescaler remembers as outstanding reach the engine.
"""

import bisect
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaException, Message, TopicPartition

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import Progress, RescheduleCommand
from surescale.contracts.errors import RecordRejected
from surescale.contracts.partitioner import partition_of
from surescale.contracts.topics import RESCHEDULE_COMMANDS, TopicNames, actuator_group
from surescale.contracts.wire import decode
from surescale.engines.ports.actuator import Accepted, EngineApi, JobStatus
from surescale.rescaler.control.job.memory import CommandStatus
from surescale.rescaler.execution import CommandExecution, RequirementExecution, UnitsExecution
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.rescaler.service.traces import Traces
from surescale.rescaler.service.transactions import ActuatorPosition
from surescale.runtime.backoff import Throttle
from surescale.runtime.beats import beat, beside
from surescale.runtime.kafka import REQUEST_TIMEOUT_S, consumer, partitions_of
from surescale.runtime.topic_records import headers_of
from surescale.runtime.tracing.spans import Span, at_work

POLL_S = 0.05
ROUND_S = 1.0
"""After so long a round reports, and the next one goes on with the jobs that are left."""
TAKEN_MOST = 1_000
"""Commands in a round: a fleet that decides in one minute has as many at once."""
LOOK_MS = 5
"""So long a look at the engine may take in the mean: many commands under way are looked at the less often."""
STOP_WITHIN_S = 10.0


class ActuatorReports(NamedTuple):
    """What an actuator has to say at one moment."""

    reports: Sequence[Progress]
    """Those that were not taken before, in order."""
    carried_out: ActuatorPosition | None
    """How far it has come, if these reports are written; None as long as it has read nothing."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A command that is being carried out."""

    offset: int
    work: CommandExecution
    span: Span
    engine: EngineApi

    def tell(self, progress: Progress) -> None:
        """Take note of a report."""
        self.span.event(progress.status, {"surescale.at_ms": progress.at_ms, "surescale.duration_ms": progress.duration_ms})
        if progress.status == "failed":
            self.span.fail(f"{progress.code}: {progress.detail}")

    def end(self) -> None:
        """It is over."""
        if isinstance(self.engine, TracedEngine):
            self.span.note({"surescale.looks": self.engine.looks})
        self.span.end()


class ActuatorThread:
    """Carries out the commands of one cluster, at most one per job at a time."""

    def __init__(
        self,
        settings: RescalerSettings,
        engine: EngineApi,
        status_of: Callable[[RescheduleCommand], CommandStatus],
        now_ms: Callable[[], int | None],
        status: Status,
        log: logging.Logger,
        traces: Traces,
    ) -> None:
        """Connect; nothing is read before `start`.

        Args:
            settings: of the rescaler.
            engine: carries commands out.
            status_of: compares a command with the rescaler's memory.
            now_ms: the pipeline's time, None while unknown.
            status: counts.
            log: for people.
            traces: spans of what it does.

        Raises:
            KafkaException: Kafka does not answer.
        """
        self._cluster, self._engine, self._now_ms, self._status, self._log = settings.cluster, engine, now_ms, status, log
        self._status_of, self._traces = status_of, traces
        names = TopicNames(settings.topic_prefix)
        self._consumer = consumer(settings, actuator_group(settings.topic_prefix, settings.cluster))
        topic = names(RESCHEDULE_COMMANDS)
        at = TopicPartition(topic, partition_of(settings.cluster, len(partitions_of(self._consumer, topic))))
        (self._from,) = self._consumer.committed([at], REQUEST_TIMEOUT_S)
        # Asked once: it never changes without a subscription, and the client lets no other thread in while one polls.
        self._group = self._consumer.consumer_group_metadata()
        self._stop = threading.Event()
        self._thread = beside(self._run, "the actuator", lambda: self._stop.is_set() or self._failed is not None)
        self._failed: BaseException | None = None
        self._open: dict[str, _Open] = {}  # by job
        self._stepped_to = ""
        self._read_to: int | None = None
        self._now: list[Progress] = []
        """Reports of the round under way."""
        self._lock = threading.Lock()
        self._reports: list[Progress] = []
        self._position: int | None = None
        self._seldom, self._seldom_refused = Throttle(), Throttle()

    def start(self) -> None:
        """Start with the first command whose end was not committed; once it has started, do nothing."""
        if self._thread.ident is None:
            self._thread.start()

    def stop(self) -> None:
        """End the thread; the next active rescaler takes up the commands under way."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_WITHIN_S)
        self._consumer.close()
        self._failed = None  # it refers to this object: the consumer would stay open until a full collection

    def check(self) -> None:
        """Raise the error that ended the thread, if one did."""
        if self._failed is not None:
            raise self._failed

    def has_reports(self) -> bool:
        """Say whether there are reports to take."""
        return bool(self._reports)

    def take(self) -> ActuatorReports:
        """Hand over what it has to report. Whoever takes it writes it, with how far it has come, or ends this actuator."""
        with self._lock:
            reports, self._reports = self._reports, []
            position = self._position
        at = None if position is None else TopicPartition(self._from.topic, self._from.partition, position)
        return ActuatorReports(reports, None if at is None else ActuatorPosition(at, self._group))

    def _run(self) -> None:
        try:
            self._consumer.assign([self._from])
            while not self._stop.is_set():
                self._round()
        except BaseException as error:
            self._failed = error

    def _round(self) -> None:
        beat()
        record = self._consumer.poll(POLL_S)
        now_ms, taken = self._now_ms(), 0
        while record is not None:
            self._take(record, now_ms or 0)
            taken += 1
            record = self._consumer.poll(0) if taken < TAKEN_MOST else None
        if now_ms is not None:
            self._step_all(now_ms)
        with self._lock:  # a command has ended for both at once
            self._reports += self._now
            if self._read_to is not None:
                self._position = min([begun.offset for begun in self._open.values()] + [self._read_to])
        self._now = []

    def _step_all(self, now_ms: int) -> None:
        """Do the next step of each command under way, from the job on at which the last round ended."""
        jobs, until_s = sorted(self._open), time.monotonic() + ROUND_S
        first = bisect.bisect_right(jobs, self._stepped_to)
        for job in jobs[first:] + jobs[:first]:
            beat()
            begun, wall_ms = self._open[job], time.time_ns() // 1_000_000
            work = begun.work
            if wall_ms < work.not_before_ms:
                continue
            self._stepped_to = job
            with at_work(begun.span):
                self._report(self._stepped(begun, now_ms, wall_ms), begun)
                if work.away and self._seldom.is_time():
                    self._log.warning("waiting for the engine: %s", work.away)
            if work.ended:
                del self._open[job]
                begun.end()
            elif work.is_requested:
                work.not_before_ms = max(work.not_before_ms, wall_ms + LOOK_MS * len(self._open))
            if time.monotonic() > until_s:
                return

    def _stepped(self, begun: "_Open", now_ms: int, wall_ms: int) -> list[Progress]:
        """Do the next step of a command; an unforeseen error ends this command and no other."""
        work = begun.work
        try:
            return work.step(begun.engine, now_ms=now_ms, wall_ms=wall_ms)
        except Exception as error:
            fields = {"job": work.command.job, "command_id": work.command.command_id}
            self._log.exception("an unforeseen error ends this command", extra=fields)
            return [work.broken(now_ms, f"{type(error).__name__}: {error}")]

    def _take(self, record: Message, now_ms: int) -> None:
        error, offset = record.error(), record.offset()
        if error is not None:
            if not error.retriable():
                raise KafkaException(error)
            return
        assert offset is not None
        self._status.count_read(RESCHEDULE_COMMANDS)
        try:
            command = decode(record.value(), RescheduleCommand)
        except RecordRejected as problem:
            self._status.count("rejected")
            self._log.warning("%s@%s ignored: %s", record.topic(), offset, problem)
            self._read_to = offset + 1
            return
        if not command.advice and command.cluster == self._cluster:
            standing = self._status_of(command)
            if standing is CommandStatus.UNKNOWN:
                self._refuse(command, record)
            if standing is CommandStatus.OUTSTANDING:
                self._begin(command, record, now_ms)
        self._read_to = offset + 1

    def _refuse(self, command: RescheduleCommand, record: Message) -> None:
        """Leave alone a command that this rescaler did not make: it is forged, or of a successor, and then this one is fenced."""
        self._status.count("unknown_commands")
        if not self._seldom_refused.is_time():  # whoever forges one may forge a million
            return
        fields = {"job": command.job, "command_id": command.command_id}
        self._log.warning("%s@%s refused: not a command of this rescaler", record.topic(), record.offset(), extra=fields)

    def _begin(self, command: RescheduleCommand, record: Message, now_ms: int) -> None:
        before = self._open.get(command.job)
        if before is not None and before.work.command.command_id == command.command_id:
            return  # a copy of the command under way
        if before is not None:
            self._report([before.work.superseded(now_ms)], before)
            before.end()
        span, engine = self._traces.work(command, headers_of(record)), self._engine
        if self._traces.is_on:
            engine = TracedEngine(engine, partial(self._traces.call, work=span))
        self._open[command.job] = _Open(record.offset() or 0, execution_of(command), span, engine)

    def _report(self, reports: list[Progress], begun: "_Open") -> None:
        self._now += reports
        for progress in reports:
            begun.tell(progress)
            if progress.status == "failed":
                fields = {"job": progress.job, "command_id": progress.command_id}
                self._log.warning("failed: %s %s", progress.code, progress.detail, extra=fields)


class TracedEngine:
    """Passes every call on. What changes something has a span; looks, many a second, are counted."""

    def __init__(self, engine: EngineApi, call: Callable[[str], Span]) -> None:
        """``call`` begins the span of a call."""
        self._engine, self._call = engine, call
        self.looks = 0

    def capabilities(self) -> Capabilities:
        """Return what the engine can do."""
        return self._engine.capabilities()

    def request(self, command: RescheduleCommand) -> Accepted:
        """Request that a command be carried out."""
        with self._call("engine.request"):
            return self._engine.request(command)

    def look(self, job: str) -> JobStatus:
        """Return the progress of a job."""
        self.looks += 1
        return self._engine.look(job)

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Stop wanting what a command asked for."""
        with self._call("engine.withdraw"):
            self._engine.withdraw(command, put_back)


def execution_of(command: RescheduleCommand) -> CommandExecution:
    """Return the work that a command begins: with a state to compare with where the engine remembers no generation of ours."""
    return UnitsExecution(command) if command.expected is None else RequirementExecution(command)
