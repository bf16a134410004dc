"""A job's objective as people write it: ``cost``, ``balanced``, ``latency``, or ``latency=SECONDS[@SHARE]``. Pure."""

from typing import get_args

import msgspec

from surescale.contracts.decisions import LatencyBudget
from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import LatencyBound, Objective
from surescale.contracts.plurals import counted
from surescale.contracts.wire import learned

WORDS: tuple[Objective, ...] = get_args(Objective)
HOW = "give cost, balanced, latency, or latency=SECONDS[@SHARE], like latency=30@0.01 for 30 s in 99 % of the minutes"
LIMITS = " (seconds lie above 0 and up to 86400, the share between 0.0001 and 0.5)"
DAY_MINUTES = 24 * 60
_BOUND = "latency="


def read_objective(text: str) -> Objective | LatencyBound:
    """Return an objective from text; a share may be written in per cent.

    Raises:
        SettingsError: it is none; says how to write one.

    >>> read_objective("latency=30@1%")
    LatencyBound(seconds=30.0, share=0.01)
    """
    if text in WORDS:
        return text
    seconds, at, share = text.removeprefix(_BOUND).partition("@")
    try:
        if not text.startswith(_BOUND):
            raise ValueError
        wanted = {"seconds": float(seconds)} | ({"share": _share(share)} if at else {})
        return msgspec.convert(wanted, learned(LatencyBound))
    except ValueError as error:  # msgspec's too
        why = LIMITS if isinstance(error, msgspec.ValidationError) else ""
        raise SettingsError(f"--objective: {text[:40]!r} is not an objective{why}; {HOW}") from None


def in_words(objective: Objective | LatencyBound | None) -> str | None:
    """Return an objective as it is written.

    >>> in_words(LatencyBound(seconds=30.0))
    'latency=30@0.01'
    """
    if isinstance(objective, LatencyBound):
        return f"{_BOUND}{objective.seconds:g}@{objective.share:g}"
    return objective


def used_in_words(budget: LatencyBudget) -> str:
    """Return how many of a day's minutes above a bound are used up; what is unknown is said, and never counts as kept.

    >>> used_in_words(LatencyBudget(seconds=30.0, allowed_minutes=14.4, used_minutes=3, known_minutes=1380))
    'at least 3 of 14.4 minutes above 30 s used today, 60 minutes unknown'
    """
    unknown = DAY_MINUTES - budget.known_minutes
    allowed = minutes_in_words(budget.allowed_minutes)
    if unknown == DAY_MINUTES:
        return f"nobody knows how many of today's minutes were above {budget.seconds:g} s; {allowed} may be"
    least = "at least " if unknown else ""
    untold = f", {counted(unknown, 'minute')} unknown" if unknown else ""
    return f"{least}{budget.used_minutes} of {allowed} minutes above {budget.seconds:g} s used today{untold}"


def minutes_in_words(minutes: float) -> str:
    """Return minutes as people read them.

    >>> [minutes_in_words(minutes) for minutes in (14.4, 720.0)]
    ['14.4', '720']
    """
    return f"{minutes:.1f}".removesuffix(".0")


def _share(text: str) -> float:
    return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)
