"""Runs an event loop in a thread that can be left behind: Faust may hang in its shutdown, and other roles share the process."""

import asyncio
import threading
import time
from collections.abc import Coroutine
from concurrent.futures import Future, wait
from typing import Any

from runtime.beats import beat
from runtime.threads import background

_LOOK_EVERY_S = 0.05


def run_in_own_loop(
    serving: Coroutine[Any, Any, None],
    *,
    stop: threading.Event,
    ending: threading.Event,
    stop_within_s: float,
    end_within_s: float,
) -> bool:
    """Run a coroutine in an event loop of its own; return whether it has ended, False if it was left behind.

    Its thread does not keep the process alive, so what is left behind ends with it.

    Args:
        serving: ends by itself, at latest soon after ``stop``.
        stop: the role was told to stop.
        ending: set by the coroutine when it begins to end.
        stop_within_s: how long it may take after ``stop``.
        end_within_s: how long it may take after ``ending``.

    Raises:
        BaseException: what the coroutine raised.
    """
    outcome: Future[None] = Future()

    def run() -> None:
        try:
            outcome.set_result(asyncio.run(serving))
        except BaseException as error:  # raised again in the thread that waits for it
            outcome.set_exception(error)

    background(run, "event loop").start()
    until_s: dict[threading.Event, float] = {}
    while not wait([outcome], timeout=_LOOK_EVERY_S).done:
        beat()
        now_s = time.monotonic()
        for event, within_s in ((stop, stop_within_s), (ending, end_within_s)):
            if event.is_set() and now_s > until_s.setdefault(event, now_s + within_s):
                return False
    outcome.result()
    return True
