"""Each guardrail on its own, and their order."""

import tracemalloc
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from surescale.contracts.job_settings import ExcludedPeriod, JobSettings, TaskLimits
from surescale.contracts.messages import Input, JobTopology, TaskSpec
from surescale.contracts.windows import Window
from surescale.policies.decide import decide
from surescale.policies.graph import job_graph
from surescale.policies.guardrails import Situation, guard
from surescale.policies.limits import Limits
from surescale.policies.registry import load_policy, policy_names
from tests.unit.policies.conftest import WindowMaker, chain_window, seen_in


def limits_in(window: Window, settings: JobSettings) -> Limits:
    """Return the limits of a window's job at its end."""
    return Limits.of(settings, window.topology, window.window_end_ms)


def guarded(window: Window, wanted: tuple[int, int], settings: JobSettings, *, floor_applies: bool = True):
    """Send wanted sizes of a and b through the guardrails: (desired of a and b, rules that amended either)."""
    proposal = guard(np.array([1, *wanted, 1]), seen_in(window), limits_in(window, settings), floor_applies=floor_applies)
    rules = [amendment.rule for amendments in proposal.amendments for amendment in amendments]
    return tuple(proposal.desired[1:3].tolist()), rules


def test_a_proposal_within_all_limits_passes_unamended(make_window: WindowMaker, settings: JobSettings) -> None:
    """Nothing is recorded where nothing was changed."""
    assert guarded(make_window(), (3, 2), settings) == ((3, 2), [])


def test_the_floor_is_the_least_that_serves_the_measured_load(make_window: WindowMaker, settings: JobSettings) -> None:
    """250 records a minute at .02 and .01 minutes need 5 and 3 subtasks."""
    window = make_window(load=250.0, parallelism=(6, 4))
    assert seen_in(window).floor.tolist() == [0, 5, 3, 0]
    assert guarded(window, (3, 2), settings) == ((5, 3), ["floor", "floor"])


def test_the_floor_leaves_a_human_choice_alone(make_window: WindowMaker, settings: JobSettings) -> None:
    """Static and hold are not lifted, or they would not be what they are called."""
    assert guarded(make_window(load=250.0, parallelism=(6, 4)), (3, 2), settings, floor_applies=False) == ((3, 2), [])


def test_one_decision_changes_a_task_at_most_by_the_step(make_window: WindowMaker, settings: JobSettings) -> None:
    """With a step of 1.5, four may become six or three and two three or one: one subtask is always allowed."""
    careful = replace_step(settings, 1.5)
    assert guarded(make_window(load=10.0), (9, 9), careful) == ((6, 3), ["max_step", "max_step"])
    assert guarded(make_window(load=10.0), (1, 1), careful) == ((3, 1), ["max_step"])


def replace_step(settings: JobSettings, step: float) -> JobSettings:
    """Return settings with another largest step."""
    return JobSettings(job=settings.job, step_up_max=step, step_down_max=step)


def test_overload_lifts_the_step_upward_only(make_window: WindowMaker, settings: JobSettings) -> None:
    """A task with two minutes of work waiting may double whatever the step; it still may not fall by more than the step."""
    window = make_window(load=100.0, queued=(450.0, 0.0))
    assert seen_in(window).overloaded.tolist() == [False, True, False, False]
    assert guarded(window, (10, 10), replace_step(settings, 1.25)) == ((8, 3), ["max_step", "max_step"])
    assert guarded(make_window(load=10.0, queued=(450.0, 0.0)), (1, 2), settings) == ((2, 2), ["max_step"])


def test_bounds_are_the_narrower_of_settings_and_engine(make_window: WindowMaker) -> None:
    """The user's maximum and minimum hold for every task."""
    narrow = JobSettings(job="sim/chain", parallelism_min=2, parallelism_max=3)
    assert guarded(make_window(), (5, 1), narrow) == ((3, 2), ["bounds", "bounds"])


def test_the_total_limit_takes_from_the_widest_first(make_window: WindowMaker) -> None:
    """One common cap is lowered until the sum fits."""
    few = JobSettings(job="sim/chain", total_limit=6)
    assert guarded(make_window(), (8, 2), few) == ((4, 2), ["total_limit"])


