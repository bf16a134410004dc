"""How rescales went in a pipeline: learners, pauses, failures, and what happened to hosts. Counted from records; pure."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from contracts.clock import MINUTE_MS
from contracts.commands import Outcome, Progress, RescheduleCommand
from contracts.messages import EngineEvent

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
