"""What sizes carry whose work is dealt out, and which sizes are even."""

from dataclasses import replace
from math import ceil

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import Input, Saturation, TaskSpec
from surescale.contracts.topology import dealt_to
from surescale.contracts.windows import FIGURE, Window
from surescale.policies.dealt import (
    SLACK,
    Dealt,
    aligned,
    carried,
    deal_of,
    fewest,
    larger,
    lasting,
    most_carried,
    needed,
    smaller,
)
from surescale.policies.decide import decide
from surescale.policies.emergency import present_need
from surescale.policies.graph import job_graph
from surescale.policies.guardrails import guard, situation, unmeasured
from surescale.policies.limits import Limits
from surescale.policies.question import Question
from surescale.policies.registry import load_policy
from tests.unit.policies.test_demand import Task, read, window_of

THINGS, SIZES = st.integers(1, 400), st.integers(1, 500)


def one(value: float) -> np.ndarray:
    """Return an array of one number."""
    return np.array([value])


@given(THINGS, SIZES)
def test_a_size_carries_what_its_busiest_subtask_lets_it(things: int, size: int) -> None:
    """The busiest of p has ceil(K / p) of K things; more subtasks than things carry as much as that many."""
    assert carried(one(size), one(things))[0] == pytest.approx(things / ceil(things / size))
    assert carried(one(size), np.zeros(1, dtype=np.int64)).tolist() == [size]


@given(THINGS, st.floats(0.01, 500.0))
def test_what_is_needed_is_the_least_size_that_carries_it(things: int, exact: float) -> None:
    """No smaller size carries as much; where none does, it is one subtask for each thing."""
    by_hand = next((size for size in range(1, things + 1) if things / ceil(things / size) >= exact - 1e-9), things)
    assert needed(one(exact), one(things)).tolist() == [by_hand]


def test_what_divides_is_rounded_up_and_nothing_needs_nothing() -> None:
    """And what is unknown stays unknown."""
    none, twelve = np.zeros(4, dtype=np.int64), np.full(4, 12)
    exact = np.array([0.0, 0.4, 4.2, np.nan])
    assert np.array_equal(needed(exact, none), [0, 1, 5, np.nan], equal_nan=True)
    assert np.array_equal(needed(exact, twelve), [0, 1, 6, np.nan], equal_nan=True)


@given(THINGS, SIZES)
def test_the_neighbours_of_a_size_are_the_next_that_make_a_difference(things: int, size: int) -> None:
    """The next larger carries more, if any does; the next smaller has use for all its subtasks, and no even size lies between."""
    even = sorted({ceil(things / most) for most in range(1, things + 1)})
    carries = {each: things / ceil(things / each) for each in [*even, size]}
    assert larger(one(size), one(things))[0] == next((each for each in even if carries[each] > carries[size]), things)
    assert smaller(one(size), one(things))[0] == max([each for each in even if each < size], default=1)
    assert fewest(one(size), one(things))[0] == max(each for each in even if each <= size)
    if size <= things:  # so a step of two reaches both
        assert size / 2 <= smaller(one(size), one(things))[0] <= larger(one(size), one(things))[0] <= 2 * size


@pytest.mark.parametrize(
    ("current", "exact", "size"),
    [
        (8, 4.3, 8),  # six are no faster than four
        (8, 3.9, 8),  # four carry it, but not for long
        (8, 3.6, 4),
        (4, 4.01, 8),
        (6, 3.9, 4),  # no slower than six
        (8, 1.9, 3),  # room, but no more of it than one even size
    ],
)
def test_a_shrink_leaves_room(current: int, exact: float, size: int) -> None:
    """What eight partitions are read with; so that a constant load with its noise never asks for the larger size again."""
    eight = one(8)
    assert lasting(needed(one(exact), eight), one(exact), one(current), eight).tolist() == [size]


