"""Minutes made of looks: kept until acknowledged, left out where nobody looked."""

import threading
from collections import Counter
from collections.abc import Callable

import msgspec
import pytest

from surescale.contracts.messages import TaskSample
from surescale.engines.ports.minutes import GRACE_MS, KEPT_MINUTES_MAX, JobSnapshot, MinuteBuffer, MinuteCollector, early_ms_of
from surescale.engines.ports.source import SourceUnavailable, UnknownJob
from tests.support.builders import sample
from tests.support.engine_stub import job_chain
from tests.support.waiting import wait_until

JOB = "flink/orders"
MINUTE = 60_000


def look(records: int, as_of_ms: int | None = None, subtasks: int = 1) -> JobSnapshot:
    """Return a look at a job."""
    counters = [sample(job=JOB, records_in=records, sampled_at_ms=0) for _ in range(subtasks)]
    return JobSnapshot(job_chain(JOB), tuple(msgspec.structs.replace(each, as_of_ms=as_of_ms) for each in counters))


class SteppedClock:
    """A clock that moves only by waiting, and by what a look takes."""

    def __init__(self, now_ms: int) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        """Return the present time."""
        return self.at_ms

    def wait(self, seconds: float) -> bool:
        """Let the time pass."""
        self.at_ms += max(0, round(seconds * 1000))
        return False


class Engine:
    """A job whose counter grows by one a millisecond; it answers as its plan says, in order: seconds taken, or an error."""

    def __init__(self, now_ms: int, *plan: float | Exception) -> None:
        self.clock, self.plan = SteppedClock(now_ms), list(plan)

    def look(self) -> JobSnapshot:
        """Take a look."""
        answer = self.plan.pop(0) if self.plan else 0.0
        if isinstance(answer, Exception):
            raise answer
        as_of_ms = self.clock.at_ms
        self.clock.wait(answer)
        return look(as_of_ms, as_of_ms)

    def collector(self) -> MinuteCollector:
        """Return a collector of its minutes that does not run by itself."""
        return MinuteCollector(JOB, self.look, "run-1", self.clock, threading.Event())


def kept(collector: MinuteCollector, after_ms: int = 0) -> list[tuple[int, int]]:
    """Return end and counter of the minutes that are kept."""
    return [(minute.minute_end_ms, minute.samples[0].records_in) for minute in collector._kept.after(after_ms)]


def test_a_look_shortly_before_the_end_of_a_minute_becomes_that_minute() -> None:
    """Dated at its end; the marker says how old the oldest figure was, and who looked."""
    engine = Engine(3 * MINUTE + 7)
    collector = engine.collector()
    collector.take_minute()
    assert engine.clock.at_ms == 4 * MINUTE
    (minute,) = collector._kept.after(0)
    assert (minute.minute_end_ms, minute.age_ms, minute.observer) == (4 * MINUTE, 500, "run-1")
    assert [(each.sampled_at_ms, each.as_of_ms) for each in minute.samples] == [(4 * MINUTE, 4 * MINUTE - 500)]


def test_a_look_that_starts_too_late_for_a_minute_is_for_the_next_one() -> None:
    """Its figures would not be those of the minute's end."""
    engine = Engine(4 * MINUTE - 200)
    collector = engine.collector()
    collector.take_minute()
    assert kept(collector) == [(5 * MINUTE, 5 * MINUTE - 500)]


def test_an_engine_that_is_away_for_moments_loses_no_minute() -> None:
    """It is asked again, and the figures say when they were true."""
    engine = Engine(0, SourceUnavailable("away"), SourceUnavailable("away"), 0.25)
    collector = engine.collector()
    collector.take_minute()
    collector.take_minute()
    assert kept(collector) == [(MINUTE, MINUTE + 1_500), (2 * MINUTE, 2 * MINUTE - 500)]


def test_a_minute_without_a_look_is_left_out_and_named(caplog: pytest.LogCaptureFixture) -> None:
    """A hole stays a hole."""
    engine = Engine(0, 0.0, *[SourceUnavailable("away")] * 30)
    collector = engine.collector()
    for _ in range(5):
        collector.take_minute()
    ends = [end_ms for end_ms, _ in kept(collector)]
    assert ends == [MINUTE, 4 * MINUTE, 5 * MINUTE]
    assert "flink/orders: no figures of 2 minutes, 00:01 to 00:03 UTC" in caplog.text


