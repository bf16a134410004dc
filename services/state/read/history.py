"""A job's last minutes as columns, made of its windows, decisions and commands. Pure."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from math import exp
from typing import Literal

import msgspec
from msgspec import UnsetType

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import LoadOutlook
from surescale.contracts.rent import DAY_S
from surescale.contracts.summaries import WindowSummary
from surescale.services.state.documents import DecisionMark, ExpectedLoad, HistoryDocument
from surescale.services.state.read.overviews import figures_of
from surescale.services.state.read.words import WORDS, Answer, outcome_in_words
from surescale.services.state.record_documents import CommandDocument


class MarkedTask(msgspec.Struct, frozen=True):
    """The part of a task's decision that a mark needs."""

    task: str
    current: int
    desired: int


class MarkedDecision(msgspec.Struct, frozen=True):
    """The part of a decision that a mark needs."""

    decision_id: str
    span_end_ms: int
    action: Literal["act", "hold"]
    reason: str
    tasks: tuple[MarkedTask, ...]
    outlook: LoadOutlook | None = None


def history(
    job: str,
    windows: Iterable[WindowSummary],
    decisions: Iterable[tuple[MarkedDecision, Answer | None]],
    commands: Sequence[CommandDocument],
    rent_per_day: float | None,
    *,
    fixed: Collection[str],
    unreadable: tuple[str, ...] | UnsetType,
) -> HistoryDocument:
    """Return the columns.

    Args:
        windows: one a minute, oldest first.
        decisions: each with its last outcome, oldest first.
        commands: with their progress, oldest first; those that were carried out say what the job paid from then on.
        rent_per_day: what the job pays now, in dollars.
        fixed: tasks that are never scaled; marks leave them out, as sizes do.
        unreadable: names of what could not be read.
    """
    seen = list(windows)
    rents = _rents([window.window_end_ms for window in seen], commands, rent_per_day)
    minutes = [figures_of(window, window.minute.parallelism, rent) for window, rent in zip(seen, rents, strict=True)]
    began_ms = seen[0].window_end_ms if seen else 0
    marked = [(decision, outcome) for decision, outcome in decisions if decision.span_end_ms >= began_ms]
    return HistoryDocument(
        job=job,
        window_end_ms=tuple(window.window_end_ms for window in seen),
        figures={each.field: tuple(getattr(minute, each.field) for minute in minutes) for each in WORDS.figures},
        expected=tuple(_expected(marked[-1][0])) if marked else (),
        decisions=tuple(_mark(decision, outcome, fixed) for decision, outcome in marked),
        unreadable=unreadable,
    )


def _expected(decision: MarkedDecision) -> Iterator[ExpectedLoad]:
    """Yield the stages that a decision looked ahead at."""
    outlook = decision.outlook
    if outlook is None:
        return
    stage_ms = outlook.stage_minutes * MINUTE_MS
    for at, mean in enumerate(outlook.means):
        factor = exp(outlook.spread[at]) if at < len(outlook.spread) else None
        yield ExpectedLoad(
            from_ms=decision.span_end_ms + at * stage_ms,
            until_ms=decision.span_end_ms + (at + 1) * stage_ms,
            mean=mean,
            low=None if factor is None else round(mean / factor, 3),
            high=None if factor is None else round(mean * factor, 3),
        )


def _mark(decision: MarkedDecision, outcome: Answer | None, fixed: Collection[str]) -> DecisionMark:
    tasks = [task for task in decision.tasks if task.task not in fixed]
    return DecisionMark(
        decision_id=decision.decision_id,
        at_ms=decision.span_end_ms,
        action=decision.action,
        outcome=outcome.status if outcome else None,
        came=outcome_in_words(decision.action, outcome),
        before=sum(task.current for task in tasks),
        after=sum(task.desired for task in tasks),
        reason=decision.reason,
    )


def _rents(ends_ms: Sequence[int], commands: Sequence[CommandDocument], now: float | None) -> tuple[float | None, ...]:
    """Return dollars a day at each minute: what the last placement before it cost; without any, what the job costs now."""
    steps: list[tuple[int, float]] = []
    before: float | None = None
    for command in commands:
        applied_ms = next((each.record.at_ms for each in command.progress if each.record.status == "applied"), None)
        placement = command.record.placement
        if command.record.advice or command.record.action != "commit" or placement is None or applied_ms is None:
            continue
        if not steps and placement.rent_before_per_s is not None:
            before = placement.rent_before_per_s * DAY_S
        steps.append((applied_ms, placement.rent_per_s * DAY_S))
    if not steps:
        return (now,) * len(ends_ms)
    steps.sort()
    times = [at_ms for at_ms, _ in steps]
    found = (bisect_right(times, end_ms) for end_ms in ends_ms)
    return tuple(round(steps[at - 1][1], 6) if at else before for at in found)