def test_a_shrink_leaves_its_room_above_the_steady_load() -> None:
    """Of twelve partitions six members read 5.6 times what one does, and 5.4 with a tenth to spare, but not 5.6 with it."""
    twelve, wanted = one(12), needed(one(5.6), one(12))
    assert [lasting(wanted, one(steady), one(12), twelve).tolist() for steady in (5.4, 5.6)] == [[6], [12]]
    assert lasting(wanted, one(1.0), one(12), twelve).tolist() == [6], "never less than the newest minute needs"


@given(THINGS, st.floats(0.01, 500.0), SIZES, st.floats(1 / SLACK + 0.001, 0.999))
def test_what_was_grown_for_noise_is_not_given_back_for_it(things: int, exact: float, current: int, fall: float) -> None:
    """At a load that crosses the limit of an even size and falls back, the larger size stays."""
    dealt = one(things)
    low, high = (needed(one(load), dealt) for load in (exact * fall, exact))
    if current >= high[0] and high[0] <= larger(low.astype(np.int64), dealt)[0]:
        assert lasting(low, one(exact * fall), one(current), dealt)[0] >= high[0]


@pytest.mark.parametrize(
    ("current", "wanted", "dealt", "most", "size"),
    [
        (3, 7, 128, 128, 8),  # one subtask more, and every one has 16 key groups
        (3, 43, 128, 128, 43),  # the fewest with three key groups each, and 64 would be half as many more
        (43, 100, 128, 128, 128),  # 64 to 127 carry 64: not what was asked for
        (43, 100, 128, 110, 64),
        (70, 100, 128, 110, 70),  # growth stays growth
        (8, 6, 8, 8, 8),  # six are no faster than four
        (4, 5, 7, 7, 7),
        (4, 9, 6, 20, 6),  # more subtasks than partitions: the rest would have nothing
        (30, 20, 128, 128, 22),
        (10, 7, 128, 128, 7),  # what shrinks pays nothing for a deal without a remainder
        (10, 9, 100, 100, 10),  # who grew to ten for nine keeps them for nine
        (10, 7, 100, 100, 7),
        (3, 9, 100, 100, 10),
        (7, 7, 128, 128, 7),  # what stays is not restarted for evenness
        (5, 6, 0, 20, 6),  # this work divides
    ],
)
def test_the_even_size_that_carries_what_was_asked_for(current: int, wanted: int, dealt: int, most: int, size: int) -> None:
    """Where bounds allow it; a little more where that deals without a remainder."""
    assert aligned(one(wanted), one(current), one(dealt), one(1), one(most)).tolist() == [size]


@given(SIZES, SIZES, THINGS, SIZES, SIZES)
def test_an_aligned_size_is_never_slower_and_keeps_the_bounds(
    current: int, wanted: int, dealt: int, least: int, most: int
) -> None:
    """As fast as ``wanted`` at the least, on the same side of the present size, and within bounds that ``wanted`` keeps."""
    things = one(dealt)
    size = aligned(one(wanted), one(current), things, one(least), one(most))
    assert carried(size, things)[0] >= carried(one(wanted), things)[0]
    assert (size[0] - current) * (wanted - current) >= 0
    if least <= wanted <= most:
        assert least <= size[0] <= most


def test_key_groups_partitions_and_ties_say_what_is_dealt_out() -> None:
    """A keyed task's key groups, a reader's partitions, and for what is tied to a source the source's; else nothing."""
    tasks = (
        TaskSpec(task="source", useful_max=12, tied="a", vnodes=128),
        TaskSpec(task="map", upstream=("source",), inputs=(Input(task="source", ship="forward"),), tied="a", vnodes=128),
        TaskSpec(task="count", upstream=("map",), inputs=(Input(task="map", ship="hash"),), vnodes=128),
        TaskSpec(task="group", upstream=("count",), inputs=(Input(task="count", ship="hash"),), useful_max=8),
        TaskSpec(task="sink", upstream=("count",), inputs=(Input(task="count", ship="rebalance"),), vnodes=128),
        TaskSpec(task="simulated", upstream=("count",), stateful=True),
    )
    assert dealt_to(tasks) == (12, 12, 128, 8, 0, 0)
    assert job_graph(tasks).dealt.tolist() == [12, 12, 128, 8, 0, 0]


