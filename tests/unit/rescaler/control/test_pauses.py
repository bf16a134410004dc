"""What a pause stops: decisions in its direction, waiting acts, and with both directions what the rescaler does by itself."""

import msgspec
import pytest

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.job_settings import Direction, JobSettings, Pause
from surescale.contracts.messages import ClusterTopology, JobTopology, TaskSpec
from surescale.rescaler.control.settings import Balancing, PlacingSettings
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
    without_units,
)

T0 = START_MS
UNTIL_MS = T0 + 30 * MINUTE_MS
COUNTS = Capabilities(engine="flink", acts="counts")


def pause(direction: Direction = "both", until_ms: int | None = None) -> Pause:
    """A pause that ana has set."""
    return Pause(direction=direction, until_ms=until_ms, why="release day", by="ana", at_ms=T0)


def paused(direction: Direction = "both", until_ms: int | None = None, of: str = JOB, seen: View | None = None) -> View:
    """A view of the job while it, or all jobs of its cluster (``sim/*``), are paused."""
    seen = seen or view(job())
    allowed = seen.settings.get(of) or JobSettings(job=of)
    return View(
        seen.cluster, seen.jobs, {**seen.settings, of: msgspec.structs.replace(allowed, pause=pause(direction, until_ms))}
    )


def overloaded(wanted: int) -> object:
    """An act that a job in trouble needs."""
    act = decision(T0, {"map": wanted})
    return msgspec.structs.replace(act, tasks=(msgspec.structs.replace(act.tasks[0], overloaded=True, floor=wanted),))


@pytest.mark.parametrize(
    ("direction", "wanted", "stopped"),
    [("up", 3, True), ("up", 1, False), ("down", 1, True), ("down", 3, False), ("both", 3, True), ("both", 1, True)],
)
@pytest.mark.parametrize("of", [JOB, "sim/*"])
def test_a_pause_stops_its_direction(of: str, direction: Direction, wanted: int, stopped: bool) -> None:
    """An act in a paused direction is refused and says who paused what and why; the other direction goes on."""
    outcome = only(controller().on_decision(decision(T0, {"map": wanted}), paused(direction, of=of), T0))
    assert (outcome.status, outcome.reason) == (("refused", "paused") if stopped else ("commanded", "desired"))
    if stopped:
        what = {"up": "scaling up", "down": "scaling down", "both": "rescaling"}[direction]
        scope = "sim" if of == "sim/*" else JOB
        assert outcome.detail == f"map: {what} of {scope} is paused by ana until further notice: release day"
        assert outcome.code == "PAUSED"


def test_a_pause_of_another_cluster_stops_nothing() -> None:
    """Nor does one of another job."""
    seen = paused(of="other/*", seen=paused(of="sim/orders"))
    assert said(controller().on_decision(decision(T0, {"map": 3}), seen, T0)) == [("commanded", "desired")]


@pytest.mark.parametrize("direction", ["up", "both"])
def test_an_explicit_pause_also_stops_an_emergency(direction: Direction) -> None:
    """An excluded period lets an overloaded task grow; a person who pauses growth means it."""
    outcome = only(controller().on_decision(overloaded(4), paused(direction), T0))  # type: ignore[arg-type]
    assert (outcome.status, outcome.reason) == ("refused", "paused")


def test_a_pause_ends_by_the_clock() -> None:
    """The act is refused a millisecond before its end and carried out at its end."""
    seen = paused(until_ms=UNTIL_MS)
    refused = only(controller().on_decision(decision(T0, {"map": 3}), seen, UNTIL_MS - 1))
    assert (refused.reason, refused.detail) == (
        "paused", "map: rescaling of sim/clicks is paused by ana until 1970-01-01 00:40:00: release day",
    )  # fmt: skip
    assert said(controller().on_decision(decision(UNTIL_MS, {"map": 3}), seen, UNTIL_MS)) == [("commanded", "desired")]


