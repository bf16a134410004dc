"""What becomes of a decision and of its command: each rule of the controller by itself."""

import msgspec
import pytest

from surescale.contracts.job_settings import ExcludedPeriod, PeriodBounds
from surescale.contracts.messages import JobTopology
from surescale.rescaler.gate_settings import GateSettings
from tests.support.controller_world import (
    JOB,
    MINUTE_MS,
    OTHER_JOB,
    START_MS,
    carried_out,
    cluster,
    controller,
    decision,
    ended,
    job,
    only,
    resumed,
    said,
    view,
)

T0 = START_MS
DAY_MS = 24 * 60 * MINUTE_MS


def test_a_hold_is_held() -> None:
    """A hold gets one outcome and no command."""
    effects = controller().on_decision(decision(T0), view(), T0)
    assert said(effects) == [("held", "hold")]
    assert effects.commands == ()


def test_an_act_with_enough_units_is_commanded_at_once() -> None:
    """Without cooldown to wait for and with units for all of it, an act becomes a command in the same instant."""
    effects = controller().on_decision(decision(T0, {"map": 3}), view(), T0)
    (command,) = effects.commands
    outcome = only(effects)
    assert (outcome.status, outcome.reason, outcome.at_ms) == ("commanded", "desired", T0)
    assert outcome.command_id == command.command_id == "sim/clicks#1.0"
    assert (command.issued_at_ms, command.deadline_ms) == (T0, T0 + 600_000)
    assert [(change.task, change.before, change.after) for change in command.changes] == [("map", 2, 3)]


def test_a_duplicate_is_counted_and_answered_by_nothing() -> None:
    """The same decision id again changes nothing, whatever it now says."""
    control = controller()
    control.on_decision(decision(T0, {"map": 3}), view(), T0)
    again = control.on_decision(decision(T0, {"map": 9}), view(), T0 + 1)
    assert again.is_empty
    assert again.duplicates == 1


@pytest.mark.parametrize(("wanted", "status"), [({"map": 3}, "refused"), (None, "held")])
def test_a_decision_of_an_earlier_span_comes_too_late(wanted: dict[str, int] | None, status: str) -> None:
    """A decision older than the last one handled is refused, or held if it wants nothing."""
    control = controller()
    control.on_decision(decision(T0), view(), T0)
    assert said(control.on_decision(decision(T0 - MINUTE_MS, wanted), view(), T0)) == [(status, "older_decision")]


def test_a_decision_that_was_answered_days_ago_has_had_its_last_outcome() -> None:
    """With an empty checkpoint the Spark job sends the windows of a week again, and the agent decides on each again."""
    control, later_ms = controller(), T0 + 2 * DAY_MS
    assert said(control.on_decision(decision(T0, {"map": 3}), view(), T0)) == [("commanded", "desired")]
    control.on_decision(decision(later_ms), view(), later_ms)
    again = control.on_decision(decision(T0, {"map": 3}), view(), later_ms)
    assert (again.outcomes, again.duplicates) == ((), 1)
    lately = control.on_decision(decision(later_ms - MINUTE_MS, {"map": 3}), view(), later_ms)
    assert said(lately) == [("refused", "older_decision")]


def test_an_unknown_job_is_refused() -> None:
    """An act for a job without topology is refused by name and leaves no memory of a job."""
    effects = controller().on_decision(decision(T0, {"map": 3}, of="sim/nobody"), view(), T0)
    assert said(effects) == [("refused", "unknown_job")]
    assert "sim/nobody" in only(effects).detail
    assert [record.key for record in effects.records] == [f"sim/request/sim/nobody@{T0}/rule"]


@pytest.mark.parametrize("state", ["finished", "failed"])
def test_a_job_that_has_ended_is_refused(state: str) -> None:
    """Nothing is commanded for a job that has finished or failed."""
    assert said(controller().on_decision(decision(T0, {"map": 3}), view(job(state=state)), T0)) == [
        ("refused", "job_not_running")
    ]


@pytest.mark.parametrize(
    ("wanted", "reason", "field"),
    [
        ({"map": 3, "nobody": 2}, "unknown_task", "tasks[1].task"),
        ({"source": 2}, "not_scalable", "tasks[0].desired"),
        ({"map": 11}, "out_of_bounds", "tasks[0].desired"),
    ],
)
def test_a_decision_that_does_not_fit_the_job_is_refused_with_the_field(wanted: dict[str, int], reason: str, field: str) -> None:
    """Unknown tasks, fixed tasks and parallelism outside the bounds are refused, naming the field."""
    outcome = only(controller().on_decision(decision(T0, wanted), view(), T0))
    assert (outcome.status, outcome.reason) == ("refused", reason)
    assert outcome.detail.startswith(field)