def group(size: int, busy: float, partitions: int, hot: float = 0.0) -> Window:
    """Return a group whose partitions are worth ``busy`` subtasks; ``hot`` subtasks' work more at the busiest member."""
    fullest = min(60_000.0, 60_000.0 * (busy * ceil(partitions / size) / partitions + hot))
    records = 1_000.0 * busy
    window = window_of(
        Task(
            "group",
            (),
            records,
            records,
            busy=busy + hot,
            parallelism=size,
            lag=0.0,
            arrived=records,
            more={"busy_ms_max": fullest},
        ),
        minutes=60,
    )
    tasks = (msgspec.structs.replace(window.topology.tasks[0], useful_max=partitions),)
    return replace(window, topology=msgspec.structs.replace(window.topology, tasks=tasks, engine="kafka"))


def test_what_the_deal_gives_the_busiest_is_no_hot_key() -> None:
    """Six members of eight partitions: two of them have twice as much as the others, and that is all."""
    assert read(group(6, 3.0, 8)).measured.hot_share.tolist() == [0.0]
    assert read(group(6, 2.0, 8, hot=0.3)).measured.hot_share[0] == pytest.approx(0.3 / 2.3 * 0.75 / (1 - 0.25), rel=0.3)


def test_floor_and_overload_are_by_what_a_size_carries() -> None:
    """Six members do the work of four: 4.2 is more than that, and needs eight."""
    reading = read(group(6, 4.2, 8))
    seen = situation(reading.measured, reading.graph, reading.current)
    assert (seen.floor.tolist(), seen.overloaded.tolist()) == ([8], [True])


@pytest.mark.parametrize("name", ["sure", "forecast", "target-utilisation", "ds2", "ds2-gate", "drs", "flink", "hpa"])
@pytest.mark.parametrize("align", [True, False])
def test_every_policy_sizes_by_what_a_size_carries(name: str, align: bool) -> None:
    """4.3 members' work stays on all eight partitions, from six 3.95 go there, and `--no-align` makes no difference."""
    own = JobSettings(job="flink/job", align=align)
    full, nearly = (decide(window, load_policy(name), own, seed=1) for window in (group(8, 4.3, 8), group(6, 3.95, 8)))
    assert full.tasks[0].desired == 8
    assert nearly.tasks[0].desired == (6 if name == "flink" else 8)  # the operator's band ends at 100 % busy


@pytest.mark.parametrize(
    ("things", "size", "busy", "wanted"), [(128, 64, 0.2, 43), (32, 16, 0.9, 32), (32, 16, 0.2, 11), (8, 8, 0.9, 8)]
)
def test_threshold_steps_to_the_next_even_size(things: int, size: int, busy: float, wanted: int) -> None:
    """One more of 32 carries no more, so it would never move; at one member a partition there is no next one."""
    decision = decide(group(size, busy * size, things), load_policy("threshold"), JobSettings(job="flink/job"), seed=1)
    assert decision.tasks[0].desired == wanted


@pytest.mark.parametrize(("members", "busy"), [(1, 1.5), (3, 1.5), (1, 0.5)])
def test_a_task_that_all_its_partitions_cannot_carry_is_told_so(members: int, busy: float) -> None:
    """A topic of one partition: no size is close enough, and none helps."""
    window = group(members, busy, 1)
    decision = decide(window, load_policy("target-utilisation"), JobSettings(job=window.job), seed=0)
    told = "needs more than its 1 partition can give to subtasks, so more subtasks do not help: make records cheaper"
    assert (told in decision.reason) == (busy > 1.0), decision.reason
    assert ("close enough" in decision.reason) == (busy < 1.0)