def test_a_total_limit_below_one_each_leaves_one_each(make_window: WindowMaker) -> None:
    """No task is ever sized to nothing."""
    window = make_window(load=10.0, parallelism=(2, 2))
    assert guarded(window, (4, 2), JobSettings(job="sim/chain", total_limit=1))[0] == (1, 1)


def test_guardrails_amend_in_their_order(make_window: WindowMaker) -> None:
    """Floor, then step, then bounds, then total limit, each from what the one before left."""
    window = make_window(load=260.0, parallelism=(2, 2))  # needs 6 and 3: a is overloaded, so its step is lifted
    tight = JobSettings(job="sim/chain", parallelism_max=5, total_limit=7)
    proposal = guard(np.array([1, 1, 1, 1]), seen_in(window), limits_in(window, tight), floor_applies=True)
    assert [(a.rule, a.before, a.after) for a in proposal.amendments[1]] == [
        ("floor", 1, 6),
        ("bounds", 6, 5),
        ("total_limit", 5, 4),
    ]


def test_virtual_tasks_are_never_touched(make_window: WindowMaker) -> None:
    """Source and sink stay at one whatever is proposed for them."""
    window = make_window()
    proposal = guard(np.array([7, 3, 2, 9]), seen_in(window), limits_in(window, JobSettings(job="sim/chain")), floor_applies=True)
    assert proposal.desired[[0, 3]].tolist() == [1, 1]
    assert proposal.amendments[0] == ()


@pytest.mark.parametrize("known", [0, 3])
def test_an_unknown_load_has_no_floor(make_window: WindowMaker, known: int) -> None:
    """Without figures there is nothing to lift to; three known minutes are enough for one."""
    assert bool(seen_in(replace(make_window(), figures=make_window(known=known).figures)).floor.any()) == (known > 0)


def test_the_total_limit_of_wide_tasks_is_found_without_trying_every_cap(settings: JobSettings) -> None:
    """Four hundred tasks at the engine's largest parallelism: no table of every cap times every task."""
    tasks = [TaskSpec(task=f"t{at:03}", parallelism=32_768, max_parallelism=32_768) for at in range(400)]
    graph, current, wanted = job_graph(tasks), np.full(400, 1_000), np.full(400, 32_768)
    seen = Situation(graph=graph, current=current, floor=np.zeros(400, dtype=np.int64), overloaded=np.zeros(400, dtype=np.bool_))
    wide = JobSettings(job=settings.job, parallelism_max=1_000_000, step_up_max=1_000.0, total_limit=400_399)
    limits = Limits.of(wide, JobTopology(job=settings.job, version=0, at_ms=0, tasks=tuple(tasks)), 0)
    tracemalloc.start()
    try:
        desired = guard(wanted, seen, limits, floor_applies=False).desired
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    assert set(desired.tolist()) == {1_000}


def on_engine(window: Window, engine: str, **fields: object) -> Window:
    """Return the window of the same job on another kind of engine; ``fields`` change task a."""
    tasks = tuple(
        msgspec.structs.replace(spec, **fields) if spec.task == "a" else spec  # type: ignore[arg-type]
        for spec in window.topology.tasks
    )
    return replace(window, topology=msgspec.structs.replace(window.topology, engine=engine, tasks=tasks))


def test_a_step_up_is_four_on_a_real_engine_and_two_on_the_simulated_one(make_window: WindowMaker, settings: JobSettings) -> None:
    """So a load four times as high takes one decision there; figures of the simulator stay what they were."""
    window = make_window(load=10.0, parallelism=(2, 2))
    assert guarded(window, (9, 1), settings)[0] == (4, 1)
    assert guarded(on_engine(window, "flink"), (9, 1), settings)[0] == (8, 1)


def test_a_pinned_task_stays_whatever_its_load(make_window: WindowMaker) -> None:
    """By name or by label; the floor does not lift it, and the amendment says why."""
    window = on_engine(make_window(load=400.0), "flink", label="Parse")
    for name in ("a", "Parse"):
        pinned = JobSettings(job="sim/chain", tasks={name: TaskLimits(pinned=True)})
        assert guarded(window, (9, 2), pinned) == ((4, 4), ["pinned", "floor"])


