"""Prints what happened to a job, newest first: decisions, acts that no policy decided, what disturbed it. Reads nothing."""

from collections.abc import Iterable, Mapping, Sequence

from rich.padding import Padding
from rich.text import Text

from surescale.contracts.commands import Outcome
from surescale.contracts.decisions import Amendment, Decision, TaskDecision
from surescale.contracts.messages import EngineEvent
from surescale.runtime import terminal
from surescale.runtime.instants import to_the_minute
from surescale.runtime.printable import printable
from surescale.runtime.terminal import plain, several
from surescale.services.state.read.words import outcome_in_words, policy_in_words
from surescale.services.state.record_documents import Appended, CommandDocument, DecisionDocument, OwnActDocument, record_in

_INDENT = 4
_STYLE = {"hold": "dim", "acted": "bold green", "advised": "bold", "observed": "bold"}

Entry = DecisionDocument | OwnActDocument | Appended[EngineEvent]


def in_order(
    decisions: Iterable[DecisionDocument],
    own_acts: Iterable[OwnActDocument],
    disturbances: Iterable[Appended[EngineEvent]],
    limit: int,
) -> list[Entry]:
    """Return the newest of all, newest first."""
    every: list[Entry] = [*decisions, *own_acts, *disturbances]
    return sorted(every, key=_at_ms, reverse=True)[:limit]


def print_decisions(job: str, entries: Sequence[Entry], labels: Mapping[str, str] | None = None) -> None:
    """Print one entry after another: a line on what came of it, and below it why, and what each task gets.

    Args:
        job: id of the job.
        entries: newest first.
        labels: the names that people know the tasks by.
    """
    console = terminal.console()
    if not entries:
        console.print(plain(f"No decision on {job} yet."))
        return
    for entry in entries:
        came, *words = _line(entry)
        head = Text.assemble(to_the_minute(_at_ms(entry)), "  ", (printable(came), _STYLE.get(came, "bold")))
        console.print(head, *(plain(f"  {word}") for word in words if word), sep="")
        for line in _reasons(entry, labels or {}):
            console.print(Padding(plain(line), (0, 0, 0, _INDENT)))
        if isinstance(entry, DecisionDocument | OwnActDocument) and entry.unreadable:
            console.print(Padding(plain(f"{', '.join(entry.unreadable)} cannot be read"), (0, 0, 0, _INDENT)))


def progress_line(command: CommandDocument | None) -> str:
    """Return how far a command is, or came; empty if there is none."""
    if command is None:
        return ""
    name = f"#{command.record.command_id.rpartition('#')[2]} {command.record.action}"
    if command.record.advice:
        return f"{name} is advice and not carried out"
    if not command.progress:
        return f"{name} sent"
    newest = command.progress[-1].record
    if newest.status == "warming":
        return f"{name} warming {newest.learners} learners, {(newest.lag_bytes or 0) / 2**20:.0f} MiB behind"
    why = " ".join(filter(None, (newest.code, newest.detail)))
    return f"{name} {newest.status} {to_the_minute(newest.at_ms)[-5:]}" + (f": {why}" if why else "")


def amended(amendments: Iterable[Amendment]) -> str:
    """Return which guardrails changed a size, and how."""
    return ", ".join(f"{item.rule} {item.before} -> {item.after}" for item in amendments)


def _at_ms(entry: Entry) -> int:
    if isinstance(entry, OwnActDocument):
        return entry.outcome.record.at_ms
    return entry.record.span_end_ms if isinstance(entry, DecisionDocument) else entry.record.at_ms


def _line(entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, OwnActDocument):
        return _own_line(entry)
    if isinstance(entry, DecisionDocument):
        return _decision_line(entry)
    return " ".join(filter(None, (entry.record.kind.replace("_", " "), entry.record.host))), "(engine)"


def _decision_line(decision: DecisionDocument) -> tuple[str, ...]:
    outcome = record_in(decision.outcome)
    came = outcome_in_words(decision.record.action, outcome)
    until = f"until {to_the_minute(outcome.until_ms)[-5:]}" if outcome and outcome.until_ms is not None else ""
    return came, until, progress_line(decision.command), f"({policy_in_words(decision.record.policy)})"


def _own_line(act: OwnActDocument) -> tuple[str, ...]:
    status, reason = act.outcome.record.status, act.outcome.record.reason
    words = reason.replace("_", " ")
    came = act.own_act.value if status == "commanded" else f"{act.own_act.value}, {status}: {words}"
    return came, progress_line(act.command), "(no policy's decision)"


def _reasons(entry: Entry, labels: Mapping[str, str]) -> Iterable[str]:
    if isinstance(entry, OwnActDocument):
        detail = entry.outcome.record.detail
        return [f"{detail}: {entry.why}." if detail else f"{entry.why}."]
    if isinstance(entry, DecisionDocument):
        return _reasons_of_policy(entry.record, record_in(entry.outcome), labels)
    return [entry.record.detail] if entry.record.detail else []


def _reasons_of_policy(decision: Decision, outcome: Outcome | None, labels: Mapping[str, str]) -> Iterable[str]:
    yield decision.reason
    if decision.policy.fallback_reason:
        yield f"{decision.policy.asked} was asked: {decision.policy.fallback_reason}"
    yield from changes(decision.tasks, labels)
    if outcome and outcome.detail:
        yield outcome.detail


def changes(tasks: Iterable[TaskDecision], labels: Mapping[str, str]) -> list[str]:
    """Name the tasks that change or that a guardrail touched; tasks with the same change share a line."""
    alike: dict[str, list[str]] = {}
    for task in tasks:
        touched = amended(task.amendments)
        if task.current != task.desired or touched:
            change = f"{task.current} -> {task.desired}{f' ({touched})' if touched else ''}"
            alike.setdefault(change, []).append(labels.get(task.task, task.task))
    return [f"{several(names)}: {change}" for change, names in alike.items()]
