"""Standardisation: the printed table is one over nine variants with the population's deviation, and ours is made the same way."""

import numpy as np
import pytest

from reproductions.sure.zscores import PRINTED, SIZES, VARIANTS, averages, bootstrap, standardised

ROUNDING = 0.005  # of two printed digits


def test_the_printed_columns_have_mean_zero_over_nine_variants() -> None:
    """Over the seven methods of table 1 alone they do not: the ablations belong to the panel."""
    nine = np.array([PRINTED[name] for name in VARIANTS])
    np.testing.assert_allclose(nine.mean(axis=0), 0.0, atol=ROUNDING)
    assert np.abs(nine[:7].mean(axis=0)).max() > 0.1


def test_the_printed_columns_have_population_variance_one() -> None:
    """With n - 1 in the denominator the variances would be 1.12 to 1.13."""
    nine = np.array([PRINTED[name] for name in VARIANTS])
    np.testing.assert_allclose(nine.var(axis=0), [1.002, 1.001, 1.002, 0.998, 0.999, 1.004], atol=1e-3)
    assert nine.var(axis=0, ddof=1).min() > 1.11


def test_the_printed_averages_follow_from_the_columns() -> None:
    """SURE's 1.15 and the averages of the ablations, which the paper leaves out."""
    by_job = [{name: PRINTED[name][at] for name in VARIANTS} for at in range(len(SIZES))]
    found = averages(by_job)
    assert found["SURE"] == pytest.approx(1.15, abs=ROUNDING)
    assert found["w/o NVSS"] == pytest.approx(-0.41, abs=ROUNDING)
    assert found["w/o MI"] == pytest.approx(0.03, abs=ROUNDING)


def test_z_of_nine_rewards_has_mean_zero_and_variance_one() -> None:
    """Whatever the rewards."""
    rewards = dict(zip(VARIANTS, np.random.default_rng(0).normal(size=9), strict=True))
    z = np.array(list(standardised(rewards).values()))
    assert z.mean() == pytest.approx(0.0, abs=1e-12)
    assert z.var() == pytest.approx(1.0)


def test_a_tenth_method_stands_on_the_scale_of_the_nine() -> None:
    """Adding a peer must not move anyone."""
    rewards = {name: float(at) for at, name in enumerate(VARIANTS)}
    alone, joined = standardised(rewards), standardised({**rewards, "oracle": 100.0})
    assert {name: joined[name] for name in VARIANTS} == alone
    assert joined["oracle"] == pytest.approx((100.0 - 4.0) / np.std(np.arange(9.0)))


@pytest.mark.parametrize("reward", [0.3, 0.015, -4.6])
def test_equal_rewards_are_all_average(reward: float) -> None:
    """No division by a spread of nothing, nor by the rounding of a mean."""
    assert set(standardised(dict.fromkeys(VARIANTS, reward)).values()) == {0.0}


def test_the_bootstrap_interval_holds_the_mean_and_stays_within_the_values() -> None:
    """Five seeds of different rewards; one seed is its own interval."""
    low, high = bootstrap([0.1, 0.2, 0.3, 0.4, 0.5])
    assert 0.1 <= low < 0.3 < high <= 0.5
    assert bootstrap([0.25]) == (0.25, 0.25)
