"""Reads when a release starts, as a user writes it. Pure."""

from contracts.clock import MINUTE_MS, minute_end_ms
from contracts.errors import SettingsError
from runtime.instants import event_time_ms

_YEAR_10000_MS = 253_402_300_800_000


def next_minute_ms(now_ms: int) -> int:
    """Return the first minute end after now.

    >>> next_minute_ms(60_000), next_minute_ms(60_001)
    (120000, 120000)
    """
    return minute_end_ms(now_ms + 1)


def start_ms(text: str, now_ms: int) -> int:
    """Return the event minute that a user means: milliseconds, an ISO time (UTC unless stated), or ``now``.

    A time before the next minute is refused: spans that have ended may have been decided on already.

    Raises:
        SettingsError: it is not a time, not a whole minute, or in the past.
    """
    earliest = next_minute_ms(now_ms)
    if text == "now":
        return earliest
    try:
        at_ms = event_time_ms(text)
    except ValueError:
        raise SettingsError(
            f"--from: {text!r} is not a time; give milliseconds, an ISO time such as 1995-08-28T10:00, or now"
        ) from None
    if at_ms % MINUTE_MS:
        raise SettingsError(f"--from: {text} is not a whole minute; the next one is {minute_end_ms(at_ms)}")
    if at_ms < earliest:
        raise SettingsError(
            f"--from: {text} is in the past: spans up to {now_ms} may have been decided on; the earliest is {earliest}, or now"
        )
    if at_ms >= _YEAR_10000_MS:
        raise SettingsError(f"--from: {text} is not a time in milliseconds")
    return at_ms