def test_of_a_mixed_act_the_other_direction_is_carried_out() -> None:
    """One task grows, the other would shrink, which is paused: it stays, and the outcome names it."""
    effects = controller().on_decision(decision(T0, {"map": 3, "join": 1}), paused("down"), T0)
    outcome, (command,) = only(effects), effects.commands
    assert command.targets == {"map": 3}
    assert (outcome.status, outcome.detail.split(":")[0]) == ("commanded", "join")


def test_what_a_paused_shrink_was_to_make_room_for_does_not_exceed_the_total() -> None:
    """Without the shrink the growth no longer fits the total: the limit holds, and the refusal names the pause too."""
    seen = paused("down", seen=view(job(), total_limit=4))
    outcome = only(controller().on_decision(decision(T0, {"map": 3, "join": 1}), seen, T0))
    assert (outcome.status, outcome.reason) == ("refused", "above_total_limit")
    assert "scaling down of sim/clicks is paused" in outcome.detail


def test_tied_tasks_stay_together() -> None:
    """If one of two tasks on a forward edge may not grow to their common size, the other does not shrink to it."""
    tied = tuple(
        TaskSpec(task=name, parallelism=size, required=size, tied="chain", max_parallelism=10)
        for name, size in (("map", 2), ("join", 4))
    )
    seen = view(
        JobTopology(job=JOB, version=1, at_ms=0, tasks=tied, engine="flink"),
        hosts=ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=(), engine=COUNTS),
        mode="act",
    )
    refused = only(controller().on_decision(decision(T0, {"map": 3, "join": 3}), paused("up", seen=seen), T0))
    assert (refused.status, refused.reason) == ("refused", "paused")


def test_an_act_that_waits_is_refused_when_its_direction_is_paused() -> None:
    """It waits for units that are not there; then somebody pauses growth."""
    control, seen = controller(), view(job(), hosts=cluster(1, 2))
    assert said(control.on_decision(decision(T0, {"map": 3}), seen, T0))[0][0] == "pending"
    refused = only(control.on_tick(paused("up", seen=seen), T0 + 1_000))
    assert (refused.status, refused.reason) == ("refused", "paused")
    assert control.memory[JOB].pending is None