def test_a_minute_counts_as_missed_only_when_its_grace_is_over() -> None:
    """Then the next one has its turn in time."""
    engine = Engine(0, *[SourceUnavailable("away")] * 100)
    collector = engine.collector()
    collector.take_minute()
    assert kept(collector) == []
    assert MINUTE <= engine.clock.at_ms <= MINUTE + GRACE_MS


def test_a_look_that_takes_longer_than_a_minute_does_not_make_the_next_one_early() -> None:
    """Minutes come in order, each once."""
    engine = Engine(0, 130.0, 0.0)
    collector = engine.collector()
    collector.take_minute()
    collector.take_minute()
    assert [end_ms for end_ms, _ in kept(collector)] == [MINUTE, 4 * MINUTE]


@pytest.mark.parametrize(("late_ms", "ends"), [(9_000, [MINUTE]), (7 * MINUTE, []), (30_000, [])])
def test_a_monitor_that_stood_still_does_not_tell_of_a_minute_long_over(late_ms: int, ends: list[int]) -> None:
    """As after a machine slept: the figures of now are not those of then. Up to the grace they still count."""
    engine = Engine(0)
    collector, wait, asleep_ms = engine.collector(), engine.clock.wait, [late_ms]

    def sleep(seconds: float) -> bool:
        return wait(seconds + (asleep_ms.pop() / 1000 if asleep_ms else 0))

    engine.clock.wait = sleep  # type: ignore[method-assign]
    collector.take_minute()
    assert [end_ms for end_ms, _ in kept(collector)] == ends
    collector.take_minute()
    assert len(kept(collector)) == len(ends) + 1


