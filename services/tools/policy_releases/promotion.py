"""Promotes a policy on its record from the shadow: when a person says so, or as soon as a rule holds.

The record must be long enough (``Least``). A rule compares its figures with bounds, and promotes once.
"""

import operator
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import click
from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from surescale.contracts.errors import SettingsError
from surescale.contracts.releases import Release, Releases, Slot
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.instants import to_the_minute
from surescale.runtime.printable import printable
from surescale.runtime.terminal import plain
from surescale.services.state.fleet_documents import ShadowSummary
from surescale.services.tools.policy_releases import scope
from surescale.services.tools.policy_releases.catalog import ReleaseCatalog, ShadowRecords, named, publish, reached, read_catalog
from surescale.services.tools.policy_releases.scope import ended, next_minute_ms, where

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


RULE_CHARACTERS_MAX = 160
_CONDITION = re.compile(r"(?P<figure>[a-z-]+)\s*(?P<sign>>=|<=|>|<)\s*(?P<bound>[-+]?\d{1,12}(?:\.\d{1,9})?)(?P<percent>%?)")
_SIGNS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}


def _less(value: float | None, beside: float | None) -> float | None:
    return None if value is None or beside is None else value - beside


FIGURES: dict[str, Callable[[ShadowSummary], float | None]] = {
    "hours": lambda record: (record.to_ms - record.from_ms) / HOUR_MS,
    "answers": lambda record: float(record.answered),
    "answered": answered_share,
    "equal-decisions": lambda record: record.decisions_equal,
    "equal-tasks": lambda record: record.tasks_equal,
    "subtasks": lambda record: record.subtasks_difference,
    "cost": lambda record: record.dollars_per_day,
    "busiest": lambda record: record.utilisation,
    "overload": lambda record: record.overloaded,
    "more-overload": lambda record: _less(record.overloaded, record.served_overloaded),
    "time": lambda record: record.took_ms,
}
"""The figures of a shadow's record that a rule may name; shares are 0 to 1, ``cost`` is dollars a day, ``time`` milliseconds."""
_OF_THE_WHOLE = ("hours", "answers")


@dataclass(frozen=True, slots=True)
class Condition:
    """One comparison of a figure with a bound."""

    figure: str
    sign: str
    bound: float

    def holds(self, record: ShadowSummary) -> bool:
        """Return whether a record fulfils it; one without the figure does not."""
        value = FIGURES[self.figure](record)
        return value is not None and _SIGNS[self.sign](value, self.bound)

    def missed(self, record: ShadowSummary) -> str:
        """Return what a record has instead, for people."""
        value = FIGURES[self.figure](record)
        return f"{self.figure} is {'unknown' if value is None else f'{value:.4g}'}, not {self}"

    def __str__(self) -> str:
        return f"{self.sign}{self.bound:g}"


@dataclass(frozen=True, slots=True)
class Rule:
    """Conditions that must all hold."""

    text: str
    conditions: tuple[Condition, ...]

    def missing(self, policy: str, place: str, least: Least, whole: ShadowSummary | None, newer: ShadowSummary | None) -> str:
        """Return what is still missing for a promotion; empty: nothing.

        The record must be long enough (``least``), and every condition must hold over the whole of it and over the newer half of
        its time: the first lucky minute is not enough, nor is a gain that has gone.

        Args:
            policy: name of the shadow policy.
            place: the job or cluster, for people.
            least: what any promotion asks for.
            whole: the record; None without any answer.
            newer: the newer half of its time.
        """
        if (little := missing_evidence(whole, policy, place, least)) or whole is None:
            return little
        if missed := [each.missed(whole) for each in self.conditions if not each.holds(whole)]:
            return "; ".join(missed)
        half = [each for each in self.conditions if each.figure not in _OF_THE_WHOLE]
        if half and (newer is None or not newer.answered):
            return "there is no answer in the newer half of the time"
        missed = [each.missed(newer) for each in half if newer is not None and not each.holds(newer)]
        return f"in the newer half of the time {'; '.join(missed)}" if missed else ""


def rule_of(text: str) -> Rule:
    """Return the rule that a user writes, like ``cost<=-5 more-overload<=0 hours>=24``.

    Raises:
        SettingsError: names what cannot be read.

    >>> rule_of("cost <= -5, hours>=24").conditions[1]
    Condition(figure='hours', sign='>=', bound=24.0)
    """
    if len(text) > RULE_CHARACTERS_MAX:
        raise SettingsError(f"--when: a rule has at most {RULE_CHARACTERS_MAX} characters, this one has {len(text)}")
    conditions, at = [], 0
    for found in _CONDITION.finditer(text):
        if text[at : found.start()].strip(" ,\t"):
            break
        if found["figure"] not in FIGURES:
            raise SettingsError(f"--when: a record has no figure {found['figure']!r}; it has {', '.join(FIGURES)}")
        bound = float(found["bound"]) / (100 if found["percent"] else 1)
        conditions.append(Condition(found["figure"], found["sign"], bound))
        at = found.end()
    rest = text[at:].strip(" ,\t")
    if rest or not conditions:
        raise SettingsError(f'--when: {rest[:40]!r} is not a condition; write them like "cost<=-5 more-overload<=0 hours>=24"')
    return Rule(" ".join(text.split()), tuple(conditions))


