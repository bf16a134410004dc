"""What holds for every window, policy answer and setting: the promises of the guardrails and of rounding."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.contracts.windows import FIGURES, Window
from surescale.contracts.wire import decode, encode
from surescale.policies.answer import Answer, RawAnswer
from surescale.policies.decide import decide
from surescale.policies.graph import job_graph
from surescale.policies.guardrails import Situation, guard, guard_rows, situation
from surescale.policies.limits import Limits
from surescale.policies.measure import measure
from surescale.policies.question import Question
from surescale.policies.registry import load_policy, policy_names
from surescale.policies.rules.target_utilisation import TargetUtilisation
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.past import LEVEL_MAX, Past
from surescale.policies.sure.plan import plan
from surescale.policies.sure.planning_input import PlanningInput
from surescale.services.state.read.words import WORDS
from tests.support.planned import CALM
from tests.support.reach import reached, reaches
from tests.unit.policies.conftest import chain_window


class Answering:
    """A policy with given sizes."""

    name, sha256, span_minutes, floor_applies = "given", "", 10, True

    def __init__(self, wanted: Sequence[float]) -> None:
        self.wanted = np.array(wanted)

    def answer(self, question: Question) -> Answer:
        """Return them."""
        return RawAnswer(self.wanted, "Given.")


@st.composite
def windows(draw: st.DrawFn) -> Window:
    """Draw a chain job under some load, with queues, perhaps with a young history."""
    tasks = draw(st.integers(1, 6))
    sized = st.lists(st.integers(1, 10), min_size=tasks, max_size=tasks)
    service = st.lists(st.floats(1e-4, 0.05), min_size=tasks, max_size=tasks)
    queued = st.lists(st.floats(0, 5_000), min_size=tasks, max_size=tasks)
    return chain_window(
        load=draw(st.floats(0, 400)),
        service_minutes=tuple(draw(service)),
        parallelism=tuple(draw(sized)),
        queued=tuple(draw(queued)),
        known=draw(st.integers(5, 60)),
    )


@st.composite
def limits(draw: st.DrawFn) -> JobSettings:
    """Draw what a user may allow."""
    least = draw(st.integers(1, 4))
    return JobSettings(
        job="sim/chain",
        parallelism_min=least,
        parallelism_max=draw(st.integers(least, 12)),
        total_limit=draw(st.integers(1, 60)),
        step_up_max=draw(st.floats(1.05, 6.0)),
        step_down_max=draw(st.floats(1.05, 6.0)),
    )


def most_of(allowed: JobSettings, spec: TaskSpec) -> int:
    """Return the most subtasks that a task may end with: what runs already is taken away in steps only."""
    assert allowed.parallelism_max is not None
    return max(min(allowed.parallelism_max, spec.max_parallelism), spec.parallelism)


@st.composite
def decisions(draw: st.DrawFn) -> tuple[Window, JobSettings, Decision]:
    """Draw a window, limits, and what any ratios become under them."""
    window, allowed = draw(windows()), draw(limits())
    tasks = len(window.topology.tasks)
    wanted = draw(st.lists(st.integers(0, 40) | st.integers(0, 2**53), min_size=tasks, max_size=tasks))
    return window, allowed, decide(window, Answering(wanted), allowed, seed=0)


@given(decisions())
def test_no_task_ever_leaves_its_bounds(drawn: tuple[Window, JobSettings, Decision]) -> None:
    """Whatever a policy answers, the user's and the engine's bounds hold, and no task is sized to nothing."""
    window, allowed, decision = drawn
    for task, spec in zip(decision.tasks, window.topology.tasks, strict=True):
        if spec.scalable:
            assert 1 <= task.desired <= most_of(allowed, spec)


@given(decisions())
def test_the_total_limit_holds_wherever_it_can(drawn: tuple[Window, JobSettings, Decision]) -> None:
    """Only a job whose minimum of every task passes the limit, or that runs with more already, may pass it."""
    window, allowed, decision = drawn
    real = [task for task, spec in zip(decision.tasks, window.topology.tasks, strict=True) if spec.scalable]
    total = sum(task.desired for task in real)
    assert total <= allowed.total_limit or all(task.desired <= max(task.current, allowed.parallelism_min) for task in real)


@given(decisions())
def test_amendments_lead_from_proposed_to_desired(drawn: tuple[Window, JobSettings, Decision]) -> None:
    """Each amendment begins where the one before ended, in the order of the guardrails."""
    order = tuple(WORDS.guardrails)
    for task in drawn[2].tasks:
        places = [order.index(amendment.rule) for amendment in task.amendments]
        assert places == sorted(set(places))
        steps = [task.proposed, *(amendment.after for amendment in task.amendments)]
        assert [amendment.before for amendment in task.amendments] == steps[:-1]
        assert task.desired == steps[-1]


@given(decisions())
def test_virtual_tasks_stay_as_they_are(drawn: tuple[Window, JobSettings, Decision]) -> None:
    """Source and sink are never changed and never amended."""
    for task, spec in zip(drawn[2].tasks, drawn[0].topology.tasks, strict=True):
        if not spec.scalable:
            assert (task.desired, task.ratio, task.amendments) == (task.current, 1.0, ())


@given(decisions())
def test_act_means_that_some_task_changes(drawn: tuple[Window, JobSettings, Decision]) -> None:
    """And hold that none does."""
    changed = any(task.desired != task.current for task in drawn[2].tasks)
    assert (drawn[2].action == "act") == changed


@given(windows())
def test_a_wide_job_within_limits_serves_its_measured_load(window: Window) -> None:
    """With room to grow, no decision leaves a task below its floor unless the step holds it back."""
    free = JobSettings(job="sim/chain", parallelism_max=1_000, total_limit=10_000)
    decision = decide(window, Answering([1] * len(window.topology.tasks)), free, seed=0)
    for task, spec in zip(decision.tasks, window.topology.tasks, strict=True):
        if spec.scalable:
            held = {amendment.rule for amendment in task.amendments} & {"max_step", "bounds"}
            assert task.desired >= task.floor or held


@given(windows(), st.integers(0, 2**31))
def test_a_decision_is_a_function_of_its_inputs(window: Window, seed: int) -> None:
    """Asked twice, the same bytes; the window is not touched."""
    before = window.figures.copy()
    allowed = JobSettings(job="sim/chain")
    assert encode(decide(window, TargetUtilisation(), allowed, seed=seed)) == encode(
        decide(window, TargetUtilisation(), allowed, seed=seed)
    )
    np.testing.assert_array_equal(window.figures, before)


@given(windows(), limits(), st.randoms(use_true_random=False))
def test_guardrails_do_not_care_about_the_order_of_tasks(window: Window, allowed: JobSettings, random: object) -> None:
    """Listing a job's tasks in another order gives the same size to each."""
    tasks = window.topology.tasks
    order = list(range(len(tasks)))
    random.shuffle(order)  # type: ignore[attr-defined]
    topology = type(window.topology)(job="sim/chain", version=0, at_ms=0, tasks=tuple(tasks[i] for i in order))
    shuffled = replace(window, figures=window.figures[:, order], topology=topology)
    wanted = {spec.task: 1 + 3 * index for index, spec in enumerate(tasks)}

    def sizes(seen: Window) -> dict[str, int]:
        graph = job_graph(seen.topology.tasks)
        current = np.array([spec.parallelism for spec in seen.topology.tasks])
        proposed = np.array([wanted[spec.task] for spec in seen.topology.tasks])
        at = situation(measure(seen.figures, graph), graph, current)
        proposal = guard(proposed, at, Limits.of(allowed, seen.topology, seen.window_end_ms), floor_applies=True)
        return dict(zip(graph.tasks, proposal.desired.tolist(), strict=True))

    assert sizes(window) == sizes(shuffled)


