"""Waiting for a condition instead of sleeping for a while."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_POLL_S = 0.05
_PATIENCE = 4
"""A busy machine may take so many times as long as a quiet one. Only a test that fails waits for all of it."""

PATIENT_S = 120.0 * _PATIENCE
"""As long as a process that was asked to do something, or to end, may take."""


def wait_until(condition: Callable[[], T], timeout_s: float = 30.0, what: str = "the condition") -> T:
    """Return the first true value of the condition; fail, naming what was awaited, when there is none in time.

    ``timeout_s`` is for a quiet machine.
    """
    timeout_s *= _PATIENCE
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(_POLL_S)