@pytest.mark.parametrize(("waiting", "is_short"), [(5_000.0, True), (0.0, False)])
def test_a_task_without_a_busy_counter_is_short_only_while_something_waits(waiting: float, is_short: bool) -> None:
    """What a record took it is remembered from a hot partition's backlog, and by that two partitions were never enough."""
    window = group(2, 1.5, 2)
    figures = window.figures.copy()
    for name in ("busy_ms", "busy_ms_max", "idle_ms", "backpressured_ms"):
        figures[..., FIGURE[name]] = np.nan
    figures[..., FIGURE["queued_records_last"]] = waiting
    took = Saturation(task="group", record_ms=120.0, at_ms=window.window_end_ms - MINUTE_MS)
    window = replace(window, figures=figures, saturations=(took,))
    decision = decide(window, load_policy("target-utilisation"), JobSettings(job=window.job), seed=0)
    assert ("so more subtasks do not help" in decision.reason) == is_short, decision.reason


@pytest.mark.parametrize("policy", ["target-utilisation", "threshold", "lag", "sure"])
@pytest.mark.parametrize(
    ("size", "partitions", "most", "told"),
    [
        (6, 6, None, "with 6 partitions no size carries more than 6, so what waits (14,418 records) is worked off slowly"),
        (1, 1, None, "with 1 partition no size carries more than 1, so what waits (14,418 records) is worked off slowly"),
        (6, 12, 6, "the next size that carries more is 12 and at most 6 are allowed"),
    ],
)
def test_what_waits_at_the_largest_size_is_told_with_the_limit(
    policy: str, size: int, partitions: int, most: int | None, told: str
) -> None:
    """Nobody counts busy time, and the queue stays as long as it is: the size is not close enough to what is needed."""
    window = group(size, 0.5 * size, partitions)
    figures = window.figures.copy()
    for name in ("busy_ms", "busy_ms_max", "idle_ms"):
        figures[..., FIGURE[name]] = np.nan
    figures[..., FIGURE["queued_records_last"]] = 14_418.0
    asked = JobSettings(job=window.job, parallelism_max=most)
    decision = decide(replace(window, figures=figures), load_policy(policy), asked, seed=0)
    assert decision.tasks[0].desired == size
    assert told in decision.reason
    assert "close enough" not in decision.reason


CARRIES = ((1, 1.0), (2, 1.6), (4, 1.9), (7, 1.5), (8, 3.3))
"""Of 16 partitions with two hot ones; seven subtasks run now, and are slower than four."""


@pytest.fixture
def unequal() -> Dealt:
    """Return a deal of two tasks: partitions of which two are hot, and 12 that are alike."""
    return deal_of(np.array([16, 12]), (CARRIES, ()))


def test_a_size_of_unequal_things_carries_what_the_engine_tells(unequal: Dealt) -> None:
    """A size that is not listed carries what the one before it does, and none carries more than the best."""
    sizes = np.array([1, 2, 3, 4, 6, 7, 8, 16, 20])
    found = carried(np.stack([sizes, sizes], axis=-1), unequal)
    assert found[:, 0].tolist() == [1.0, 1.6, 1.6, 1.9, 1.9, 1.5, 3.3, 3.3, 3.3]
    assert found[:, 1].tolist() == [1.0, 2.0, 3.0, 4.0, 6.0, 6.0, 6.0, 12.0, 12.0]
    assert most_carried(unequal).tolist() == [3.3, 12.0]


@pytest.mark.parametrize(("exact", "size"), [(0.5, 1), (1.2, 2), (1.7, 4), (1.95, 8), (3.3, 8), (5.0, 8)])
def test_what_unequal_things_need_is_the_least_size_whose_fullest_subtask_carries_it(
    unequal: Dealt, exact: float, size: int
) -> None:
    """Where none does, the least that carries the most: more of them would have nothing that counts."""
    assert needed(np.array([exact, 4.3]), unequal).tolist() == [size, 6]
    assert np.isnan(needed(np.array([np.nan, 4.3]), unequal)[0])