def test_a_task_of_which_no_other_size_can_be_asked_for_stays(make_window: WindowMaker, settings: JobSettings) -> None:
    """Like a pinned one; whoever runs it knows why."""
    window = on_engine(make_window(load=400.0), "kafka", fixed="12 members run where 4 workers are asked for")
    assert guarded(window, (9, 2), settings) == ((4, 4), ["pinned", "floor"])


def test_a_task_has_its_own_bounds(make_window: WindowMaker) -> None:
    """They take the place of the job's, in both directions."""
    own = {"a": TaskLimits(parallelism_min=3, parallelism_max=14)}
    wide = JobSettings(job="sim/chain", parallelism_max=6, step_up_max=9.0, tasks=own)
    window = on_engine(make_window(load=10.0), "flink", max_parallelism=128)
    assert guarded(window, (20, 20), wide)[0] == (14, 6)
    assert guarded(window, (1, 1), wide)[0] == (3, 1)


def test_nothing_shrinks_while_a_backlog_is_worked_off(make_window: WindowMaker, settings: JobSettings) -> None:
    """On a real engine, from five minutes of waiting work on; by setting anywhere, from any number on."""
    window = make_window(load=10.0, queued=(1_200.0, 0.0))  # six minutes for the four of a
    assert guarded(window, (3, 1), settings)[0] == (3, 1)
    assert guarded(on_engine(window, "flink"), (3, 1), settings) == ((4, 2), ["backlog_hold", "backlog_hold"])
    patient = JobSettings(job="sim/chain", backlog_hold_minutes=7.0)
    assert guarded(on_engine(window, "flink"), (3, 1), patient)[0] == (3, 1)


def test_an_excluded_period_lets_only_what_is_overloaded_grow(make_window: WindowMaker) -> None:
    """And a strict one nothing at all."""
    window = make_window(load=10.0, queued=(450.0, 0.0))  # a has two minutes of work waiting
    calm, strict = (JobSettings(job="sim/chain", excluded=(ExcludedPeriod(emergencies=each),)) for each in (True, False))
    assert guarded(window, (6, 3), calm) == ((6, 2), ["excluded"])
    assert guarded(window, (3, 1), calm)[0] == (4, 2)
    assert guarded(window, (6, 3), strict)[0] == (4, 2)


def test_tied_tasks_go_together(make_window: WindowMaker, settings: JobSettings) -> None:
    """Two tasks on a forward edge: the wider wish is both's."""
    window = make_window(load=10.0, parallelism=(4, 4))
    tasks = tuple(msgspec.structs.replace(spec, tied="1" if spec.scalable else "") for spec in window.topology.tasks)
    joined = replace(window, topology=msgspec.structs.replace(window.topology, tasks=tasks))
    assert guarded(joined, (7, 3), settings) == ((7, 7), ["tied"])


def test_sizes_of_keyed_tasks_and_sources_are_even(make_window: WindowMaker, settings: JobSettings) -> None:
    """Seven of 128 key groups become eight; a source of six partitions never gets more than six."""
    keyed = on_engine(make_window(load=10.0), "flink", inputs=(Input(task="source", ship="hash"),), vnodes=128, stateful=True)
    assert guarded(keyed, (7, 2), settings) == ((8, 2), ["aligned"])
    assert guarded(keyed, (7, 2), JobSettings(job="sim/chain", align=False))[0] == (7, 2)
    source = on_engine(make_window(load=10.0), "flink", upstream=(), useful_max=6)
    assert guarded(source, (9, 2), settings) == ((6, 2), ["bounds"])
    assert guarded(source, (5, 2), settings) == ((6, 2), ["aligned"])


