"""The past: what was to be expected of each hour, how calm the hours were, and whether the load has left them."""

import numpy as np
import pytest

from contracts.windows import HOURS
from policies.sure.past import past_of


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


def test_nothing_known_is_not_calm() -> None:
    """A job without a single whole hour."""
    unknown = np.full((1, HOURS), np.nan)
    assert past_of(np.full((1, 60), 5.0), unknown, unknown).change[0] == np.inf
