"""Counts what happened in a pipeline, from the records on Kafka: each identity once, however often it was delivered.

Also how rescales went: learners, pauses, failures, and what happened to hosts.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import msgspec
import numpy as np

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Balance, Drift, EventRecord, Outcome, Placement, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import ClusterTopology, DeadLetter, EngineEvent, Host, JobTopology, MinuteMarker, TaskSample
from surescale.contracts.record_keys import decode_under
from surescale.contracts.rent import RentCosts, rent_costs
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.windows import decode_window
from surescale.contracts.wire import decode
from surescale.services.tools.recording.sources import KafkaSource

_OF_HOSTS = ("host_joined", "host_leaving", "host_lost", "job_stopped", "job_restarted", "job_failed")


class Spread(msgspec.Struct, frozen=True):
    """Seconds that something took; null if it never happened."""

    mean: float | None
    max: float | None


class JobRescales(msgspec.Struct, frozen=True, kw_only=True):
    """The rescales of one job; ``failed`` counts them by code."""

    rescales: int
    learners: int
    warm_up_s: Spread
    pause_s: Spread
    failed: dict[str, int]


class Incident(msgspec.Struct, frozen=True, kw_only=True):
    """What happened to a host or a job, by minute of the run."""

    minute: int
    kind: str
    what: str


class Rescaling(msgspec.Struct, frozen=True, kw_only=True):
    """How rescales went; ``waits`` counts by reason how often acts were made to wait."""

    jobs: dict[str, JobRescales]
    waits: dict[str, int]
    checkpoints: int
    incidents: tuple[Incident, ...]


@dataclass(slots=True)
class RescaleFigures:
    """The records that show how rescales went, each by its identity."""

    commands: dict[str, RescheduleCommand] = field(default_factory=dict)
    ends: dict[str, Progress] = field(default_factory=dict)
    events: dict[str, EngineEvent] = field(default_factory=dict)
    waits: dict[tuple[str, int], Outcome] = field(default_factory=dict)

    def take(self, record: RescheduleCommand | Progress | EngineEvent | Outcome) -> None:
        """Note one record; the first of an identity counts."""
        if isinstance(record, RescheduleCommand):
            if not record.advice:
                self.commands.setdefault(record.command_id, record)
        elif isinstance(record, EngineEvent):
            self.events.setdefault(record.identity, record)
        elif isinstance(record, Outcome):
            if record.status == "pending":
                self.waits.setdefault((record.decision_id, record.sequence), record)
        elif record.status in ("applied", "failed"):
            self.ends.setdefault(record.command_id, record)

    def rescaling(self, start_ms: int) -> Rescaling:
        """Return what the records come to; minutes count from ``start_ms``."""
        incidents = (_incident(event, start_ms) for _, event in sorted(self.events.items()) if _is_incident(event))
        return Rescaling(
            jobs={job: self._job(job) for job in sorted({command.job for command in self.commands.values()})},
            waits=dict(sorted(Counter(outcome.reason for outcome in self.waits.values()).items())),
            checkpoints=sum(event.kind == "checkpoint_completed" for event in self.events.values()),
            incidents=tuple(incidents),
        )

    def _job(self, job: str) -> JobRescales:
        ends = [(self.commands[of], end) for of, end in sorted(self.ends.items()) if of in self.commands and end.job == job]
        warmed = [end for command, end in ends if command.action == "prepare" and end.status == "applied" and end.learners]
        commits = [end for command, end in ends if command.action == "commit" and end.status == "applied"]
        return JobRescales(
            rescales=len(commits),
            learners=sum(end.learners for end in warmed),
            warm_up_s=_spread(end.duration_ms for end in warmed),
            pause_s=_spread(end.duration_ms for end in commits),
            failed=dict(sorted(Counter(end.code for _, end in ends if end.status == "failed").items())),
        )


def _is_incident(event: EngineEvent) -> bool:
    """Return whether an event is news: rescales that went as planned are counted elsewhere."""
    return event.kind in _OF_HOSTS and not event.detail.startswith("generation ")


def _incident(event: EngineEvent, start_ms: int) -> Incident:
    detail = f"({event.detail})" if event.detail else ""
    what = " ".join(filter(None, (event.job or event.host, event.kind.partition("_")[2], detail)))
    return Incident(minute=(event.at_ms - start_ms) // MINUTE_MS, kind=event.kind, what=what)


def _spread(durations_ms: Iterable[int]) -> Spread:
    found = [duration / 1000 for duration in durations_ms]
    return Spread(round(sum(found) / len(found), 1), max(found)) if found else Spread(None, None)


WARM_UP_MINUTES = 5

Identity = tuple[object, ...]


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How many of each kind went over the topics; an act counts once in ``outcomes``, by its latest."""

    metrics: int
    windows: int
    decisions: dict[str, int]
    outcomes: dict[str, int]
    commands: int
    events: int
    late: int
    duplicates: int
    dead_letters: int


