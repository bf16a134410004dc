"""Where the road's clock stops in lockstep, and what lets it go on."""

import pytest

from contracts.messages import Balance, Outcome, Progress, RescheduleCommand
from services.engine.pace import Checkpoint, Lockstep

MINUTE = 60_000
JOBS = ["sim/a", "sim/b"]


def lockstep(minutes: int = 60, span: int = 10, start: int = 0) -> Lockstep:
    """Return a lockstep whose run begins at a minute."""
    return Lockstep(start * MINUTE, (start + minutes) * MINUTE, span)


def outcome(job: str = "sim/a", span_end: int = 10, status: str = "held", sequence: int = 0, **changes: object) -> Outcome:
    """Return an outcome; times in minutes."""
    base: dict[str, object] = {
        "cluster": "sim",
        "job": job,
        "decision_id": f"{job}@{span_end}",
        "span_end_ms": span_end * MINUTE,
        "status": status,
        "reason": "some_reason",
        "at_ms": span_end * MINUTE,
        "sequence": sequence,
    }
    return Outcome(**(base | changes))  # type: ignore[arg-type]


def pending(until: int, job: str = "sim/a", span_end: int = 10, sequence: int = 0) -> Outcome:
    """Return a promise of a further outcome at a minute."""
    return outcome(job, span_end, "pending", sequence, until_ms=until * MINUTE)


def commanded(command: str = "sim/a#1.0", **changes: object) -> Outcome:
    """Return the outcome that names a command."""
    return outcome(status="commanded", command_id=command, **changes)


def progress(status: str = "applied", command: str = "sim/a#1.0") -> Progress:
    """Return an actuator's report."""
    return Progress(cluster="sim", job="sim/a", command_id=command, desired_generation=1, status=status, at_ms=0)  # type: ignore[arg-type]


def command(action: str = "commit", step: int = 0) -> RescheduleCommand:
    """Return a command of job a's first generation."""
    return RescheduleCommand(
        command_id=f"sim/a#1.{step}",
        cluster="sim",
        job="sim/a",
        desired_generation=1,
        step=step,
        steps=2,
        action=action,  # type: ignore[arg-type]
        base_placement_generation=0,
        decision_id="sim/a@10",
        gate_reason="desired",
        gate_cause="max_delay",
        issued_at_ms=0,
        changes=(),
    )


def arrived(pace: Lockstep, done_at_ms: int | None, asked: RescheduleCommand | None = None) -> None:
    """Let the engine accept a command that will be over at a time, or (None) when its learners are ready."""
    of = asked or command()
    pace.on_command(of)
    pace.on_rescale(of.command_id, done_at_ms)
    pace.on_progress(progress("accepted", of.command_id))


def at_first_span_end(pace: Lockstep) -> Lockstep:
    """Move to minute 10 with every job's outcome but those of job a."""
    assert pace.move_on() == 10 * MINUTE
    pace.on_outcome(outcome("sim/b"))
    return pace