@given(windows(), limits(), st.booleans(), st.data())
def test_one_row_of_many_is_guarded_as_it_is_alone(
    window: Window, allowed: JobSettings, floor_applies: bool, data: st.DataObject
) -> None:
    """Training and serving pass the same guardrails: every row of a batch comes out as ``guard`` lets it through."""
    graph = job_graph(window.topology.tasks)
    count = len(graph.tasks)
    sizes = st.lists(st.lists(st.integers(1, 12), min_size=count, max_size=count), min_size=4, max_size=4)
    current, proposed = np.array(data.draw(sizes)), np.array(data.draw(sizes))
    figures = np.repeat(window.figures[None], 4, axis=0) * np.arange(1, 5, dtype=np.float32)[:, None, None, None]
    seen = situation(measure(figures, graph), graph, current)
    bounds = Limits.of(allowed, window.topology, window.window_end_ms)
    together = guard_rows(proposed, seen, bounds, floor_applies=floor_applies)
    assert seen.backlog_minutes is not None
    for row in range(4):
        alone = Situation(graph, current[row], seen.floor[row], seen.overloaded[row], seen.backlog_minutes[row])
        assert together[row].tolist() == guard(proposed[row], alone, bounds, floor_applies=floor_applies).desired.tolist()


def wild_window(draw: st.DrawFn) -> Window:
    """Draw a window of any graph whose figures may be anything that 32 bits hold, with holes of every kind."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    count, minutes = draw(st.integers(1, 6)), draw(st.sampled_from([5, 30, 60, 120]))
    specs = [
        TaskSpec(
            task=f"t{task}",
            upstream=tuple(f"t{parent}" for parent in sorted(draw(st.sets(st.integers(0, task - 1), max_size=3))))
            if task
            else (),
            parallelism=draw(st.sampled_from([1, 2, 7, 1_000_000])),
            max_parallelism=draw(st.sampled_from([1, 10, 1_000_000])),
            scalable=draw(st.booleans()),
        )
        for task in range(count)
    ]
    figures = generator.uniform(0, 60_000, (minutes, count, len(FIGURES))).astype(np.float32)
    spoilt = generator.random(figures.shape) < draw(st.sampled_from([0.0, 0.01, 0.3]))
    figures[spoilt] = generator.choice(np.array(draw(WILD), dtype=np.float32), int(spoilt.sum()))
    figures[generator.random((minutes, count)) < draw(st.sampled_from([0.0, 0.3])), :] = np.nan
    figures[draw(st.integers(0, minutes)) :, draw(st.integers(0, count - 1))] = np.nan
    hours = generator.choice(np.array(draw(WILD), dtype=np.float32), 192)
    topology = JobTopology(job="sim/wild", version=0, at_ms=0, tasks=tuple(specs))
    return Window("sim/wild", 809_568_000_000, figures, topology, hours, hourly_peak=2 * hours)


WILD = st.lists(st.sampled_from([0.0, 1.0, 1e6, 9e15, 3e38, -1.0, -3e38, np.inf, -np.inf, np.nan, 1e-30]), min_size=1)
EVERY = {name: load_policy(name) for name in policy_names()}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@hypothesis_settings(max_examples=30)
@given(st.data(), limits(), st.integers(-5, 2**31))
def test_whatever_a_window_holds_every_policy_decides_and_its_record_can_be_read(
    data: st.DataObject, allowed: JobSettings, seed: int
) -> None:
    """No figure ends in an exception, in a size out of bounds, or in a decision that its readers refuse."""
    window = wild_window(data.draw)
    for name, policy in EVERY.items():
        decision = decide(window, policy, allowed, seed=seed)
        assert decode(encode(decision), Decision) == decision, name
        for task, spec in zip(decision.tasks, window.topology.tasks, strict=True):
            most = most_of(allowed, spec)
            unready = decision.reason.startswith("Not ready")
            assert task.desired == task.current if unready or not spec.scalable else 1 <= task.desired <= most


@given(windows(), limits(), st.lists(st.floats(allow_nan=True, allow_infinity=True) | st.integers(-(2**62), 2**62), max_size=8))
def test_no_answer_whatever_breaks_a_bound(window: Window, allowed: JobSettings, wanted: list[float]) -> None:
    """Sizes of any value, sign, kind and number: the rule answers in place of nonsense, and bounds hold for both."""
    decision = decide(window, Answering(wanted), allowed, seed=0)
    meant = len(wanted) == len(window.topology.tasks) and all(isinstance(size, int) and 0 <= size <= 2**53 for size in wanted)
    assert (decision.policy.fallback_reason is None) == meant
    for task, spec in zip(decision.tasks, window.topology.tasks, strict=True):
        assert 1 <= task.desired <= most_of(allowed, spec)
        steps = [task.proposed, *(amendment.after for amendment in task.amendments)]
        assert (steps[:-1], steps[-1]) == ([amendment.before for amendment in task.amendments], task.desired)


@given(decisions())
def test_no_task_changes_by_more_than_the_step(drawn: tuple[Window, JobSettings, Decision]) -> None:
    """Except where overload lifts the limit, and where bounds or the total limit demand more."""
    window, allowed, decision = drawn
    graph = job_graph(window.topology.tasks)
    current = np.array([spec.parallelism for spec in window.topology.tasks])
    lifted = situation(measure(window.figures, graph), graph, current).overloaded
    for task, overloaded in zip(decision.tasks, lifted, strict=True):
        if {amendment.rule for amendment in task.amendments} & {"bounds", "total_limit"}:
            continue
        farthest = max(task.current + 1, task.current * allowed.step_up_max + 1e-6)
        assert task.desired <= (max(farthest, 2 * task.current, task.floor) if overloaded else farthest)
        assert task.desired >= min(task.current - 1, task.current / allowed.step_down_max - 1e-6)


@st.composite
def pasts(draw: st.DrawFn) -> Past:
    """Draw the last days of one job, whole hours of them unknown."""
    day = st.lists(st.floats(0, 2_000) | st.just(np.nan), min_size=24, max_size=24)
    loads = np.tile(np.array([draw(day)]), 3)
    peaks, expected = loads * draw(st.floats(1.0, 8.0)), np.roll(loads, 1, axis=1)
    change, width, falling = (np.array([draw(st.floats(0, 3) | st.just(np.nan))]) for _ in range(3))
    level = np.full(loads.shape, draw(st.floats(1 / LEVEL_MAX, LEVEL_MAX)))
    week = np.tile(np.array([draw(day)]), 7)
    usual = np.array([draw(st.booleans())])
    return Past(loads, peaks, expected, change, width, falling, usual, level, week, week * draw(st.floats(1.0, 8.0)))


@st.composite
def outlooks(draw: st.DrawFn) -> Expected:
    """Draw what may be expected of one job over three stages."""
    means = np.array([draw(st.lists(st.floats(0, 2_000), min_size=3, max_size=3))])
    burst = np.array([draw(st.lists(st.floats(0.01, 5.0), min_size=60, max_size=60))])
    spread = np.full((1, 3), draw(st.floats(0.03, 0.6)))
    surges = np.array([draw(st.lists(st.floats(1.0, 8.0) | st.just(np.nan), min_size=24, max_size=24))])
    highest = np.array([draw(st.floats(0.0, 5_000.0) | st.just(np.nan))])
    return Expected(means[:, 0], means, spread, burst / burst.mean(), surges, highest, 20, draw(pasts()))


@reaches("act", "hold")
@given(windows(), outlooks(), st.integers(0, 5), st.integers(1, 60))
def test_a_plan_stays_within_its_limits_or_holds(window: Window, expected: Expected, restarts: int, total: int) -> None:
    """Whatever is expected: no task leaves bounds or step, the total holds, and a plan that does not act changes nothing."""
    graph = job_graph(window.topology.tasks)
    current = np.array([[spec.parallelism for spec in window.topology.tasks]], dtype=np.int64)
    measured = measure(window.figures, graph).alone()
    limits = Limits(least=np.ones(len(current[0]), dtype=np.int64), most=graph.parallelism_max, total=total)
    given = PlanningInput(expected, measured, current, graph, limits, np.array([restarts]))
    planned = plan(CALM, given)
    wanted, real = planned.wanted, graph.scalable
    assert (wanted[0, ~real] == current[0, ~real]).all()
    if planned.acts[0]:
        reached("act")
        farthest = np.where(situation(measured, graph, current).overloaded, graph.parallelism_max, 2 * current)
        assert wanted[0, real].sum() <= total
        assert (wanted[0, real] >= 1).all()
        assert (wanted <= np.maximum(current + 1, farthest)).all()
        assert (wanted >= np.minimum(current - 1, -(-current // 2))).all()
        assert planned.changing[0] > planned.holding[0]
    else:
        reached("hold")
        assert (wanted == current).all()
