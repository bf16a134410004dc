"""Compares what happened to a job under several variants: figures with error bars, differences, and where decisions part. Pure.

All variants are played in the same draws of what varies, under the same load, so differences are paired. An error bar has two
sources: the draws, and the hours of the recording. Both are resampled at once, hours in blocks since neighbours are alike (Owen,
"The pigeonhole bootstrap", Annals of Applied Statistics 2007); such intervals are rather too wide than too narrow.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from policies.answer import Float64
from simulation.what_if.check import Check
from simulation.what_if.play import Played
from simulation.what_if.scenario import HOUR_MINUTES
from simulation.what_if.variant import Variant

RESAMPLES = 2_000
BLOCKS_LEAST = 6
BLOCK_HOURS_MOST = 12
FIGURES = ("cost", "rescales", "backlog", "latency", "utilisation")
CHECKED = ("cost", "backlog", "latency")  # figures that an error of the fitted world would shift


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float

    @property
    def half(self) -> float:
        """Return half the interval's width."""
        return (self.high - self.low) / 2.0


@dataclass(frozen=True, slots=True)
class Difference:
    """A variant minus the baseline.

    Attributes:
        estimate: in the figure's unit.
        model_error: of the fitted world in this figure; NaN: not known, or none applies.
        is_shown: the interval excludes 0 and the difference is larger than the model's error.
    """

    estimate: Estimate
    model_error: float
    is_shown: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """A variant in all draws.

    Attributes:
        variant: what was tried.
        draws: what happened, one per draw.
        figures: by name, as ``FIGURES``: a day, a day, record-seconds an hour, seconds, a share.
        differences: by name, to the baseline; None for the baseline.
        differing: share of decisions that want other sizes than the baseline's at the same time; 0 for the baseline.
    """

    variant: Variant
    draws: tuple[Played, ...]
    figures: dict[str, Estimate]
    differences: dict[str, Difference] | None
    differing: float

    @property
    def is_same(self) -> bool:
        """Return whether it never decided anything else than the baseline, at the same price."""
        return self.differences is not None and self.differing == 0.0 and self.differences["cost"].estimate.mean == 0.0

    @property
    def is_refused(self) -> bool:
        """Return whether the fitted world is too far off to tell it from the baseline in any figure that differs."""
        if self.differences is None or self.is_same:
            return False
        found = [each for name in CHECKED if (each := self.differences[name]).estimate.mean and not math.isnan(each.model_error)]
        return bool(found) and all(abs(each.estimate.mean) <= each.model_error for each in found)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All outcomes, the baseline first. ``is_priced``: costs are in dollars a day; otherwise in subtask-hours a day."""

    outcomes: tuple[Outcome, ...]
    is_priced: bool

    @property
    def refused(self) -> tuple[Outcome, ...]:
        """Return the variants that the fitted world cannot tell from the baseline."""
        return tuple(each for each in self.outcomes if each.is_refused)


def compare(tried: Sequence[tuple[Variant, Sequence[Played]]], check: Check, path_minutes: float, *, seed: int) -> Comparison:
    """Return the outcomes of variants, the first of which is the baseline, each played in the same draws of what varies."""
    (_, baseline), *_ = tried
    is_priced = all(variant.price is not None for variant, _ in tried)
    sampler = Sampler.of(len(baseline), len(baseline[0].waited), seed)
    parts = [_parts(draws, variant.price if is_priced and variant.price is not None else 1.0) for variant, draws in tried]
    found = []
    for at, (variant, draws) in enumerate(tried):
        figures = {name: sampler.estimate(parts[at][name], path_minutes) for name in FIGURES}
        differences = None
        if at:
            differences = {
                name: _judged(sampler.difference(parts[at][name], parts[0][name]), _model_error(name, figures[name].mean, check))
                for name in FIGURES
            }
        found.append(Outcome(variant, tuple(draws), figures, differences, _differing(draws, baseline) if at else 0.0))
    return Comparison(tuple(found), is_priced)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A figure as the ratio of two sums over draws and hours, both [D, H], times a factor, plus the path's share or nothing."""

    above: Float64
    below: Float64
    factor: float
    has_path: bool = False


