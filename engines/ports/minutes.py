"""Turns looks at an engine into finished minutes, for engines that can only be asked how things are now.

Such an engine has no past: a minute that nobody looked at is gone. So each job has a ``MinuteCollector``. It looks at the end of
every minute, whether or not the minutes before could be delivered, and keeps each minute until it is acknowledged. Of very many
jobs each may have its own time before that end, so that they don't all come at once: its minute ends then, and is called by the
end that follows. A minute
without a look is left out; the counters that grew meanwhile are told apart from a burst by the time that they cover.
"""

import logging
import threading
import uuid
from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar
from zlib import crc32

import msgspec

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import EngineEvent, HourlyLoad, JobTopology, TaskSample
from surescale.engines.ports.event_log import EventLog
from surescale.engines.ports.source import FinishedMinute, Source, SourceUnavailable
from surescale.runtime.beats import beat, beside, pause
from surescale.runtime.kafka_clock import wall_ms

LEAD_MS = 500  # before the end of a minute: the figures of the look should be those of its end, and need this long to arrive
GRACE_MS = 10_000  # after the end of a minute in which a late look still counts for it
RETRY_S = 1.0
SET_BACK_MS = 2 * MINUTE_MS  # a last minute that is further ahead was dated by a clock that has been set back since
ANSWER_WITHIN_S = 0.5
KEPT_MINUTES_MAX = 60  # no window holds more
KEPT_SAMPLES_MAX = 100_000
_log = logging.getLogger("surescale.monitor")


@dataclass(frozen=True, slots=True)
class JobSnapshot:
    """What an engine shows of one job: its topology, and the newest counters of each subtask.

    ``samples`` say in ``as_of_ms`` when they were true, or nothing if the engine does not know. The collector dates them.
    """

    topology: JobTopology
    samples: tuple[TaskSample, ...]


class Clock(Protocol):
    """Time of the wall, and waiting in it."""

    def now_ms(self) -> int:
        """Return the present time."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait; return at once, and True, when nobody is interested any more."""
        ...


class WallClock:
    """The clock of the machine."""

    def __init__(self, closed: threading.Event) -> None:
        """``closed`` ends all waiting."""
        self._closed = closed

    def now_ms(self) -> int:
        """Return the present time."""
        return wall_ms()

    def wait(self, seconds: float) -> bool:
        """Wait."""
        return pause(self._closed, max(0.0, seconds))


class MinuteBuffer:
    """Minutes that are finished and not acknowledged, oldest first. Bounded: the oldest give way."""

    def __init__(self, observer: str, samples_max: int = KEPT_SAMPLES_MAX) -> None:
        """``observer`` names the run of the monitor; at most ``samples_max`` samples are kept, and always the newest minute."""
        self._observer, self._samples_max = observer, samples_max
        self._minutes: deque[FinishedMinute] = deque()
        self._samples = 0

    def add(self, minute_end_ms: int, look: JobSnapshot) -> None:
        """Keep the look at the end of a minute; one for a minute that is not newer than the last one is not needed."""
        if self._minutes and minute_end_ms <= self._minutes[-1].minute_end_ms:
            return
        samples = tuple(_dated(sample, minute_end_ms) for sample in look.samples)
        known = [minute_end_ms if sample.as_of_ms is None else sample.as_of_ms for sample in samples]
        age_ms = max(0, minute_end_ms - min(known)) if known else None
        minute = FinishedMinute(minute_end_ms, samples, look.topology, age_ms=age_ms, observer=self._observer)
        self._minutes.append(minute)
        self._samples += len(samples)
        while len(self._minutes) > KEPT_MINUTES_MAX or (self._samples > self._samples_max and len(self._minutes) > 1):
            self._forget_first()

    def after(self, after_ms: int) -> list[FinishedMinute]:
        """Return the minutes that end after ``after_ms``; those up to it are acknowledged and forgotten."""
        while self._minutes and self._minutes[0].minute_end_ms <= after_ms:
            self._forget_first()
        return list(self._minutes)

    def forget_after(self, at_ms: int) -> None:
        """Forget the minutes that end after an instant."""
        while self._minutes and self._minutes[-1].minute_end_ms > at_ms:
            self._samples -= len(self._minutes.pop().samples)

    def _forget_first(self) -> None:
        self._samples -= len(self._minutes.popleft().samples)


