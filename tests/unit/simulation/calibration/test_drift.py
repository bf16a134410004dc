"""How service times wander: what is put in comes out, and nothing else does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.simulation.calibration.fit import fit_drift

DAY = 1_440


def walks(seed: int, minutes: int, tasks: int, *, drift: float, tau: float, jitter: float) -> np.ndarray:
    """Return logs [T, N] of Ornstein-Uhlenbeck processes under white noise, made step by step from their definition."""
    generator = np.random.default_rng(seed)
    keeps = np.exp(-1.0 / tau)
    state, logs = generator.standard_normal(tasks), np.empty((minutes, tasks))
    for minute in range(minutes):
        logs[minute] = drift * state + jitter * generator.standard_normal(tasks)
        state = keeps * state + np.sqrt(1.0 - keeps**2) * generator.standard_normal(tasks)
    return logs


@pytest.mark.parametrize(
    ("seed", "drift", "tau", "jitter"),
    [
        (0, 0.08, 60.0, 0.0),
        (1, 0.08, 60.0, 0.15),
        (2, 0.25, 120.0, 0.05),
        (3, 0.25, 180.0, 0.0),
        (4, 0.4, 240.0, 0.15),
        (5, 0.15, 240.0, 0.0),
    ],
)
def test_drift_memory_and_jitter_come_out_as_they_went_in(seed: int, drift: float, tau: float, jitter: float) -> None:
    """Over two days of twelve tasks: drift within a third, its diffusion and the jitter within a quarter."""
    found = fit_drift(walks(seed, 2 * DAY, 12, drift=drift, tau=tau, jitter=jitter))
    assert np.median(found.drift) == pytest.approx(drift, rel=0.35)
    if jitter:
        assert np.median(found.jitter) == pytest.approx(jitter, rel=0.25)
    else:
        assert np.median(found.jitter) < 0.35 * drift
        assert np.median(np.square(found.drift)) / found.minutes == pytest.approx(drift**2 / tau, rel=0.3)


def test_scatter_without_memory_is_no_drift() -> None:
    """White noise is jitter, in nearly all of forty tasks."""
    found = fit_drift(walks(3, 600, 40, drift=0.0, tau=60.0, jitter=0.2))
    assert (found.drift > 0).sum() <= 2
    np.testing.assert_allclose(found.jitter[found.drift == 0], 0.2, rtol=0.15)


def test_what_never_changes_does_not_wander() -> None:
    """A constant has its level, and neither drift nor jitter; a rounding error makes none either."""
    logs = np.full((300, 2), -3.0)
    logs[:, 1] += 1e-4 * np.random.default_rng(0).standard_normal(300)
    found = fit_drift(logs)
    np.testing.assert_allclose(found.level, -3.0, atol=1e-4)
    assert not found.drift.any()
    assert not found.jitter.any()
    assert np.isnan(found.minutes)


def test_missing_minutes_take_little_away() -> None:
    """Without half of the minutes, the drift is nearly the same; a task known for less than half an hour has none."""
    logs = walks(5, DAY, 8, drift=0.25, tau=180.0, jitter=0.02)
    whole = fit_drift(logs)
    logs[np.random.default_rng(1).random(logs.shape) < 0.5] = np.nan
    logs[29:, 7] = np.nan
    thinned = fit_drift(logs)
    np.testing.assert_allclose(thinned.drift[:7], whole.drift[:7], rtol=0.25)
    assert np.isnan(thinned.level[7])
    assert thinned.drift[7] == 0.0


@settings(max_examples=10, deadline=None, derandomize=True)
@given(seed=st.integers(0, 1_000), shift=st.floats(-10.0, 10.0))
def test_the_unit_of_service_times_moves_only_their_level(seed: int, shift: float) -> None:
    """Milliseconds or minutes a record: the same drift and jitter."""
    logs = walks(seed, 200, 3, drift=0.2, tau=60.0, jitter=0.05)
    here, there = fit_drift(logs), fit_drift(logs + shift)
    np.testing.assert_allclose(there.level, here.level + shift, atol=1e-6)
    np.testing.assert_allclose(there.drift, here.drift, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(there.jitter, here.jitter, rtol=1e-6, atol=1e-9)