def flink_job(
    sizes: tuple[int, int],
    busy: tuple[float, float],
    policy: str = "target-utilisation",
    labels: dict[str, str] | None = None,
    **settings: object,
):
    """Decide on a steady job of Flink whose tasks a and b are as busy as this: (desired of a and b, reason)."""
    service = tuple(size * share / 100.0 for size, share in zip(sizes, busy, strict=True))
    window = chain_window(load=100.0, service_minutes=service, parallelism=sizes)
    tasks = tuple(msgspec.structs.replace(spec, max_parallelism=1_000) for spec in window.topology.tasks)
    real = replace(window, topology=msgspec.structs.replace(window.topology, engine="flink", tasks=tasks, labels=labels or {}))
    decision = decide(real, load_policy(policy), JobSettings(job=window.job, mode="act", **settings), seed=0)  # type: ignore[arg-type]
    return (decision.tasks[1].desired, decision.tasks[2].desired), decision.reason


@pytest.mark.parametrize("policy", ["target-utilisation", "flink", "sure"])
def test_a_wide_job_of_a_real_engine_is_not_cut_to_limits_that_nobody_set(policy: str) -> None:
    """Forty subtasks at 70 % stay forty, sixteen at 95 % do not shrink, and the ceiling takes nothing from 220."""
    assert flink_job((40, 40), (0.7, 0.7), policy)[0] >= (38, 38)
    assert flink_job((16, 16), (0.95, 0.95), policy)[0] >= (16, 16)
    assert flink_job((220, 220), (0.72, 0.72), policy)[0] >= (210, 210)


def test_a_maximum_below_what_runs_is_carried_out_in_steps() -> None:
    """Half of forty at a time, and no less than the load needs with no room at all: 28 of them."""
    sizes, reason = flink_job((40, 40), (0.2, 0.7), parallelism_max=10)
    assert sizes == (20, 28)
    assert "a gets 20, above its maximum of 10: it goes there a step at a time. So does 1 more task." in reason
    sizes, reason = flink_job((28, 12), (1.0, 0.7), parallelism_max=10)
    assert sizes == (28, 10)
    assert "a gets 28, above its maximum of 10: its measured load needs them." in reason
    assert flink_job((9, 9), (1.2, 0.9), parallelism_max=10)[0] == (10, 10)


def test_a_total_below_what_runs_is_carried_out_in_steps() -> None:
    """As a maximum is: sixteen each are eight and twelve before they are five and five."""
    sizes, reason = flink_job((16, 16), (0.3, 0.7), total_limit=10)
    assert sizes == (8, 12)
    assert "The job gets 20, above its total of 10: its measured load needs them." in reason


@pytest.mark.parametrize("policy", sorted(set(policy_names()) - {"static", "hold", "random", "sure-paper"}))
def test_every_policy_obeys_the_utilisation_that_the_owner_wants(policy: str) -> None:
    """Sixteen tasks at 70 % are too few for 40 %: rules that size for a share give 28, the floor of all others leaves 52 %."""
    (size, _), _ = flink_job((16, 16), (0.7, 0.7), policy, utilisation=0.4)
    assert 22 <= size <= 34
    if policy in {"target-utilisation", "ds2", "ds2-gate", "hpa"}:
        assert size == 28


def test_a_utilisation_above_the_rules_own_narrows_a_job() -> None:
    """What 75 % leaves alone, 95 % makes smaller; the floor still has what the load needs."""
    assert flink_job((20, 20), (0.7, 0.7))[0] == (20, 20)
    sizes, reason = flink_job((20, 20), (0.7, 0.7), utilisation=0.95)
    assert sizes == (15, 15)
    assert "95% busy" in reason


def test_labels_of_the_job_are_limits_and_one_that_cannot_be_read_is_named() -> None:
    """They count as settings do, unless somebody set the same."""
    labels = {"surescale.max": "12", "surescale.min": "many"}
    sizes, reason = flink_job((16, 16), (0.3, 0.3), labels=labels)
    assert max(sizes) <= 12
    assert "Label surescale.min is ignored: 'many' cannot be read" in reason
    assert flink_job((12, 12), (1.2, 1.2), labels=labels)[0] == (12, 12)
    assert flink_job((12, 12), (1.2, 1.2), labels=labels, parallelism_max=14)[0] == (14, 14)
