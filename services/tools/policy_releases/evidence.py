"""Whether a shadow's record is long enough for a promotion, and what it says, for people."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from contracts.errors import SettingsError
from runtime.instants import to_the_minute
from runtime.terminal import plain
from services.state.shadow_documents import ShadowSummary

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Least:
    """What a shadow's record must have at least."""

    answers: int = 36
    hours: float = 6.0
    answered_share: float = 0.95


def check_evidence(summary: ShadowSummary | None, policy: str, where: str, least: Least) -> None:
    """Refuse a promotion that rests on too little.

    Raises:
        SettingsError: says what the record has and what is asked for.
    """
    if words := missing_evidence(summary, policy, where, least):
        raise SettingsError(f"policy: {words} (--force promotes it anyway)")


def missing_evidence(summary: ShadowSummary | None, policy: str, where: str, least: Least) -> str:
    """Return what a record still needs for any promotion, for people; empty: nothing."""
    if summary is None or not summary.answered:
        return (
            f"{policy} has no answers from the shadow for {where}; first run it in shadow with `surescale policy shadow {policy}`"
        )
    hours = (summary.to_ms - summary.from_ms) / HOUR_MS
    if summary.answered < least.answers or hours < least.hours:
        return (
            f"{policy} has {summary.answered} answers over {hours:.1f} h from the shadow for {where}; "
            f"a promotion needs {least.answers} over {least.hours:g} h"
        )
    if answered_share(summary) < least.answered_share:
        return (
            f"{policy} answered {answered_share(summary):.1%} of its windows in shadow; a promotion needs "
            f"{least.answered_share:.0%} ({_problems(summary)})"
        )
    return ""


def answered_share(summary: ShadowSummary) -> float:
    """Return the share of windows on which there are two answers."""
    return summary.answered / (summary.answered + summary.failed + summary.late + summary.skipped)


def note_of(summary: ShadowSummary | None) -> str:
    """Return a promotion's reason in one sentence, for its record."""
    if summary is None or not summary.answered:
        return "Promoted without a record from the shadow."
    hours, subtasks = (summary.to_ms - summary.from_ms) / HOUR_MS, _signed(summary.subtasks_difference, ".2f")
    return (
        f"Promoted from the shadow: {summary.answered} answers over {hours:.1f} h, {_share(summary.decisions_equal)} of "
        f"decisions and {_share(summary.tasks_equal)} of tasks equal, {subtasks} subtasks a job."
    )


def lines(summary: ShadowSummary) -> Iterator[tuple[str, str]]:
    """Yield a shadow's record as pairs of a word and a line."""
    count = len(summary.jobs)
    jobs = summary.jobs[0] if count == 1 else f"{count} jobs of {summary.cluster}"
    yield "shadow", f"{summary.policy} ({summary.sha256[:12] or 'rule'}) beside {', '.join(summary.beside)}, on {jobs}"
    yield "time", f"{to_the_minute(summary.from_ms)} to {to_the_minute(summary.to_ms)}"
    yield "answers", f"{summary.answered}; {_problems(summary)}"
    if summary.newest_problem:
        yield "", f"newest: {summary.newest_problem}"
    if not summary.answered:
        return
    yield "agreement", f"{_share(summary.decisions_equal)} of decisions, {_share(summary.tasks_equal)} of tasks"
    yield "acts", f"{summary.acts}, decisions {summary.served_acts}"
    yield (
        "subtasks",
        f"{_signed(summary.subtasks_difference, '.2f')} a job, {_signed(summary.subtask_minutes_per_day, ',.0f')} minutes a day",
    )
    if summary.dollars_per_day is not None:
        yield "cost", f"{dollars(summary.dollars_per_day)} a day, at the mean price of a unit"
    if summary.utilisation is not None:
        yield "busiest", f"{_share(summary.utilisation)} of its busiest task, decisions {_share(summary.served_utilisation)}"
        yield "overload", f"predicted in {_share(summary.overloaded)} of answers, decisions {_share(summary.served_overloaded)}"
    if summary.took_ms is not None:
        beside = "" if summary.served_took_ms is None else f"; decisions {summary.served_took_ms:,.0f} ms"
        yield "time taken", f"mean {summary.took_ms:,.0f} ms, at most {summary.took_ms_max or 0.0:,.0f} ms{beside}"


def print_record(out: Console, summary: ShadowSummary) -> None:
    """Print a shadow's record."""
    table = Table.grid(padding=(0, 2))
    for word, line in lines(summary):
        table.add_row(word, plain(line))
    out.print(table)


def dollars(amount: float) -> str:
    """Return a difference in dollars.

    >>> dollars(-12.5), dollars(3.0)
    ('-$12.50', '+$3.00')
    """
    return f"{'-' if amount < 0 else '+'}${abs(amount):,.2f}"


def _problems(summary: ShadowSummary) -> str:
    return f"{summary.failed} failed, {summary.late} late, {summary.skipped} skipped"


def _share(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1%}"


def _signed(value: float | None, form: str) -> str:
    return "unknown" if value is None else f"{value:+{form}}"
