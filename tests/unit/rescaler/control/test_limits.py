"""Limits that need a memory: how often, how long a lower need lasts, growth that did not help, and cores."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.decisions import Amendment, Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, Host, JobTopology, TaskSpec
from surescale.contracts.topology import slots_needed
from surescale.policies.stateful_limits import Growth, LimitsMemory, Need, Slot, apply_limits, slot_of, with_needs
from surescale.rescaler.control.controller import Controller
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.control.world import View
from tests.support.controller_world import (
    JOB,
    MINUTE_MS,
    START_MS,
    carried_out,
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
DAY_MINUTES = 24 * 60


def at(minutes: int) -> int:
    """The event time this many minutes after the first decision."""
    return T0 + minutes * MINUTE_MS


def rescaled(control: Controller, seen: View, minutes: int, wanted: Decision) -> tuple[Effects, View]:
    """Decide, carry out what is commanded, and return what was said with the job as it runs then."""
    effects = control.on_decision(wanted, seen, at(minutes))
    for command in effects.commands:
        control.on_progress(ended(command, at(minutes) + 1_000), seen, at(minutes) + 1_000)
        seen = View(seen.cluster, {JOB: carried_out(seen.jobs[JOB], command)}, seen.settings)
    return effects, seen


def busy(minutes: int, wanted: int, records: float) -> Decision:
    """An act for ``map``, which is overloaded and processes this many records a minute."""
    act = decision(at(minutes), {"map": wanted})
    (task,) = act.tasks
    return msgspec.structs.replace(act, tasks=(msgspec.structs.replace(task, overloaded=True, records_per_minute=records),))


def coming(act: Decision, load: float) -> Decision:
    """Return a decision at a load of its job."""
    return msgspec.structs.replace(act, load_records_per_minute=load)


def test_a_job_is_rescaled_only_so_often_a_day() -> None:
    """The third act of a day is refused, with the figure and the field; a day after the first it may be done again."""
    control, seen = controller(), view(rescales_a_day_max=2)
    for minutes, wanted in ((0, 3), (60, 4)):
        effects, seen = rescaled(control, seen, minutes, decision(at(minutes), {"map": wanted}))
        assert only(effects).status == "commanded"
    refused = only(control.on_decision(decision(at(120), {"map": 3}), seen, at(120)))
    assert (refused.status, refused.reason, refused.code) == ("refused", "too_many_a_day", "TOO_MANY_A_DAY")
    assert refused.detail == "rescales_a_day_max: 2 rescales in the last 24 hours, allowed 2"
    effects, _ = rescaled(control, seen, DAY_MINUTES + 1, decision(at(DAY_MINUTES + 1), {"map": 3}))
    assert only(effects).status == "commanded"


def test_a_successor_knows_how_often_the_job_was_rescaled() -> None:
    """The count is part of what the rescaler writes down."""
    control, seen = controller(), view(rescales_a_day_max=1)
    first = control.on_decision(decision(T0, {"map": 3}), seen, T0)
    second = control.on_progress(ended(first.commands[0], T0 + 1_000), seen, T0 + 1_000)
    after = resumed([first, second])
    now = View(seen.cluster, {JOB: carried_out(job(), first.commands[0])}, seen.settings)
    assert said(after.on_decision(decision(at(60), {"map": 4}), now, at(60))) == [("refused", "too_many_a_day")]


def test_a_limit_of_no_rescales_still_lets_the_rescaler_say_what_it_would_do() -> None:
    """Zero a day is no act at all; holds are held."""
    control, seen = controller(), view(rescales_a_day_max=0)
    assert said(control.on_decision(decision(T0, {"map": 3}), seen, T0)) == [("refused", "too_many_a_day")]
    assert said(control.on_decision(decision(at(10)), seen, at(10))) == [("held", "hold")]


def test_a_lower_need_must_last() -> None:
    """Three decisions in a row want one subtask; the first to be carried out comes after half an hour."""
    control, seen = controller(), view(scale_down_after_minutes=30)
    control.on_decision(decision(T0), seen, T0)  # two are needed
    for minutes in (10, 20, 30):
        refused = only(control.on_decision(decision(at(minutes), {"map": 1}), seen, at(minutes)))
        assert (refused.status, refused.reason) == ("refused", "scale_down_waits")
        assert refused.detail == "map: 1 must be enough for 30 minutes, until then 2"
    effects, _ = rescaled(control, seen, 40, decision(at(40), {"map": 1}))
    assert [(change.before, change.after) for change in effects.commands[0].changes] == [(2, 1)]


@pytest.mark.parametrize("span", [1, 5, 10])
@pytest.mark.parametrize("why", ["undecided", "unproven"])
def test_a_span_of_which_nothing_is_known_is_no_higher_need(span: int, why: str) -> None:
    """The job stays as it is meanwhile; the lower need must last for as many known minutes, also for a successor."""
    control, seen = controller(), view(scale_down_after_minutes=30)
    done = [control.on_decision(decision(T0), seen, T0)]  # two are needed
    for minutes in range(span, 30 + 2 * span, span):
        act = decision(at(minutes), {"map": 1})
        if minutes == 10:
            (task,) = act.tasks
            doubt = Amendment(rule="unproven", before=1, after=2)
            stays = msgspec.structs.replace(task, desired=2, amendments=(doubt,) if why == "unproven" else ())
            unknown = why == "undecided"
            act = msgspec.structs.replace(act, action="hold", tasks=(stays,), undecided=unknown)
        done.append(control.on_decision(act, seen, at(minutes)))
        assert not done[-1].commands
        control = resumed(done)
    last = at(30 + 2 * span)
    effects = control.on_decision(decision(last, {"map": 1}), seen, last)
    assert [(change.before, change.after) for change in effects.commands[0].changes] == [(2, 1)]


def test_a_pause_of_which_nothing_is_known_does_not_count() -> None:
    """Half an hour without figures proves nothing; 30 known minutes after the first decision it may shrink."""
    control, seen = controller(), view(scale_down_after_minutes=30)
    for minutes, known, status in ((0, 60, "refused"), (10, 60, "refused"), (50, 10, "refused"), (60, 20, "commanded")):
        act = msgspec.structs.replace(decision(at(minutes), {"map": 1}), minutes_known=known)
        assert only(control.on_decision(act, seen, at(minutes))).status == status


def test_what_was_needed_meanwhile_is_what_is_kept() -> None:
    """Of needs of 3 and then 1 within the time, 3 is the most: the job goes from four to three at first."""
    control = controller()
    seen = View(view().cluster, {JOB: job(units=(0, 1, 4, 5))}, view(scale_down_after_minutes=30).settings)
    control.on_decision(decision(T0, {"map": 4}), seen, T0)
    assert said(control.on_decision(decision(at(10), {"map": 3}), seen, at(10))) == [("refused", "scale_down_waits")]
    effects, seen = rescaled(control, seen, 40, decision(at(40), {"map": 1}))
    assert [(change.before, change.after) for change in effects.commands[0].changes] == [(4, 3)]
    assert only(effects).detail == "map: 1 must be enough for 30 minutes, until then 3"


def test_growth_never_waits() -> None:
    """The time is for scaling down alone, also where one task grows and another wants to shrink."""
    control, seen = controller(), view(scale_down_after_minutes=60)
    effects, _ = rescaled(control, seen, 0, decision(T0, {"map": 4, "join": 1}))
    assert [(change.task, change.after) for change in effects.commands[0].changes] == [("map", 4)]
    assert "join: 1 must be enough" in only(effects).detail


def test_the_total_is_worth_more_than_the_wait() -> None:
    """What was to shrink makes room for what grows where the total leaves no other."""
    control, seen = controller(), view(scale_down_after_minutes=60, total_limit=4)
    effects = control.on_decision(decision(T0, {"map": 3, "join": 1}), seen, T0)
    assert {change.task: change.after for change in effects.commands[0].changes} == {"map": 3, "join": 1}


def test_growth_that_brought_nothing_is_not_repeated() -> None:
    """Twice the subtasks and the same throughput, still overloaded: somewhere else is the bottleneck."""
    control, seen = controller(), view(block_ineffective=True)
    _, seen = rescaled(control, seen, 0, busy(0, 4, 1_000.0))
    refused = only(control.on_decision(busy(10, 8, 1_050.0), seen, at(10)))
    assert (refused.status, refused.reason) == ("refused", "ineffective")
    assert refused.detail == "map: growing from 2 to 4 changed its throughput by 5%, not 100%"
    assert only(control.on_decision(busy(90, 8, 1_050.0), seen, at(90))).reason == "ineffective"
    later, _ = rescaled(control, seen, 25 * 60, busy(25 * 60, 8, 1_050.0))
    assert only(later).status == "commanded"


def test_growth_that_brought_nothing_is_repeated_once_more_is_got_through() -> None:
    """What was in the way has gone: the service outside is back."""
    control, seen = controller(), view(block_ineffective=True)
    _, seen = rescaled(control, seen, 0, busy(0, 4, 1_000.0))
    assert only(control.on_decision(busy(90, 8, 1_050.0), seen, at(90))).reason == "ineffective"
    effects, _ = rescaled(control, seen, 91, busy(91, 8, 1_900.0))
    assert only(effects).status == "commanded"


def test_growth_for_one_load_waits_for_the_effect_of_the_one_before() -> None:
    """Subtasks that all wait for one service seem slower the more they are: 4, 8, 16, 32 within minutes otherwise."""
    control, seen = controller(), view(block_ineffective=True)
    _, seen = rescaled(control, seen, 0, coming(busy(0, 4, 1_000.0), 2_000.0))
    refused = only(control.on_decision(coming(busy(3, 8, 1_000.0), 2_050.0), seen, at(3)))
    assert (refused.status, refused.reason) == ("refused", "ineffective")
    assert refused.detail == "map: it grew from 2 to 4 for this load, and what that does shows within 3 minutes"
    assert only(control.on_decision(busy(4, 8, 1_000.0), seen, at(4))).reason == "ineffective", "nobody knows what comes"
    effects, _ = rescaled(control, seen, 5, coming(busy(5, 8, 1_000.0), 3_000.0))
    assert only(effects).status == "commanded", "more comes than then"


def test_growth_of_a_task_that_gets_nothing_through_is_not_repeated() -> None:
    """All subtasks wait for something that is away: no number of them helps, until it is back."""
    control, seen = controller(), view(block_ineffective=True)
    _, seen = rescaled(control, seen, 0, busy(0, 4, 0.0))
    refused = only(control.on_decision(busy(10, 8, 0.0), seen, at(10)))
    assert (refused.reason, refused.detail) == (
        "ineffective",
        "map: growing from 2 to 4 changed its throughput by 0%, not 100%",
    )
    away = busy(80, 8, 0.0)  # after an hour nobody knows any more what a record costs, and so whether it is overloaded
    (task,) = away.tasks
    away = msgspec.structs.replace(away, tasks=(msgspec.structs.replace(task, overloaded=False, waiting_records=5_000.0),))
    assert only(control.on_decision(away, seen, at(80))).reason == "ineffective"
    effects, _ = rescaled(control, seen, 81, busy(81, 8, 1.0))
    assert only(effects).status == "commanded"


@pytest.mark.parametrize(
    ("settings", "records", "minutes"),
    [({"block_ineffective": True}, 1_500.0, 10), ({"block_ineffective": False}, 1_000.0, 10), ({}, 1_000.0, 10),
     ({"block_ineffective": False}, 1_000.0, 3)],
    ids=["half as much more", "not asked for", "a simulated engine by default", "not asked for, and early"],
)  # fmt: skip
def test_growth_is_repeated_where_it_helped(settings: dict[str, object], records: float, minutes: int) -> None:
    """Half of what was expected is some effect; and the check can be off."""
    control, seen = controller(), view(**settings)
    _, seen = rescaled(control, seen, 0, busy(0, 4, 1_000.0))
    effects, _ = rescaled(control, seen, minutes, busy(minutes, 6, records))
    assert only(effects).status == "commanded"


def test_growth_that_could_bring_nothing_was_not_in_vain() -> None:
    """Three subtasks on four partitions are no faster than two: that says nothing of a fourth."""
    control, seen = controller(), view(block_ineffective=True)
    tasks = tuple(msgspec.structs.replace(spec, useful_max=4 if spec.task == "map" else None) for spec in seen.jobs[JOB].tasks)
    seen = View(seen.cluster, {JOB: msgspec.structs.replace(seen.jobs[JOB], tasks=tasks)}, seen.settings)
    _, seen = rescaled(control, seen, 0, busy(0, 3, 1_000.0))
    effects, _ = rescaled(control, seen, 10, busy(10, 4, 1_000.0))
    assert only(effects).status == "commanded"


@pytest.mark.parametrize(("four", "eight", "status"), [(1.7, 3.4, "commanded"), (2.8, 3.4, "refused")])
def test_growth_that_left_hot_partitions_together_says_nothing_of_one_that_parts_them(
    four: float, eight: float, status: str
) -> None:
    """A sticky deal of four members gave one of them both; eight promise more than four did, or less."""
    control, seen = controller(), view(block_ineffective=True)
    hot = {"useful_max": 8, "carries": ((1, 1.0), (2, 1.5), (4, four), (8, eight))}
    tasks = tuple(msgspec.structs.replace(spec, **hot) if spec.task == "map" else spec for spec in seen.jobs[JOB].tasks)
    seen = View(seen.cluster, {JOB: msgspec.structs.replace(seen.jobs[JOB], tasks=tasks)}, seen.settings)
    _, seen = rescaled(control, seen, 0, busy(0, 4, 1_000.0))
    assert only(control.on_decision(busy(10, 8, 1_000.0), seen, at(10))).status == status


def test_growth_in_vain_is_forgiven_once_somebody_has_set_another_size() -> None:
    """Growing from there has not been tried: that more than four brings nothing does not say that more than two does not."""
    control, seen = controller(), view(block_ineffective=True)
    before = seen
    _, seen = rescaled(control, seen, 0, busy(0, 4, 1_000.0))
    assert only(control.on_decision(busy(10, 8, 1_050.0), seen, at(10))).reason == "ineffective"
    shrunk = msgspec.structs.replace(before.jobs[JOB], generation=1, version=9)
    effects, _ = rescaled(control, View(seen.cluster, {JOB: shrunk}, seen.settings), 20, busy(20, 3, 1_050.0))
    assert only(effects).status == "commanded"


def test_growth_that_failed_says_nothing() -> None:
    """A rescale that the engine did not carry out is no evidence."""
    control, seen = controller(), view(block_ineffective=True)
    first = control.on_decision(busy(0, 4, 1_000.0), seen, T0)
    control.on_progress(ended(first.commands[0], T0 + 1_000, "failed", "ENGINE_REFUSED"), seen, T0 + 1_000)
    assert control.memory[JOB].limits.growths == {}


def test_cores_are_limited_where_hosts_say_how_many_they_have() -> None:
    """Two slots a host of four cores: a fourth slot would be eight cores."""
    hosts = tuple(Host(host=f"tm{index}", units=(2 * index, 2 * index + 1), cpu_cores=4.0) for index in range(4))
    cluster = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=hosts)
    seen = view(job(units=(0, 2)), hosts=cluster, cpu_limit=6.0)
    refused = only(controller().on_decision(decision(T0, {"map": 4}), seen, T0))
    assert (refused.reason, refused.detail) == ("above_cpu_limit", "cpu_limit: 8 cores for 4 slots, allowed 6")
    assert only(controller().on_decision(decision(T0, {"map": 3}), seen, T0)).status == "commanded"


def test_memory_is_limited_where_hosts_say_how_much_they_have() -> None:
    """Two slots a host of 3 GiB: a fourth slot would be 6 GiB. A job that is above already may stay as large as it is."""
    hosts = tuple(Host(host=f"tm{index}", units=(2 * index, 2 * index + 1), memory_gb=3.0) for index in range(4))
    cluster = ClusterTopology(cluster="sim", version=1, at_ms=0, hosts=hosts)
    seen = view(job(units=(0, 2)), hosts=cluster, memory_limit=5.0)
    refused = only(controller().on_decision(decision(T0, {"map": 4}), seen, T0))
    assert (refused.reason, refused.detail) == ("above_memory_limit", "memory_limit: 6 GiB for 4 slots, allowed 5")
    assert only(controller().on_decision(decision(T0, {"map": 3}), seen, T0)).status == "commanded"
    above = view(job(units=(0, 2)), hosts=cluster, memory_limit=1.0)
    assert only(controller().on_decision(decision(T0, {"map": 1}), above, T0)).status == "commanded"


def test_tasks_of_one_sharing_group_share_their_slots() -> None:
    """The widest of a group counts; a group of its own takes slots of its own."""
    tasks = (TaskSpec(task="a"), TaskSpec(task="b", upstream=("a",)), TaskSpec(task="c", upstream=("b",), sharing_group="own"))
    topology = JobTopology(job=JOB, version=1, at_ms=0, tasks=tasks)
    assert slots_needed(topology.tasks, {"a": 2, "b": 5, "c": 3}) == 8
    big, small = Host(host="h", slots=4, cpu_cores=8.0, memory_gb=4.0), Host(host="i", slots=1, cpu_cores=1.0, memory_gb=3.0)
    assert slot_of([big, small, Host(host="k")]) == Slot(cores=2.0, memory_gib=3.0)
    assert slot_of([Host(host="k")]) is None


def test_tied_tasks_wait_together() -> None:
    """Where one of two tied tasks waits to shrink, the other does too."""
    tasks = (TaskSpec(task="a", parallelism=4, tied="1"), TaskSpec(task="b", parallelism=4, tied="1", upstream=("a",)))
    topology = JobTopology(job=JOB, version=1, at_ms=0, tasks=tasks)
    memory = LimitsMemory(needs={"a": (Need(since_ms=T0, size=3),), "b": (Need(since_ms=T0, size=2),)})
    wanted = decision(at(60), {"a": 2, "b": 2})
    kept = apply_limits(memory, wanted, topology, JobSettings(job=JOB, scale_down_after_minutes=30), engine="flink", hosts=())
    assert kept.wanted == {"a": 3, "b": 3}


def tied_growth(overloaded: dict[str, bool], records: dict[str, float]) -> tuple[LimitsMemory, Decision, JobTopology]:
    """Return two tied tasks that were given four subtasks for two, what they do now, and the wish for eight."""
    tasks = (TaskSpec(task="a", parallelism=4, tied="1"), TaskSpec(task="b", parallelism=4, tied="1", upstream=("a",)))
    growth = Growth(before=2, after=4, records_per_minute=1_000.0, ended_ms=T0)
    memory = LimitsMemory(growths={task: growth for task, is_it in overloaded.items() if is_it})
    wanted = decision(at(10), {"a": 8, "b": 8})
    asked = tuple(
        msgspec.structs.replace(task, current=4, overloaded=overloaded[task.task], records_per_minute=records[task.task])
        for task in wanted.tasks
    )
    return memory, msgspec.structs.replace(wanted, tasks=asked), JobTopology(job=JOB, version=1, at_ms=0, tasks=tasks)


@pytest.mark.parametrize(
    ("overloaded", "b_does", "left"),
    [((True, False), 1_000.0, 4), ((True, True), 1_000.0, 4), ((True, True), 1_900.0, 8), ((False, False), 1_000.0, 8)],
    ids=["one is overloaded", "both are", "it helped one of them", "none is"],
)
def test_growth_in_vain_is_recognised_for_tied_tasks_together(overloaded: tuple[bool, bool], b_does: float, left: int) -> None:
    """What grows along with the overloaded task must not bring its growth back."""
    memory, wanted, topology = tied_growth({"a": overloaded[0], "b": overloaded[1]}, {"a": 1_000.0, "b": b_does})
    settings = JobSettings(job=JOB, block_ineffective=True)
    kept = apply_limits(memory, wanted, topology, settings, engine="flink", hosts=())
    assert kept.wanted == {"a": left, "b": left}
    assert (kept.refusal == "ineffective") is (left == 4)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 9)), min_size=1, max_size=30), st.integers(1, 60))
def test_what_is_kept_is_the_most_that_was_needed_in_the_time(needs: list[tuple[int, int]], minutes: int) -> None:
    """Against the plain definition: every need counts until the next decision; before the first one nothing is known."""
    settings, memory = JobSettings(job=JOB, scale_down_after_minutes=minutes), LimitsMemory()
    topology = JobTopology(job=JOB, version=1, at_ms=0, tasks=(TaskSpec(task="map", parallelism=10),))
    history: list[tuple[int, int]] = []
    now = 0
    for pause, size in needs:
        now += pause
        wanted = decision(at(now), {"map": size})
        memory = with_needs(memory, wanted, settings, "flink", before_ms=at(now - pause))
        history.append((now, size))
        kept = apply_limits(memory, wanted, topology, settings, engine="flink", hosts=())
        ends = [*(time for time, _ in history[1:]), now + 1]
        lasted = history[0][0] <= now - minutes
        most = max(size for (_, size), end in zip(history, ends, strict=True) if end > now - minutes)
        assert kept.wanted == {"map": most if lasted else 10}