class Percentiles(msgspec.Struct, frozen=True):
    """Seconds; null without samples."""

    p50: float | None
    p99: float | None
    samples: int


class Freshness(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds until a decision was appended.

    ``pipeline`` starts at the record that closed the minute, ``live`` when the clock reached the minute's end.
    """

    pipeline: Percentiles
    live: Percentiles


@dataclass(slots=True)
class PipelineFigures:
    """Distinct identities seen on the topics of one pipeline.

    Attributes:
        decisions: by decision id, the record and its append time in milliseconds.
        outcomes: by decision id, the latest outcome.
        placements: by job and generation, where the command put the job.
    """

    samples: set[Identity] = field(default_factory=set)
    windows: set[str] = field(default_factory=set)
    decisions: dict[str, tuple[Decision, int]] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    commands: set[str] = field(default_factory=set)
    events: set[Identity] = field(default_factory=set)
    dead_letters: set[Identity] = field(default_factory=set)
    topologies: dict[tuple[str, int], JobTopology] = field(default_factory=dict)
    hosts: dict[str, Host] = field(default_factory=dict)
    placements: dict[tuple[str, int], Placement] = field(default_factory=dict)
    rescales: RescaleFigures = field(default_factory=RescaleFigures)
    late: int = 0
    duplicates: int = 0

    def take(self, topic: str, key: bytes | None, raw: bytes, append_ms: int) -> None:
        """Count one record of a topic (bare name)."""
        _TAKE[topic](self, key, raw, append_ms)

    def counts(self) -> Counts:
        """Return how many of each kind were seen."""
        kinds = Counter(decision.action for decision, _ in self.decisions.values())
        acts = {key for key, (decision, _) in self.decisions.items() if decision.action == "act"}
        latest = Counter(outcome.status for key, outcome in self.outcomes.items() if key in acts)
        return Counts(
            metrics=len(self.samples),
            windows=len(self.windows),
            decisions={kind: kinds[kind] for kind in ("act", "hold")},
            outcomes={status: latest[status] for status in ("commanded", "superseded", "refused", "pending")},
            commands=len(self.commands),
            events=len(self.events),
            late=self.late,
            duplicates=self.duplicates,
            dead_letters=len(self.dead_letters),
        )

    def decided_by(self) -> dict[str, tuple[str, ...]]:
        """Return for each job the policies that were asked, in their order; several if one was released on the way."""
        found: dict[str, list[str]] = {}
        for decision, _ in sorted(self.decisions.values(), key=lambda each: (each[0].job, each[0].span_end_ms)):
            asked = found.setdefault(decision.job, [])
            name = decision.policy.asked or decision.policy.name
            if not asked or asked[-1] != name:
                asked.append(name)
        return {job: tuple(names) for job, names in found.items()}

    def rent_costs(self, end_ms: int) -> RentCosts:
        """Return what the jobs have cost up to an instant of the trace."""
        return rent_costs(self.topologies.values(), tuple(self.hosts.values()), self.placements, end_ms)

    def freshness_s(self, first_minute_ms: int) -> Freshness:
        """Return how fresh decisions were. Spans within five minutes of ``first_minute_ms`` do not count."""
        counted = [
            (decision, append_ms)
            for decision, append_ms in self.decisions.values()
            if decision.span_end_ms > first_minute_ms + WARM_UP_MINUTES * MINUTE_MS
        ]
        return Freshness(
            pipeline=_percentiles(at - decision.closed_append_ms for decision, at in counted if decision.closed_append_ms),
            live=_percentiles(at - decision.reached_wall_ms for decision, at in counted if decision.reached_wall_ms),
        )


def _take_metric(figures: PipelineFigures, key: bytes | None, raw: bytes, _append_ms: int) -> None:
    record = decode(raw, TaskSample | MinuteMarker)
    if isinstance(record, TaskSample):
        figures.samples.add((record.job, record.task, record.subtask, record.attempt, record.sampled_at_ms))


def _take_window(figures: PipelineFigures, key: bytes | None, raw: bytes, _append_ms: int) -> None:
    window = decode_window(raw)
    if window.id not in figures.windows:
        figures.windows.add(window.id)
        figures.late += window.counts.late
        figures.duplicates += window.counts.duplicates


def _take_decision(figures: PipelineFigures, key: bytes | None, raw: bytes, append_ms: int) -> None:
    decision = decode(raw, Decision)
    figures.decisions.setdefault(decision.decision_id, (decision, append_ms))


def _take_command(figures: PipelineFigures, key: bytes | None, raw: bytes, _append_ms: int) -> None:
    command = decode(raw, RescheduleCommand)
    figures.commands.add(command.command_id)
    figures.rescales.take(command)
    if command.placement and not command.advice:
        figures.placements[command.job, command.desired_generation] = command.placement


def _take_event(figures: PipelineFigures, key: bytes | None, raw: bytes, _append_ms: int) -> None:
    record: EventRecord = decode(raw, EventRecord)
    if isinstance(record, Balance):
        figures.events.add((record.cluster, record.generation, record.sequence))
        return
    if isinstance(record, Drift):
        figures.events.add((record.job, record.at_ms, record.status))
        return
    figures.rescales.take(record)
    if isinstance(record, Progress):
        figures.events.add((record.command_id, record.status))
        return
    figures.events.add((record.decision_id, record.sequence))
    known = figures.outcomes.get(record.decision_id)
    if known is None or record.sequence > known.sequence:
        figures.outcomes[record.decision_id] = record


def _take_engine_event(figures: PipelineFigures, key: bytes | None, raw: bytes, _append_ms: int) -> None:
    figures.rescales.take(decode(raw, EngineEvent))


def _take_dead_letter(figures: PipelineFigures, key: bytes | None, raw: bytes, _append_ms: int) -> None:
    letter = decode(raw, DeadLetter)
    figures.dead_letters.add((letter.topic, letter.partition, letter.offset))


def _take_job(figures: PipelineFigures, key: bytes | None, raw: bytes, _append_ms: int) -> None:
    topology = decode_under(key, raw, JobTopology)
    figures.topologies.setdefault((topology.job, topology.version), topology)


def _take_cluster(figures: PipelineFigures, key: bytes | None, raw: bytes, _append_ms: int) -> None:
    figures.hosts |= {host.host: host for host in decode_under(key, raw, ClusterTopology).hosts}


_TAKE: dict[str, Callable[[PipelineFigures, bytes | None, bytes, int], None]] = {
    topics.TASK_METRICS: _take_metric,
    topics.SNAPSHOTS: _take_window,
    topics.DECISIONS: _take_decision,
    topics.RESCHEDULE_COMMANDS: _take_command,
    topics.RESCHEDULE_EVENTS: _take_event,
    topics.ENGINE_EVENTS: _take_engine_event,
    topics.DEAD_LETTERS: _take_dead_letter,
    topics.JOB_TOPOLOGY: _take_job,
    topics.CLUSTER_TOPOLOGY: _take_cluster,
}


def read_figures(settings: PipelineSettings, names: Sequence[str] = tuple(_TAKE)) -> PipelineFigures:
    """Read the topics named (bare) to the end of what is committed and count.

    Handles one record at a time without a deadline: two weeks of a trace neither fit into memory nor into half a minute.

    Raises:
        ConnectionError: Kafka does not deliver.
    """
    figures = PipelineFigures()
    for record in KafkaSource(settings, names).records(names):
        with contextlib.suppress(RecordRejected):  # counted by its dead letter
            figures.take(record.topic, record.key, record.value or b"", record.append_ms)
    return figures


def all_arrived(settings: PipelineSettings, windows: int) -> Callable[[], bool]:
    """Return a condition: so many windows have arrived, and nothing has followed from them since it was asked before."""
    before: Counts | None = None

    def is_still() -> bool:
        nonlocal before
        last, before = before, read_figures(settings, (topics.SNAPSHOTS, topics.DECISIONS, topics.RESCHEDULE_EVENTS)).counts()
        return before == last and before.windows >= windows

    return is_still


def _percentiles(durations_ms: Iterable[int]) -> Percentiles:
    found = [duration / 1000 for duration in durations_ms]
    if not found:
        return Percentiles(None, None, 0)
    p50, p99 = np.percentile(found, [50, 99])
    return Percentiles(round(float(p50), 3), round(float(p99), 3), len(found))
