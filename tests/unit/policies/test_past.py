"""The past: what was to be expected of each hour, how calm the hours were, and whether the load has left them."""

import numpy as np
import pytest

from surescale.contracts.windows import HOURS
from surescale.policies.sure.past import past_of


def hours(*last: float, before: float = 100.0) -> np.ndarray:
    """Return eight days at one level that end with the given hours."""
    return np.concatenate([np.full(HOURS - len(last), before), last])[None]


def test_days_that_repeat_are_expected_as_they_came() -> None:
    """The hour before times the growth of the days before gives each hour back."""
    daily = 150.0 + 100.0 * np.sin(2 * np.pi * np.arange(HOURS) / 24.0)[None]
    days = past_of(np.full((1, 60), daily[0, -1]), daily, daily)
    np.testing.assert_allclose(days.expected, days.loads, rtol=1e-9)


def test_one_step_leaves_a_calm_day_calm_but_wide() -> None:
    """The median change from hour to hour does not see a single step; the width of the day does."""
    load = hours(*[400.0] * 5)
    days = past_of(np.full((1, 60), 400.0), load, load)
    assert days.change[0] == 0.0
    assert days.width[0] == pytest.approx(np.log(4.0))


def test_a_load_outside_its_last_day_is_unusual() -> None:
    """A quarter of an hour beyond the highest peak, or below the lowest hour."""
    flat = hours()
    usual = [past_of(np.full((1, 60), load), flat, 1.1 * flat).usual[0] for load in (100.0, 130.0, 80.0)]
    assert usual == [True, False, False]


def test_a_day_is_compared_with_the_same_hours_of_the_days_before() -> None:
    """The rhythm of a day is no difference in level; growth from day to day is, up to a limit."""
    rhythm = 150.0 + 100.0 * np.sin(2 * np.pi * np.arange(HOURS) / 24.0)
    days = np.arange(HOURS - 1) // 24  # the whole hours; the last day lacks one
    grown = np.append(rhythm[:-1] * 1.2**days, 0.0)[None]
    level = past_of(np.full((1, 60), 100.0), grown, grown).level[0]
    np.testing.assert_allclose(level[:24], 1.6)  # three days ago: 1.2 ** 3 is beyond the limit
    np.testing.assert_allclose(level[24:48], 1.2**2)
    np.testing.assert_allclose(level[48:], 1.2)
    for load in (np.full((1, HOURS), np.nan), np.zeros((1, HOURS))):
        assert (past_of(np.zeros((1, 60)), load, load).level == 1.0).all()


def test_nothing_known_is_not_calm() -> None:
    """A job without a single whole hour."""
    unknown = np.full((1, HOURS), np.nan)
    assert past_of(np.full((1, 60), 5.0), unknown, unknown).change[0] == np.inf
