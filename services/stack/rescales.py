"""How rescales went on a road: learners, pauses, what was given up, and what became of hosts. Counted from records; pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from contracts.clock import MINUTE_MS
from contracts.commands import Outcome, Progress, RescheduleCommand
from contracts.messages import EngineEvent

_OF_HOSTS = ("host_joined", "host_leaving", "host_lost", "job_stopped", "job_restarted", "job_failed")


@dataclass(slots=True)
class RescaleFigures:
    """Records that tell how rescales went, each by its identity."""

    commands: dict[str, RescheduleCommand] = field(default_factory=dict)
    ends: dict[str, Progress] = field(default_factory=dict)
    events: dict[int, EngineEvent] = field(default_factory=dict)
    waits: dict[tuple[str, int], Outcome] = field(default_factory=dict)

    def take(self, record: RescheduleCommand | Progress | EngineEvent | Outcome) -> None:
        """Note one record; the first of an identity counts."""
        if isinstance(record, RescheduleCommand):
            if not record.advice:
                self.commands.setdefault(record.command_id, record)
        elif isinstance(record, EngineEvent):
            self.events.setdefault(record.sequence, record)
        elif isinstance(record, Outcome):
            if record.status == "pending":
                self.waits.setdefault((record.decision_id, record.sequence), record)
        elif record.status in ("applied", "failed"):
            self.ends.setdefault(record.command_id, record)

    def document(self, start_ms: int) -> dict[str, Any]:
        """Return the report's ``rescaling``: per job its rescales, and what happened to hosts by minute of the run."""
        jobs = sorted({command.job for command in self.commands.values()})
        return {
            "jobs": {job: self._job(job) for job in jobs},
            "waits": dict(sorted(Counter(outcome.reason for outcome in self.waits.values()).items())),
            "checkpoints": sum(event.kind == "checkpoint_completed" for event in self.events.values()),
            "incidents": [_incident(event, start_ms) for _, event in sorted(self.events.items()) if _is_incident(event)],
        }

    def _job(self, job: str) -> dict[str, Any]:
        ends = [(self.commands[of], end) for of, end in sorted(self.ends.items()) if of in self.commands and end.job == job]
        warmed = [end for command, end in ends if command.action == "prepare" and end.status == "applied" and end.learners]
        commits = [end for command, end in ends if command.action == "commit" and end.status == "applied"]
        return {
            "rescales": len(commits),
            "learners": sum(end.learners for end in warmed),
            "warm_up_s": _spread(end.duration_ms for end in warmed),
            "pause_s": _spread(end.duration_ms for end in commits),
            "failed": dict(sorted(Counter(end.code for _, end in ends if end.status == "failed").items())),
        }


def rescale_lines(rescaling: Mapping[str, Any], *, jobs_shown: bool = True) -> list[str]:
    """Return in words how rescales went (each job's, if asked for), and what happened to hosts and jobs meanwhile."""
    lines = []
    for job, found in rescaling["jobs"].items() if jobs_shown else ():
        warm, pause = found["warm_up_s"], found["pause_s"]
        words = f"{job}: {found['rescales']} rescales"
        if found["learners"]:
            words += f", {found['learners']} learners warmed for {warm['mean']} s on the average, {warm['max']} s at most"
        if found["rescales"]:
            words += f"; pause {pause['mean']} s on the average, {pause['max']} s at most"
        failed = ", ".join(f"{code} {count}" for code, count in found["failed"].items())
        lines.append(words + (f"; given up: {failed}" if failed else ""))
    lines += [f"minute {each['minute']}: {each['what']}" for each in rescaling["incidents"]]
    waits = ", ".join(f"{reason} {count}" for reason, count in rescaling["waits"].items())
    return [*lines, f"gates made acts wait: {waits}"] if waits else lines


def _is_incident(event: EngineEvent) -> bool:
    """Say whether an event is news: rescales that went as planned are counted elsewhere."""
    return event.kind in _OF_HOSTS and not event.detail.startswith("generation ")


def _incident(event: EngineEvent, start_ms: int) -> dict[str, Any]:
    what = " ".join(
        filter(None, (event.job or event.host, event.kind.partition("_")[2], f"({event.detail})" if event.detail else ""))
    )
    return {"minute": (event.at_ms - start_ms) // MINUTE_MS, "kind": event.kind, "what": what}


def _spread(durations_ms: Iterable[int]) -> dict[str, float | None]:
    found = [duration / 1000 for duration in durations_ms]
    return {"mean": round(sum(found) / len(found), 1), "max": max(found)} if found else {"mean": None, "max": None}
