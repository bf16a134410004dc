"""Turns spans into hours and hours into figures: means, intervals over half-day blocks, paired differences. Pure.

Runs overlap in time, so their hours are not independent. An interval therefore resamples twelve-hour blocks of the workload, each
with all hours that any run spent in it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.loops.terms import Span, Terms
from surescale.simulation.model.reward import LATENCY_MINUTES_MAX, latency_minutes

BLOCK_HOURS = 12
HOUR_MINUTES = 60
RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Hours:
    """R runs by the hour, all [R, H].

    Attributes:
        latency: as in the reward (``simulation.loops.terms.Span``), 0 where nothing counts.
        utilisation: likewise.
        weight: share of the hour's minutes that count; 0 in a gap.
        task_minutes: subtask-minutes of the real tasks.
        rescales: changes of parallelism.
        first: int64 [R], the hour of the workload in which each run's scoring begins.
        latency_weight: lambda of the reward.
        latency_cap: the highest latency in the reward; infinite if there is no cap.
        late: share [R, H] of the minutes that count with a latency above ``Terms.late_after_seconds``; None: nobody counts them.
        late_most: the share of such minutes that a bound allows; None: there is no bound.
    """

    latency: Float64
    utilisation: Float64
    weight: Float64
    task_minutes: Float64
    rescales: Int64
    first: Int64
    latency_weight: float
    latency_cap: float
    late: Float64 | None = None
    late_most: float | None = None

    @property
    def late_share(self) -> float | None:
        """Return the share of late minutes; None: nobody counts them."""
        return None if self.late is None else self.mean(self.late)

    @property
    def rent(self) -> float:
        """Return the subtask-hours a day over the minutes that count."""
        return float(self.task_minutes.sum()) / max(1e-12, float(self.weight.sum())) * 24 / HOUR_MINUTES

    @property
    def rewards(self) -> Float64:
        """Return the reward of each hour, [R, H]."""
        rewards: Float64 = -self.latency_weight * self.latency + (1 - self.latency_weight) * self.utilisation
        return rewards

    def mean(self, values: Float64) -> float:
        """Return the mean of values [R, H] over the minutes that count."""
        return float((values * self.weight).sum() / max(1e-12, float(self.weight.sum())))

    def run(self, index: int) -> "Hours":
        """Return one run."""
        return self._rows(slice(index, index + 1))

    def every(self, index: int, count: int) -> "Hours":
        """Return every ``count``-th run from ``index`` on."""
        return self._rows(slice(index, None, count))

    def _rows(self, own: slice) -> "Hours":
        arrays: dict[str, Any] = {name: getattr(self, name)[own] for name in self._arrays}
        return replace(self, **arrays)

    @property
    def _arrays(self) -> tuple[str, ...]:
        return _ARRAYS if self.late is None else (*_ARRAYS, "late")

    @staticmethod
    def joined(parts: Sequence["Hours"]) -> "Hours":
        """Return the runs of several parts as one."""
        arrays: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in parts[0]._arrays}
        return replace(parts[0], **arrays)

    @property
    def reward(self) -> float:
        """Return the mean reward over the minutes that count."""
        return self.mean(self.rewards)

    @property
    def worst(self) -> float:
        """Return the lowest reward of an hour that counts at least half; 0 if there is none."""
        counted = self.weight >= 0.5
        return float(self.rewards[counted].min()) if counted.any() else 0.0

    @property
    def rescales_per_day(self) -> float:
        """Return changes per day over all minutes, counted or not."""
        return float(self.rescales.sum()) / self.rescales.size * 24

    @property
    def hours_at_cap(self) -> float:
        """Return the hours that a run spent at the latency cap."""
        return float(((self.latency >= self.latency_cap - 1e-9) & (self.weight > 0)).sum()) / len(self.latency)

    def blocks(self, values: Float64) -> tuple[Float64, Float64]:
        """Return weighted sums of values [R, H] and weights per block of the workload, [K] each, without empty blocks."""
        block = (self.first[:, None] + np.arange(values.shape[1])) // BLOCK_HOURS
        block = (block - block.min()).ravel()
        weights: Float64 = np.bincount(block, self.weight.ravel()).astype(np.float64)
        sums: Float64 = np.bincount(block, (values * self.weight).ravel()).astype(np.float64)
        return sums[weights > 0], weights[weights > 0]


_ARRAYS = ("latency", "utilisation", "weight", "task_minutes", "rescales", "first")


def hours_of(spans: Sequence[Span], terms: Terms, first_minutes: Int64, job: SizedJob) -> Hours:
    """Return the full hours of consecutive spans; ``terms.span_minutes`` must divide an hour."""
    each = HOUR_MINUTES // terms.span_minutes
    whole = len(spans) // each * each

    def summed(name: str) -> Float64:
        values = np.array([getattr(span, name) for span in spans[:whole]], dtype=np.float64)
        return np.ascontiguousarray(values.reshape(whole // each, each, -1).sum(axis=1).T)

    def weighted(name: str) -> Float64:
        values = np.array([getattr(span, name) * span.counted_minutes for span in spans[:whole]], dtype=np.float64)
        return np.ascontiguousarray(values.reshape(whole // each, each, -1).sum(axis=1).T)

    counted = summed("counted_minutes")
    if terms.mode == "clean":
        waited = latency_minutes(summed("backlog_minutes"), summed("arrivals"), job.path_minutes)
        latency = np.where(counted > 0, np.minimum(waited, LATENCY_MINUTES_MAX), 0.0)
        utilisation = summed("busy_minutes") / np.maximum(summed("allocated_minutes"), 1e-9)
    else:
        latency, utilisation = (weighted(name) / np.maximum(counted, 1e-9) for name in ("latency", "utilisation"))
    return Hours(
        latency=latency,
        utilisation=utilisation,
        weight=counted / counted.max() if counted.max() > 0 else counted,
        task_minutes=summed("allocated_minutes"),
        rescales=np.rint(summed("rescaled")).astype(np.int64),
        first=first_minutes // HOUR_MINUTES,
        latency_weight=terms.latency_weight,
        latency_cap=_latency_cap(terms, job),
        late=None if terms.mode != "clean" else summed("late_minutes") / np.maximum(counted, 1e-9),
        late_most=None if terms.latency_bound is None else terms.latency_bound.share,
    )


def _latency_cap(terms: Terms, job: SizedJob) -> float:
    """Return the highest latency in the reward (``simulation.loops.terms.Span``)."""
    caps = {"clean": LATENCY_MINUTES_MAX, "slo": LATENCY_MINUTES_MAX / job.slo_minutes, "compat": math.inf}
    return caps[terms.mode]


def interval(hours: Hours, seed: int) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the mean reward over blocks (percentiles of ``RESAMPLES`` resamples)."""
    sums, weights = hours.blocks(hours.rewards)
    mean = hours.mean(hours.rewards)
    if not len(sums):
        return mean, mean
    drawn = np.random.default_rng(seed).integers(len(sums), size=(RESAMPLES, len(sums)))
    means = sums[drawn].sum(axis=1) / weights[drawn].sum(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return min(float(low), mean), max(float(high), mean)


def paired(first: Hours, second: Hours) -> tuple[float, float]:
    """Return the mean difference of reward, first - second, and its standard error over blocks; NaN with a single block."""
    difference = first.rewards - second.rewards
    mean = first.mean(difference)
    sums, weights = first.blocks(difference)
    if len(sums) < 2:
        return mean, float("nan")
    share = weights / weights.sum()
    spread = np.square(share * (sums / weights - mean)).sum() * len(sums) / (len(sums) - 1)
    return mean, float(np.sqrt(spread))
