"""Prints what happened to a job, newest first: decisions, acts that no policy decided, what disturbed it. Reads nothing."""

from collections.abc import Iterable, Mapping, Sequence

from rich.padding import Padding
from rich.text import Text

from contracts.decisions import Amendment, PolicyUsed
from runtime import terminal
from runtime.instants import to_the_minute
from runtime.printable import printable
from runtime.terminal import plain, several
from services.state.read.verdicts import outcome_in_words
from services.state.record_documents import (
    CommandDocument,
    DecisionDocument,
    EngineEventDocument,
    OwnActDocument,
    TaskDecisionDocument,
)

_INDENT = 4
_STYLE = {"hold": "dim", "acted": "bold green", "advised": "bold", "observed": "bold"}

Entry = DecisionDocument | OwnActDocument | EngineEventDocument


def in_order(
    decisions: Iterable[DecisionDocument],
    own_acts: Iterable[OwnActDocument],
    disturbances: Iterable[EngineEventDocument],
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
        if not isinstance(entry, EngineEventDocument) and entry.unreadable:
            console.print(Padding(plain(f"{', '.join(entry.unreadable)} cannot be read"), (0, 0, 0, _INDENT)))


def progress_line(command: CommandDocument | None) -> str:
    """Return how far a command is, or came; empty if there is none."""
    if command is None:
        return ""
    name = f"#{command.command_id.rpartition('#')[2]} {command.action}"
    if command.advice:
        return f"{name} is advice and not carried out"
    if not command.progress:
        return f"{name} sent"
    newest = command.progress[-1]
    if newest.status == "warming":
        return f"{name} warming {newest.learners} learners, {(newest.lag_bytes or 0) / 2**20:.0f} MiB behind"
    why = " ".join(filter(None, (newest.code, newest.detail)))
    return f"{name} {newest.status} {to_the_minute(newest.at_ms)[-5:]}" + (f": {why}" if why else "")


def amended(amendments: Iterable[Amendment]) -> str:
    """Return which guardrails changed a size, and how."""
    return ", ".join(f"{item.rule} {item.before} -> {item.after}" for item in amendments)


def _at_ms(entry: Entry) -> int:
    if isinstance(entry, EngineEventDocument):
        return entry.at_ms
    return entry.outcome.at_ms if isinstance(entry, OwnActDocument) else entry.span_end_ms


def _line(entry: Entry) -> tuple[str, ...]:
    if isinstance(entry, EngineEventDocument):
        return " ".join(filter(None, (entry.kind.replace("_", " "), entry.host))), "(engine)"
    return _own_line(entry) if isinstance(entry, OwnActDocument) else _decision_line(entry)


def _decision_line(decision: DecisionDocument) -> tuple[str, ...]:
    outcome = decision.outcome
    came = outcome_in_words(decision.action, outcome)
    until = f"until {to_the_minute(outcome.until_ms)[-5:]}" if outcome and outcome.until_ms is not None else ""
    return came, until, progress_line(decision.command), f"({_policy(decision.policy)})"


def _own_line(act: OwnActDocument) -> tuple[str, ...]:
    status = act.outcome.status
    words = act.outcome.reason.replace("_", " ")
    came = act.own_act.value if status == "commanded" else f"{act.own_act.value}, {status}: {words}"
    return came, progress_line(act.command), "(no policy's decision)"


def _reasons(entry: Entry, labels: Mapping[str, str]) -> Iterable[str]:
    if isinstance(entry, EngineEventDocument):
        return [entry.detail] if entry.detail else []
    if isinstance(entry, OwnActDocument):
        return [f"{entry.outcome.detail}: {entry.why}." if entry.outcome.detail else f"{entry.why}."]
    return _reasons_of_policy(entry, labels)


def _reasons_of_policy(decision: DecisionDocument, labels: Mapping[str, str]) -> Iterable[str]:
    yield decision.reason
    if decision.policy.fallback_reason:
        yield f"{decision.policy.asked} was asked: {decision.policy.fallback_reason}"
    yield from changes(decision.tasks, labels)
    if decision.outcome and decision.outcome.detail:
        yield decision.outcome.detail


def changes(tasks: Iterable[TaskDecisionDocument], labels: Mapping[str, str]) -> list[str]:
    """Name the tasks that change or that a guardrail touched; tasks with the same change share a line."""
    alike: dict[str, list[str]] = {}
    for task in tasks:
        touched = amended(task.amendments)
        if task.current != task.desired or touched:
            change = f"{task.current} -> {task.desired}{f' ({touched})' if touched else ''}"
            alike.setdefault(change, []).append(labels.get(task.task, task.task))
    return [f"{several(names)}: {change}" for change, names in alike.items()]


def _policy(policy: PolicyUsed) -> str:
    return f"{policy.name} for {policy.asked}" if policy.fallback_reason else policy.name
