"""Which loops hang and which only wait, when a process ends for it, and what it says then."""

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from surescale.runtime import backoff
from surescale.runtime.backoff import wait_for
from surescale.runtime.beats import TurnLock, allowed, beat, beside, pause
from surescale.runtime.logs import JsonLines
from surescale.runtime.watchdog import HUNG_EXIT_CODE, SUSPENDED_AFTER_S, Watchdog
from tests.support.waiting import wait_until
from tests.support.watched import WatchedTime, idle_watchdog

HANGS = "the loop of agent has not turned for {} s"


def said_by(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what the watchdog logged; threads of other tests may log too."""
    return [record for record in caplog.records if record.name == "test"]


@pytest.fixture
def timed() -> WatchedTime:
    """Two minutes until a loop hangs, half a minute more until the process ends."""
    return WatchedTime()


def test_a_loop_hangs_once_it_was_silent_for_longer_than_the_limit(timed: WatchedTime) -> None:
    """Not before, and no more once it turns."""
    with timed.watchdog.loop("the loop"):
        timed.run(120)
        assert timed.watchdog.hangs() == ""
        timed.run(1)
        assert timed.watchdog.hangs() == HANGS.format(121)
        beat()
        assert timed.watchdog.hangs() == ""


def test_a_loop_that_ended_does_not_hang(timed: WatchedTime) -> None:
    """Nor does anything without a loop."""
    with timed.watchdog.loop("the loop"):
        pass
    timed.run(1_000)
    assert (timed.watchdog.hangs(), timed.ended) == ("", [])


def test_the_process_ends_a_quarter_of_the_time_later(timed: WatchedTime) -> None:
    """With a code of its own, so that whatever restarts it knows why."""
    with timed.watchdog.loop("the loop"):
        timed.run(150)
        assert timed.ended == []
        timed.run(1)
    assert timed.ended == [HUNG_EXIT_CODE]


def test_a_loop_that_turns_again_in_time_ends_nothing(timed: WatchedTime, caplog: pytest.LogCaptureFixture) -> None:
    """It is said once that it hangs and once that it does not, and it has its full time again."""
    with timed.watchdog.loop("the loop"):
        for said in (1, 3):
            timed.run(140)
            wait_until(lambda said=said: len(said_by(caplog)) == said, 10, "the line that says so")
            beat()
            timed.run(1)
    assert timed.ended == []
    assert [(record.levelname, record.getMessage()) for record in said_by(caplog)] == [
        ("ERROR", f"{HANGS.format(121)}; unless it does, the process ends in 30 s"),
        ("WARNING", "all loops of agent turn again"),
        ("ERROR", f"{HANGS.format(121)}; unless it does, the process ends in 30 s"),
        ("WARNING", "all loops of agent turn again"),
    ]


def test_one_loop_that_hangs_is_enough(timed: WatchedTime) -> None:
    """However lively the others are."""
    with timed.watchdog.loop("the loop"), timed.watchdog.loop("another"):
        for _ in range(121):
            beat()
            timed.run(1)
        assert timed.watchdog.hangs() == HANGS.format(121)


@pytest.mark.parametrize("slept_s", [SUSPENDED_AFTER_S + 1, 3_600])
def test_a_process_that_was_suspended_gets_its_full_time_again(timed: WatchedTime, slept_s: float) -> None:
    """Whoever asks first after it was resumed, and although the loop was silent before."""
    with timed.watchdog.loop("the loop"):
        timed.run(100)
        timed.suspend(slept_s)
        assert timed.watchdog.hangs() == ""
        timed.run(120)
        assert timed.watchdog.hangs() == ""
        timed.run(1)
        assert timed.watchdog.hangs() == HANGS.format(121)


def test_a_process_suspended_while_a_loop_hung_does_not_end_at_once(timed: WatchedTime) -> None:
    """It may have hung because the machine was about to sleep."""
    with timed.watchdog.loop("the loop"):
        timed.run(140)
        timed.suspend(3_600)
        timed.run(151)  # the first second shows that it was suspended
        assert timed.ended == []
        timed.run(1)
    assert timed.ended == [HUNG_EXIT_CODE]


def test_a_call_with_a_limit_of_its_own_may_take_that_much_longer(timed: WatchedTime) -> None:
    """Afterwards the loop has its usual time again."""
    with timed.watchdog.loop("the loop"):
        with allowed(60):
            timed.run(180)
            assert timed.watchdog.hangs() == ""
        timed.run(120)
        assert timed.watchdog.hangs() == ""
        timed.run(1)
        assert timed.watchdog.hangs() == HANGS.format(121)


def test_off_means_never(caplog: pytest.LogCaptureFixture) -> None:
    """Neither said nor ended."""
    ended: list[int] = []
    now_s = [0.0]
    watchdog = Watchdog("agent", 0, logging.getLogger("test"), now_s=lambda: now_s[0], end=ended.append)
    with watchdog.loop("the loop"):
        now_s[0] = 1e9
        watchdog.look()
    assert (watchdog.is_alive, ended, said_by(caplog)) == (True, [], [])


def test_whoever_waits_for_what_is_away_turns_at_each_attempt(timed: WatchedTime, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it is away. Pauses, which turn too, are left out: this test's time is another one."""
    monkeypatch.setattr(backoff, "pause", lambda stop, seconds: False)
    attempts = 0

    def attempt() -> int:
        nonlocal attempts
        timed.run(100)
        attempts += 1
        if attempts < 10:
            raise ConnectionError("away")
        return attempts

    quiet = logging.getLogger("quiet")
    with timed.watchdog.loop("the loop"):
        assert wait_for("x", attempt, expected=(ConnectionError,), stop=threading.Event(), log=quiet) == 10
    assert timed.ended == []


def test_pause_beats_and_ends_early_when_the_event_is_set(timed: WatchedTime) -> None:
    """As ``Event.wait`` does."""
    stop = threading.Event()
    with timed.watchdog.loop("the loop") as loop:
        silent_since_s = loop.turned_s
        timed.suspend(5)
        assert not pause(stop, 0.01)
        stop.set()
        assert pause(stop, 60)
        assert loop.turned_s >= silent_since_s


def test_beats_in_a_thread_of_asyncio_count_for_the_loop_that_waits_for_it(timed: WatchedTime) -> None:
    """What the agent does for a window is in one of them; a thread made otherwise has no loop."""

    def work() -> None:
        timed.run(100)
        beat()
        other = threading.Thread(target=beat)
        timed.run(100)
        other.start()
        other.join()

    async def main() -> float:
        with timed.watchdog.loop("the loop") as loop:
            await asyncio.to_thread(work)
            return timed.now_s - loop.turned_s

    assert asyncio.run(main()) == 100


def test_a_thread_beside_a_loop_is_a_loop_of_the_same_watchdog(timed: WatchedTime) -> None:
    """Without one around, it is a thread like any other."""
    hangs, over = threading.Event(), threading.Event()

    def run() -> None:
        hangs.set()
        over.wait()

    with timed.watchdog.loop("the loop"):
        thread = beside(run, "the thread", over.is_set)
    thread.start()
    assert hangs.wait(10)
    timed.run(125)
    assert timed.watchdog.hangs() == "the thread of agent has not turned for 125 s"
    over.set()
    thread.join()
    assert timed.watchdog.is_alive
    ran = threading.Event()
    alone = beside(ran.set, "alone", None)
    alone.start()
    alone.join()
    assert ran.is_set()


def test_an_event_loop_that_is_blocked_hangs(timed: WatchedTime) -> None:
    """Its pulse is a task in it, and nobody else beats for it."""
    blocked, over = threading.Event(), threading.Event()

    async def main() -> None:
        pulse = asyncio.create_task(timed.watchdog.pulse("the event loop"))
        await asyncio.sleep(0)
        blocked.set()
        over.wait()
        pulse.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert blocked.wait(10)
    timed.run(121)
    assert timed.watchdog.hangs() == "the event loop of agent has not turned for 121 s"
    over.set()
    thread.join()
    assert timed.watchdog.is_alive


# Locks


class Over(Exception):
    """A test has seen enough."""


class Attempts:
    """A lock that counts attempts to get it that failed, until a test is over."""

    def __init__(self, over: threading.Event) -> None:
        self._lock, self._over = threading.Lock(), over
        self.failed = 0

    def acquire(self, timeout: float) -> bool:
        """Try for so long."""
        if self._over.is_set():
            raise Over
        is_mine = self._lock.acquire(timeout=timeout)
        self.failed += not is_mine
        return is_mine

    def release(self) -> None:
        """Give it back."""
        self._lock.release()


@contextmanager
def waiting_for(lock: TurnLock, watchdog: Watchdog, name: str, *, then: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Have a loop of its own wait for a lock; the block runs while it waits."""

    def run() -> None:
        with lock:
            then()

    thread = watchdog.thread(run, name, None)
    thread.start()
    wait_until(lambda: any(loop.name == name for loop in watchdog._loops), 10, "a loop that waits")
    try:
        yield
    finally:
        thread.join(10)


def test_whoever_waits_for_a_lock_turns_when_its_holder_does(timed: WatchedTime) -> None:
    """So a slow call of one is no fault of those behind it."""
    lock = TurnLock()
    with timed.watchdog.loop("the holder") as holder:
        lock.__enter__()
        with waiting_for(lock, timed.watchdog, "the waiter"):
            (waiter,) = (loop for loop in timed.watchdog._loops if loop.name == "the waiter")
            for _ in range(3):
                timed.run(100)
                beat()
                wait_until(lambda: waiter.turned_s == holder.turned_s, 10, "a turn of the waiter")
            assert timed.watchdog.is_alive
            lock.__exit__()
    assert timed.ended == []


def test_a_deadlock_of_two_locks_hangs(timed: WatchedTime) -> None:
    """Each waits for the other, and neither turns."""
    one, two, over = TurnLock(), TurnLock(), threading.Event()
    counted = [Attempts(over), Attempts(over)]
    one._lock, two._lock = counted  # type: ignore[assignment]
    have_one, have_two = threading.Event(), threading.Event()

    def first() -> None:
        with suppress(Over), one:
            have_one.set()
            have_two.wait()
            with two:
                pass

    def second() -> None:
        with suppress(Over), two:
            have_two.set()
            have_one.wait()
            with one:
                pass

    for run, name in ((first, "the first"), (second, "the second")):
        timed.watchdog.thread(run, name, None).start()
    assert have_one.wait(10)
    assert have_two.wait(10)
    began_s = timed.now_s
    timed.run(130)
    before = [lock.failed for lock in counted]
    # Each waits on, and has looked at the other's turns since.
    wait_until(lambda: all(lock.failed > was + 1 for lock, was in zip(counted, before, strict=True)), 10, "more attempts")
    assert [loop.turned_s for loop in timed.watchdog._loops] == [began_s, began_s]
    assert "has not turned for 130 s" in timed.watchdog.hangs()
    over.set()
    wait_until(lambda: not timed.watchdog._loops, 10, "the end of both")


# What is said


def test_the_stacks_of_all_threads_are_told_that_of_the_loop_first(timed: WatchedTime, caplog: pytest.LogCaptureFixture) -> None:
    """In JSON under ``stacks``: where it hangs is what whoever reads the log wants to know."""
    stuck, over = threading.Event(), threading.Event()

    def gets_stuck() -> None:
        beat()
        stuck.set()
        over.wait()

    thread = timed.watchdog.thread(gets_stuck, "the loop", over.is_set)
    thread.start()
    assert stuck.wait(10)
    timed.run(121)
    wait_until(lambda: len(said_by(caplog)) == 1, 10, "the first line")
    timed.run(30)
    over.set()
    thread.join()
    first, last = said_by(caplog)
    assert first.levelname == "ERROR"
    document = json.loads(JsonLines("agent").format(last))
    assert document["level"] == "CRITICAL"
    assert document["message"] == f"{HANGS.format(151)}: the process ends with exit code 70, to be started again"
    stacks = document["stacks"].splitlines()
    assert stacks[0] == "thread the loop:"
    assert any(line.endswith(" gets_stuck") and "test_watchdog.py:" in line for line in stacks)
    assert "thread MainThread:" in stacks


HANGING_LOG = """
import logging, threading, time
from surescale.runtime import watchdog as module
from surescale.runtime.watchdog import Watchdog
module.SAY_WITHIN_S = 1.0

class Hangs(logging.Handler):
    def emit(self, record):
        threading.Event().wait()

logging.getLogger().addHandler(Hangs())
with Watchdog("agent", 0.5, logging.getLogger("agent")) as watchdog, watchdog.loop("the loop"):
    def where_it_hangs():
        threading.Event().wait()
    where_it_hangs()
"""


def test_a_process_whose_log_hangs_too_still_ends_and_says_where() -> None:
    """By Python's fault handler, past the log."""
    ended = subprocess.run([sys.executable, "-c", HANGING_LOG], capture_output=True, text=True, timeout=180)
    assert ended.returncode == HUNG_EXIT_CODE
    assert "the loop of agent has not turned for" in ended.stderr
    assert "where_it_hangs" in ended.stderr


def test_a_process_whose_standard_error_nobody_reads_still_ends() -> None:
    """A full pipe holds up every line of the log."""
    floods = "threading.Thread(target=lambda: sys.stderr.write('x' * 10**6), daemon=True).start()"
    program = HANGING_LOG.replace("with Watchdog", f"import sys\n{floods}\nwith Watchdog")
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
    try:
        assert process.wait(180) == HUNG_EXIT_CODE
    finally:
        process.kill()
        assert process.stderr is not None
        process.stderr.close()


def test_an_idle_watchdog_starts_no_thread() -> None:
    """Off is off."""
    before = threading.active_count()
    with idle_watchdog():
        assert threading.active_count() == before
