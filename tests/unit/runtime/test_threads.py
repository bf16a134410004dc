"""Background threads: none ends unnoticed."""

import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from surescale.runtime import threads
from surescale.runtime.beats import beside, fault
from surescale.runtime.threads import FAULT_EXIT_CODE, background
from tests.support.watched import idle_watchdog

REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("start", "why"),
    [
        ("background(fail, 'the worker')", "LookupError: no such place"),
        ("beside(fail, 'the worker', lambda: True)", "LookupError: no such place"),
        ("background(end, 'the worker', stop.is_set)", "EndedEarly: nobody told it to end"),
        ("beside(end, 'the worker', stop.is_set)", "EndedEarly: nobody told it to end"),
        ("idle_watchdog().thread(end, 'the worker', stop.is_set)", "EndedEarly: nobody told it to end"),
    ],
)
def test_a_thread_that_ends_ends_its_process_with_one_line_and_an_exit_code(start: str, why: str) -> None:
    """By an error, or though nobody told it to: in the main thread nothing would show it."""
    script = f"""
import logging, threading, time
from surescale.runtime.beats import beside
from surescale.runtime.threads import background
logging.basicConfig(format="%(message)s")
from tests.support.watched import idle_watchdog
stop = threading.Event()
def fail(): raise LookupError("no such place")
def end(): pass
{start}.start()
time.sleep(60)
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == FAULT_EXIT_CODE
    first = done.stderr.splitlines()[0]
    assert first == f"the worker ended ({why}): the process ends with exit code 70, to be started again"


def test_a_thread_that_was_told_to_ends_and_nothing_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or that may end at any time."""
    codes, stop = list[int](), threading.Event()
    monkeypatch.setattr(threads, "end_process", codes.append)
    for over in (stop.is_set, None):
        thread = background(stop.wait, "the worker", over)
        thread.start()
        stop.set()
        thread.join()
    assert codes == []


def test_a_loop_says_what_is_wrong_with_it_until_it_is_not() -> None:
    """Whoever asks the watchdog hears of it by the loop's name; a loop that ended has no fault."""
    watchdog = idle_watchdog()
    with watchdog.loop("tending"):
        fault("no folder")
        assert watchdog.faults() == ["tending: no folder"]
        fault("")
        assert watchdog.faults() == []
        fault("again")
    assert watchdog.faults() == []


def test_a_fault_outside_a_loop_is_nobodys(caplog: pytest.LogCaptureFixture) -> None:
    """Commands use the same code without a watchdog."""
    with caplog.at_level(logging.DEBUG):
        thread = beside(lambda: fault("nobody"), "alone", None)
        thread.start()
        thread.join()
    assert caplog.records == []
    assert thread not in threading.enumerate()
