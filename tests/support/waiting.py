"""Waiting for a condition instead of sleeping for a while."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_POLL_LEAST_S, _POLL_MOST_S, _POLL_SHARE = 0.02, 0.25, 0.05
"""Between two looks passes this share of what was waited already. A look may cost processor time that what is awaited lacks."""
_PATIENCE = 4
"""A busy machine may take so many times as long as a quiet one. Only a test that fails waits for all of it."""

PATIENT_S = 120.0 * _PATIENCE
"""As long as a process that was asked to do something, or to end, may take."""


def wait_until(condition: Callable[[], T], timeout_s: float = 30.0, what: str = "the condition") -> T:
    """Return the first true value of the condition; fail, naming what was awaited, when there is none in time.

    ``timeout_s`` is for a quiet machine.
    """
    timeout_s *= _PATIENCE
    began = time.monotonic()
    while True:
        value = condition()
        if value:
            return value
        waited_s = time.monotonic() - began
        if waited_s > timeout_s:
            raise AssertionError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(min(max(_POLL_LEAST_S, _POLL_SHARE * waited_s), _POLL_MOST_S))
