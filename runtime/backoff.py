"""Retries until something that is away comes back: growing pauses, a log line every few seconds, no giving up unless told to."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from surescale.runtime.beats import beat, pause

T = TypeVar("T")

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 3.0
_SAY_EVERY_S = 4.0


class Throttle:
    """Throttles a repeated log line: lets the first through, then one every ``every_s``.

    Two threads that ask at the same instant may both get through.
    """

    def __init__(self, every_s: float = _SAY_EVERY_S) -> None:
        self._every_s = every_s
        self._said_s: float | None = None

    def is_time(self) -> bool:
        """Return whether to log the line now; if so, it counts as logged."""
        now_s = time.monotonic()
        if self._said_s is not None and now_s - self._said_s < self._every_s:
            return False
        self._said_s = now_s
        return True


class Stopped(Exception):
    """The process was told to stop while it waited."""


def wait_for(
    what: str,
    attempt: Callable[[], T],
    *,
    expected: tuple[type[BaseException], ...],
    stop: threading.Event,
    log: logging.Logger,
) -> T:
    """Call ``attempt`` until it returns; pause longer after each ``expected`` error.

    Raises:
        Stopped: ``stop`` was set in the meantime.
    """
    pause_s, began_s, seldom = _FIRST_PAUSE_S, time.monotonic(), Throttle()
    while not stop.is_set():
        beat()
        try:
            return attempt()
        except expected as error:
            if seldom.is_time():
                log.warning("waiting for %s since %.0f s: %s", what, time.monotonic() - began_s, error)
            pause(stop, pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    raise Stopped(what)
