"""What `surescale job pause` writes: a pause made of the options, checked. Pure."""

import re

from surescale.contracts.errors import SettingsError
from surescale.contracts.free_text import checked_text
from surescale.contracts.job_settings import Direction, Pause
from surescale.runtime.instants import event_time_ms, to_the_second

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"([0-9]{1,6})([smhd])")
_MS_MAX = 253_402_300_799_000  # the end of the year 9999


def duration_ms(text: str) -> int:
    """Return a duration in milliseconds.

    Raises:
        SettingsError: it is none.

    >>> duration_ms("90m")
    5400000
    """
    found = _DURATION.fullmatch(text)
    if found is None or not int(found[1]):
        raise SettingsError(f"--for: {text!r} is not a duration; write a whole number and s, m, h or d, like 90m")
    return int(found[1]) * _UNITS_MS[found[2]]


def pause_of(direction: Direction, *, until: str | None, lasting: str | None, why: str, by: str, now_ms: int) -> Pause:
    """Return the pause that the options ask for. Times are the pipeline's.

    Raises:
        SettingsError: an option does not parse or contradicts another one; names it.
    """
    if until is not None and lasting is not None:
        raise SettingsError("--until and --for both say when the pause ends; give one of them")
    words = checked_text("--why", why)
    return Pause(direction=direction, until_ms=_until_ms(until, lasting, now_ms), why=words, by=by, at_ms=now_ms)


def _until_ms(until: str | None, lasting: str | None, now_ms: int) -> int | None:
    if lasting is not None:
        return now_ms + duration_ms(lasting)
    if until is None:
        return None
    try:
        until_ms = event_time_ms(until)
    except ValueError:
        raise SettingsError(f"--until: {until!r} is not a time; write one like 2026-12-24T18:00 (UTC)") from None
    if not now_ms < until_ms <= _MS_MAX:
        raise SettingsError(f"--until: {until} is not ahead: it is {to_the_second(now_ms)} by the pipeline's clock")
    return until_ms
