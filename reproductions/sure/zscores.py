"""Standardised rewards as in the paper's tables 1 and 2, and the figures printed there.

The paper does not say how it standardises rewards. Its figures fit one reading on all six jobs, up to rounding: per job, over
the seven methods of table 1 and the two ablations of table 2, with the population's standard deviation.
"""

from collections.abc import Mapping, Sequence

import numpy as np

VARIANTS = ("HPA", "DeepWeave", "DREAM", "TVW-RL", "ASTGCN", "CCRNN", "SURE", "w/o NVSS", "w/o MI")
PEERS = ("ASTGCN-PRED", "CCRNN-PRED")
"""Methods the paper does not have. They are placed on the scale of the nine and do not change it."""
ALIKE = 1e-9  # equal rewards differ by rounding, about 1e-17
SIZES = ("Small-1", "Small-2", "Medium-1", "Medium-2", "Large-1", "Large-2")

PRINTED: dict[str, tuple[float, ...]] = {
    "HPA": (-0.17, 1.16, -2.69, -0.90, -1.28, -2.35),
    "DeepWeave": (-2.77, -1.23, 0.16, -0.97, 0.69, 0.32),
    "DREAM": (0.50, -0.23, 0.23, -0.11, 0.92, -1.14),
    "TVW-RL": (0.26, 0.66, 0.08, -0.40, 0.95, 0.85),
    "ASTGCN": (0.26, -0.66, 0.36, 1.09, -1.24, 0.29),
    "CCRNN": (0.48, 0.97, 0.24, 1.12, -0.57, 0.46),
    "SURE": (0.52, 1.41, 1.19, 1.81, 1.02, 0.95),
    "w/o NVSS": (0.46, -1.30, 0.21, -0.82, -1.27, 0.29),
    "w/o MI": (0.47, -0.78, 0.22, -0.82, 0.78, 0.33),
}


def scale(rewards: Mapping[str, float]) -> tuple[float, float]:
    """Return mean and population standard deviation over the nine variants. Other methods do not count."""
    nine = np.array([rewards[name] for name in VARIANTS])
    return float(nine.mean()), float(nine.std())


def standardised(rewards: Mapping[str, float]) -> dict[str, float]:
    """Return the z of every method's mean reward on one job. Methods beyond the nine are placed on their scale.

    If all nine are equal, every z is 0.
    """
    mean, deviation = scale(rewards)
    return {name: (reward - mean) / deviation if deviation > ALIKE else 0.0 for name, reward in rewards.items()}


def averages(by_job: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return each variant's plain mean of z over jobs."""
    return {name: float(np.mean([z[name] for z in by_job])) for name in VARIANTS}


def bootstrap(values: Sequence[float], draws: int = 2000, seed: int = 0) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean. A single value is its own interval."""
    sample = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).choice(sample, size=(draws, len(sample))).mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(low), float(high)