def test_a_task_named_twice_is_refused() -> None:
    """A decision that names a task twice contradicts itself."""
    act = decision(T0, {"map": 3})
    twice = msgspec.structs.replace(act, tasks=act.tasks * 2)
    assert said(controller().on_decision(twice, view(), T0)) == [("refused", "repeated_task")]


def test_bounds_that_were_tightened_since_the_decision_hold() -> None:
    """The newest settings count, not those that the decision was made with."""
    assert said(controller().on_decision(decision(T0, {"map": 6}), view(parallelism_max=5), T0)) == [("refused", "out_of_bounds")]
    assert said(controller().on_decision(decision(T0, {"map": 4, "join": 4}), view(total_limit=7), T0)) == [
        ("refused", "above_total_limit")
    ]


def test_no_decision_takes_a_task_below_the_minimum_within_a_period() -> None:
    """Made under earlier settings, say. What is below already may grow towards it."""
    within = PeriodBounds(period=ExcludedPeriod(), least=3)
    wide = view(job(units=(0, 1, 4, 5)), minimum_within=(within,))
    assert said(controller().on_decision(decision(T0, {"map": 2}), wide, T0)) == [("refused", "out_of_bounds")]
    assert said(controller().on_decision(decision(T0, {"map": 3}), wide, T0))[0][0] != "refused"
    narrow = view(minimum_within=(msgspec.structs.replace(within, least=8),))
    assert said(controller().on_decision(decision(T0, {"map": 3}), narrow, T0))[0][0] != "refused"


def test_no_decision_takes_a_task_above_the_maximum_within_a_period() -> None:
    """Nor further away from it; the refusal names the period. Outside of it only the job's own bounds hold."""
    within = PeriodBounds(period=ExcludedPeriod(starts="00:00", ends="06:00"), most=3)
    now = view(minimum_within=(within,))
    refused = only(controller().on_decision(decision(T0, {"map": 4}), now, T0))
    assert (refused.reason, refused.detail) == (
        "out_of_bounds",
        "tasks[0].desired: 4 for 'map', allowed 1 to 3; max 3 until 06:00 UTC",
    )
    assert said(controller().on_decision(decision(T0, {"map": 3}), now, T0))[0][0] != "refused"
    later = view(minimum_within=(msgspec.structs.replace(within, period=ExcludedPeriod(starts="06:00", ends="07:00")),))
    assert said(controller().on_decision(decision(T0, {"map": 4}), later, T0))[0][0] != "refused"


def test_labels_of_the_job_are_limits_where_nobody_set_them() -> None:
    """As for the policies, which read the same labels in the window."""
    labelled = msgspec.structs.replace(job(), labels={"surescale.max": "5"})
    assert said(controller().on_decision(decision(T0, {"map": 6}), view(labelled), T0)) == [("refused", "out_of_bounds")]
    assert said(controller().on_decision(decision(T0, {"map": 6}), view(labelled, parallelism_max=8), T0))[0][0] != "refused"


def test_a_task_above_its_bounds_may_go_towards_them() -> None:
    """In steps, or stay; only further away is refused."""
    wide = job(units=tuple(range(8)))
    assert said(controller().on_decision(decision(T0, {"map": 6}), view(wide, parallelism_max=4), T0))[0][0] != "refused"
    assert said(controller().on_decision(decision(T0, {"map": 9}), view(wide, parallelism_max=4), T0)) == [
        ("refused", "out_of_bounds")
    ]


def test_observe_refuses_and_advise_marks_the_command() -> None:
    """Mode observe gives no command; mode advise gives one that actuators ignore, and waits for no end of it."""
    assert said(controller().on_decision(decision(T0, {"map": 3}), view(mode="observe"), T0)) == [("refused", "observe")]
    control = controller()
    effects = control.on_decision(decision(T0, {"map": 3}), view(mode="advise"), T0)
    assert said(effects) == [("commanded", "advise")]
    assert effects.commands[0].advice
    assert control.memory[JOB].outstanding is None


def test_what_already_is_needs_no_command() -> None:
    """An act that wants the parallelism which the job has by now is refused as no change."""
    assert said(controller().on_decision(decision(T0, {"map": 2}), view(), T0)) == [("refused", "no_change")]


