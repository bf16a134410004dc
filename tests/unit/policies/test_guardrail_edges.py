"""Where a guardrail begins and ends, and that rows do not know one another. Each test kills mutants that all others let live."""

from dataclasses import replace

import numpy as np
import pytest

from surescale.contracts.messages import TaskSpec
from surescale.policies.graph import JobGraph, job_graph
from surescale.policies.guardrails import (
    FLOOR_MAX,
    OVERLOAD_BACKLOG_MINUTES,
    Situation,
    backlog_hold,
    excluded,
    guard,
    guard_rows,
    tied,
    total_limit,
    unmeasured,
    within_limits,
)
from surescale.policies.limits import Limits
from tests.unit.policies.conftest import WindowMaker, seen_in

LIMITS = Limits(least=np.array([1, 1, 1]), most=np.array([20, 20, 20]), total=60, step_up=10.0, step_down=10.0)
ALL = np.array([True, True, True])


def graph() -> JobGraph:
    """Three tasks in a row, all scalable."""
    names = ("a", "b", "c")
    return job_graph(
        [TaskSpec(task=name, upstream=(names[at - 1],) if at else (), max_parallelism=20) for at, name in enumerate(names)]
    )


def seen(current: list[int] | list[list[int]], *, backlog: object = None, overloaded: object = False) -> Situation:
    """Return a situation without a floor."""
    sizes = np.array(current)
    waiting = None if backlog is None else np.array(backlog, dtype=float)
    urgent = np.broadcast_to(np.array(overloaded), sizes.shape)
    return Situation(graph(), sizes, np.zeros_like(sizes), urgent, waiting)


def test_a_task_is_overloaded_above_its_size_and_not_at_it(make_window: WindowMaker) -> None:
    """200 records a minute at .02 minutes are the work of exactly four."""
    assert seen_in(make_window(load=200.0, parallelism=(4, 4))).overloaded.tolist() == [False] * 4
    assert seen_in(make_window(load=201.0, parallelism=(4, 4))).overloaded.tolist() == [False, True, False, False]


def test_the_floor_is_bounded_whatever_a_counter_says(make_window: WindowMaker) -> None:
    """And stays a whole number of a kind that sizes have."""
    floor = seen_in(make_window(load=1e15)).floor
    assert floor.tolist() == [0, FLOOR_MAX, FLOOR_MAX, 0]
    assert floor.dtype == np.int64


def test_a_pin_holds_its_own_task_and_no_other() -> None:
    """The others change as proposed."""
    pinned = replace(LIMITS, pinned=np.array([False, True, False]))
    done = guard(np.array([4, 5, 6]), seen([2, 2, 2]), pinned, floor_applies=True)
    assert done.desired.tolist() == [4, 2, 6]
    assert [[each.rule for each in amendments] for amendments in done.amendments] == [[], ["pinned"], []]


@pytest.mark.parametrize(("backlog", "held"), [(4.99, [1, 1, 1]), (5.0, [1, 1, 1]), (5.01, [3, 3, 3])])
def test_a_backlog_holds_from_above_the_limit(backlog: float, held: list[int]) -> None:
    """One task with more than the limit keeps all from shrinking."""
    limits = replace(LIMITS, backlog_hold_minutes=5.0)
    assert backlog_hold(np.array([1, 1, 1]), seen([3, 3, 3], backlog=[0, backlog, 0]), limits).tolist() == held


def test_in_an_excluded_period_the_total_takes_nothing_away() -> None:
    """A job above its total stays as it is until the period ends; then the total holds."""
    over = replace(LIMITS, total=6, freeze="all")
    assert guard(np.array([4, 4, 4]), seen([4, 4, 4]), over, floor_applies=True).desired.tolist() == [4, 4, 4]
    after = replace(over, freeze="none")
    assert guard(np.array([4, 4, 4]), seen([4, 4, 4]), after, floor_applies=True).desired.tolist() == [2, 2, 2]


def test_a_sum_that_equals_the_total_passes() -> None:
    """One more does not."""
    sizes = np.array([5, 3, 2])
    assert total_limit(sizes, ALL, replace(LIMITS, total=10), np.ones(3, dtype=np.int64)).tolist() == [5, 3, 2]
    assert total_limit(sizes, ALL, replace(LIMITS, total=9), np.ones(3, dtype=np.int64)).tolist() == [4, 3, 2]


