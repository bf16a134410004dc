"""The outlook's errors on a job's own last day, made again from the hourly loads of its window, and the spread that follows."""

import numpy as np
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.windows import HOUR_MS, HOURS, Window
from surescale.policies.decide import decide
from surescale.policies.registry import load_policy
from surescale.policies.sure.outlook import SPREAD, Outlook
from surescale.policies.sure.outlook_errors import ERROR_HOURS, FACTORS, calibrated, past_errors, spread_factors
from surescale.policies.sure.policy import SurePolicy
from tests.unit.policies.conftest import branching_window

HOUR = np.arange(HOURS)
REPEATING = 100.0 * (1.0 + 0.5 * np.sin(2 * np.pi * HOUR / 24.0))


@pytest.fixture(scope="module")
def policy() -> SurePolicy:
    """Return the shipped policy."""
    found = load_policy("sure")
    assert isinstance(found, SurePolicy), found
    return found


@pytest.fixture(scope="module")
def outlook(policy: SurePolicy) -> Outlook:
    """Return the shipped outlook."""
    return policy.card.base.outlook


def wild(deviation: float) -> np.ndarray:
    """Return hourly loads of days that do not repeat."""
    return REPEATING * np.exp(np.random.default_rng(3).normal(0.0, deviation, HOURS))


def test_an_error_is_that_of_the_forecast_that_could_have_been_made_then(outlook: Outlook) -> None:
    """The forecast of one of these hours, from a window that ended with it and held the line between its hours."""
    hours = wild(0.2)
    back = 7  # hours before the last one whose outcome is known
    at = HOURS - 2 - 2 - back
    then = np.concatenate([np.full(HOURS - at - 1, np.nan), hours[: at + 1]])
    slope = np.clip((hours[at] - hours[at - 1]) / 60.0, -hours[at] / 45.0, hours[at] / 45.0)
    minutes = hours[at] + slope * (np.arange(60) - 29.5)
    expected = outlook.expect(minutes[None], then[None], np.array([HOUR_MS]))
    mean, spread = expected.means[0, 3:].mean(), expected.spread[0, 3:].mean()
    error = abs(np.log(hours[at + 2] / mean)) / spread
    assert past_errors(outlook, hours[None])[0, ERROR_HOURS - 1 - back, 1] == pytest.approx(error)


def test_only_what_has_come_counts(outlook: Outlook) -> None:
    """The hour that still runs is no outcome, and no forecast sees an hour after its own."""
    hours = wild(0.2)
    running, last = hours.copy(), hours.copy()
    running[-1] *= 9.0
    last[-2] *= 9.0
    before = past_errors(outlook, hours[None])[0]
    assert np.array_equal(past_errors(outlook, running[None])[0], before)
    changed = past_errors(outlook, last[None])[0] != before
    assert changed[-1, 1], "the last whole hour is what the newest forecast expected two hours ahead"
    assert changed.sum() == 1


def test_the_spread_follows_a_jobs_own_errors(outlook: Outlook) -> None:
    """Days that repeat exactly narrow it as far as it goes; the wilder they are, the wider; young jobs keep what ships."""
    factors = spread_factors(outlook, np.stack([REPEATING, wild(0.15), wild(0.6)]))
    assert (factors[0] == FACTORS[0]).all()
    assert (factors[1] < factors[2]).all()
    young = np.where(HOUR < HOURS - 20, np.nan, REPEATING)
    assert (spread_factors(outlook, young[None]) == 1.0).all()
    assert (spread_factors(outlook, np.full((1, HOURS), np.nan)) == 1.0).all()


def test_rows_do_not_affect_one_another(outlook: Outlook) -> None:
    """One job alone has the same bits as next to another, also a job that has been idle."""
    many = np.stack([wild(0.3), np.zeros(HOURS), REPEATING])
    together = spread_factors(outlook, many)
    assert np.isfinite(together).all()
    assert all(np.array_equal(spread_factors(outlook, many[row : row + 1])[0], together[row]) for row in range(3))


def test_the_spread_stays_within_the_bounds_of_any_spread(outlook: Outlook) -> None:
    """However wrong the last day was, scenarios stay loads that can be planned for."""
    hours = wild(1.5)[None]
    expected = outlook.expect(np.full((1, 60), 100.0), hours, np.array([HOUR_MS]))
    corrected = calibrated(outlook, expected, hours)
    assert corrected.spread.max() <= SPREAD[1]
    assert np.array_equal(corrected.means, expected.means)


def test_a_decision_follows_the_setting(policy: SurePolicy) -> None:
    """Off, it is bit for bit the decision without the setting; on, only the spread of the outlook differs."""
    plain = branching_window()
    hours = wild(0.6).astype(np.float32)
    window = Window(
        job=plain.job, window_end_ms=plain.window_end_ms, figures=plain.figures, topology=plain.topology, hourly_load=hours
    )

    def outlook_of(**named: bool) -> tuple[tuple[float, ...], tuple[float, ...]]:
        found = decide(window, policy, JobSettings(job=plain.job, **named), seed=0).outlook
        assert found is not None
        return found.means, found.spread

    assert outlook_of(calibrated_spread=False) == outlook_of()
    means, spread = outlook_of(calibrated_spread=True)
    assert means == outlook_of()[0]
    assert all(wider > shipped for wider, shipped in zip(spread, outlook_of()[1], strict=True))
