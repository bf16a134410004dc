"""A job's objective as people write it: ``cost``, ``balanced``, ``latency``, or ``latency=SECONDS[@SHARE]``. Pure."""

from typing import get_args

import msgspec

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import LatencyBound, Objective
from surescale.contracts.wire import learned

WORDS: tuple[Objective, ...] = get_args(Objective)
HOW = "give cost, balanced, latency, or latency=SECONDS[@SHARE], like latency=30@0.01 for 30 s in 99 % of the minutes"
LIMITS = " (seconds lie above 0 and up to 86400, the share between 0.0001 and 0.5)"
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


def _share(text: str) -> float:
    return float(text[:-1]) / 100.0 if text.endswith("%") else float(text)
