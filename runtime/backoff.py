"""Waiting for something that is away: growing pauses, a line every few seconds, no giving up unless told to."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 3.0
_SAY_EVERY_S = 4.0


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
    """Call ``attempt`` until it returns, pausing longer after each of the ``expected`` errors.

    Raises:
        Stopped: ``stop`` was set meanwhile.
    """
    pause_s, began_s, said_s = _FIRST_PAUSE_S, time.monotonic(), 0.0
    while not stop.is_set():
        try:
            return attempt()
        except expected as error:
            waited_s = time.monotonic() - began_s
            if said_s == 0.0 or waited_s - said_s >= _SAY_EVERY_S:
                log.warning("waiting for %s since %.0f s: %s", what, waited_s, error)
                said_s = max(waited_s, 1e-9)
            stop.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
    raise Stopped(what)
