"""The first sentence of a decision: who is how busy, what waits, where the load goes, and the subtasks before and after."""

import numpy as np
import pytest

from surescale.contracts.decisions import LoadOutlook
from surescale.policies.headline import headline

NAN = np.nan


def told(
    before: list[int],
    after: list[int],
    busy: list[float],
    waiting: list[float] | None = None,
    load: float = 100.0,
    means: tuple[float, ...] = (),
    names: tuple[str, ...] = ("a", "b", "c"),
) -> str:
    """Return the headline of tasks that can all be scaled; ``means``: the load that is expected, by hour."""
    outlook = LoadOutlook(stage_minutes=60, means=means, spread=(0.0,) * len(means)) if means else None
    sizes, figures = (np.array(before), np.array(after)), (np.array(busy), np.array(waiting or [0.0] * len(busy)))
    return headline(names[: len(busy)], np.ones(len(busy), dtype=bool), sizes, figures, load, outlook)


@pytest.mark.parametrize(
    ("before", "after", "busy", "words"),
    [
        ([2], [2], [0.5], "a is 50% busy, no record waits, 100 records come a minute: 2 subtasks stay."),
        ([1], [1], [0.5], "a is 50% busy, no record waits, 100 records come a minute: 1 subtask stays."),
        ([2], [1], [0.2], "a is 20% busy, no record waits, 100 records come a minute: 2 -> 1 subtask."),
        ([2, 2], [2, 1], [0.5, 0.2], "a, the busiest of 2 tasks, is 50% busy, no record waits, 100 records come a minute: "
         "4 -> 3 subtasks in 1 of 2 tasks."),
        ([2, 2], [4, 3], [0.98, 0.95], "a and 1 more are 95-98% busy, no record waits, 100 records come a minute: "
         "4 -> 7 subtasks."),
        ([2, 2], [4, 3], [0.98, 0.5], "a is 98% busy, no record waits, 100 records come a minute: 4 -> 7 subtasks."),
    ],
)  # fmt: skip
def test_it_names_the_busiest_and_the_subtasks(before: list[int], after: list[int], busy: list[float], words: str) -> None:
    """Of those that grow, all that are as busy; else of all."""
    assert told(before, after, busy) == words


def test_what_is_unknown_is_called_so() -> None:
    """Never a figure that nobody knows."""
    assert told([3], [3], [NAN], [NAN], NAN) == (
        "Nobody knows how busy a is, how many records wait is unknown, the load is unknown: 3 subtasks stay."
    )
    assert told([3, 2], [3, 2], [NAN, 0.4]).startswith("b, the busiest that is known, is 40% busy, ")
    assert "no record is known to wait" in told([3, 2], [3, 2], [0.5, 0.5], [NAN, 0.0])
    assert told([1, 1], [2, 2], [NAN, NAN]).startswith("Nobody knows how busy a and 1 more are, ")


@pytest.mark.parametrize(
    ("means", "words"),
    [
        ((120.0, 190.0), "load rises from 100 to about 190 a minute within 2 hours"),
        ((40.0,), "load falls from 100 to about 40 a minute within 1 hour"),
        ((95.0, 108.0), "load stays about 100 a minute"),
    ],
)
def test_it_says_where_the_load_goes(means: tuple[float, ...], words: str) -> None:
    """By a tenth and more."""
    assert f", {words}: " in told([2], [2], [0.5], means=means)


def test_records_that_wait_are_the_most_of_one_task() -> None:
    """With separators; a single one waits."""
    assert "12,345 records wait" in told([2, 2], [2, 2], [0.5, 0.5], [12_345.0, 7.0])
    assert "1 record waits" in told([2], [2], [0.5], [1.0])


def test_long_names_are_cut_and_a_job_of_fixed_tasks_has_a_headline() -> None:
    """SQL names tasks by a hundred letters and more."""
    assert told([2], [2], [0.5], names=("x" * 100,)).startswith(f"{'x' * 39}… is 50% busy")
    none = headline(["a"], np.array([False]), (np.array([1]), np.array([1])), (np.array([0.5]), np.array([0.0])), 5.0, None)
    assert none.startswith("No task can have another size, how many records wait is unknown, 5 records come a minute")


def test_what_is_infinite_is_unknown() -> None:
    """Records of a million years, say, divided by a share of nearly nothing."""
    words = told([2], [2], [np.inf], [np.inf], load=np.inf)
    assert words == "Nobody knows how busy a is, how many records wait is unknown, the load is unknown: 2 subtasks stay."
