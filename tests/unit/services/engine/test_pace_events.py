"""Engine events that stop a clock in lockstep: missing units, checkpoints, and hosts that come and go."""

from surescale.services.engine.pace import Checkpoint, Lockstep
from tests.support.lockstep_run import JOBS, MINUTE, at_first_span_end, balance, lockstep, outcome, pending, stops


def test_a_job_that_waits_for_units_owes_an_outcome_one_minute_later() -> None:
    """The rescaler learns about it with the next minute: the clock stops there, and the outcome names the start of the wait."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome())
    pace.waiting = {"sim/b": 11 * MINUTE}
    assert stops(pace, 1) == [12]
    assert pace.waiting_for(["sim/a"]) == ["an outcome of sim/b, which has been waiting for units since minute 11"]
    pace.on_outcome(outcome("sim/b", 11, "commanded", reason="advise"))
    assert pace.waiting_for(["sim/a"]) == []


def test_a_job_that_is_looked_after_anyhow_owes_nothing_more() -> None:
    """A waiting act of the job has its own promise."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(pending(30))
    pace.waiting = {"sim/a": 10 * MINUTE}
    pace.move_on()
    assert pace.waiting_for(["sim/b"]) == []


def test_an_act_that_waits_for_a_checkpoint_must_be_told_of_each() -> None:
    """The next checkpoint is a stop; an outcome that takes it into account lets the clock move on."""
    pace = at_first_span_end(lockstep())
    pace.checkpoint_interval_ms = 2 * MINUTE
    pace.on_outcome(outcome(status="pending", reason="stabilizing", until_ms=15 * MINUTE))
    assert stops(pace, 1) == [12]
    pace.checkpoints = {"sim/a": Checkpoint(7, 12 * MINUTE)}
    assert pace.waiting_for(JOBS) == ["an outcome of sim/a@10 that takes checkpoint 7 into account"]
    pace.on_outcome(outcome(status="pending", reason="stabilizing", until_ms=15 * MINUTE, sequence=1, checkpoint=7))
    assert (pace.waiting_for(JOBS), stops(pace, 1)) == ([], [14])


def test_a_checkpoint_taken_before_the_act_waited_is_none_of_its() -> None:
    """It was taken at the same stop at which the act arrived."""
    pace = at_first_span_end(lockstep())
    pace.checkpoints = {"sim/a": Checkpoint(7, 10 * MINUTE)}
    pace.on_outcome(outcome(status="pending", reason="stabilized", until_ms=15 * MINUTE))
    assert pace.waiting_for(JOBS) == []


def with_hosts_changed() -> Lockstep:
    """Return a lockstep that stands at minute 10, where a host has died."""
    pace = lockstep()
    pace.on_outcome(outcome())
    pace.on_outcome(outcome("sim/b"))
    pace.move_on()
    pace.on_hosts(7, 10 * MINUTE)
    return pace


def test_hosts_that_change_make_a_stop_one_minute_later() -> None:
    """There the rescaler owes a look at them."""
    pace = with_hosts_changed()
    assert pace.move_on() == 11 * MINUTE
    assert pace.waiting_for(JOBS) == ["a look at version 7 of the hosts"]
    pace.on_balance(balance(11))
    assert (pace.waiting_for(JOBS), pace.move_on()) == ([], 20 * MINUTE)


def test_a_look_at_older_hosts_is_not_enough() -> None:
    """They have changed again since."""
    pace = with_hosts_changed()
    pace.move_on()
    pace.on_balance(balance(11, version=6))
    assert pace.waiting_for(JOBS) == ["a look at version 7 of the hosts"]


def test_a_promised_look_is_a_stop() -> None:
    """As long as something moves, each look promises another one."""
    pace = with_hosts_changed()
    pace.move_on()
    pace.on_balance(balance(11, status="moving", until=12))
    assert pace.move_on() == 12 * MINUTE
    assert pace.waiting_for(JOBS) == ["another look at the hosts, promised for minute 12"]
    pace.on_balance(balance(12, sequence=1))
    assert pace.waiting_for(JOBS) == []


def test_a_look_that_does_not_come_is_missed_once() -> None:
    """The clock goes on."""
    pace = with_hosts_changed()
    pace.move_on()
    assert len(pace.give_up(JOBS)) == 1
    assert (pace.waiting_for(JOBS), pace.misses) == ([], 1)


def test_before_its_first_answer_the_rescaler_owes_no_look() -> None:
    """It knows no hosts that could have changed."""
    pace = lockstep()
    pace.on_hosts(7, 3 * MINUTE)
    assert pace.next_stop() == 10 * MINUTE


def test_changes_of_hosts_that_are_known_in_advance_are_stops() -> None:
    """So their consequences begin with the next minute, not at the next stop."""
    pace = lockstep()
    pace.host_changes_ms = (4 * MINUTE,)
    assert pace.next_stop() == 4 * MINUTE
