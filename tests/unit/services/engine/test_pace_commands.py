"""A clock in lockstep waits for commands, their reports, and learners."""

import pytest

from tests.support.lockstep_run import (
    JOBS,
    MINUTE,
    arrived,
    at_first_span_end,
    command,
    commanded,
    lockstep,
    outcome,
    progress,
    stops,
)


def test_a_promised_command_must_arrive() -> None:
    """The clock stays at the stop at which the command was issued."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    assert pace.waiting_for(JOBS) == ["command sim/a#1.0 to arrive"]


def test_a_command_that_arrived_lets_the_clock_go_on_to_the_end_of_its_rescale() -> None:
    """That end is a stop, at which the report is owed."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    arrived(pace, 11 * MINUTE + 45_000)
    assert pace.waiting_for(JOBS) == []
    assert stops(pace, 1) == [12]
    assert pace.waiting_for(JOBS) == ["the report that sim/a#1.0 is applied"]


@pytest.mark.parametrize("status", ["applied", "failed"])
def test_a_final_report_ends_a_command(status: str) -> None:
    """Failed is as final as applied."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    arrived(pace, 12 * MINUTE)
    pace.move_on()
    pace.on_progress(progress(status))
    assert (pace.waiting_for(JOBS), pace.next_stop()) == ([], 20 * MINUTE)


@pytest.mark.parametrize("status", ["accepted", "warming"])
def test_an_early_report_ends_nothing(status: str) -> None:
    """Only applied and failed are final."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    arrived(pace, 12 * MINUTE)
    pace.move_on()
    pace.on_progress(progress(status))
    assert pace.waiting_for(JOBS) == ["the report that sim/a#1.0 is applied"]


def test_the_command_may_arrive_before_its_outcome_is_read() -> None:
    """They take different routes."""
    pace = at_first_span_end(lockstep())
    arrived(pace, 12 * MINUTE)
    pace.on_outcome(commanded())
    assert (pace.waiting_for(JOBS), pace.next_stop()) == ([], 12 * MINUTE)


def test_the_report_may_be_read_before_the_outcome() -> None:
    """A command that has ended is not waited for again."""
    pace = at_first_span_end(lockstep())
    arrived(pace, 10 * MINUTE)
    pace.on_progress(progress())
    pace.on_outcome(commanded())
    assert pace.waiting_for(JOBS) == []


def test_until_the_rescaler_can_know_that_a_command_was_accepted_the_clock_stands() -> None:
    """So it knows when to expect the end before the end comes."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    pace.on_command(command())
    pace.on_rescale("sim/a#1.0", 12 * MINUTE)
    assert pace.waiting_for(JOBS) == ["the report that sim/a#1.0 was accepted"]
    pace.on_progress(progress("accepted"))
    assert pace.waiting_for(JOBS) == []


def test_a_refused_command_owes_a_report_at_once() -> None:
    """The rescaler must have seen the failure before the next decision."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    pace.on_refusal("sim/a#1.0")
    assert pace.waiting_for(JOBS) == ["the report that sim/a#1.0 was refused"]
    pace.on_progress(progress("failed"))
    assert pace.waiting_for(JOBS) == []


def test_a_command_that_ended_stays_ended_when_its_end_is_told_again() -> None:
    """The engine repeats when a rescale ends as long as it restarts."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    arrived(pace, 12 * MINUTE)
    pace.move_on()
    pace.on_progress(progress())
    arrived(pace, 12 * MINUTE)
    assert (pace.waiting_for(JOBS), pace.next_stop()) == ([], 20 * MINUTE)


def test_a_rescale_whose_end_moves_is_waited_for_at_its_new_end() -> None:
    """A host that dies during the restart makes it longer."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    arrived(pace, 12 * MINUTE)
    pace.move_on()
    arrived(pace, 13 * MINUTE)
    assert (pace.waiting_for(JOBS), pace.next_stop()) == ([], 13 * MINUTE)


def test_advice_is_not_waited_for() -> None:
    """Actuators ignore a command that is only advice."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded(reason="advise"))
    assert pace.waiting_for(JOBS) == []


def test_a_command_that_nobody_promised_is_not_waited_for() -> None:
    """Someone may send one by hand; no actuator reports on it."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome())
    arrived(pace, 10 * MINUTE)
    assert pace.waiting_for(JOBS) == []


def test_while_learners_warm_up_every_minute_is_a_stop() -> None:
    """Their lag is read there. Nothing is owed until they are ready, and then the report is."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    arrived(pace, None, command("prepare"))
    assert pace.waiting_for(JOBS) == []
    assert stops(pace, 2) == [11, 12]
    pace.on_rescale("sim/a#1.0", 12 * MINUTE)
    assert pace.waiting_for(JOBS) == ["the report that sim/a#1.0 is applied"]


@pytest.mark.parametrize("status", ["applied", "failed"])
def test_after_learners_the_next_step_is_owed(status: str) -> None:
    """Ready or given up, a preparation is followed by a commit, another preparation or an abort, whose end is waited for."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    arrived(pace, 10 * MINUTE, command("prepare"))
    pace.on_progress(progress(status))
    assert pace.waiting_for(JOBS) == ["command sim/a#1.1 to arrive"]
    arrived(pace, 11 * MINUTE + 1_000, command(step=1))
    assert (pace.waiting_for(JOBS), stops(pace, 1)) == ([], [12])
    assert pace.waiting_for(JOBS) == ["the report that sim/a#1.1 is applied"]
    pace.on_progress(progress(command="sim/a#1.1"))
    assert (pace.waiting_for(JOBS), stops(pace, 1)) == ([], [20])


def test_a_preparation_that_was_refused_is_followed_by_nothing() -> None:
    """There are no learners to commit or to drop."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(commanded())
    pace.on_refusal("sim/a#1.0")
    pace.on_progress(progress("failed"))
    assert (pace.waiting_for(JOBS), pace.next_stop()) == ([], 20 * MINUTE)