def test_rows_do_not_know_one_another() -> None:
    """Backlog, ties, urgency and totals of one row leave the others as they are."""
    current = [[3, 3, 3], [3, 3, 3], [3, 3, 3]]
    waits = [[0, 9, 0], [0, 0, 0], [0, 0, 0]]
    held = backlog_hold(np.ones((3, 3), dtype=np.int64), seen(current, backlog=waits), replace(LIMITS, backlog_hold_minutes=5.0))
    assert held.tolist() == [[3, 3, 3], [1, 1, 1], [1, 1, 1]]
    sizes = np.array([[1, 2, 9], [3, 1, 9], [1, 1, 9]])
    chained = replace(LIMITS, ties=(np.array([0, 1]),))
    assert tied(sizes, chained).tolist() == [[2, 2, 9], [3, 3, 9], [1, 1, 9]]
    calm = replace(chained, freeze="calm")
    urgent = seen(current, overloaded=[[True, False, False], [False] * 3, [False, False, True]])
    assert excluded(np.full((3, 3), 5), urgent, calm).tolist() == [[5, 5, 3], [3, 3, 3], [3, 3, 5]]
    strict = replace(calm, freeze="all")
    assert excluded(np.full((3, 3), 5), urgent, strict).tolist() == current
    capped = total_limit(
        np.array([[9, 1, 1], [2, 2, 2], [5, 5, 5]]), ALL, replace(LIMITS, total=8), np.ones((3, 3), dtype=np.int64)
    )
    assert capped.tolist() == [[6, 1, 1], [2, 2, 2], [2, 2, 2]]


def test_the_cap_is_the_largest_that_fits() -> None:
    """Found for every total, down to one each."""
    sizes = np.array([9, 5, 1])
    for total in range(3, 16):
        capped = total_limit(sizes, ALL, replace(LIMITS, total=total), np.ones(3, dtype=np.int64))
        fitting = max(cap for cap in range(1, 10) if np.minimum(sizes, cap).sum() <= total)
        assert capped.tolist() == np.minimum(sizes, fitting).tolist(), total


def test_without_measurements_nothing_is_lifted() -> None:
    """No floor, no overload, nothing that waits; rows keep their shape and kind."""
    current = np.array([[1, 2, 3], [4, 5, 6]])
    blank = unmeasured(graph(), current)
    assert (blank.floor.tolist(), blank.floor.dtype) == ([[0] * 3] * 2, np.dtype(np.int64))
    assert (blank.overloaded.tolist(), blank.overloaded.dtype) == ([[False] * 3] * 2, np.dtype(np.bool_))
    assert blank.backlog_minutes is None
    assert blank.current is current
    slow = replace(LIMITS, step_up=2.0, step_down=2.0)
    rows = guard_rows(np.array([[9, 9, 9], [1, 1, 1]]), blank, slow, floor_applies=True)
    assert rows.tolist() == [[2, 4, 6], [2, 3, 3]]


def test_the_floor_applies_where_it_is_asked_for() -> None:
    """To rows as to a single proposal."""
    needs = replace(seen([4, 4, 4]), floor=np.array([4, 3, 0]))
    wanted = np.array([2, 2, 2])
    assert guard_rows(wanted, needs, LIMITS, floor_applies=True).tolist() == [4, 3, 2]
    assert guard_rows(wanted, needs, LIMITS, floor_applies=False).tolist() == [2, 2, 2]


def test_within_limits_bounds_first_and_then_takes_from_the_widest() -> None:
    """No task goes below its least, though the total says so; the virtual ones count for nothing."""
    limits = replace(LIMITS, least=np.array([2, 3, 1]), most=np.array([8, 6, 9]), total=12)
    assert within_limits(np.array([1, 9, 9]), ALL, limits).tolist() == [2, 5, 5]
    assert within_limits(np.array([1, 9, 9]), np.array([True, True, False]), limits).tolist() == [2, 6, 9]
    assert within_limits(np.array([8, 6, 9]), ALL, replace(limits, total=4)).tolist() == [2, 3, 1]


def test_the_backlog_that_overloads_is_two_minutes(make_window: WindowMaker) -> None:
    """From exactly two on."""
    window = make_window(load=10.0, parallelism=(4, 4), queued=(400.0, 0.0))
    backlog = seen_in(window).backlog_minutes
    assert backlog is not None
    assert backlog[1] == OVERLOAD_BACKLOG_MINUTES
    assert seen_in(window).overloaded.tolist() == [False, True, False, False]