class MinuteCollector:
    """Looks at one job at the end of every minute, in a thread of its own, and hands out the minutes.

    The thread starts with the first ``minutes`` and ends with ``close``, or when the job is gone.
    """

    def __init__(
        self,
        job: str,
        look: Callable[[], JobSnapshot],
        observer: str,
        clock: Clock,
        closed: threading.Event,
        *,
        answer_within_s: float = ANSWER_WITHIN_S,
        early_ms: int = 0,
    ) -> None:
        """Start nothing yet.

        Args:
            job: its id.
            look: takes one look; raises SourceUnavailable or UnknownJob.
            observer: the run of the monitor, for the markers.
            clock: whose waiting ends when ``closed`` is set.
            closed: set by ``close``.
            answer_within_s: how long ``minutes`` waits for one.
            early_ms: so long before the end of a minute it ends for this job: it is looked at and handed out by then.
        """
        self._early_ms = early_ms
        self._job, self._look, self._answer_within_s = job, look, answer_within_s
        self._clock, self._closed = clock, closed
        self._changed = threading.Condition()
        self._kept = MinuteBuffer(observer)
        self._last_end_ms = 0
        self._away: SourceUnavailable | None = None
        self._ended: Exception | None = None
        self._thread: threading.Thread | None = None

    def minutes(self, after_ms: int) -> list[FinishedMinute]:
        """Return the kept minutes that end after ``after_ms``, which acknowledges the earlier ones; wait a moment for one.

        Raises:
            SourceUnavailable: the last look failed; told once.
            UnknownJob: the job is gone, and all its minutes are acknowledged.
        """
        self._start()
        if after_ms > max(self._clock.now_ms(), self._last_end_ms) + SET_BACK_MS:
            after_ms = 0  # acknowledged under a clock that has been set back since
        with self._changed:
            found = self._kept.after(after_ms)
            if not found and self._ended is None and self._away is None:
                self._changed.wait(self._answer_within_s)
                found = self._kept.after(after_ms)
            if found:
                return found
            if self._ended is not None:
                raise self._ended
            away, self._away = self._away, None
            if away is not None:
                raise away
            return []

    def close(self) -> None:
        """Stop looking. Minutes that are kept can still be fetched."""
        self._closed.set()

    def take_minute(self) -> None:
        """Wait for the end of the next minute and look at the job; a minute in which no look succeeds is left out.

        Raises:
            UnknownJob: the job is gone.
        """
        if self._last_end_ms > self._clock.now_ms() + SET_BACK_MS:
            self._begin_anew()
        begin_ms = max(self._clock.now_ms() + LEAD_MS + self._early_ms, self._last_end_ms)
        end_ms = (begin_ms // MINUTE_MS + 1) * MINUTE_MS
        own_end_ms = end_ms - self._early_ms
        if self._clock.wait((own_end_ms - LEAD_MS - self._clock.now_ms()) / 1000):
            return
        look = self._look_until(own_end_ms + GRACE_MS)
        self._clock.wait(max(0, own_end_ms - self._clock.now_ms()) / 1000)
        with self._changed:
            if look is not None:
                self._say_missing(end_ms)
                self._kept.add(end_ms, look)
                self._last_end_ms, self._away = end_ms, None
            self._changed.notify_all()

    def _begin_anew(self) -> None:
        """Forget minutes that have not come yet: the clock was ahead and has been set right, so nobody waits for them again."""
        now_ms = self._clock.now_ms()
        _log.warning(
            "%s: the clock was %d s ahead and has been set back: going on", self._job, (self._last_end_ms - now_ms) // 1000
        )
        with self._changed:
            self._kept.forget_after(now_ms)
            # The clock may be set back again, before these.
            self._last_end_ms = max((minute.minute_end_ms for minute in self._kept.after(0)), default=0)

    def _look_until(self, deadline_ms: int) -> JobSnapshot | None:
        # Also before the first look: the wait may have ended late, after the machine slept or its clock was set.
        while self._clock.now_ms() <= deadline_ms:
            try:
                return self._look()
            except SourceUnavailable as away:
                with self._changed:
                    self._away = away
                    self._changed.notify_all()
            if self._clock.now_ms() + RETRY_S * 1000 > deadline_ms or self._clock.wait(RETRY_S):
                break
        return None

    def _say_missing(self, end_ms: int) -> None:
        """Name the minutes before this one that nobody looked at."""
        missing = (end_ms - self._last_end_ms) // MINUTE_MS - 1
        if self._last_end_ms and missing:
            first, last = _time(self._last_end_ms), _time(end_ms - MINUTE_MS)
            _log.warning("%s: no figures of %d minutes, %s to %s UTC: they stay unknown", self._job, missing, first, last)

    def _start(self) -> None:
        if self._thread is None:
            self._thread = beside(self._run, f"the looks at {self._job}", self._is_over)
            self._thread.start()

    def _is_over(self) -> bool:
        return self._closed.is_set() or self._ended is not None

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                beat()
                self.take_minute()
        except Exception as ended:  # the job is gone; anything else must end its watcher instead of this thread alone
            with self._changed:
                self._ended = ended
                self._changed.notify_all()


class Looks(Protocol):
    """What looks at one job, in one thread."""

    def look(self) -> JobSnapshot:
        """Look at the job; raises SourceUnavailable, and UnknownJob where there is no such job, or no longer."""
        ...


L = TypeVar("L", bound=Looks)


class CollectedSource(Source, Generic[L]):
    """A source that is looked at: each job has a collector, which looks at it at the end of every minute. Thread-safe.

    A collector is made when the minutes of its job are first asked for, and again after it has ended.
    """

    def __init__(self, clock: Callable[[threading.Event], Clock], spread_s: int, events: EventLog) -> None:
        """Look at nothing yet.

        Args:
            clock: makes the clock of a collector; its waiting ends when the event is set.
            spread_s: seconds over which the looks at jobs are spread, before the end of the minute.
            events: what the looks show.
        """
        self._clock, self._spread_s, self._events = clock, spread_s, events
        self._observer = uuid.uuid4().hex[:12]
        self._lock, self._collecting = threading.Lock(), threading.Lock()
        self._collectors: dict[str, MinuteCollector] = {}
        self._followed: dict[str, L] = {}

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return the minutes that are kept; waits half a second for one. That the last look failed is told once."""
        collector = self._collector(job)
        try:
            return collector.minutes(after_ms)
        except SourceUnavailable:
            raise
        except Exception:  # the collector has ended: the next call makes a new one
            with self._collecting:
                self._collectors.pop(job, None)
            raise

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return nothing: what can only be looked at has no past."""
        self._check_known(job)
        return ()

    def events(self, after_id: str) -> list[EngineEvent]:
        """Return what happened after an event, as far as the looks have shown."""
        return self._events.after(after_id)

    def follow(self, job: str) -> L:
        """Return what looks at a job; it outlives the collector, since an upgrade takes a job away for a while.

        Raises:
            UnknownJob: there is no such job, nor was there one.
        """
        with self._lock:
            if job not in self._followed:
                self._check_known(job)
                self._followed[job] = self._looks_at(job, self._clock(threading.Event()))
            return self._followed[job]

    def close(self) -> None:
        """Stop looking."""
        with self._collecting:
            collectors = list(self._collectors.values())
        for collector in collectors:
            collector.close()

    @abstractmethod
    def _check_known(self, job: str) -> None:
        """Raise UnknownJob if there is no such job now."""

    @abstractmethod
    def _looks_at(self, job: str, clock: Clock) -> L:
        """Return what looks at a job for the first time."""

    def _collector(self, job: str) -> MinuteCollector:
        with self._collecting:
            if job not in self._collectors:
                self._check_known(job)
                looks, closed = self.follow(job), threading.Event()
                early_ms = early_ms_of(job, self._spread_s)
                self._collectors[job] = MinuteCollector(
                    job, looks.look, self._observer, self._clock(closed), closed, early_ms=early_ms
                )
            return self._collectors[job]


def early_ms_of(job: str, spread_s: int) -> int:
    """Return how long before the end of a minute a job is looked at: always the same, and even over many jobs.

    >>> early_ms_of("flink/orders", 0), early_ms_of("flink/orders", 30) < 30_000
    (0, True)
    """
    return crc32(job.encode()) % (spread_s * 1000) if spread_s else 0


def _dated(sample: TaskSample, minute_end_ms: int) -> TaskSample:
    return msgspec.structs.replace(sample, sampled_at_ms=minute_end_ms)


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M")
