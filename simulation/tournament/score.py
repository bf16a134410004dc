"""What a played variant is worth to the job's owner, hour by hour, and how sure one variant is to be better than another. Pure.

The reward is that of ``simulation.model.reward`` with the weight that the owner's objective names. Under a bound on latency it is
utilisation less a price for each minute above it, as ``sure`` plans by (``policies.latency_bound``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from surescale.contracts.job_settings import LATE_SECONDS, JobSettings, LatencyBound
from surescale.contracts.objectives import DAY_MINUTES
from surescale.policies.answer import Float64
from surescale.policies.latency_bound import price_of
from surescale.policies.sure.planning_input import WEIGHTS
from surescale.simulation.model.reward import LATENCY_MINUTES_MAX, REWARD_LAMBDA, latency_minutes
from surescale.simulation.what_if.compare import Check, Estimate, Ratio, Sampler, hourly_utilisation
from surescale.simulation.what_if.play import Played
from surescale.simulation.what_if.scenario import HOUR_MINUTES, Scenario

UNCHECKED = 1.0
"""Relative error of a figure that the recording does not check: a gain in it counts as nothing, and a loss as twice as much."""


@dataclass(frozen=True, slots=True)
class Aim:
    """What a job's owner wants: the weight of latency, or a bound on it. The job's path alone takes ``path_minutes``."""

    latency_weight: float
    bound: LatencyBound | None
    path_minutes: float

    @classmethod
    def of(cls, settings: JobSettings, path_minutes: float) -> "Aim":
        """Return the aim that a job's settings name."""
        wanted = settings.objective
        weight = WEIGHTS.get(wanted, REWARD_LAMBDA) if isinstance(wanted, str) else REWARD_LAMBDA
        return cls(weight, wanted if isinstance(wanted, LatencyBound) else None, path_minutes)

    @property
    def waiting_price(self) -> float:
        """Return what a unit of ``Scored.waiting`` costs: a minute of latency, or a share of minutes above the bound."""
        return self.latency_weight if self.bound is None else price_of(self.bound.share) / 2.0

    @property
    def late_seconds(self) -> float:
        """Return above which latency a minute is late."""
        return LATE_SECONDS if self.bound is None else self.bound.seconds

    @property
    def working_price(self) -> float:
        """Return what a unit of utilisation is worth."""
        return 1.0 - self.latency_weight if self.bound is None else 0.5


@dataclass(frozen=True, slots=True)
class Scored:
    """A variant's hours in all draws.

    Attributes:
        waiting: float64 [D, H], minutes of latency; under a bound the share of minutes above it.
        working: float64 [D, H], utilisation.
        weight: float64 [D, H], the share of each hour that counts: not a gap.
        rescales: a day, over all draws.
        rent: subtask-hours a day, likewise.
        late: minutes a day with a latency above ``Aim.late_seconds``, of those that count; NaN if none does.
    """

    waiting: Float64
    working: Float64
    weight: Float64
    rescales: float
    rent: float
    late: float

    @classmethod
    def of(cls, draws: Sequence[Played], ground: Scenario, aim: Aim) -> "Scored":
        """Return the hours of a variant that was played on a ground."""
        shape = (len(draws), ground.hours)
        first = ground.first_minute
        masked = ground.workload.masked[first : first + ground.hours * HOUR_MINUTES].reshape(ground.hours, HOUR_MINUTES)
        busy, paid = hourly_utilisation(draws)
        late, counted = (float(np.sum([getattr(each, name) for each in draws])) for name in ("late", "counted"))
        waited, arrivals = (np.array([getattr(each, name) for each in draws]) for name in ("waited", "arrivals"))
        if aim.bound is None:
            waiting = np.minimum(latency_minutes(waited, arrivals, aim.path_minutes), LATENCY_MINUTES_MAX)
        else:
            waiting = np.array([_late(each, ground, aim) for each in draws])
        return cls(
            waiting=waiting,
            working=busy / np.maximum(paid, 1e-9),
            weight=np.broadcast_to(1.0 - masked.mean(axis=1), shape).astype(np.float64),
            rescales=24.0 * float(np.mean([each.rescales.mean() for each in draws])),
            rent=24.0 * float(np.mean([each.subtasks.mean() for each in draws])),
            late=DAY_MINUTES * late / counted if counted > 0.0 else math.nan,
        )

    def then(self, other: "Scored", hours: int) -> "Scored":
        """Return these hours up to so many, and from there on another variant's."""
        parts: dict[str, Any] = {
            name: np.concatenate([getattr(self, name)[:, :hours], getattr(other, name)[:, hours:]], axis=1)
            for name in ("waiting", "working", "weight")
        }
        means = {name: (getattr(self, name) + getattr(other, name)) / 2.0 for name in ("rescales", "rent", "late")}
        return replace(self, **parts, **means)

    def between(self, first: int, end: int) -> "Scored":
        """Return some of the hours."""
        parts: dict[str, Any] = {name: getattr(self, name)[:, first:end] for name in ("waiting", "working", "weight")}
        return replace(self, **parts)

    def rewards(self, aim: Aim) -> Float64:
        """Return the reward [D, H] of each hour."""
        found: Float64 = aim.working_price * self.working - aim.waiting_price * self.waiting
        return found

    def mean(self, values: Float64) -> float:
        """Return the mean of values [D, H] over what counts; NaN if nothing does. Values that do not count may be NaN."""
        counted = self.weight > 0.0
        weight = self.weight[counted]
        return float((values[counted] * weight).sum() / weight.sum()) if counted.any() else math.nan


