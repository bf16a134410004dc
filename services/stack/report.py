"""What happened on a road, counted from Kafka itself by distinct identity, and written whole. Decides nothing."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from contracts import topics
from contracts.clock import MINUTE_MS
from contracts.commands import Balance, EventRecord, Outcome, Placement, Progress, RescheduleCommand
from contracts.messages import ClusterTopology, DeadLetter, Decision, EngineEvent, Host, JobTopology, MinuteMarker, TaskSample
from contracts.rent import Rents, rents
from contracts.settings import RoadSettings
from contracts.windows import decode_window
from contracts.wire import decode
from services.stack.rescales import RescaleFigures

WARM_UP_MINUTES = 5

Identity = tuple[object, ...]


@dataclass(slots=True)
class RoadFigures:
    """Distinct identities seen on the topics of one road.

    ``decisions`` maps a decision's id to (record, append time in ms); ``outcomes`` to its latest outcome; ``placements`` a job
    and generation to where the command for it put the job.
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

    def take(self, topic: str, raw: bytes, append_ms: int) -> None:
        """Count one record of a topic (bare name)."""
        _TAKE[topic](self, raw, append_ms)

    def counts(self) -> dict[str, Any]:
        """Return the report's ``counts``: an act counts once, by its latest outcome."""
        kinds = Counter(decision.action for decision, _ in self.decisions.values())
        acts = {key for key, (decision, _) in self.decisions.items() if decision.action == "act"}
        latest = Counter(outcome.status for key, outcome in self.outcomes.items() if key in acts)
        return {
            "metrics": len(self.samples),
            "windows": len(self.windows),
            "decisions": {kind: kinds[kind] for kind in ("act", "hold")},
            "outcomes": {status: latest[status] for status in ("commanded", "superseded", "refused", "pending")},
            "commands": len(self.commands),
            "events": len(self.events),
            "late": self.late,
            "duplicates": self.duplicates,
            "dead_letters": len(self.dead_letters),
        }

    def rents(self, end_ms: int) -> Rents:
        """Return what the jobs have cost up to an instant of the trace."""
        return rents(self.topologies.values(), tuple(self.hosts.values()), self.placements, end_ms)

    def freshness_s(self, first_minute_ms: int) -> dict[str, dict[str, float | int | None]]:
        """Return seconds from the record that closed the minute (``pipeline``), and from the moment the clock reached the
        minute's end (``live``), to the append of the decision. The first five minutes after ``first_minute_ms`` do not count.
        """
        counted = [
            (decision, append_ms)
            for decision, append_ms in self.decisions.values()
            if decision.span_end_ms > first_minute_ms + WARM_UP_MINUTES * MINUTE_MS
        ]
        return {
            "pipeline": _percentiles(at - decision.closed_append_ms for decision, at in counted if decision.closed_append_ms),
            "live": _percentiles(at - decision.reached_wall_ms for decision, at in counted if decision.reached_wall_ms),
        }


def _take_metric(figures: RoadFigures, raw: bytes, _append_ms: int) -> None:
    record = decode(raw, TaskSample | MinuteMarker)
    if isinstance(record, TaskSample):
        figures.samples.add((record.job, record.task, record.subtask, record.attempt, record.sampled_at_ms))


def _take_window(figures: RoadFigures, raw: bytes, _append_ms: int) -> None:
    window = decode_window(raw)
    if window.id not in figures.windows:
        figures.windows.add(window.id)
        figures.late += window.counts.late
        figures.duplicates += window.counts.duplicates


def _take_decision(figures: RoadFigures, raw: bytes, append_ms: int) -> None:
    decision = decode(raw, Decision)
    figures.decisions.setdefault(decision.decision_id, (decision, append_ms))


def _take_command(figures: RoadFigures, raw: bytes, _append_ms: int) -> None:
    command = decode(raw, RescheduleCommand)
    figures.commands.add(command.command_id)
    figures.rescales.take(command)
    if command.placement and not command.advice:
        figures.placements[command.job, command.desired_generation] = command.placement


def _take_event(figures: RoadFigures, raw: bytes, _append_ms: int) -> None:
    record: EventRecord = decode(raw, EventRecord)
    if isinstance(record, Balance):
        figures.events.add((record.cluster, record.generation, record.sequence))
        return
    figures.rescales.take(record)
    if isinstance(record, Progress):
        figures.events.add((record.command_id, record.status))
        return
    figures.events.add((record.decision_id, record.sequence))
    known = figures.outcomes.get(record.decision_id)
    if known is None or record.sequence > known.sequence:
        figures.outcomes[record.decision_id] = record


def _take_engine_event(figures: RoadFigures, raw: bytes, _append_ms: int) -> None:
    figures.rescales.take(decode(raw, EngineEvent))


def _take_dead_letter(figures: RoadFigures, raw: bytes, _append_ms: int) -> None:
    letter = decode(raw, DeadLetter)
    figures.dead_letters.add((letter.topic, letter.partition, letter.offset))


def _take_job(figures: RoadFigures, raw: bytes, _append_ms: int) -> None:
    topology = decode(raw, JobTopology)
    figures.topologies.setdefault((topology.job, topology.version), topology)


def _take_cluster(figures: RoadFigures, raw: bytes, _append_ms: int) -> None:
    figures.hosts |= {host.host: host for host in decode(raw, ClusterTopology).hosts}


_TAKE: dict[str, Callable[[RoadFigures, bytes, int], None]] = {
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


def read_figures(settings: RoadSettings, names: Sequence[str] = tuple(_TAKE)) -> RoadFigures:
    """Read the topics named (bare) to the end of what is committed and count.

    One record at a time, however long that takes: two weeks of a trace are more than fits into memory or into half a minute.

    Raises:
        ConnectionError: Kafka does not deliver.
    """
    from contracts.errors import RecordRejected
    from services.recording.sources import RoadSource

    figures = RoadFigures()
    for record in RoadSource(settings, names).records(names):
        with contextlib.suppress(RecordRejected):  # it is counted where its dead letter is
            figures.take(record.topic, record.value or b"", record.append_ms)
    return figures


def _percentiles(durations_ms: Iterable[int]) -> dict[str, float | int | None]:
    found = [duration / 1000 for duration in durations_ms]
    if not found:
        return {"p50": None, "p99": None, "samples": 0}
    p50, p99 = np.percentile(found, [50, 99])
    return {"p50": round(float(p50), 3), "p99": round(float(p99), 3), "samples": len(found)}
