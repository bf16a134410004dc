"""A job's minutes made of looks, through random lives: holes, restarts, clocks that jump, counters that fall."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator

import msgspec

from surescale.engines.ports.minutes import JobSnapshot, MinuteBuffer, MinuteCollector
from surescale.engines.ports.source import FinishedMinute, SourceUnavailable, UnknownJob
from tests.fuzz.target import Target, expect
from tests.support.builders import sample
from tests.support.engine_stub import job_chain

JOB = "flink/orders"
MINUTE_MS = 60_000
START_MS = 100 * MINUTE_MS
# Restated, not imported: what the collector promises.
LEAD_MS, GRACE_MS, KEPT_MINUTES_MAX, SET_BACK_MS = 500, 10_000, 60, 120_000
SUBTASKS_MAX = 30
_CHAIN, _SAMPLE = job_chain(JOB), sample(job=JOB, sampled_at_ms=0)


def looks() -> Iterator[Target]:
    """Yield the collector of minutes."""
    yield Target("minute collector", [number.to_bytes(8, "big") for number in range(64)], _minute_collector)


class _Clock:
    """A wall's clock that moves by waiting, now and then wrongly; a monitor that stands still sees it jump, too."""

    def __init__(self, rng: random.Random) -> None:
        self.at_ms, self._rng = START_MS + rng.randrange(MINUTE_MS), rng
        self.jumped_back = False

    def now_ms(self) -> int:
        return self.at_ms

    def wait(self, seconds: float) -> bool:
        self.at_ms += max(0, round(1000 * seconds))
        jump_ms = self._rng.choice((0,) * 12 + (1, 700, 20_000, 7 * MINUTE_MS, -1, -3_000, -2 * MINUTE_MS, -9 * MINUTE_MS))
        self.jumped_back |= jump_ms < 0
        self.at_ms = max(0, self.at_ms + jump_ms)
        return False


class _Job:
    """A job as an engine shows it. Each look that it answers has a number, which its samples carry as ``records_out``."""

    def __init__(self, rng: random.Random, clock: _Clock) -> None:
        self._rng, self._clock = rng, clock
        self.began_ms: list[int] = []
        self.is_gone = False

    def look(self) -> JobSnapshot:
        if self.is_gone:
            raise UnknownJob(JOB)
        if self._rng.random() < 0.25:
            raise SourceUnavailable("away")
        self.began_ms.append(self._clock.at_ms)
        number = len(self.began_ms) - 1
        as_of_ms = self._rng.choice((None, self._clock.at_ms, self._clock.at_ms - 90_000))
        shown = tuple(
            msgspec.structs.replace(
                _SAMPLE, subtask=subtask, records_out=number, records_in=self._rng.choice((0, 7, 2**52)), as_of_ms=as_of_ms
            )
            for subtask in range(self._rng.choice((1, 1, 3, SUBTASKS_MAX)))
        )
        self._clock.at_ms += self._rng.choice((0, 0, 3, 900, 15_000, 130_000))
        return JobSnapshot(_CHAIN, shown)


class _Driven(MinuteCollector):
    """A collector that looks when it is told to, in the thread of whoever tells it."""

    def _start(self) -> None:
        pass