def evidence_from_ms(records: Sequence[Release], wanted: Release) -> int | None:
    """Return the event time from which answers count for a promotion; None: the policy serves there already.

    They count from the beginning of its shadow, or from the newest change of what serves there, if that came later.

    Args:
        records: all releases and shadows in the order in which they were written: of two for one minute the first still tells
            that a person has taken something back.
        wanted: the release.

    Raises:
        SettingsError: the policy does not look on, or has been released there since its shadow began and was taken back.
    """
    timeline = Releases(records).timeline(wanted.slot)
    if timeline and _serves(timeline[-1]) == _serves(wanted):
        return None
    begun = _looks_on(records, wanted)
    if not begun:
        where_, version = wanted.job or wanted.cluster, wanted.sha256[:12] or "rule"
        raise SettingsError(
            f"policy: {wanted.policy} ({version}) does not run in shadow for {where_}, so no rule promotes it; "
            f"`surescale policy shadow {wanted.policy}` starts a shadow"
        )
    since = [each for each in records[min(begun) :] if each.slot == wanted.slot]
    if any(_serves(each) == _serves(wanted) for each in since):
        raise SettingsError(
            f"policy: {wanted.policy} has been released for {where(wanted.slot)} during its shadow, and {since[-1].set_by} "
            "rolled that back; a rule promotes once: end the shadow (--stop) and start another, or promote it without --when"
        )
    from_ms = min(records[at].valid_from_ms for at in begun)
    return max(from_ms, timeline[-1].valid_from_ms if timeline else 0)


def _looks_on(records: Sequence[Release], wanted: Release) -> list[int]:
    """Return the places of the records by which the policy looks on where it is wanted."""
    begun: dict[Slot, int] = {}
    for at, each in enumerate(records):
        if each.role != "shadow" or (each.cluster, each.policy, each.sha256) != (wanted.cluster, wanted.policy, wanted.sha256):
            continue
        begun.pop(each.slot, None)
        if not each.withdrawn and each.job in (None, wanted.job):
            begun[each.slot] = at
    return list(begun.values())


def _serves(release: Release) -> tuple[str, str, int | None] | None:
    return None if release.withdrawn else (release.policy, release.sha256, release.share_permille)


def promote(
    settings: PipelineSettings, wanted: Release, record: ShadowSummary | None, catalog: ReleaseCatalog, *, why: str = ""
) -> None:
    """Write the release with the record's main figures, and end a canary of the same package; ``why`` stands before them."""
    publish(settings, replace(wanted, note=" ".join(filter(None, (why, note_of(record))))))
    scope.say_reach(wanted, catalog.jobs)
    tried = catalog.releases.in_force(Slot(wanted.cluster, "serve", "canary"), catalog.now_ms)
    if wanted.scope == "cluster" and tried is not None and (tried.policy, tried.sha256) == (wanted.policy, wanted.sha256):
        # The cluster has what the canary has tried; left as it is, the canary would hide the cluster's next release.
        publish(settings, ended(tried, start_ms=wanted.valid_from_ms, by=wanted.set_by))
    options_of = {"job": f" --job {wanted.job}", "canary": " --canary", "cluster": ""}[wanted.scope]
    click.echo(printable(f"`surescale policy rollback{options_of}` undoes it"))


def promote_when(settings: PipelineSettings, wanted: Release, rule: Rule, least: Least, *, every_s: float | None) -> bool:
    """Promote a policy if a rule holds; return whether it serves now.

    Args:
        settings: of the pipeline.
        wanted: the release; it begins a minute after the rule holds.
        rule: the rule.
        least: what any promotion asks for.
        every_s: look again so often until the rule holds; None: look once.

    Raises:
        SettingsError: no rule may promote the policy, or no longer: its shadow has ended, or somebody took the release back.
        ConnectionError: Kafka does not answer, and this looks once.
    """
    records, said = ShadowRecords(settings, job=wanted.job), ""
    try:
        for last_try in _looks(every_s):
            try:
                missing = _look(settings, wanted, rule, least, records)
            except ConnectionError as away:
                if last_try:
                    raise
                missing = str(away)
            if missing is None:
                return True
            if missing != said:
                click.echo(printable(f"{reached(wanted)}: {named(wanted)} not yet: {missing}"))
            said = missing
    finally:
        records.close()
    return False


def _looks(every_s: float | None) -> Iterator[bool]:
    """Yield at each look whether it is the last one."""
    while every_s is not None:
        yield False
        time.sleep(every_s)
    yield True


def _look(settings: PipelineSettings, wanted: Release, rule: Rule, least: Least, records: ShadowRecords) -> str | None:
    """Return what is missing; None: the policy serves now, or did already."""
    catalog = read_catalog(settings)
    from_ms = evidence_from_ms(catalog.records, wanted)
    if from_ms is None:
        click.echo(printable(f"{reached(wanted)}: {named(wanted)} is released already"))
        return None
    records.refresh()
    version = (wanted.cluster, wanted.policy, wanted.sha256)
    whole = records.of(version, from_ms)
    newer = None if whole is None else records.of(version, (whole.from_ms + whole.to_ms) // 2 + 1)
    if missing := rule.missing(wanted.policy, wanted.job or wanted.cluster, least, whole, newer):
        return missing
    release = replace(wanted, valid_from_ms=next_minute_ms(catalog.now_ms), set_by=f"rule {rule.text} (set by {wanted.set_by})")
    promote(settings, release, whole, catalog, why=f"The rule {rule.text} holds.")
    return None
