"""What `surescale job pause` writes: a pause made of the options, checked. Pure."""

import re

from surescale.contracts.errors import SettingsError
from surescale.contracts.job_settings import Direction, Pause
from surescale.runtime.instants import event_time_ms, to_the_second

TEXT_MAX = 256
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
    if not why.strip():
        raise SettingsError("--why: is empty; say in a few words why, for those who come later")
    _check_length("--why", why)
    until_ms = _until_ms(until, lasting, now_ms)
    return Pause(direction=direction, until_ms=until_ms, why=why.strip(), by=checked_author(by), at_ms=now_ms)


def checked_author(by: str) -> str:
    """Return who does something, as it fits into a record.

    Raises:
        SettingsError: the name is too long.
    """
    _check_length("--by", by)
    return by


def _check_length(option: str, text: str) -> None:
    if len(text) > TEXT_MAX:
        raise SettingsError(f"{option}: has {len(text)} characters; give at most {TEXT_MAX}")


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