def test_units_of_other_jobs_are_not_touched() -> None:
    """Units that another job runs on, or is about to run on, are not given away."""
    control, seen = controller(), view(job(units=(0, 1)), job(OTHER_JOB, (2, 3)), hosts=cluster(1, 7))
    (first,) = control.on_decision(decision(T0, {"map": 4}), seen, T0).commands
    assert first.changes[0].added_units == (4, 5)
    waiting = only(control.on_decision(decision(T0, {"map": 4}, of=OTHER_JOB), seen, T0))
    assert (waiting.status, waiting.reason) == ("pending", "stabilizing")
    gone = control.on_tick(seen, T0 + 60_000)
    assert gone.commands[0].changes[0].units == (2, 3, 6)


def test_a_failed_command_lengthens_the_wait_and_the_next_act_goes_on() -> None:
    """After a failure the next act waits for the back-off, which doubles with each failure; then it is commanded."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_progress(ended(command, T0 + MINUTE_MS, "failed"), seen, T0 + MINUTE_MS)
    waiting = only(control.on_decision(decision(T0 + MINUTE_MS, {"map": 3}), seen, T0 + MINUTE_MS))
    assert (waiting.reason, waiting.until_ms) == ("backoff", T0 + 2 * MINUTE_MS)
    (second,) = control.on_tick(seen, T0 + 2 * MINUTE_MS).commands
    assert second.desired_generation == 2
    control.on_progress(ended(second, T0 + 3 * MINUTE_MS, "failed"), seen, T0 + 3 * MINUTE_MS)
    again = only(control.on_decision(decision(T0 + 3 * MINUTE_MS, {"map": 3}), seen, T0 + 3 * MINUTE_MS))
    assert again.until_ms == T0 + 5 * MINUTE_MS


def test_a_command_without_an_end_has_failed_at_its_deadline() -> None:
    """Silence until the deadline counts as failure, and the job is not stuck."""
    control, seen = controller(apply_ms_max=300_000), view()
    control.on_decision(decision(T0, {"map": 3}), seen, T0)
    assert control.wake_at_ms() == T0 + 300_000
    (end,) = control.on_tick(seen, T0 + 300_000).progress
    assert (end.status, end.code, end.at_ms) == ("failed", "NOT_REPORTED", T0 + 300_000)
    assert end.detail == "no actuator reported in time how this command ended, and the engine does not show it"
    assert control.memory[JOB].failures == 1
    assert only(control.on_decision(decision(T0 + 310_000, {"map": 3}), seen, T0 + 310_000)).reason == "backoff"


def test_a_command_whose_end_was_not_heard_but_can_be_seen_has_succeeded() -> None:
    """At the deadline the engine's own topology is believed."""
    control, seen = controller(apply_ms_max=300_000), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    (end,) = control.on_tick(view(carried_out(job(), command)), T0 + 300_000).progress
    assert (end.status, end.code, end.command_id) == ("applied", "", command.command_id)
    assert end.detail == "no actuator reported in time how this command ended; the engine shows that it was carried out"
    assert control.memory[JOB].failures == 0
    assert control.memory[JOB].outstanding is None


@pytest.mark.parametrize("status", ["applied", "failed"])
def test_a_report_after_the_end_is_no_second_end(status: str) -> None:
    """What the engine did all the same shows in its topology, from which the next act starts."""
    control, seen = controller(apply_ms_max=300_000), view()
    (command,) = control.on_decision(decision(T0, {"map": 4}), seen, T0).commands
    control.on_tick(seen, T0 + 300_000)
    late_ms = T0 + 310_000
    assert control.on_progress(ended(command, late_ms, status), seen, late_ms).is_empty
    assert (control.memory[JOB].failures, control.memory[JOB].applied.generation) == (1, 0)
    next_ms = T0 + 60 * MINUTE_MS
    (following,) = control.on_decision(decision(next_ms, {"map": 3}), view(carried_out(job(), command)), next_ms).commands
    assert {change.task: (change.before, change.after) for change in following.changes}["map"] == (4, 3)
    assert following.desired_generation == command.desired_generation + 1


