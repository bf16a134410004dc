"""Where the pipeline's clock stops in lockstep: spans, promises, and answers that do not arrive."""

import pytest

from tests.support.lockstep_run import JOBS, MINUTE, at_first_span_end, commanded, lockstep, outcome, pending, stops


def test_the_clock_stops_at_every_span_end_and_at_the_end_of_the_run() -> None:
    """Spans count from the epoch, not from the run's start."""
    assert stops(lockstep(minutes=25, start=7), 4) == [10, 20, 30, 32]


def test_nothing_is_waited_for_at_the_start() -> None:
    """A run that begins at a span's end has no window that ends there."""
    assert lockstep(start=10).waiting_for(JOBS) == []


def test_at_a_span_end_every_running_job_owes_an_outcome() -> None:
    """The words name the job and the minute of the run."""
    pace = lockstep()
    pace.move_on()
    pace.on_outcome(outcome("sim/b"))
    assert pace.waiting_for(JOBS) == ["an outcome of sim/a for the span that ends at minute 10"]


@pytest.mark.parametrize("status", ["held", "pending", "superseded", "refused"])
def test_any_outcome_answers_a_span_end(status: str) -> None:
    """Held, refused and a promise for later are answers."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome(status=status, until_ms=15 * MINUTE if status == "pending" else None))
    assert pace.waiting_for(JOBS) == []


def test_the_outcome_of_another_span_is_no_answer() -> None:
    """What was said about minute 10 does not answer minute 20."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome())
    pace.move_on()
    assert len(pace.waiting_for(JOBS)) == 2


def test_a_job_that_does_not_run_owes_nothing() -> None:
    """A job without units is left out by the caller."""
    pace = at_first_span_end(lockstep())
    assert pace.waiting_for(["sim/b"]) == []


def test_no_outcome_is_owed_at_a_stop_that_ends_no_span() -> None:
    """The end of the run may fall within a span."""
    pace = lockstep(minutes=5)
    assert (pace.move_on(), pace.waiting_for(JOBS)) == (5 * MINUTE, [])


def test_a_promised_wake_up_is_a_stop() -> None:
    """The stop is the end of the minute that the wake-up falls in."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome(status="pending", until_ms=12 * MINUTE + 1))
    assert stops(pace, 2) == [13, 20]


def test_at_a_wake_up_a_further_outcome_is_owed() -> None:
    """The same outcome read twice is not a further one."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(pending(12))
    pace.move_on()
    pace.on_outcome(pending(12))
    assert pace.waiting_for(JOBS) == ["a further outcome of sim/a@10, promised for minute 12"]


@pytest.mark.parametrize("status", ["commanded", "superseded", "refused"])
def test_a_last_outcome_keeps_the_promise(status: str) -> None:
    """The decision is done."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(pending(12))
    pace.move_on()
    pace.on_outcome(outcome(status=status, sequence=1))
    assert pace.waiting_for(JOBS) == []


def test_a_promise_may_be_renewed() -> None:
    """A second pending answers the first and makes a stop of its own."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(pending(12))
    pace.move_on()
    pace.on_outcome(pending(14, sequence=1))
    assert pace.waiting_for(JOBS) == []
    assert stops(pace, 1) == [14]


def test_outcomes_may_come_out_of_order() -> None:
    """The highest sequence counts, not the last one read."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome(status="superseded", sequence=1))
    pace.on_outcome(pending(12))
    assert stops(pace, 1) == [20]


def test_a_promise_without_a_time_holds_nobody_up() -> None:
    """A job that waits for resources may wait forever."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome(status="pending"))
    assert (pace.waiting_for(JOBS), pace.next_stop()) == ([], 20 * MINUTE)


def test_a_promise_beyond_the_end_of_the_run_is_no_stop() -> None:
    """The clock never passes the run's end."""
    pace = at_first_span_end(lockstep(minutes=15))
    pace.on_outcome(pending(40))
    assert stops(pace, 2) == [15, 15]


def test_giving_up_counts_every_missing_answer_and_goes_on() -> None:
    """A span end, a wake-up and a command are each one miss."""
    pace = lockstep()
    pace.on_outcome(pending(10, job="sim/c", span_end=5))
    pace.on_outcome(commanded("sim/c#1.0", job="sim/c", span_end=6))
    pace.move_on()
    pace.on_outcome(outcome("sim/b"))
    assert len(pace.give_up(JOBS)) == 3
    assert (pace.misses, pace.waiting_for(JOBS), pace.next_stop()) == (3, [], 20 * MINUTE)


def test_an_answer_that_comes_after_giving_up_does_no_harm() -> None:
    """It is too late to wait for, but the next stop is as usual."""
    pace = at_first_span_end(lockstep())
    pace.give_up(JOBS)
    pace.on_outcome(outcome())
    assert (pace.misses, pace.waiting_for(JOBS), pace.next_stop()) == (1, [], 20 * MINUTE)


def test_without_a_miss_giving_up_counts_nothing() -> None:
    """Everything had been read."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome())
    assert (pace.give_up(JOBS), pace.misses) == ([], 0)
