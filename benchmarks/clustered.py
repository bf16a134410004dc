"""The difference of two policies over many cells, with an error clustered by time and by job. Pure.

Jobs and draws under one load share its hours, and one job under several loads shares its graph. So an error over all hours is too
small twice over. Cameron, Gelbach and Miller (2011, Robust Inference With Multiway Clustering): the variance over half-days of a
load, plus that over jobs, less that over half-days of single jobs, which both have counted.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.simulation.evaluation.hours import BLOCK_HOURS, Hours

BLOCKS_A_LOAD = 1 << 20  # more half-days than any load has


@dataclass(frozen=True, slots=True)
class Pair:
    """Two policies' hours in the same runs of one job under one load."""

    load: str
    job: str
    first: Hours
    second: Hours


@dataclass(frozen=True, slots=True)
class Difference:
    """``first`` - ``second``: mean over all minutes that count, and its standard error; NaN with a single block of one job."""

    mean: float
    standard_error: float

    @property
    def errors(self) -> float:
        """Return the mean in standard errors; 0 where there is no error."""
        return self.mean / self.standard_error if self.standard_error > 0 else 0.0


def difference(pairs: Sequence[Pair]) -> Difference:
    """Return the mean difference of reward and its error.

    The error is at least the one over blocks alone: with few jobs the estimate over jobs is itself noisy, and may be too small.
    """
    loads, jobs = (sorted({getattr(pair, name) for pair in pairs}) for name in ("load", "job"))
    apart, weight, block, job = (
        np.concatenate(each) for each in zip(*(_hourly(pair, loads, jobs) for pair in pairs), strict=True)
    )
    total = float(weight.sum())
    mean = float((apart * weight).sum()) / max(total, 1e-12)
    off = (apart - mean) * weight / max(total, 1e-12)
    by_block, by_job = _variance(off, block), _variance(off, job)
    if math.isnan(by_job):
        return Difference(mean, math.sqrt(by_block))
    both = _variance(off, block * len(jobs) + job)
    variance = np.fmax(by_block, by_block + by_job - both)
    return Difference(mean, math.sqrt(variance))


def _hourly(pair: Pair, loads: list[str], jobs: list[str]) -> tuple[Float64, Float64, Int64, Int64]:
    """Return the difference of each hour [H], its weight, the number of its block, and of its job."""
    hours = pair.first
    apart: Float64 = (hours.rewards - pair.second.rewards).ravel()
    block = (hours.first[:, None] + np.arange(hours.weight.shape[1])) // BLOCK_HOURS
    block = (block + BLOCKS_A_LOAD * loads.index(pair.load)).ravel().astype(np.int64)
    return apart, hours.weight.ravel(), block, np.full(block.shape, jobs.index(pair.job), dtype=np.int64)


def _variance(off: Float64, cluster: npt.NDArray[np.int64]) -> float:
    """Return the variance of the mean by clusters of weighed residuals [H]; NaN with a single cluster that has any."""
    _, at = np.unique(cluster, return_inverse=True)
    sums = np.bincount(at, off)
    count = len(sums)
    return float(np.square(sums).sum()) * count / (count - 1) if count > 1 else math.nan
