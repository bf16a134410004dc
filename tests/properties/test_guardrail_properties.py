"""Whatever is proposed: no pin, bound, step, tie, total or excluded period is passed, and every change is explained."""

from dataclasses import dataclass, replace

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.job_limits import at_time, bounds_of, task_limits
from surescale.contracts.job_settings import ExcludedPeriod, JobSettings, PeriodBounds, TaskLimits
from surescale.contracts.messages import Input, JobTopology, TaskSpec
from surescale.policies.dealt import larger
from surescale.policies.graph import Int64, job_graph
from surescale.policies.guardrails import Proposal, Situation, guard, guard_rows, step_range, tied
from surescale.policies.limits import Limits
from surescale.services.state.read.words import WORDS
from tests.support.reach import reached, reaches

ORDER = tuple(WORDS.guardrails)
ENGINES = ("simulated", "flink")
SIZES = st.integers(1, 60)
MAD = st.integers(0, 80) | st.integers(0, 2**53)
NOW_MS = 1_780_000_000_000


@dataclass(frozen=True)
class Case:
    """One proposal for one job, and what the guardrails made of it."""

    topology: JobTopology
    settings: JobSettings
    seen: Situation
    limits: Limits
    proposed: Int64
    floor_applies: bool

    @property
    def proposal(self) -> Proposal:
        """Return what passes."""
        return guard(self.proposed, self.seen, self.limits, floor_applies=self.floor_applies)

    @property
    def fixed(self) -> set[int]:
        """Return the tasks that may not change: virtual or pinned ones, and those tied to one."""
        tasks = self.topology.tasks
        alone = {i for i, spec in enumerate(tasks) if not spec.scalable or task_limits(self.settings, spec).pinned}
        groups = {tasks[i].tied for i in alone} - {""}
        return alone | {i for i, spec in enumerate(tasks) if spec.tied in groups}


@st.composite
def topologies(draw: st.DrawFn) -> JobTopology:
    """Draw a chain of one to six tasks; tied ones run at one size."""
    tied_size = draw(SIZES)
    tasks: list[TaskSpec] = []
    for index in range(draw(st.integers(1, 6))):
        tied = draw(st.sampled_from(["", "", "forward"]))
        ship = draw(st.sampled_from(["hash", "rebalance"]))
        before = f"t{index - 1}"
        tasks.append(
            TaskSpec(
                task=f"t{index}",
                label=f"label {index}",
                upstream=(before,) if index else (),
                inputs=(Input(task=before, ship=ship),) if index else (),  # type: ignore[arg-type]
                parallelism=tied_size if tied else draw(SIZES),
                max_parallelism=draw(st.sampled_from([8, 64, 128, 1_000])),
                vnodes=draw(st.sampled_from([12, 128])),
                stateful=draw(st.booleans()),
                scalable=draw(st.integers(0, 7)) > 0,
                useful_max=draw(st.none() | st.sampled_from([6, 10, 24])),
                tied=tied,
            )
        )
    engine = draw(st.sampled_from(ENGINES))
    return JobTopology(job="any/job", version=1, at_ms=0, tasks=tuple(tasks), engine=engine)


WITHIN = [
    (PeriodBounds(period=ExcludedPeriod(), least=20),),
    (PeriodBounds(period=ExcludedPeriod(), least=2, most=5, objective="cost"), PeriodBounds(period=ExcludedPeriod(), least=20)),
]