class _Life:
    """One job, a collector after the other, and whoever fetches the minutes; with what must be kept, told apart on paper."""

    def __init__(self, rng: random.Random) -> None:
        self._rng, self._clock = rng, _Clock(rng)
        self._samples_max = rng.choice((40, 10_000))  # so that both bounds are met
        self._job = _Job(rng, self._clock)
        self._delivered: dict[int, FinishedMinute] = {}  # not yet acknowledged: they must come again, the same
        self._acknowledged_ms = 0
        self._used: set[int] = set()
        self.restart()

    def restart(self) -> None:
        """End the monitor, with all that it kept, and start another."""
        self._observer = f"run-{self._rng.randrange(10**6)}"
        self._keeper = _Driven(JOB, self._job.look, self._observer, self._clock, threading.Event(), answer_within_s=0.0)
        self._keeper._kept = MinuteBuffer(self._observer, self._samples_max)
        self._kept: list[int] = []  # numbers of looks
        self._ends: list[int] = []
        self._delivered.clear()

    def take(self) -> None:
        """Let the collector take one minute, or find that the job is gone; note what it must have kept."""
        before = len(self._job.began_ms)
        self._clock.jumped_back = False
        if self._keeper._last_end_ms > self._clock.at_ms + SET_BACK_MS:
            self._forget_what_has_not_come()
        try:
            self._keeper.take_minute()
        except UnknownJob:
            expect(self._job.is_gone, "a job that is there is said to be gone")
            return
        found = self._keeper._kept.after(0)
        new = found[-1] if found and (not self._ends or found[-1].minute_end_ms > self._ends[-1]) else None
        looked = len(self._job.began_ms) - before
        expect(looked <= 1, "two looks for one minute")
        expect(new is None or looked == 1, "a minute that nobody looked at")
        if new is None:
            in_time = looked and not self._clock.jumped_back and self._job.began_ms[-1] <= self._due_ms()
            is_known = looked and self._due_ms() - GRACE_MS in self._ends  # it comes twice after the clock was set back
            expect(not in_time or is_known, "a look in time that became no minute")
            return
        began_ms = self._job.began_ms[-1]
        expect(began_ms <= new.minute_end_ms + GRACE_MS, "a look that came too late for its minute")
        expect(self._clock.jumped_back or began_ms >= new.minute_end_ms - LEAD_MS, "a look before its minute was over")
        expect(self._clock.at_ms >= new.minute_end_ms or self._clock.jumped_back, "a minute told before its end")
        self._kept.append(before)
        self._ends.append(new.minute_end_ms)
        self._trim(found)

    def _forget_what_has_not_come(self) -> None:
        """The clock was ahead and has been set right: minutes that it dated in the future are void."""
        place = sum(end_ms <= self._clock.at_ms for end_ms in self._ends)
        self._kept, self._ends = self._kept[:place], self._ends[:place]
        self._delivered = {end_ms: minute for end_ms, minute in self._delivered.items() if end_ms in self._ends}

    def _due_ms(self) -> int:
        """Return until when a look counts for the minute that the last look was nearest to."""
        return (self._job.began_ms[-1] + LEAD_MS) // MINUTE_MS * MINUTE_MS + GRACE_MS

    def _trim(self, found: list[FinishedMinute]) -> None:
        """Check that as much is kept as fits, the newest first, and no more."""
        samples = sum(len(minute.samples) for minute in found)
        expect(len(found) <= KEPT_MINUTES_MAX, "more minutes than allowed are kept")
        expect(samples <= self._samples_max or len(found) == 1, "more samples than allowed are kept")
        gone = len(self._kept) - len(found)
        expect(gone >= 0, "a minute that was acknowledged is kept")
        self._kept, self._ends = self._kept[gone:], self._ends[gone:]
        expect([minute.minute_end_ms for minute in found] == self._ends, "other minutes than those that were looked at")
        is_full = len(found) == KEPT_MINUTES_MAX or samples > self._samples_max - SUBTASKS_MAX
        expect(not gone or is_full, "a minute gave way without need")
        self._delivered = {end_ms: minute for end_ms, minute in self._delivered.items() if end_ms in self._ends}

    def fetch(self) -> None:
        """Fetch the minutes as the pipeline does: it says up to where it has them, sometimes again, sometimes beyond."""
        ends = self._ends or [self._acknowledged_ms]
        after_ms = self._rng.choice((0, self._acknowledged_ms, self._acknowledged_ms, *ends[:3], ends[-1], ends[-1] + MINUTE_MS))
        try:
            found = self._keeper.minutes(after_ms)
        except SourceUnavailable:
            found = []
        is_void = after_ms > max(self._clock.at_ms, self._keeper._last_end_ms) + SET_BACK_MS
        place = 0 if is_void else sum(end_ms <= after_ms for end_ms in self._ends)
        self._kept, self._ends = self._kept[place:], self._ends[place:]
        self._acknowledged_ms = max(self._acknowledged_ms, after_ms)
        expect([minute.minute_end_ms for minute in found] == self._ends, "not the minutes that are to be acknowledged")
        for minute, number in zip(found, self._kept, strict=True):
            self._is_as_looked_at(minute, number)

    def _is_as_looked_at(self, minute: FinishedMinute, number: int) -> None:
        expect(minute.minute_end_ms % MINUTE_MS == 0, "a minute that ends within a minute")
        expect(minute.observer == self._observer, "a minute of another run")
        expect({each.records_out for each in minute.samples} == {number}, "another look than the minute's")
        expect({each.sampled_at_ms for each in minute.samples} == {minute.minute_end_ms}, "samples of another minute")
        expect(minute.age_ms is None or minute.age_ms >= 0, "figures of the future")
        expect(self._delivered.setdefault(minute.minute_end_ms, minute) == minute, "a minute that comes again is another one")
        expect(self._delivered[minute.minute_end_ms] is minute or number in self._used, "one look for two minutes")
        self._used.add(number)

    def gone(self) -> None:
        """Let the job end, or come back."""
        self._job.is_gone = not self._job.is_gone


def _minute_collector(raw: bytes) -> None:
    rng = random.Random(raw)
    life, log = _Life(rng), logging.getLogger("surescale.monitor")
    log.disabled = True  # it names each hole
    often = rng.choice((6, 6, 0))  # a pipeline that takes nothing for hours fetches nothing
    try:
        for _ in range(rng.choice((5, 30, 30, 150))):
            rng.choices((life.take, life.fetch, life.restart, life.gone), (12, often, 0.2, 0.1))[0]()
    finally:
        log.disabled = False
