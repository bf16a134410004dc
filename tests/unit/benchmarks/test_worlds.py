"""The benchmark of worlds compares runs hour by hour and takes its error over blocks."""

from collections.abc import Sequence

import numpy as np
import pytest

from benchmarks.worlds import OURS, RIVALS, _cells, compared
from simulation.evaluation.hours import BLOCK_HOURS, Hours


def run(rewards: Sequence[float], rescales: int = 0) -> Hours:
    """A run from hour 168 on with one reward per block; without latency, utilisation is twice the reward."""
    utilisation = 2.0 * np.repeat(np.array([rewards]), BLOCK_HOURS, axis=1)
    zeros, ones = np.zeros_like(utilisation), np.ones_like(utilisation)
    counts = np.full(utilisation.shape, rescales, dtype=np.int64)
    return Hours(zeros, utilisation, ones, zeros, counts, np.array([14 * BLOCK_HOURS]), latency_weight=0.5, latency_cap=10.0)


def test_differences_of_jobs_are_added_up_in_a_block_before_its_error() -> None:
    """Jobs that differ by +0.2 and -0.2 in the same blocks differ by nothing; blocks that differ by 0.1 and 0.3 by 0.2 +- 0.1."""
    ours = [run([0.4, 0.4], rescales=1), run([0.2, 0.2])]
    found = compared({OURS: ours, "even": [run([0.2, 0.2]), run([0.4, 0.4])], "behind": [run([0.3, 0.1]), run([0.1, -0.1])]})
    assert found[OURS] == pytest.approx({"reward": 0.3, "rescales_per_day": 12.0, "difference": 0.0, "standard_error": 0.0})
    assert found["even"] == pytest.approx({"reward": 0.3, "rescales_per_day": 0.0, "difference": 0.0, "standard_error": 0.0})
    assert found["behind"] == pytest.approx({"reward": 0.1, "rescales_per_day": 0.0, "difference": 0.2, "standard_error": 0.1})


def test_the_best_rival_is_the_one_with_the_highest_reward() -> None:
    """Its column tells ours minus it."""
    rewards = dict(zip((OURS, *RIVALS), ([0.3, 0.3], [0.1, 0.2], [0.25, 0.35], [0.0, 0.0]), strict=True))
    best, difference, _ = _cells(compared({policy: [run(each)] for policy, each in rewards.items()}), (OURS, *RIVALS))[-3:]
    assert (best, difference) == (RIVALS[1], "+0.0000 ± 0.0500")
