"""Ranks, the subtask list, ties at twelve digits."""

from graphlib import CycleError

import pytest

from surescale.rescaler.placement.model import Sub
from surescale.rescaler.placement.order import ascending, subtask_list, topological_ranks, twelve_digits


def test_rank_takes_the_first_ready_task_of_the_list():
    """Of several ready tasks the one earliest in the request comes first."""
    assert topological_ranks(4, [(3, 0), (1, 2)]) == (3, 0, 1, 2)


def test_a_cycle_is_reported_with_its_tasks():
    """The error names one closed walk, not all that hangs behind it."""
    with pytest.raises(CycleError) as caught:
        topological_ranks(4, [(0, 1), (1, 2), (2, 1), (2, 3)])
    assert sorted(set(caught.value.args[1])) == [1, 2]
    assert caught.value.args[1][0] == caught.value.args[1][-1]


def test_interleaved_order_walks_tasks_side_by_side():
    """Subtasks come by index over parallelism, then rank, then index."""
    order = subtask_list([2, 4], [1, 0], interleaved=True)
    assert order == [Sub(1, 0), Sub(0, 0), Sub(1, 1), Sub(1, 2), Sub(0, 1), Sub(1, 3)]


def test_topological_order_finishes_a_task_before_the_next():
    """Subtasks come by rank, then index."""
    assert subtask_list([2, 1], [1, 0], interleaved=False) == [Sub(1, 0), Sub(0, 0), Sub(0, 1)]


def test_equal_fractions_of_different_parallelism_tie():
    """1/3 of one task and 2/6 of another are the same place; the rank decides."""
    order = subtask_list([3, 6], [0, 1], interleaved=True)
    assert order.index(Sub(1, 2)) == order.index(Sub(0, 1)) + 1


def test_values_equal_to_twelve_digits_keep_their_order():
    """A difference in the thirteenth digit is a tie."""
    values = [1.0000000000001, 1.0, 0.9999]
    assert ascending(range(3), values.__getitem__) == [2, 0, 1]


def test_twelve_digits_keeps_infinity():
    """An infinite key sorts last and survives rounding."""
    assert twelve_digits(float("inf")) == float("inf")
