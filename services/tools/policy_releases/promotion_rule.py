"""When a policy leaves the shadow by a rule: what a rule says, what its evidence is, and that it promotes once. Pure."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from contracts.errors import SettingsError
from contracts.releases import Releases, ScopedRelease, Slot
from services.state.shadow_documents import ShadowSummary
from services.tools.policy_releases.evidence import HOUR_MS, Least, answered_share, missing_evidence
from services.tools.policy_releases.rollback import where

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


def evidence_from_ms(records: Sequence[ScopedRelease], wanted: ScopedRelease) -> int | None:
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


def _looks_on(records: Sequence[ScopedRelease], wanted: ScopedRelease) -> list[int]:
    """Return the places of the records by which the policy looks on where it is wanted."""
    begun: dict[Slot, int] = {}
    for at, each in enumerate(records):
        if each.role != "shadow" or (each.cluster, each.policy, each.sha256) != (wanted.cluster, wanted.policy, wanted.sha256):
            continue
        begun.pop(each.slot, None)
        if not each.withdrawn and each.job in (None, wanted.job):
            begun[each.slot] = at
    return list(begun.values())


def _serves(release: ScopedRelease) -> tuple[str, str, int | None] | None:
    return None if release.withdrawn else (release.policy, release.sha256, release.share_permille)
