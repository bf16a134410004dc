"""What a band is corrected by: its own errors whose outcome was known."""

import numpy as np
import pytest

from benchmarks.coverage import DEVIATIONS, FACTORS, FITTED_ON, SHARE, corrections, covered, fitted
from surescale.policies.sure.outlook_errors import SCALE
from surescale.simulation.load.workload import load_workload


@pytest.mark.parametrize("scale", [0.6, 1.0, 2.0])
def test_a_corrected_band_covers_what_it_says_whatever_the_errors_scale(scale: float) -> None:
    """Errors of another scale than the band says, and of another shape: four fifths lie within, once three days are known."""
    errors = np.abs(scale * np.random.default_rng(1).laplace(size=(6_000, 2)))
    factors = corrections(errors, np.ones(6_000, dtype=np.bool_))
    within = (errors <= DEVIATIONS * factors)[500:]
    assert within.mean() == pytest.approx(SHARE, abs=0.03)


def test_only_outcomes_that_were_known_count() -> None:
    """An error that is to come changes nothing before its stage has ended."""
    errors = np.ones((400, 2))
    later = errors.copy()
    later[300:] = 100.0
    known = np.ones(400, dtype=np.bool_)
    before, after = corrections(errors, known), corrections(later, known)
    assert np.array_equal(before[:302, 0], after[:302, 0])
    assert np.array_equal(before[:304, 1], after[:304, 1])
    assert after.max() <= FACTORS[1]


def test_without_enough_known_errors_the_band_stays() -> None:
    """A young job, or one with a gap, keeps what the package says."""
    errors = np.full((300, 1), 5.0)
    assert np.array_equal(corrections(errors, np.zeros(300, dtype=np.bool_)), np.ones((300, 1)))
    assert np.array_equal(corrections(errors[:60], np.ones(60, dtype=np.bool_)), np.ones((60, 1)))


def test_the_constant_of_the_calibrated_band_is_the_one_that_the_fit_gives() -> None:
    """So its origin can be checked; with it the band holds on minutes that the fit did not see."""
    assert fitted([load_workload(name) for name in FITTED_ON]) == pytest.approx(SCALE, abs=5e-4)
    found = covered(load_workload("nasa"))
    assert found["shipped"]["within"] < 0.7
    assert found["calibrated"]["within"] == pytest.approx(SHARE, abs=0.02)
