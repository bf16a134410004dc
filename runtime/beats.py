"""What a loop says of itself: it turns, it waits, it may take longer. ``runtime.watchdog`` notices the ones that are silent.

Code far from a loop says `beat` without knowing which loop it serves. Imports next to nothing, because probes import it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Protocol

from surescale.runtime.threads import background

BEAT_EVERY_S = 1.0


class Watched(Protocol):
    """What watches loops."""

    @property
    def now_s(self) -> Callable[[], float]:
        """A clock that only goes forward, in seconds."""
        ...

    def thread(self, run: Callable[[], None], name: str, over: Callable[[], bool] | None) -> threading.Thread:
        """Return a daemon thread that is a loop and is not started yet. ``over``: whether it may return; None: at any time."""
        ...


class Loop:
    """One loop of a role, which beats at each turn."""

    def __init__(self, watchdog: Watched, name: str, more_s: float = 0.0) -> None:
        """``more_s``: how much longer than others it may be silent."""
        self.watchdog, self.name = watchdog, name
        self.more_s = more_s
        self.fault = ""
        self.turned_s = watchdog.now_s()
        self.thread = threading.get_ident()

    def beat(self) -> None:
        """Take note of a turn."""
        self.turned_s = self.watchdog.now_s()
        self.thread = threading.get_ident()


turning: ContextVar[Loop | None] = ContextVar("turning", default=None)


def beat() -> None:
    """Take note that the loop in which this code runs turns or waits for others; outside a loop, do nothing.

    Threads begin without a loop, except those of ``asyncio.to_thread`` and `beside`.
    """
    loop = turning.get()
    if loop is not None:
        loop.beat()


@contextlib.contextmanager
def allowed(seconds: float) -> Iterator[None]:
    """Let the loop in which this code runs be silent for so much longer, in a call that has a limit of its own."""
    loop = turning.get()
    if loop is None:
        yield
        return
    loop.beat()
    loop.more_s += seconds
    try:
        yield
    finally:
        loop.more_s -= seconds
        loop.beat()


def pause(event: threading.Event, seconds: float) -> bool:
    """Wait for an event like ``event.wait(seconds)``, and beat meanwhile."""
    until_s = time.monotonic() + seconds
    while (left_s := until_s - time.monotonic()) > 0:
        if event.wait(min(left_s, BEAT_EVERY_S)):
            return True
        beat()
    return event.is_set()


def beside(run: Callable[[], None], name: str, over: Callable[[], bool] | None) -> threading.Thread:
    """Return a daemon thread that is not started yet: a loop of its own, of the watchdog whose loop calls this.

    ``over``: says whether it may return, and ends the process if it does all the same; None: it may at any time.
    """
    loop = turning.get()
    return loop.watchdog.thread(run, name, over) if loop is not None else background(run, name, over)


def fault(words: str) -> None:
    """Say what is wrong with the loop in which this code runs, in one sentence; empty: nothing is any more.

    The role goes on and is not ready meanwhile (``runtime.health``). Outside a loop, do nothing.
    """
    loop = turning.get()
    if loop is not None:
        loop.fault = words


class TurnLock:
    """A lock around calls that may take long. A loop that waits for it turns when the loop that has it does.

    So a slow engine is no fault of those that wait, and a deadlock stops all that take part in it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: Loop | None = None

    def __enter__(self) -> None:
        """Wait for the lock."""
        mine = turning.get()
        while not self._lock.acquire(timeout=BEAT_EVERY_S):
            holder = self._holder
            if mine is not None and holder is not None:
                mine.turned_s = max(mine.turned_s, holder.turned_s)
        self._holder = mine

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self._holder = None
        self._lock.release()
        beat()
