"""Compares what happened to a job under several variants: figures with error bars, differences, and where decisions part. Pure.

All variants are played in the same draws of what varies, under the same load, so differences are paired. An error bar has two
sources: the draws, and the hours of the recording. Both are resampled at once, hours in blocks since neighbours are alike (Owen,
"The pigeonhole bootstrap", Annals of Applied Statistics 2007); such intervals are rather too wide than too narrow.

``check`` says how far the fitted world is off: fitted to the first three quarters of a recording, it plays the last one at the
recorded sizes. Differences between variants that are smaller than these errors say nothing about the job.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.objectives import DAY_MINUTES
from surescale.policies.answer import Float64
from surescale.policies.departure import waiting_records
from surescale.simulation.calibration.fit import HELD_SHARE, fit
from surescale.simulation.calibration.recorded import Recorded
from surescale.simulation.what_if.play import Played, Variant, play_recorded_sizes
from surescale.simulation.what_if.scenario import HOUR_MINUTES, scenario_of

NEVER = float("nan")
WAITING_LEAST = 0.01  # of a minute's records; less is no queue


@dataclass(frozen=True, slots=True)
class Check:
    """What the earlier part predicted of the last one, beside what was recorded.

    Attributes:
        minutes: held back.
        busy, busy_recorded: busy subtasks, means over these minutes.
        waiting, waiting_recorded: records waiting, likewise; recorded NaN where the engine does not tell.
        waiting_range: least and most over the draws.
        arrivals: records a minute, mean.
    """

    minutes: int
    busy: float
    busy_recorded: float
    waiting: float
    waiting_recorded: float
    waiting_range: tuple[float, float]
    arrivals: float

    @property
    def busy_error(self) -> float:
        """Return the relative error of the busy time; NaN if none was recorded."""
        return abs(self.busy / self.busy_recorded - 1.0) if self.busy_recorded > 0 else NEVER

    @property
    def waiting_error(self) -> float:
        """Return the error of the records waiting, in records; NaN where nothing waited, or the engine does not tell."""
        if max(self.waiting, self.waiting_recorded) < WAITING_LEAST * self.arrivals:
            return NEVER  # a world without queues is easily right about a job without them
        return abs(self.waiting - self.waiting_recorded)

    @property
    def latency_error_s(self) -> float:
        """Return the same in seconds of waiting per record (Little's law); NaN where unknown."""
        return 60.0 * self.waiting_error / self.arrivals if self.arrivals > 0 else NEVER


def check(recorded: Recorded, prior_restart_s: float, *, draws: int, told: Callable[[float], None]) -> Check:
    """Return how the first part of a recording predicts its last quarter, over draws of what varies.

    Raises:
        CalibrationError: one of the parts is too short, or says too little.
        WhatIfError: likewise.
    """
    cut = round(recorded.minutes * (1.0 - HELD_SHARE))
    scenario = scenario_of(recorded, fit(recorded.part(slice(0, cut)), prior_restart_s))
    held = slice(max(cut, HOUR_MINUTES), recorded.minutes)
    waits, works = [], []
    for draw in range(draws):
        waiting, busy = play_recorded_sizes(scenario, held, draw=draw)
        waits.append(waiting)
        works.append(busy)
        told((draw + 1) / draws)
    late = recorded.part(held)
    kept = [
        at
        for at, spec in enumerate(late.topology.tasks)
        if spec.task in {each.task for each in scenario.job.recorded_specs[1:-1]}
    ]
    found = waiting_records(late.figures)
    busy_recorded = late.figure("busy_ms")[:, kept].sum(axis=1) / MINUTE_MS
    load, masked = (
        values[scenario.lead_minutes + held.start :] for values in (scenario.workload.requests, scenario.workload.masked)
    )
    known, told_busy = (~np.isnan(values) & ~masked for values in (found, busy_recorded))
    means = [float(values[known].mean()) for values in waits] if known.any() else [NEVER]
    return Check(
        minutes=held.stop - held.start,
        busy=float(np.mean([values[told_busy].mean() for values in works])) if told_busy.any() else NEVER,
        busy_recorded=float(busy_recorded[told_busy].mean()) if told_busy.any() else NEVER,
        waiting=float(np.mean(means)),
        waiting_recorded=float(found[known].mean()) if known.any() else NEVER,
        waiting_range=(min(means), max(means)),
        arrivals=float(load[~masked].mean()) if not masked.all() else NEVER,
    )


RESAMPLES = 2_000
BLOCKS_LEAST = 6
BLOCK_HOURS_MOST = 12
FIGURES = ("cost", "late", "rescales", "latency", "backlog", "utilisation")
CHECKED = ("cost", "late", "backlog", "latency")  # figures that an error of the fitted world would shift


class Estimate(msgspec.Struct, frozen=True):
    """A mean and its 95 % interval; NaN where nothing was counted."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class VariantDifference:
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
class VariantOutcome:
    """A variant in all draws.

    Attributes:
        variant: what was tried.
        draws: what happened, one per draw.
        figures: by name, as ``FIGURES``: a day, minutes a day, a day, seconds, record-seconds an hour, a share.
        differences: by name, to the baseline; None for the baseline.
        differing: share of decisions that want other sizes than the baseline's at the same time; 0 for the baseline.
    """

    variant: Variant
    draws: tuple[Played, ...]
    figures: dict[str, Estimate]
    differences: dict[str, VariantDifference] | None
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
class VariantComparison:
    """All outcomes, the baseline first. ``is_priced``: costs are in dollars a day; otherwise in subtask-hours a day."""

    outcomes: tuple[VariantOutcome, ...]
    is_priced: bool


def compare(
    tried: Sequence[tuple[Variant, Sequence[Played]]], check: Check, path_minutes: float, *, seed: int
) -> VariantComparison:
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
        found.append(VariantOutcome(variant, tuple(draws), figures, differences, _differing(draws, baseline) if at else 0.0))
    return VariantComparison(tuple(found), is_priced)


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
        "late": Ratio(
            np.array([played.late for played in draws]), np.array([played.counted for played in draws]), float(DAY_MINUTES)
        ),
        "rescales": Ratio(np.array([played.rescales for played in draws], dtype=np.float64), one, 24.0),
        "backlog": Ratio(waiting, known.astype(np.float64), 3600.0),
        "latency": Ratio(
            np.array([played.waited for played in draws]), np.array([played.arrivals for played in draws]), 60.0, has_path=True
        ),
        "utilisation": Ratio(*hourly_utilisation(draws), 1.0),
    }


def hourly_utilisation(draws: Sequence[Played]) -> tuple[Float64, Float64]:
    """Return the busy and the rented subtask-minutes [D, H] of each hour, over the minutes whose busy time is known."""
    busy, subtasks = (np.array([getattr(played, name) for played in draws]) for name in ("busy", "subtasks"))
    known = ~np.isnan(busy)
    hours = (len(draws), -1, HOUR_MINUTES)
    used, rented = (np.where(known, each, 0.0).reshape(hours).sum(axis=2) for each in (busy, subtasks))
    return used, rented


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
        found: Float64 = np.divide(own.factor * above, below, out=np.full_like(above, np.nan), where=below > 0.0)
        return found


def _value(own: Ratio) -> float:
    below = float(own.below.sum())
    return own.factor * float(own.above.sum()) / below if below > 0.0 else math.nan


def _interval(mean: float, resampled: Float64) -> Estimate:
    """Return a mean with its interval, over the resamples in which something counts; NaN where the mean is."""
    known = resampled[~np.isnan(resampled)]
    if math.isnan(mean) or not len(known):
        return Estimate(mean, math.nan, math.nan)
    low, high = np.percentile(known, [2.5, 97.5])
    return Estimate(mean, min(float(low), mean), max(float(high), mean))


def _model_error(name: str, mean: float, check: Check) -> float:
    """Return the error of the fitted world in a figure, in its unit; NaN where none is known."""
    if name == "cost":
        return check.busy_error * mean
    if name == "backlog":
        return 3600.0 * check.waiting_error
    return check.latency_error_s if name == "latency" else math.nan


def _judged(found: Estimate, model_error: float) -> VariantDifference:
    beyond_chance = found.low > 0.0 or found.high < 0.0  # false where unknown
    return VariantDifference(found, model_error, beyond_chance and not abs(found.mean) <= model_error)


def _differing(own: Sequence[Played], baseline: Sequence[Played]) -> float:
    """Return the share of decisions that want other sizes than those in force for the baseline at that time."""
    shares = []
    for mine, theirs in zip(own, baseline, strict=True):
        at = np.searchsorted(theirs.at_ms, mine.at_ms, side="right") - 1
        shares.append(float((mine.sizes != theirs.sizes[np.maximum(at, 0)]).any(axis=1).mean()))
    return float(np.mean(shares))
