"""Acts that wait: for what, what they are promised, and how the wait ends."""

from typing import Any

import msgspec
import pytest

from surescale.contracts.job_settings import ExcludedPeriod, PeriodBounds, TaskLimits
from surescale.contracts.messages import TaskSpec
from surescale.rescaler.control.world import View
from tests.support.controller_world import (
    JOB,
    MINUTE_MS,
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


def test_an_act_in_the_cooldown_waits_for_its_end() -> None:
    """The cooldown counts from the end of the last rescale; the promise names its end, and then the act goes."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    done_ms = T0 + 2 * MINUTE_MS
    assert control.on_progress(ended(command, done_ms), seen, done_ms).outcomes == ()
    waiting = only(control.on_decision(decision(done_ms, {"map": 5}), seen, done_ms))
    assert (waiting.status, waiting.reason, waiting.until_ms) == ("pending", "cooldown", done_ms + 30_000)
    assert control.wake_at_ms() == done_ms + 30_000
    assert control.on_tick(seen, done_ms + 29_999).is_empty
    gone = control.on_tick(seen, done_ms + MINUTE_MS)
    assert (only(gone).status, only(gone).sequence, only(gone).at_ms) == ("commanded", 1, done_ms + 30_000)
    assert gone.commands[0].desired_generation == 2


def test_an_act_during_a_rescale_waits_until_that_has_ended() -> None:
    """While a command is on its way the next act waits; its end turns the wait into one for the cooldown."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    waiting = only(control.on_decision(decision(T0 + MINUTE_MS, {"map": 4}), seen, T0 + MINUTE_MS))
    assert (waiting.status, waiting.reason, waiting.until_ms) == ("pending", "rescale_in_progress", T0 + 2 * MINUTE_MS)
    cooling = only(control.on_progress(ended(command, T0 + 2 * MINUTE_MS), seen, T0 + 2 * MINUTE_MS))
    assert (cooling.reason, cooling.sequence, cooling.until_ms) == ("cooldown", 1, T0 + 2 * MINUTE_MS + 30_000)


def at_a_period(*, strict: bool, overloaded: bool) -> list[tuple[str, str]]:
    """What becomes of an act that waits for the end of a cooldown while an excluded period begins."""
    period = ExcludedPeriod(starts="00:12", ends="00:30", emergencies=not strict)
    control, seen = controller(), view(excluded=(period,))
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    began_ms = 12 * MINUTE_MS
    effects = control.on_progress(ended(command, began_ms - 20_000), seen, began_ms - 20_000)
    act = decision(began_ms - 10_000, {"map": 5})
    tasks = tuple(msgspec.structs.replace(task, overloaded=overloaded) for task in act.tasks)
    effects += control.on_decision(msgspec.structs.replace(act, tasks=tasks), seen, began_ms - 10_000)
    assert only(effects).reason == "cooldown"
    due_ms = control.wake_at_ms()
    assert due_ms is not None
    assert due_ms >= began_ms
    return said(control.on_tick(seen, due_ms))


def test_an_act_that_waited_into_an_excluded_period_is_refused() -> None:
    """The calendar counts when the wait ends, as a pause does. In a period that is not strict, an overloaded task still grows."""
    assert at_a_period(strict=True, overloaded=True) == [("refused", "excluded_period")]
    assert at_a_period(strict=False, overloaded=False) == [("refused", "excluded_period")]
    assert at_a_period(strict=False, overloaded=True) == [("commanded", "desired")]


def test_of_an_act_whose_wait_ends_in_an_excluded_period_only_what_may_change_does() -> None:
    """The overloaded task grows, the other stays, and the outcome names it: in the command as in its words."""
    period = ExcludedPeriod(starts="00:12", ends="00:30")
    control, seen = controller(), view(excluded=(period,))
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    began_ms = 12 * MINUTE_MS
    control.on_progress(ended(command, began_ms - 20_000), seen, began_ms - 20_000)
    act = decision(began_ms - 10_000, {"map": 5, "join": 3})
    tasks = tuple(msgspec.structs.replace(task, overloaded=task.task == "map") for task in act.tasks)
    control.on_decision(msgspec.structs.replace(act, tasks=tasks), seen, began_ms - 10_000)
    due_ms = control.wake_at_ms()
    assert due_ms is not None
    assert due_ms >= began_ms
    gone = control.on_tick(seen, due_ms)
    assert [(change.task, change.before, change.after) for change in gone.commands[0].changes] == [("map", 3, 5)]
    assert only(gone).detail == "join: an excluded period has begun"
    assert said(control.on_progress(ended(gone.commands[0], due_ms + MINUTE_MS), seen, due_ms + MINUTE_MS)) == []


@pytest.mark.parametrize(
    ("bounds", "wanted", "becomes"),
    [
        ({"most": 4}, {"map": 5}, ("refused", "out_of_bounds")),
        ({"most": 4}, {"map": 4}, ("commanded", "desired")),
        ({"most": 4}, {"map": 2}, ("commanded", "desired")),
        ({"least": 3}, {"map": 2}, ("refused", "out_of_bounds")),
        ({"least": 5}, {"map": 4}, ("commanded", "desired")),  # towards it
        ({"objective": "cost"}, {"map": 5}, ("commanded", "desired")),
    ],
)
def test_an_act_that_waited_into_a_period_with_bounds_keeps_them(
    bounds: dict[str, Any], wanted: dict[str, int], becomes: tuple[str, str]
) -> None:
    """It was accepted before the period began. One that leaves the bounds ends, and says until when they hold."""
    within = PeriodBounds(period=ExcludedPeriod(starts="00:12", ends="00:30"), **bounds)
    control, seen = controller(), view(minimum_within=(within,))
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    began_ms = 12 * MINUTE_MS
    effects = control.on_progress(ended(command, began_ms - 20_000), seen, began_ms - 20_000)
    effects += control.on_decision(decision(began_ms - 10_000, wanted), seen, began_ms - 10_000)
    assert only(effects).reason == "cooldown"
    due_ms = control.wake_at_ms()
    assert due_ms is not None
    effects = control.on_tick(seen, due_ms)
    assert said(effects) == [becomes]
    if becomes[0] == "refused":
        assert only(effects).detail.startswith(f"tasks[0].desired: {wanted['map']} for 'map', allowed ")
        assert only(effects).detail.endswith(" until 00:30 UTC")


@pytest.mark.parametrize(
    ("later", "becomes"),
    [
        ({"parallelism_max": 4}, "out_of_bounds"),
        ({"parallelism_max": 5}, "desired"),
        ({"tasks": {"map": TaskLimits(parallelism_max=4)}}, "out_of_bounds"),
        ({"tasks": {"map": TaskLimits(pinned=True)}}, "out_of_bounds"),
        ({"total_limit": 6}, "above_total_limit"),
        ({"rescales_a_day_max": 1}, "too_many_a_day"),
        ({"cpu_limit": 4.0}, "above_cpu_limit"),
        ({"memory_limit": 4.0}, "above_memory_limit"),
    ],
)
@pytest.mark.parametrize("restarts", [False, True])
def test_an_act_that_waited_keeps_the_limits_that_its_owner_set_meanwhile(
    later: dict[str, Any], becomes: str, restarts: bool
) -> None:
    """It was accepted under wider ones. The rescaler may have ended and begun anew between the two."""
    control, seen, first = controller(), view(), decision(T0, {"map": 3})
    written = [control.on_decision(first, seen, T0)]
    (command,) = written[0].commands
    done_ms = T0 + MINUTE_MS
    after = view(carried_out(job(), command))
    written.append(control.on_progress(ended(command, done_ms), after, done_ms))
    written.append(control.on_decision(decision(done_ms, {"map": 5}), after, done_ms))
    assert said(written[-1]) == [("pending", "cooldown")]
    narrow = view(carried_out(job(), command), **later)
    due_ms = control.wake_at_ms()
    assert due_ms is not None
    effects = (resumed(written) if restarts else control).on_tick(narrow, due_ms)
    assert said(effects) == [("commanded" if becomes == "desired" else "refused", becomes)]
    assert [dict(each.targets) for each in effects.commands] == ([{"map": 5}] if becomes == "desired" else [])


def test_a_shrink_that_waited_keeps_a_minimum_that_its_owner_set_meanwhile() -> None:
    """Nothing of it is carried out."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    after = carried_out(job(), command)
    control.on_progress(ended(command, T0 + MINUTE_MS), view(after), T0 + MINUTE_MS)
    control.on_decision(decision(T0 + MINUTE_MS, {"map": 1, "join": 3}), view(after), T0 + MINUTE_MS)
    assert said(control.on_tick(view(after, parallelism_min=2), T0 + 10 * MINUTE_MS)) == [("refused", "out_of_bounds")]


def test_a_wait_for_a_rescale_is_promised_to_end_with_it() -> None:
    """Once the engine has said when a command will be done, that is the promise; the answer comes with the report."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    done_ms = T0 + 3 * MINUTE_MS
    accepted = msgspec.structs.replace(ended(command, T0 + 100, "accepted"), duration_ms=done_ms - T0 - 100)
    assert control.on_progress(accepted, seen, T0 + 100).outcomes == ()
    waiting = only(control.on_decision(decision(T0 + MINUTE_MS, {"map": 4}), seen, T0 + MINUTE_MS))
    assert (waiting.reason, waiting.until_ms) == ("rescale_in_progress", done_ms)
    assert control.on_tick(seen, done_ms).is_empty
    assert only(control.on_progress(ended(command, done_ms), seen, done_ms)).reason == "cooldown"


def test_a_report_that_does_not_come_prolongs_the_promise() -> None:
    """A minute after the promised time without a report the act is told to wait on."""
    control, seen = controller(), view()
    control.on_decision(decision(T0, {"map": 3}), seen, T0)
    control.on_decision(decision(T0 + MINUTE_MS, {"map": 4}), seen, T0 + MINUTE_MS)
    assert control.wake_at_ms() == T0 + 3 * MINUTE_MS
    waiting = only(control.on_tick(seen, T0 + 3 * MINUTE_MS))
    assert (waiting.reason, waiting.sequence, waiting.until_ms) == ("rescale_in_progress", 1, T0 + 4 * MINUTE_MS)


@pytest.mark.parametrize("wanted", [{"map": 4}, None])
def test_a_newer_decision_takes_the_place_of_a_waiting_act(wanted: dict[str, int] | None) -> None:
    """A newer act, and a newer hold as well, supersedes the act that waits."""
    control, seen = controller(), view()
    control.on_decision(decision(T0, {"map": 3}), seen, T0)
    control.on_decision(decision(T0 + MINUTE_MS, {"map": 5}), seen, T0 + MINUTE_MS)
    effects = control.on_decision(decision(T0 + 2 * MINUTE_MS, wanted), seen, T0 + 2 * MINUTE_MS)
    assert said(effects)[0] == ("superseded", "newer_decision")
    assert said(effects)[1][0] == ("held" if wanted is None else "pending")


def test_a_superseded_act_is_forgotten_by_the_gate() -> None:
    """After a hold has superseded an act nothing goes at the end of the cooldown."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_progress(ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS)
    control.on_decision(decision(T0 + MINUTE_MS, {"map": 5}), seen, T0 + MINUTE_MS)
    control.on_decision(decision(T0 + MINUTE_MS + 1, None), seen, T0 + MINUTE_MS + 1)
    gone = control.on_tick(seen, T0 + 10 * MINUTE_MS)
    assert (gone.outcomes, gone.commands, control.wake_at_ms()) == ((), (), None)


def test_fewer_units_than_wanted_give_part_of_it_after_the_stabilization() -> None:
    """With units for more than now but not for all, the act waits for more and then goes with what there is."""
    control, seen = controller(), view(hosts=cluster(1, 5))
    seen = View(seen.cluster, {JOB: job(units=(0, 1))}, seen.settings)
    waiting = only(control.on_decision(decision(T0, {"map": 8}), seen, T0))
    assert (waiting.status, waiting.reason, waiting.until_ms) == ("pending", "stabilizing", T0 + 60_000)
    gone = control.on_tick(seen, T0 + 60_000)
    assert said(gone) == [("commanded", "sufficient")]
    assert [(change.task, change.after) for change in gone.commands[0].changes] == [("map", 5)]


def test_without_units_an_act_is_refused_after_waiting() -> None:
    """A job that cannot get a single unit more waits for some and is then told so; it never waits forever."""
    control, seen = controller(), View(cluster(1, 2), {JOB: job(units=(0, 1))}, {})
    waiting = only(control.on_decision(decision(T0, {"map": 4}, floor=4), seen, T0))
    assert (waiting.reason, waiting.until_ms) == ("not_enough_parallel_units", T0 + 60_000)
    refused = only(control.on_tick(seen, T0 + 60_000))
    assert (refused.status, refused.reason) == ("refused", "not_enough_parallel_units")
    assert refused.detail == "the widest task needs at least 4 parallel units, 2 are usable"
    assert control.wake_at_ms() is None


def test_units_that_come_while_an_act_waits_are_taken() -> None:
    """A host that joins lets a waiting act go at once."""
    control = controller()
    control.on_decision(decision(T0, {"map": 4}, floor=4), View(cluster(1, 2), {JOB: job(units=(0, 1))}, {}), T0)
    gone = control.on_tick(View(cluster(2, 2), {JOB: job(units=(0, 1))}, {}), T0 + 5_000)
    assert said(gone) == [("commanded", "desired")]


def test_a_waiting_act_ends_when_its_task_is_gone() -> None:
    """An act that waits for tasks which the job no longer has is refused."""
    control, seen = controller(), view()
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_decision(decision(T0 + 1_000, {"join": 3}), seen, T0 + 1_000)
    smaller = view(job(tasks=(TaskSpec(task="map", parallelism=2, units=(0, 4)),)))
    effects = control.on_progress(ended(command, T0 + MINUTE_MS, "failed"), smaller, T0 + MINUTE_MS)
    assert said(effects) == [("refused", "topology_changed")]


@pytest.mark.parametrize(("seen", "reason"), [(view(mode="observe"), "observe"), (View(cluster()), "unknown_job")])
def test_a_waiting_act_ends_when_it_is_no_longer_allowed(seen: View, reason: str) -> None:
    """A change of mode, or the end of the job, reaches acts that wait, too."""
    control = controller()
    (command,) = control.on_decision(decision(T0, {"map": 3}), view(), T0).commands
    control.on_decision(decision(T0 + 1_000, {"map": 4}), view(), T0 + 1_000)
    assert said(control.on_tick(seen, T0 + 2_000)) == [("refused", reason)]
    assert control.on_progress(ended(command, T0 + MINUTE_MS), seen, T0 + MINUTE_MS).outcomes == ()
