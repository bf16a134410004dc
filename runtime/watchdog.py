"""Notices that a role hangs, says so on its health port, and ends a process that does not recover.

Each loop of a role beats at every turn, also at each attempt while it waits for Kafka, Redis or an engine. A loop that does not
beat for ``hung_after_s`` hangs: it is deadlocked, turns endlessly inside one step, or a client's call never returns. Then the
role's liveness check fails. After a quarter of that time more, the process ends with exit code ``HUNG_EXIT_CODE``, so that
supervisors without probes restart it too. All roles may be killed at any moment, so nothing is lost.
"""

import contextlib
import faulthandler
import logging
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import NoReturn

from surescale.runtime.beats import BEAT_EVERY_S, Loop, turning
from surescale.runtime.printable import printable
from surescale.runtime.threads import background

HUNG_EXIT_CODE = 70
"""EX_SOFTWARE of sysexits.h."""
LOOK_EVERY_S = 1.0
SUSPENDED_AFTER_S = 10.0
"""If nobody looked for so long, the whole process did not run: it was suspended, or its machine slept."""
SAY_WITHIN_S = 5.0
"""The log itself may be what hangs."""


class Watchdog:
    """Watches the loops of one role."""

    def __init__(
        self,
        role: str,
        hung_after_s: float,
        log: logging.Logger,
        *,
        now_s: Callable[[], float] = time.monotonic,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        """Watch nothing yet.

        Args:
            role: as on the health port.
            hung_after_s: how long a loop may be silent; 0 turns the watchdog off.
            log: where it reports.
            now_s: a clock that only goes forward, in seconds.
            end: ends the process with an exit code.
        """
        self.role, self.now_s = role, now_s
        self._after_s, self._log, self._end = hung_after_s, log, end
        self._loops: list[Loop] = []
        self._lock = threading.Lock()
        self._looked_s = self._resumed_s = now_s()
        self._hangs: tuple[float, Loop] | None = None  # since when, and which one
        self._is_told = False
        self._over = threading.Event()

    def __enter__(self) -> "Watchdog":
        """Look every second, in a thread of its own."""
        if self._after_s:
            background(self._run, "watchdog", self._over.is_set).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop looking."""
        self._over.set()

    @contextlib.contextmanager
    def loop(self, name: str) -> Iterator[Loop]:
        """Watch a loop, which is this block: `beat` in it counts for it, as in ``asyncio.to_thread`` from it."""
        with self._watched(name, 0.0) as loop:
            token = turning.set(loop)
            try:
                yield loop
            finally:
                turning.reset(token)

    def thread(self, run: Callable[[], None], name: str, over: Callable[[], bool] | None) -> threading.Thread:
        """Return a daemon thread that is a loop and is not started yet. ``over``: whether it may return; None: at any time."""

        def watched() -> None:
            with self.loop(name):
                run()

        return background(watched, name, over)

    @contextlib.contextmanager
    def apart(self, name: str, *, more_s: float = 0.0) -> Iterator[Loop]:
        """Watch a loop whose beats are only those of the object given, never those of `beat`."""
        with self._watched(name, more_s) as loop:
            yield loop

    async def pulse(self, name: str) -> NoReturn:
        """Watch the running event loop until cancelled."""
        import asyncio

        with self.apart(name) as loop:
            while True:
                loop.beat()
                await asyncio.sleep(BEAT_EVERY_S)

    @property
    def is_alive(self) -> bool:
        """Say whether every loop turns."""
        return not self.hangs()

    def hangs(self) -> str:
        """Return which loop hangs for how long, in one sentence; empty while all turn. Looks now; safe in any thread."""
        with self._lock:
            now_s = self.now_s()
            if now_s - self._looked_s > min(SUSPENDED_AFTER_S, self._after_s / 2):
                self._resumed_s = now_s  # every loop gets its full time again
            self._looked_s = now_s
            if not self._after_s:
                return ""
            late = [(self._silent_s(loop, now_s) - loop.more_s, loop) for loop in self._loops]
            late_s, loop = max(late, key=lambda each: each[0], default=(0.0, None))
            if loop is None or late_s <= self._after_s:
                self._hangs = None
                return ""
            if self._hangs is None or self._hangs[1] is not loop:
                self._hangs = (self._hangs[0] if self._hangs else now_s, loop)
            return f"{loop.name} of {self.role} has not turned for {self._silent_s(loop, now_s):.0f} s"

    def faults(self) -> list[str]:
        """Return what is wrong with loops that go on all the same, one sentence each, in the order of the loops."""
        with self._lock:
            return [f"{loop.name}: {loop.fault}" for loop in self._loops if loop.fault]

    def document(self) -> dict[str, str | bool]:
        """Return what the liveness check answers."""
        hangs = self.hangs()
        return {"role": self.role, "alive": not hangs, **({"hangs": hangs} if hangs else {})}

    def look(self) -> None:
        """Report a loop that hangs, once, and end the process if none has turned again after a quarter more of the time."""
        said = self.hangs()
        hangs = self._hangs
        if not said or hangs is None:
            if self._is_told:
                self._log.warning("all loops of %s turn again", self.role)
            self._is_told = False
            return
        since_s, loop = hangs
        left_s = self._after_s / 4 - (self.now_s() - since_s)
        if left_s <= 0:
            words = f"{said}: the process ends with exit code {HUNG_EXIT_CODE}, to be started again"
            saying = self._say(logging.CRITICAL, words, loop)
            saying.join(SAY_WITHIN_S)
            if saying.is_alive():
                _say_past_the_log(words)
            self._end(HUNG_EXIT_CODE)
        elif not self._is_told:
            self._is_told = True
            self._say(logging.ERROR, f"{said}; unless it does, the process ends in {left_s:.0f} s", loop)

    def _run(self) -> None:
        while not self._over.wait(min(LOOK_EVERY_S, self._after_s / 4)):
            self.look()

    def _silent_s(self, loop: Loop, now_s: float) -> float:
        return now_s - max(loop.turned_s, self._resumed_s)

    @contextlib.contextmanager
    def _watched(self, name: str, more_s: float) -> Iterator[Loop]:
        loop = Loop(self, name, more_s)
        with self._lock:
            self._loops.append(loop)
        try:
            yield loop
        finally:
            with self._lock:
                self._loops.remove(loop)

    def _say(self, level: int, words: str, loop: Loop) -> threading.Thread:
        """Log with the stacks of all threads, that of the loop first; in a thread, which is returned: the log may hang too."""

        def say() -> None:
            record = self._log.makeRecord(self._log.name, level, __file__, 0, words, (), None)
            record.stack_info = stacks_of_all_threads(loop.thread)
            self._log.handle(record)

        saying = background(say, "watchdog-log")
        saying.start()
        return saying


def _say_past_the_log(words: str) -> None:
    """Write to standard error, as much as it takes without waiting: its reader may be what hangs."""
    with contextlib.suppress(OSError, ValueError):
        descriptor = sys.stderr.fileno()
        was_blocking = os.get_blocking(descriptor)
        os.set_blocking(descriptor, False)
        try:
            os.write(descriptor, f"{words}\n".encode())
            faulthandler.dump_traceback(descriptor)
        finally:
            os.set_blocking(descriptor, was_blocking)


FRAMES_MAX = 12
"""Of each thread, the innermost: a log cuts long texts."""
FAULT_CHARACTERS_MAX = 300


def stacks_of_all_threads(first: int = 0) -> str:
    """Return the innermost frames of every Python thread, newest first: a line for the thread, then one for each frame.

    The thread ``first`` (its ident) leads; the one that asks is left out.
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = {ident: frame for ident, frame in sys._current_frames().items() if ident != threading.get_ident()}
    lines = []
    for ident in sorted(frames, key=lambda ident: (ident != first, ident)):
        lines.append(f"thread {names.get(ident, ident)}:")
        found = traceback.StackSummary.extract(traceback.walk_stack(frames[ident]), limit=FRAMES_MAX, lookup_lines=False)
        lines += [f"  {_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in found]
    return "\n".join(lines)


def fault_in_words(fault: BaseException) -> str:
    """Return kind, message and place of an error, in one line that is safe to print."""
    place = traceback.extract_tb(fault.__traceback__)[-1:]
    where = f" ({_short(place[0].filename)}:{place[0].lineno})" if place else ""
    return f"{type(fault).__name__}: {printable(' '.join(str(fault).split()))[:FAULT_CHARACTERS_MAX]}{where}"


def _short(path: str) -> str:
    """Return a file with the two folders around it."""
    return "/".join(path.split("/")[-3:])