def test_the_neighbours_of_a_size_of_unequal_things(unequal: Dealt) -> None:
    """The next larger is faster than the present one, and the fewest that are as fast may be fewer."""
    seven, eight, twelve = (np.array([size, 1]) for size in (7, 8, 12))
    assert [larger(each, unequal)[0] for each in (seven, eight, twelve)] == [8, 8, 8]
    assert [fewest(each, unequal)[0] for each in (seven, eight, twelve)] == [2, 8, 8]
    assert [smaller(each, unequal)[0] for each in (seven, eight, twelve)] == [4, 2, 8]
    assert larger(np.array([4, 1]), unequal)[0] == 8


def test_a_policys_own_size_is_rounded_up_to_one_that_parts_the_hot_ones(unequal: Dealt) -> None:
    """Five to seven carry no more than four; where eight are not allowed, the fewest that are as fast are enough."""
    ones, twelve = np.array([1, 1]), np.array([12, 12])
    assert aligned(np.array([5, 1]), np.array([2, 1]), unequal, ones, twelve).tolist() == [8, 1]
    assert aligned(np.array([6, 1]), np.array([2, 1]), unequal, ones, np.array([7, 12])).tolist() == [4, 1]


@pytest.mark.parametrize(("useful", "most"), [(16, 3.3), (7, 1.9), (3, 1.6), (1, 1.0)])
def test_no_size_above_what_is_useful_carries_more(useful: int, most: float) -> None:
    """More members than now would not help, as with one that is stuck: what they would carry is no reason to grow."""
    dealt = deal_of(np.array([useful]), (CARRIES,))
    assert most_carried(dealt).tolist() == [most]
    assert needed(one(5.0), dealt)[0] <= useful


@pytest.mark.parametrize("step", [1.5, 2.0, 4.0])
@pytest.mark.parametrize(("current", "wanted"), [(12, 3), (3, 12)])
def test_a_step_reaches_the_next_size_of_unequal_things(step: float, current: int, wanted: int) -> None:
    """Two neighbours among 12 are parted only by 12 members: from three a factor of two never got there, nor back."""
    told = ((1, 1.0), (2, 1.7), (3, 1.8), (12, 3.5))
    graph = job_graph((TaskSpec(task="group", useful_max=12, carries=told),))
    limits = Limits(least=one(1), most=one(12), total=1_000, align=True, step_up=step, step_down=step)
    seen = unmeasured(graph, np.array([current]))
    assert guard(np.array([wanted]), seen, limits, floor_applies=True).desired.tolist() == [wanted]


def test_what_the_present_load_needs_is_by_what_unequal_things_carry() -> None:
    """Three even members would do for a load worth two; with hot partitions only eight are as fast."""
    window = group(8, 2.0, 8)
    hot = msgspec.structs.replace(window.topology.tasks[0], carries=((1, 1.0), (2, 1.5), (8, 3.0)))
    settings = JobSettings(job="c/j")
    for spec, least in ((window.topology.tasks[0], 3), (hot, 8)):
        topology = msgspec.structs.replace(window.topology, tasks=(spec,))
        assert present_need(Question.of(replace(window, topology=topology), settings, 0)).tolist() == [least]


def test_a_graph_follows_what_is_told_of_its_partitions() -> None:
    """Graphs of one shape are shared; what sizes carry is not mixed up between them, nor kept when nothing is told any more."""
    even = (TaskSpec(task="group", useful_max=16),)
    hot = (TaskSpec(task="group", useful_max=16, carries=CARRIES),)
    for tasks, carries in ((even, 4.0), (hot, 1.9), (even, 4.0)):
        assert carried(np.array([4]), job_graph(tasks).deal).tolist() == [carries]
