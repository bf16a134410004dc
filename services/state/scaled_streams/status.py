"""What a ScaledStream shows of its job: its status, and what has happened as events. Pure."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from surescale.contracts.messages import TimeMs
from surescale.contracts.plurals import counted
from surescale.contracts.rescaler_state import Condition
from surescale.runtime.printable import one_line
from surescale.services.state.documents import JobDocument
from surescale.services.state.read.decision_lines import progress_line
from surescale.services.state.read.words import outcome_in_words
from surescale.services.state.record_documents import CommandDocument, DecisionDocument, record_in

SET = "Set"
"""The condition that says whether the job has the settings of the resource."""
TASKS_MAX = 100
"""A job of more tasks shows only their sum."""
MESSAGE_MAX = 1024
"""Letters of a message: the API server limits those of events, and a refusal may repeat a resource that is as large as any."""
_STATUS = {True: "True", False: "False", None: "Unknown"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a resource's settings; ``is_set`` None: nobody knows yet."""

    is_set: bool | None
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Happening:
    """Something to tell as an event, once; ``identity`` names it."""

    identity: str
    kind: Literal["Normal", "Warning"]
    reason: str
    message: str
    appended_ms: TimeMs


def status_of(before: Mapping[str, Any], generation: int, verdict: Verdict, job: JobDocument | None, now: str) -> dict[str, Any]:
    """Return the status of a resource. What nobody knows is null, which also takes away what was known before.

    Args:
        before: the status as it was read: a condition that holds on keeps its time.
        generation: of the resource that the verdict is about.
        verdict: what became of its settings.
        job: what the view holds of the job; None: nothing, or the view is away.
        now: of the wall, in RFC 3339.
    """
    decision = record_in(job.decision) if job else None
    topology = record_in(job.topology) if job else None
    sizes = {spec.task: spec.parallelism for spec in topology.tasks if spec.scalable} if topology else {}
    wanted = {task.task: task.desired for task in decision.tasks if task.task in sizes} if decision else {}
    held = _held(before.get("conditions"))
    about_settings = {"observedGeneration": generation, **_condition(SET, verdict.is_set, verdict.reason, verdict.message)}
    conditions: list[dict[str, Any]] = [about_settings, *(_of(each) for each in (job.conditions if job else ()))]
    for each in conditions:
        was = held.get(each["type"], {})
        each["lastTransitionTime"] = was.get("lastTransitionTime", now) if was.get("status") == each["status"] else now
    settings = record_in(job.settings) if job else None
    tasks = [{"name": task, "subtasks": size, "wanted": wanted.get(task)} for task, size in sizes.items()]
    return {
        "observedGeneration": generation,
        "settingsVersion": settings.version if settings else None,
        "mode": job.mode if job else None,
        "health": job.status if job else None,
        "subtasks": sum(sizes.values()) if sizes else None,
        "wanted": sum({**sizes, **wanted}.values()) if wanted else None,
        "tasks": tasks if 0 < len(tasks) <= TASKS_MAX else None,
        "decision": {
            "id": decision.decision_id,
            "spanEnd": rfc3339(decision.span_end_ms),
            "answer": outcome_in_words(decision.action, record_in(job.decision.outcome)) if job and job.decision else None,
            "reason": decision.reason,
        }
        if decision
        else None,
        "nextDecision": rfc3339(job.next_decision.at_ms) if job and job.next_decision else None,
        "nextDecisionWaitsFor": _waits_for(job) if job else None,
        "conditions": conditions,
    }


def _held(conditions: object) -> dict[str, Mapping[str, Any]]:
    """Return the conditions of a status by their type; whoever may write a status may write anything there."""
    if not isinstance(conditions, list):
        return {}
    return {each["type"]: each for each in conditions if isinstance(each, Mapping) and isinstance(each.get("type"), str)}


def _waits_for(job: JobDocument) -> str | None:
    """Return what the next decision waits for. It does not change each minute while all is well, or each would be a write."""
    due = job.next_decision
    if due is None:
        return job.next_in_words or None
    if due.minutes_missing:
        return f"the end of its span, and {counted(due.minutes_missing, 'more minute')} of known figures"
    return "the end of its span"


def _of(condition: Condition) -> dict[str, Any]:
    """Return a condition of ours as one of Kubernetes. What is known anew each minute is not told while it is well."""
    is_well = condition.type == "Measured" and condition.status
    return _condition(condition.type, condition.status, condition.reason, "" if is_well else condition.message)


def _condition(kind: str, status: bool | None, reason: str, message: str) -> dict[str, Any]:
    return {"type": kind, "status": _STATUS[status], "reason": reason or kind, "message": one_line(message, MESSAGE_MAX)}


def happenings(decisions: Iterable[DecisionDocument], commands: Iterable[CommandDocument]) -> Iterator[Happening]:
    """Yield what decisions led to, and how commands went. A hold is no event: the status has its reason."""
    for decision in decisions:
        outcome = record_in(decision.outcome)
        if outcome is None or decision.outcome is None or outcome.status not in ("commanded", "refused"):
            continue
        if decision.record.action != "act" or outcome.reason == "observe":
            continue
        came = outcome_in_words(decision.record.action, outcome)
        words = f"{came}: {decision.record.reason}" + (f" {outcome.detail}" if outcome.detail else "")
        is_refused = outcome.status == "refused"
        yield Happening(
            f"{outcome.decision_id}/{outcome.status}", "Warning" if is_refused else "Normal",
            "Refused" if is_refused else "Advised" if outcome.reason == "advise" else "Rescaling",
            _short(words), decision.outcome.appended_ms,
        )  # fmt: skip
    for command in commands:
        changes = ", ".join(f"{change.task} {change.before} -> {change.after}" for change in command.record.changes)
        for report in command.progress:
            if report.record.status not in ("applied", "failed", "partly") or command.record.action == "prepare":
                continue
            is_well = report.record.status == "applied"
            yield Happening(
                f"{report.record.command_id}/{report.record.status}", "Normal" if is_well else "Warning",
                {"applied": "Rescaled", "failed": "RescaleFailed", "partly": "RescaledInPart"}[report.record.status],
                _short(f"{progress_line(command)}; {changes}"), report.appended_ms,
            )  # fmt: skip


def event_of(namespace: str, involved: Mapping[str, Any], happening: Happening) -> dict[str, Any]:
    """Return an event of the API (``v1``); of one happening it always has the same name, so it exists once."""
    digest = hashlib.blake2b(f"{involved['uid']} {happening.identity}".encode(), digest_size=8).hexdigest()
    at = rfc3339(happening.appended_ms)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{involved['name']}.{digest}", "namespace": namespace},
        "involvedObject": dict(involved),
        "type": happening.kind,
        "reason": happening.reason,
        "message": happening.message,
        "source": {"component": "surescale"},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }


def rfc3339(at_ms: int) -> str | None:
    """Return an instant as Kubernetes writes it; None for one that no calendar names.

    >>> rfc3339(809604000123)
    '1995-08-28T10:00:00Z'
    """
    try:
        return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return None


def _short(words: str) -> str:
    return words if len(words) <= MESSAGE_MAX else f"{words[: MESSAGE_MAX - 1]}…"