@pytest.mark.parametrize("ahead", [5, 30, 24 * 60])
def test_a_clock_that_was_ahead_and_is_set_right_keeps_no_minute_waiting(ahead: int) -> None:
    """What it dated in the future does not come again, and what was acknowledged of it holds nothing back."""
    engine = Engine(ahead * MINUTE)
    collector = engine.collector()
    collector._start = lambda: None  # type: ignore[method-assign]  # this test looks itself
    collector.take_minute()
    collector.take_minute()
    assert [end_ms // MINUTE for end_ms, _ in kept(collector)] == [ahead + 1, ahead + 2]
    acknowledged_ms = (ahead + 1) * MINUTE
    engine.clock.at_ms = MINUTE
    collector.take_minute()
    assert engine.clock.at_ms == 2 * MINUTE
    assert [each.minute_end_ms for each in collector.minutes(acknowledged_ms)] == [2 * MINUTE]
    collector.take_minute()
    assert [each.minute_end_ms for each in collector.minutes(2 * MINUTE)] == [3 * MINUTE]


def test_a_job_with_a_time_of_its_own_is_looked_at_and_handed_out_before_the_end_of_the_minute() -> None:
    """Each minute by the same time, so its counters cover a minute; what comes a little late still counts."""
    engine = Engine(0, 0.0, SourceUnavailable("away"), 0.0)
    collector = MinuteCollector(JOB, engine.look, "run-1", engine.clock, threading.Event(), early_ms=20_000)
    collector.take_minute()
    assert engine.clock.at_ms == MINUTE - 20_000
    collector.take_minute()
    assert engine.clock.at_ms == 2 * MINUTE - 20_000 + 500
    collector.take_minute()
    first, late, third = collector._kept.after(0)
    assert [each.minute_end_ms for each in (first, late, third)] == [MINUTE, 2 * MINUTE, 3 * MINUTE]
    assert [each.samples[0].as_of_ms for each in (first, late, third)] == [39_500, 100_500, 159_500]
    assert [each.age_ms for each in (first, late, third)] == [20_500, 19_500, 20_500]


def test_the_times_of_many_jobs_lie_evenly_before_the_end() -> None:
    """A job keeps its own over restarts; without a spread all are looked at together."""
    times = [early_ms_of(f"flink/job-{number}", 30) for number in range(1_000)]
    assert times == [early_ms_of(f"flink/job-{number}", 30) for number in range(1_000)]
    in_each = Counter(time // 5_000 for time in times)
    assert set(in_each) == set(range(6))
    assert max(in_each.values()) < 250
    assert early_ms_of("flink/job-1", 0) == 0


def test_minutes_are_given_again_until_they_are_acknowledged() -> None:
    """The same ones; then never again."""
    minutes = MinuteBuffer("run-1")
    for number in (1, 2, 4):
        minutes.add(number * MINUTE, look(number))
    first = minutes.after(0)
    assert [each.minute_end_ms for each in first] == [MINUTE, 2 * MINUTE, 4 * MINUTE]
    assert minutes.after(0) == first
    assert minutes.after(MINUTE) == first[1:]
    assert minutes.after(0) == first[1:]
    assert minutes.after(2**52) == []


def test_a_job_that_reports_nothing_has_minutes_of_unknown_age() -> None:
    """As while it waits for slots."""
    minutes = MinuteBuffer("run-1")
    minutes.add(MINUTE, JobSnapshot(job_chain(JOB), ()))
    assert [(each.samples, each.age_ms) for each in minutes.after(0)] == [((), None)]


@pytest.mark.parametrize(("subtasks", "left"), [(1, KEPT_MINUTES_MAX), (20, 10), (201, 1)])
def test_memory_is_bounded(subtasks: int, left: int) -> None:
    """Of a pipeline that takes nothing for hours; the newest minute is always kept."""
    minutes, seen = MinuteBuffer("run-1", samples_max=200), look(1, subtasks=subtasks)
    for number in range(1, 100):
        minutes.add(number * MINUTE, seen)
    ends = [each.minute_end_ms for each in minutes.after(0)]
    assert ends == [number * MINUTE for number in range(100 - left, 100)]


def running(look_at: Callable[[], JobSnapshot]) -> MinuteCollector:
    """Return a collector whose minutes pass as fast as it looks."""
    return MinuteCollector(JOB, look_at, "run-1", SteppedClock(0), threading.Event())


def test_looks_go_on_while_nobody_takes_the_minutes() -> None:
    """Kafka may be away for an hour."""
    turns = threading.Semaphore(5)

    def look_at() -> JobSnapshot:
        turns.acquire()
        return look(1)

    collector = running(look_at)
    assert len({collector.minutes(0)[0].minute_end_ms for _ in range(3)}) == 1
    wait_until(lambda: len(collector.minutes(0)) == 5, what="five looks")
    collector.close()
    turns.release()


def test_the_end_of_a_job_is_told_after_its_last_minute() -> None:
    """Nothing that was seen is lost with it."""
    answers: list[JobSnapshot | Exception] = [look(1), look(2), UnknownJob("gone")]

    def look_at() -> JobSnapshot:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    collector = running(look_at)
    wait_until(lambda: len(collector.minutes(0)) == 2, what="two minutes")
    assert len(collector.minutes(0)) == 2
    with pytest.raises(UnknownJob, match="gone"):
        collector.minutes(2 * MINUTE)


def test_an_error_of_a_look_is_told_to_whoever_waits() -> None:
    """So that it is logged and counted, and a programming error ends the watcher as well."""
    waiting = threading.Event()

    def away() -> JobSnapshot:
        waiting.wait(0.01)
        raise SourceUnavailable("the engine does not answer")

    collector = running(away)
    with pytest.raises(SourceUnavailable, match="does not answer"):
        collector.minutes(0)
    collector.close()

    def broken() -> JobSnapshot:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        running(broken).minutes(0)


def test_a_sample_keeps_its_figures() -> None:
    """Only its date is the collector's."""
    minutes = MinuteBuffer("run-1")
    seen = look(7, as_of_ms=MINUTE - 9)
    minutes.add(MINUTE, seen)
    ((kept_sample,),) = (each.samples for each in minutes.after(0))
    expected: TaskSample = msgspec.structs.replace(seen.samples[0], sampled_at_ms=MINUTE)
    assert kept_sample == expected