@st.composite
def allowed(draw: st.DrawFn) -> JobSettings:
    """Draw what a user may allow, contradictions included."""
    factors = st.none() | st.floats(1.01, 8.0)
    own = st.builds(
        TaskLimits,
        parallelism_min=st.none() | SIZES,
        parallelism_max=st.none() | SIZES,
        pinned=st.sampled_from([False, False, True]),
    )
    names = st.sampled_from([*(f"t{index}" for index in range(6)), *(f"label {index}" for index in range(6))])
    return JobSettings(
        job="any/job",
        parallelism_min=draw(st.sampled_from([1, 1, 3])),
        parallelism_max=draw(st.sampled_from([10, 40, 1_000])),
        total_limit=draw(st.integers(1, 300)),
        step_up_max=draw(factors),
        step_down_max=draw(factors),
        tasks=draw(st.dictionaries(names, own, max_size=4)),
        backlog_hold_minutes=draw(st.sampled_from([None, 0.0, 3.0])),
        excluded=draw(st.lists(st.builds(ExcludedPeriod, emergencies=st.booleans()), max_size=1)) if draw(st.booleans()) else (),  # type: ignore[arg-type]
        align=draw(st.booleans()),
        minimum_within=draw(st.sampled_from([None, None, *WITHIN])),
    )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Draw a job, what is measured of it, and a mad proposal."""
    topology, settings = draw(topologies()), draw(allowed())
    graph = job_graph(topology.tasks)
    count = len(graph.tasks)
    current = np.array([spec.parallelism for spec in topology.tasks], dtype=np.int64)
    floor = np.where(graph.scalable, draw(_row(st.integers(0, 90), count)), 0)
    backlog = np.array(draw(st.lists(st.sampled_from([0.0, 0.0, 2.5, 9.0]), min_size=count, max_size=count)))
    overloaded = graph.scalable & ((floor > current) | (backlog >= 2.0))
    urgent = np.where(graph.scalable, draw(_row(st.integers(0, 90), count)), 0) if draw(st.booleans()) else None
    unproven = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count))) if draw(st.booleans()) else None
    cramped = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count))) if draw(st.booleans()) else None
    leap = (draw(_row(st.integers(1, 90), count)), draw(_row(st.integers(1, 90), count))) if draw(st.booleans()) else None
    seen = Situation(graph, current, floor, overloaded, backlog, urgent, unproven, cramped, leap)
    limits = Limits.of(settings, topology, NOW_MS)
    return Case(topology, settings, seen, limits, draw(_row(MAD, count)), draw(st.booleans()))


def _row(sizes: st.SearchStrategy[int], count: int) -> st.SearchStrategy[Int64]:
    return st.lists(sizes, min_size=count, max_size=count).map(lambda row: np.array(row, dtype=np.int64))


def rules_of(proposal: Proposal, task: int) -> set[str]:
    """Return the guardrails that changed one task."""
    return {amendment.rule for amendment in proposal.amendments[task]}


@given(cases())
def test_what_may_not_change_does_not(case: Case) -> None:
    """Virtual tasks, pinned tasks, and those on a forward edge to one."""
    desired = case.proposal.desired
    for task in case.fixed:
        assert desired[task] == case.seen.current[task]


@given(cases())
def test_no_size_that_changes_is_out_of_bounds(case: Case) -> None:
    """The owner's bounds for the task or the job, the engine's maximum, partitions, key groups; from outside, towards them."""
    desired, settings = case.proposal.desired, at_time(case.settings, case.topology.engine, NOW_MS)
    for task, spec in enumerate(case.topology.tasks):
        if desired[task] != spec.parallelism:
            least, most, _ = bounds_of(settings, spec, case.topology.engine)
            assert desired[task] <= most or desired[task] < spec.parallelism
            assert desired[task] >= min(least, most, case.limits.most[task])  # a tied task's maximum holds for both


@reaches("calm", "all", "grows")
@given(cases())
def test_nothing_changes_in_an_excluded_period_but_what_is_overloaded_grows(case: Case) -> None:
    """If the period allows for emergencies; then an overloaded task, and one tied to it, may grow and nothing may shrink."""
    proposal, current = case.proposal, case.seen.current
    reached(case.limits.freeze) if case.limits.freeze != "none" else None
    if case.limits.freeze == "all":
        assert (proposal.desired == current).all()
    if case.limits.freeze == "calm":
        assert (proposal.desired >= current).all()
        ties = {spec.tied for spec, hot in zip(case.topology.tasks, case.seen.overloaded, strict=True) if hot} - {""}
        for task in np.flatnonzero(proposal.desired > current):
            reached("grows")
            assert case.seen.overloaded[task] or case.topology.tasks[task].tied in ties


@reaches("bound")
@given(cases())
def test_no_total_is_passed_but_by_what_must_be_kept(case: Case) -> None:
    """Only minimums, pins and what runs already may add up to more."""
    desired, current = case.proposal.desired, case.seen.current
    total = int(desired[case.seen.graph.scalable].sum())
    if total <= case.settings.total_limit:
        return
    reached("bound")
    for task in np.flatnonzero(case.seen.graph.scalable):
        least = current[task] if case.limits.freeze != "none" or task in case.fixed else case.limits.least[task]
        assert desired[task] <= max(least, current[task])


@reaches("kept above a bound", "kept above the total")
@given(cases())
def test_no_limit_takes_what_the_load_needs_nor_more_than_a_step(case: Case) -> None:
    """However far below what runs its owner sets a maximum or a total; where the floor applies, no policy does either."""
    proposal, current, free = case.proposal, case.seen.current, set(range(len(case.topology.tasks))) - case.fixed
    needed, (nearest, _) = case.seen.floor, step_range(case.seen, case.seen.floor, case.limits)
    for task in sorted(free):
        assert proposal.desired[task] >= min(current[task], nearest[task])
        limited = any(each.rule in ("bounds", "total_limit") and each.after < each.before for each in proposal.amendments[task])
        if case.floor_applies or (limited and "aligned" not in rules_of(proposal, task)):
            assert proposal.desired[task] >= min(current[task], needed[task])
        if proposal.desired[task] > case.limits.most[task]:
            reached("kept above a bound")
    if int(proposal.desired[sorted(free)].sum()) > case.limits.total:
        reached("kept above the total")


@given(cases(), st.booleans())
def test_a_limit_that_nobody_set_takes_nothing_away(case: Case, aligns: bool) -> None:
    """On a real engine: a task whose policy does not want it smaller does not get smaller, however large it is."""
    topology = msgspec.structs.replace(case.topology, engine="flink")
    free = Limits.of(JobSettings(job="any/job", align=aligns), topology, NOW_MS)
    proposed = np.maximum(case.proposed, case.seen.current)
    assert (guard(proposed, case.seen, free, floor_applies=case.floor_applies).desired >= case.seen.current).all()


@reaches("held")
@given(cases())
def test_no_step_is_passed_but_for_a_limit_that_comes_later(case: Case) -> None:
    """Up, overload lifts the step to a double or to the need; down, nothing does. Bounds, ties and the total win over it."""
    proposal = case.proposal
    needed = case.seen.floor if case.seen.urgent is None else np.maximum(case.seen.floor, case.seen.urgent)
    floor = needed if case.floor_applies else np.zeros_like(needed)
    nearest, farthest = step_range(case.seen, floor, case.limits)
    for task, spec in enumerate(case.topology.tasks):
        rules = rules_of(proposal, task)
        if "max_step" in rules:
            reached("held")
        if not rules & {"minimum_within", "bounds", "tied", "total_limit"} and not spec.tied:
            assert nearest[task] <= proposal.desired[task] <= farthest[task]
        if not case.seen.overloaded[task] and case.seen.leap is None:
            even = larger(case.seen.current, case.seen.graph.dealt)[task]
            assert farthest[task] <= max(spec.parallelism + 1, even, spec.parallelism * case.limits.step_up + 1e-6)


@given(cases())
def test_overload_lifts_the_step_upward_only(case: Case) -> None:
    """With room enough, an overloaded task never gets fewer subtasks than the same task without overload."""
    roomy = replace(case.limits, total=2**60, align=False)
    hot = replace(case.seen, overloaded=case.seen.graph.scalable.copy())
    cold = replace(case.seen, overloaded=np.zeros_like(case.seen.overloaded))
    more, less = (guard(case.proposed, seen, roomy, floor_applies=case.floor_applies).desired for seen in (hot, cold))
    assert (more >= less).all()


@given(cases())
def test_tied_tasks_keep_one_size(case: Case) -> None:
    """Whatever each of them was to get."""
    desired = case.proposal.desired
    sizes = {int(size) for spec, size in zip(case.topology.tasks, desired, strict=True) if spec.tied}
    assert len(sizes) <= 1


@reaches(*ORDER)
@given(cases())
def test_every_difference_is_explained_in_the_order_of_the_guardrails(case: Case) -> None:
    """From what was proposed to what is desired, each amendment begins where the one before ended."""
    proposal = case.proposal
    for task, spec in enumerate(case.topology.tasks):
        amendments = proposal.amendments[task]
        places = [ORDER.index(amendment.rule) for amendment in amendments]
        assert places == sorted(set(places))
        first = int(case.proposed[task]) if spec.scalable else spec.parallelism
        steps = [first, *(amendment.after for amendment in amendments)]
        assert [amendment.before for amendment in amendments] == steps[:-1]
        assert proposal.desired[task] == steps[-1]
        for amendment in amendments:
            reached(amendment.rule)


@given(cases(), st.data())
def test_many_rows_are_guarded_as_each_is_alone(case: Case, data: st.DataObject) -> None:
    """Training, judging and serving run the same lines."""
    rows = np.stack([case.proposed, *(data.draw(_row(MAD, len(case.proposed))) for _ in range(2))])
    many = replace(
        case.seen,
        current=np.tile(case.seen.current, (3, 1)),
        floor=np.tile(case.seen.floor, (3, 1)),
        overloaded=np.tile(case.seen.overloaded, (3, 1)),
        backlog_minutes=np.tile(case.seen.backlog_minutes, (3, 1)),  # type: ignore[arg-type]  # every case has one
        urgent=None if case.seen.urgent is None else np.tile(case.seen.urgent, (3, 1)),
        unproven=None if case.seen.unproven is None else np.tile(case.seen.unproven, (3, 1)),
        cramped=None if case.seen.cramped is None else np.tile(case.seen.cramped, (3, 1)),
    )
    together = guard_rows(rows, many, case.limits, floor_applies=case.floor_applies)
    for row, desired in zip(rows, together, strict=True):
        assert desired.tolist() == guard(row, case.seen, case.limits, floor_applies=case.floor_applies).desired.tolist()


PERIOD = ExcludedPeriod(starts="08:00", ends="09:30")
QUARTER_MS = 15 * 60_000


@given(cases(), st.integers(1, 60), st.integers(0, 95))
def test_nothing_is_below_the_minimum_of_a_period_within_it(case: Case, least: int, quarter: int) -> None:
    """Only a maximum, a pin and an excluded period are stronger; outside the period it changes nothing."""
    settings = msgspec.structs.replace(case.settings, minimum_within=(PeriodBounds(period=PERIOD, least=least),))
    at_ms = quarter * QUARTER_MS
    limits, free = (
        Limits.of(each, case.topology, at_ms) for each in (settings, msgspec.structs.replace(settings, minimum_within=None))
    )
    made, plain = (guard(case.proposed, case.seen, each, floor_applies=case.floor_applies) for each in (limits, free))
    if not 32 <= quarter < 38:
        assert made.amendments == plain.amendments
        return
    for task in set(range(len(case.topology.tasks))) - case.fixed if free.freeze == "none" else ():
        assert made.desired[task] >= min(least, limits.most[task])


@given(cases(), st.integers(1, 60), st.integers(0, 95))
def test_nothing_grows_above_the_maximum_of_a_period_within_it(case: Case, most: int, quarter: int) -> None:
    """Whatever policy, overload and minimum want; what is above it does not grow. Outside the period it changes nothing."""
    own = msgspec.structs.replace(case.settings, minimum_within=None)
    settings = msgspec.structs.replace(own, minimum_within=(PeriodBounds(period=PERIOD, most=most),))
    at_ms = quarter * QUARTER_MS
    limits, free = (Limits.of(each, case.topology, at_ms) for each in (settings, own))
    made, plain = (guard(case.proposed, case.seen, each, floor_applies=case.floor_applies) for each in (limits, free))
    if not 32 <= quarter < 38:
        assert made.amendments == plain.amendments
        return
    assert (limits.most <= free.most).all()
    tied_sizes = tied(case.seen.current, limits)
    for task in set(range(len(case.topology.tasks))) - case.fixed:
        assert made.desired[task] <= max(most, tied_sizes[task])