def test_an_act_that_waits_goes_on_with_what_is_not_paused() -> None:
    """It waits for the rescale before it; meanwhile growth is paused, and only the shrink is left."""
    control, seen = controller(), view(job())
    (first,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    later = T0 + MINUTE_MS
    assert said(control.on_decision(decision(later, {"map": 4, "join": 1}), seen, later)) == [("pending", "rescale_in_progress")]
    assert said(control.on_tick(paused("up", seen=seen), later)) == []  # what it would change shows when the first has ended
    after = View(seen.cluster, {JOB: carried_out(job(), first)}, seen.settings)
    effects = control.on_progress(ended(first, later), paused("up", seen=after), later)
    effects += control.on_tick(paused("up", seen=after), later + 10 * MINUTE_MS)
    (command,) = effects.commands
    assert command.targets == {"join": 1}


def test_what_an_act_would_change_counts_from_the_end_of_the_rescale_before_it() -> None:
    """Three subtasks are more than the two that run, and fewer than the four that will: growth is paused, the shrink is done."""
    control, seen = controller(), view(job())
    (first,) = control.on_decision(decision(T0, {"map": 4}), seen, T0).commands
    later = T0 + MINUTE_MS
    control.on_decision(decision(later, {"map": 3}), seen, later)
    assert said(control.on_tick(paused("up", seen=seen), later)) == []
    after = paused("up", seen=View(seen.cluster, {JOB: carried_out(job(), first)}, seen.settings))
    effects = control.on_progress(ended(first, later), after, later) + control.on_tick(after, later + 10 * MINUTE_MS)
    assert [command.targets["map"] for command in effects.commands] == [3]


def test_a_rescale_that_has_begun_ends() -> None:
    """Its last report counts as ever."""
    control, seen = controller(), view(job())
    (command,) = control.on_decision(decision(T0, {"map": 3}), seen, T0).commands
    control.on_progress(ended(command, T0 + 1_000), paused(seen=seen), T0 + 1_000)
    assert control.memory[JOB].applied.generation == command.desired_generation


def test_a_job_without_units_is_started_again_whatever_is_paused() -> None:
    """Also while acts are decided on it: a refused one does not put off the start."""
    control, seen = controller(), paused()
    control.on_tick(seen, T0)
    lost = paused(seen=view(without_units(job()), hosts=cluster(0)))
    assert said(control.on_tick(lost, T0 + 1_000))[0][0] == "pending"
    waiting = control.memory[JOB].pending
    later = T0 + MINUTE_MS
    assert said(control.on_decision(decision(later, {"map": 5}), lost, later))[0] == ("refused", "paused")
    assert control.memory[JOB].pending is not None
    assert control.memory[JOB].pending.decision_id == waiting.decision_id  # type: ignore[union-attr]
    again = paused(seen=view(without_units(job()), hosts=cluster(3, 4)))
    assert ("commanded", "desired") in said(control.on_tick(again, later + 1_000))


def test_a_job_leaves_a_host_that_will_go_whatever_is_paused() -> None:
    """Staying would cost it its units."""
    seen = paused(seen=view(job(), hosts=cluster(3, 4, h0="removed_soon")))
    assert said(controller().on_tick(seen, T0)) == [("commanded", "desired")]


@pytest.mark.parametrize(("direction", "stopped"), [("both", True), ("up", False), ("down", False)])
def test_units_follow_hosts_only_while_not_all_is_paused(direction: Direction, stopped: bool) -> None:
    """With both directions paused nothing is balanced; when the pause has ended, the units follow."""
    control = controller(placing=PlacingSettings("spread"), balancing=Balancing(factor="0", units_max=2))
    packed = job(units=(0, 1, 2, 3))
    before, joined = view(packed, hosts=cluster(1, 4)), view(packed, hosts=cluster(2, 4))
    control.on_decision(decision(T0), before, T0)
    effects = control.on_tick(paused(direction, UNTIL_MS, seen=joined), T0 + MINUTE_MS)
    effects += control.on_tick(paused(direction, UNTIL_MS, seen=joined), T0 + 3 * MINUTE_MS)
    assert [command.action for command in effects.commands] == ([] if stopped else ["prepare"])
    if stopped:
        assert [look.status for look in effects.balances][-1] == "settled"  # it does not look again and again meanwhile
        effects = control.on_tick(paused(direction, UNTIL_MS, seen=joined), UNTIL_MS)
        assert [command.action for command in effects.commands] == ["prepare"]


def test_a_condition_says_what_is_paused_and_that_it_has_ended() -> None:
    """It comes with the first pause, names who, until when and why, and goes false by itself at its end."""
    control = controller()
    records = [control.on_decision(decision(T0), view(job()), T0)]
    assert "Paused" not in {each.type for each in control.memory[JOB].conditions}
    records.append(control.on_tick(paused("down", UNTIL_MS), T0 + 1_000))
    (now,) = [each for each in control.memory[JOB].conditions if each.type == "Paused"]
    assert (now.status, now.reason, now.last_transition_ms) == (True, "ScalingDown", T0 + 1_000)
    assert now.message == "scaling down of sim/clicks is paused by ana until 1970-01-01 00:40:00: release day"
    for heir in (control, resumed(records)):
        heir.on_tick(paused("down", UNTIL_MS), UNTIL_MS)
        (now,) = [each for each in heir.memory[JOB].conditions if each.type == "Paused"]
        assert (now.status, now.last_transition_ms) == (False, UNTIL_MS)


def test_a_pause_far_beyond_any_calendar_is_one_without_end() -> None:
    """A forger of such a record stops rescales, which every writer of settings may do, and not the rescaler."""
    outcome = only(controller().on_decision(decision(T0, {"map": 3}), paused(until_ms=2**53), T0))
    assert "until further notice" in outcome.detail