def test_progress_of_other_commands_changes_nothing() -> None:
    """Progress that comes twice, late, or for an unknown job is no news."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_progress(ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    assert control.on_progress(ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS).is_empty
    assert controller().on_progress(ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS).is_empty


def test_generations_go_on_from_what_the_engine_shows() -> None:
    """Also with its memory lost the rescaler never uses a generation again."""
    (command,) = controller().on_decision(decision(T0, {"map": 3}), view(job(generation=7)), T0).commands
    assert command.desired_generation == 8


def test_the_placement_generation_counts_commits() -> None:
    """A command is based on the number of commits so far."""
    control, seen = controller(), view()
    (first,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_progress(ended(first, T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    (second,) = control.on_decision(decision(T0 + 5 * MINUTE_MS, {"map": 4}), seen, T0 + 5 * MINUTE_MS).commands
    assert (first.base_placement_generation, second.base_placement_generation) == (0, 1)


def test_a_topology_that_lags_behind_does_not_mislead() -> None:
    """Between the end of a command and the new topology the units of the command count."""
    control, seen = controller(), view()
    (first,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_progress(ended(first, T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    (second,) = control.on_decision(decision(T0 + 5 * MINUTE_MS, {"map": 4}), seen, T0 + 5 * MINUTE_MS).commands
    (change,) = second.changes
    assert change.before == 3
    assert set(first.changes[0].units) < set(change.units)


def test_a_topology_that_lags_two_commands_behind_does_not_mislead() -> None:
    """The units of every command count until the topology shows the last of them."""
    control, seen = controller(warm_up_ms_max=0), view()
    for minute, wanted in ((0, {"map": 3}), (5, {"join": 3})):
        at_ms = T0 + minute * MINUTE_MS
        (command,) = control.on_decision(decision(at_ms, wanted), seen, at_ms).commands
        control.on_progress(ended(command, at_ms + MINUTE_MS), seen, at_ms + MINUTE_MS)
    third = control.on_decision(decision(T0 + 10 * MINUTE_MS, {"map": 4, "join": 4}), seen, T0 + 10 * MINUTE_MS)
    assert [(change.before, change.after) for change in third.commands[0].changes] == [(3, 4), (3, 4)]


def test_a_job_that_was_rescaled_by_someone_else_is_taken_as_it_is() -> None:
    """The engine's topology wins over the gate's memory."""
    control, seen = controller(), view()
    (first,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_progress(ended(first, T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    foreign = view(job(units=(0, 4, 8, 1, 5), generation=9))
    (command,) = control.on_decision(decision(T0 + 5 * MINUTE_MS, {"map": 6}), foreign, T0 + 5 * MINUTE_MS).commands
    assert [(change.task, change.before, change.after) for change in command.changes] == [("map", 5, 6)]


def test_without_a_cooldown_the_next_act_goes_as_soon_as_the_last_one_has_ended() -> None:
    """The end of one command and the start of the next are one instant."""
    control, seen = controller(gate=GateSettings(cooldown_ms=0)), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_decision(decision(T0 + 1_000, {"map": 4}), seen, T0 + 1_000)
    effects = control.on_progress(ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    assert said(effects) == [("commanded", "desired")]
    assert effects.commands[0].base_placement_generation == 1


def test_a_job_that_waits_for_units_is_started_by_an_act() -> None:
    """A job without running tasks passes the gate's waiting mode, without cooldown."""
    bare = tuple(msgspec.structs.replace(spec, units=()) for spec in job().tasks)
    waiting: JobTopology = msgspec.structs.replace(job(state="waiting"), tasks=bare)
    effects = controller().on_decision(decision(T0, {"map": 3}), view(waiting), T0)
    assert said(effects) == [("commanded", "desired")]
    assert [change.task for change in effects.commands[0].changes] == ["map", "join"]


def test_a_controller_goes_on_from_its_records() -> None:
    """A controller built from the records alone answers as the one that wrote them."""
    control, seen = controller(), view()
    written = [control.on_decision(decision(T0, {"map": 3}), seen, T0)]
    written.append(control.on_decision(decision(T0 + 1_000, {"map": 4}), seen, T0 + 1_000))
    command = written[0].commands[0]
    heir = resumed(written)
    assert heir.memory == control.memory
    assert heir.on_decision(decision(T0, {"map": 3}), seen, T0 + 2_000).duplicates == 1
    assert heir.on_progress(ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS) == control.on_progress(
        ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS
    )


def test_answers_are_forgotten_after_a_day() -> None:
    """A day after its last outcome a decision's record is replaced by a tombstone."""
    control, seen = controller(), view()
    control.on_decision(decision(T0), seen, T0)
    later_ms = T0 + 25 * 60 * MINUTE_MS
    effects = control.on_decision(decision(later_ms), seen, later_ms)
    assert [record.key for record in effects.records if record.record is None] == [f"sim/request/sim/clicks@{T0}/rule"]