def _parts(draws: Sequence[Played], price: float) -> dict[str, Ratio]:
    """Return the figures of a variant's draws."""
    hours = len(draws[0].waited)

    def hourly(name: str) -> Float64:
        return np.array([getattr(played, name).reshape(hours, HOUR_MINUTES).sum(axis=1) for played in draws])

    subtask_minutes, one = hourly("subtasks"), np.ones((len(draws), hours))
    known = np.array([~np.isnan(played.waiting).reshape(hours, HOUR_MINUTES) for played in draws]).sum(axis=2)
    waiting = np.array([np.nan_to_num(played.waiting).reshape(hours, HOUR_MINUTES).sum(axis=1) for played in draws])
    return {
        "cost": Ratio(subtask_minutes, one, 24.0 * price / HOUR_MINUTES),
        "rescales": Ratio(np.array([played.rescales for played in draws], dtype=np.float64), one, 24.0),
        "backlog": Ratio(waiting, known.astype(np.float64), 3600.0),
        "latency": Ratio(
            np.array([played.waited for played in draws]), np.array([played.arrivals for played in draws]), 60.0, has_path=True
        ),
        "utilisation": Ratio(hourly("busy"), subtask_minutes, 1.0),
    }


@dataclass(frozen=True, slots=True)
class Sampler:
    """Counts of how often each draw [R, D] and each hour [R, H] is taken in R resamples."""

    draws: Float64
    hours: Float64

    @classmethod
    def of(cls, draws: int, hours: int, seed: int) -> "Sampler":
        """Return a sampler; hours are taken in blocks, at least ``BLOCKS_LEAST`` of them where there are so many hours."""
        generator = np.random.default_rng(seed)
        length = min(BLOCK_HOURS_MOST, max(1, hours // BLOCKS_LEAST))
        block = np.minimum(np.arange(hours) // length, max(1, hours // length) - 1)  # a short rest joins the last one
        blocks = int(block.max()) + 1
        taken = [
            np.array([np.bincount(row, minlength=count) for row in generator.integers(count, size=(RESAMPLES, count))])
            for count in (draws, blocks)
        ]
        return cls(taken[0].astype(np.float64), taken[1].astype(np.float64)[:, block])

    def estimate(self, own: Ratio, path_minutes: float) -> Estimate:
        """Return a figure with its interval."""
        path_s = 60.0 * path_minutes if own.has_path else 0.0
        return _interval(_value(own) + path_s, self._resampled(own) + path_s)

    def difference(self, own: Ratio, other: Ratio) -> Estimate:
        """Return how much one figure is above another, paired by draw and hour."""
        return _interval(_value(own) - _value(other), self._resampled(own) - self._resampled(other))

    def _resampled(self, own: Ratio) -> Float64:
        above, below = (((self.draws @ values) * self.hours).sum(axis=1) for values in (own.above, own.below))
        found: Float64 = own.factor * above / np.maximum(below, 1e-12)
        return found


def _value(own: Ratio) -> float:
    return float(own.factor * own.above.sum() / max(float(own.below.sum()), 1e-12))


def _interval(mean: float, resampled: Float64) -> Estimate:
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Estimate(mean, min(float(low), mean), max(float(high), mean))


def _model_error(name: str, mean: float, check: Check) -> float:
    """Return the error of the fitted world in a figure, in its unit; NaN where none is known."""
    if name == "cost":
        return check.busy_error * mean
    if name == "backlog":
        return 3600.0 * check.waiting_error
    return check.latency_error_s if name == "latency" else math.nan


def _judged(found: Estimate, model_error: float) -> Difference:
    beyond_chance = found.low > 0.0 or found.high < 0.0
    return Difference(found, model_error, beyond_chance and not abs(found.mean) <= model_error)


def _differing(own: Sequence[Played], baseline: Sequence[Played]) -> float:
    """Return the share of decisions that want other sizes than those in force for the baseline at that time."""
    shares = []
    for mine, theirs in zip(own, baseline, strict=True):
        at = np.searchsorted(theirs.at_ms, mine.at_ms, side="right") - 1
        shares.append(float((mine.sizes != theirs.sizes[np.maximum(at, 0)]).any(axis=1).mean()))
    return float(np.mean(shares))