@dataclass(frozen=True, slots=True)
class TwinError:
    """How far the twin is off by scale, as the check on the recording's last quarter found; 0.1 is a tenth."""

    working: float
    waiting: float

    @classmethod
    def of(cls, check: Check) -> "TwinError":
        """Return the errors that a check found; what it could not tell is ``UNCHECKED``."""
        recorded = check.waiting_recorded
        waiting = check.waiting_error / recorded if recorded > 0 else math.nan
        return cls(
            working=UNCHECKED if math.isnan(check.busy_error) else check.busy_error,
            waiting=UNCHECKED if math.isnan(waiting) else waiting,
        )


@dataclass(frozen=True, slots=True)
class Lead:
    """How far one variant is ahead of another.

    Attributes:
        estimate: of the difference in reward, paired by draw and hour.
        in_halves: the difference in the first and in the second half of the hours.
        twin_error: of that difference. The twin's errors are errors of scale, so in proportion they are as large in the
            difference of two variants as in each.
    """

    estimate: Estimate
    twin_error: float
    in_halves: tuple[float, float]

    @property
    def margin(self) -> float:
        """Return what is left of the lead if the twin is off as far as it was."""
        return self.estimate.mean - self.twin_error


def lead(own: Scored, other: Scored, aim: Aim, error: TwinError, *, seed: int) -> Lead:
    """Return how far a variant is ahead of another that was played in the same draws."""
    sampler = Sampler.of(len(own.weight), own.weight.shape[1], seed)
    above, below = (Ratio(_weighed(each.rewards(aim), each.weight), each.weight, 1.0) for each in (own, other))
    estimate = sampler.difference(above, below)
    working = own.mean(own.working) - other.mean(other.working)
    waiting = own.mean(own.waiting) - other.mean(other.waiting)
    off = aim.working_price * error.working * abs(working) + aim.waiting_price * error.waiting * abs(waiting)
    middle, hours = own.weight.shape[1] // 2, own.weight.shape[1]
    first, second = (_apart(own.between(*part), other.between(*part), aim) for part in ((0, middle), (middle, hours)))
    return Lead(estimate, off, (first, second))


def _weighed(values: Float64, weight: Float64) -> Float64:
    found: Float64 = np.where(weight > 0.0, values * weight, 0.0)
    return found


def _apart(own: Scored, other: Scored, aim: Aim) -> float:
    return own.mean(own.rewards(aim)) - other.mean(other.rewards(aim))


def _late(played: Played, ground: Scenario, aim: Aim) -> Float64:
    """Return the share [H] of the known minutes in which what waited made records wait beyond the bound, by Little's law."""
    assert aim.bound is not None
    load = np.maximum(ground.load.astype(np.float64), 1.0)
    waits = played.waiting / load + aim.path_minutes
    late, known = (each.reshape(ground.hours, HOUR_MINUTES) for each in (waits > aim.bound.seconds / 60.0, ~np.isnan(waits)))
    found: Float64 = late.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    return found