def stops(pace: Lockstep, count: int) -> list[int]:
    """Return the next stops in minutes."""
    return [pace.move_on() // MINUTE for _ in range(count)]


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
    """The decision is through."""
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
    """A job that waits for resources may wait for ever."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome(status="pending"))
    assert (pace.waiting_for(JOBS), pace.next_stop()) == ([], 20 * MINUTE)


def test_a_promise_beyond_the_end_of_the_run_is_no_stop() -> None:
    """The clock never passes the run's end."""
    pace = at_first_span_end(lockstep(minutes=15))
    pace.on_outcome(pending(40))
    assert stops(pace, 2) == [15, 15]


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
    """They travel by different ways."""
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
    """So that it knows when the end is to be expected, before that is there."""
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
    """Somebody may send one by hand; no actuator reports on it."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome())
    arrived(pace, 10 * MINUTE)
    assert pace.waiting_for(JOBS) == []


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
    """It is too late to be waited for, but the next stop is as usual."""
    pace = at_first_span_end(lockstep())
    pace.give_up(JOBS)
    pace.on_outcome(outcome())
    assert (pace.misses, pace.waiting_for(JOBS), pace.next_stop()) == (1, [], 20 * MINUTE)


def test_without_a_miss_giving_up_counts_nothing() -> None:
    """Everything had been read."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome())
    assert (pace.give_up(JOBS), pace.misses) == ([], 0)


def test_while_learners_warm_up_every_minute_is_a_stop() -> None:
    """Their lag is read there; nothing is owed until they are ready, and then the report."""
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


def test_a_job_that_waits_for_units_owes_an_outcome_one_minute_later() -> None:
    """The rescaler learns of it with the next minute; the stop is there, and the outcome names the time since when it waits."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(outcome())
    pace.waiting = {"sim/b": 11 * MINUTE}
    assert stops(pace, 1) == [12]
    assert pace.waiting_for(["sim/a"]) == ["an outcome of sim/b, which waits for units since minute 11"]
    pace.on_outcome(outcome("sim/b", 11, "commanded", reason="advise"))
    assert pace.waiting_for(["sim/a"]) == []


def test_a_job_that_is_looked_after_anyhow_owes_nothing_more() -> None:
    """An act of it that waits has its own promise."""
    pace = at_first_span_end(lockstep())
    pace.on_outcome(pending(30))
    pace.waiting = {"sim/a": 10 * MINUTE}
    pace.move_on()
    assert pace.waiting_for(["sim/b"]) == []


def test_an_act_that_waits_for_a_checkpoint_must_be_told_of_each() -> None:
    """The next one is a stop; an outcome that knows of it lets the clock go on."""
    pace = at_first_span_end(lockstep())
    pace.checkpoint_interval_ms = 2 * MINUTE
    pace.on_outcome(outcome(status="pending", reason="stabilizing", until_ms=15 * MINUTE))
    assert stops(pace, 1) == [12]
    pace.checkpoints = {"sim/a": Checkpoint(7, 12 * MINUTE)}
    assert pace.waiting_for(JOBS) == ["an outcome of sim/a@10 that knows of checkpoint 7"]
    pace.on_outcome(outcome(status="pending", reason="stabilizing", until_ms=15 * MINUTE, sequence=1, checkpoint=7))
    assert (pace.waiting_for(JOBS), stops(pace, 1)) == ([], [14])


def test_a_checkpoint_taken_before_the_act_waited_is_none_of_its() -> None:
    """It was taken at the very stop at which the act came."""
    pace = at_first_span_end(lockstep())
    pace.checkpoints = {"sim/a": Checkpoint(7, 10 * MINUTE)}
    pace.on_outcome(outcome(status="pending", reason="stabilized", until_ms=15 * MINUTE))
    assert pace.waiting_for(JOBS) == []


# Hosts that come and go


def balance(at: int, *, version: int = 7, sequence: int = 0, status: str = "settled", until: int | None = None) -> Balance:
    """Return a look of the rescaler at the hosts; times in minutes."""
    return Balance(
        cluster="sim",
        generation=2,
        sequence=sequence,
        status=status,  # type: ignore[arg-type]
        reason="balanced",
        at_ms=at * MINUTE,
        hosts_version=version,
        until_ms=None if until is None else until * MINUTE,
    )


def with_hosts_changed() -> Lockstep:
    """Return a lockstep that stands at minute 10, where a host has died."""
    pace = lockstep()
    pace.on_outcome(outcome())
    pace.on_outcome(outcome("sim/b"))
    pace.move_on()
    pace.on_hosts(7, 10 * MINUTE)
    return pace


def test_hosts_that_change_make_a_stop_one_minute_later() -> None:
    """Where the rescaler owes a look at them."""
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
    """It knows of no hosts that could have changed."""
    pace = lockstep()
    pace.on_hosts(7, 3 * MINUTE)
    assert pace.next_stop() == 10 * MINUTE


def test_changes_of_hosts_that_are_known_in_advance_are_stops() -> None:
    """So that what follows them begins at the next minute, and not at the next stop."""
    pace = lockstep()
    pace.host_changes_ms = (4 * MINUTE,)
    assert pace.next_stop() == 4 * MINUTE
