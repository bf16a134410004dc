"""Does something every day at one time of day (UTC), until the process is told to stop."""

import datetime as dt
import time
from collections.abc import Callable

from contracts.errors import SettingsError
from runtime.signals import stop_event


def time_of_day(text: str) -> dt.time:
    """Return a time of day as a user writes it.

    Raises:
        SettingsError: it is none.

    >>> time_of_day("03:30")
    datetime.time(3, 30)
    """
    hours, colon, minutes = text.partition(":")
    digits = hours + minutes
    if colon and len(minutes) == 2 and digits.isascii() and digits.isdigit() and int(hours) < 24 and int(minutes) < 60:
        return dt.time(int(hours), int(minutes))
    raise SettingsError(f"--daily: {text[:20]!r} is not a time of day; give HH:MM in UTC, such as 03:30")


def seconds_until(at: dt.time, now: dt.datetime) -> float:
    """Return the seconds from an instant (UTC) to the next time that a clock shows this time of day.

    >>> [seconds_until(dt.time(3, 30), dt.datetime(2026, 1, 1, 3, minute)) for minute in (29, 30)]
    [60.0, 86400.0]
    """
    then = dt.datetime.combine(now.date(), at, now.tzinfo)
    return ((then if then > now else then + dt.timedelta(days=1)) - now).total_seconds()


def every_day(at: dt.time, act: Callable[[], object], say: Callable[[str], None]) -> None:
    """Act every day until SIGTERM or SIGINT. A day that Kafka spoils is said and left out."""
    stop = stop_event()
    while True:
        say(f"the next tournaments begin at {at:%H:%M} UTC")
        if stop.wait(seconds_until(at, dt.datetime.now(dt.UTC))):
            return
        began_s = time.monotonic()
        try:
            act()
        except (OSError, SettingsError) as error:  # Kafka that does not answer is an OSError too
            say(f"surescale: {error}")
        say(f"done after {time.monotonic() - began_s:.0f} s")
        if stop.is_set():
            return
