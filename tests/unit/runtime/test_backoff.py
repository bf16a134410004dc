"""Waiting for something that is away: what is said of it, and how it ends."""

import logging
import threading

import pytest

from surescale.runtime.backoff import Stopped, Throttle, wait_for

LOG = logging.getLogger("surescale.test")


def test_what_goes_on_is_said_once_in_a_while() -> None:
    """The first time at once, and not again a moment later."""
    seldom = Throttle()
    assert [seldom.is_time() for _ in range(3)] == [True, False, False]


def test_after_a_while_it_is_said_again() -> None:
    """With no pause asked for, every time."""
    seldom = Throttle(every_s=0.0)
    assert [seldom.is_time() for _ in range(3)] == [True, True, True]


def test_a_wait_is_said_once_and_ends_with_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    """Two errors within four seconds are one line, which names what is waited for."""
    answers = iter([OSError("no answer"), OSError("no answer"), None])

    def attempt() -> str:
        error = next(answers)
        if error is not None:
            raise error
        return "here"

    assert wait_for("the engine", attempt, expected=(OSError,), stop=threading.Event(), log=LOG) == "here"
    assert [record.getMessage() for record in caplog.records] == ["waiting for the engine since 0 s: no answer"]


def test_a_wait_ends_when_the_process_is_told_to_stop() -> None:
    """Without another attempt."""
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        wait_for("the engine", lambda: 1, expected=(OSError,), stop=stop, log=LOG)
