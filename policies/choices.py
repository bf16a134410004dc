"""What a plan chooses among: constants, limits, capacities with the fewest subtasks that give them, and their reward. Pure."""

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from policies.graph import Bool, Int64, JobGraph
from policies.guardrails import one_step, situation
from policies.measure import Measured
from policies.outlook import Expected
from policies.proposal import Float64
from policies.waiting import LEAST

_EPSILON = 1e-9  # keeps a demand of 3.0000000001 from becoming 4
_UNBOUNDED = 1e9  # records per minute that a task passes of which nothing is known
_CAPACITIES = np.geomspace(0.75, 6.0, 36)  # of the mean load expected: from overload to a sixth busy
PassingMinutes = Annotated[int, Meta(ge=0)]
CALM_CHANGE = 0.05  # median change of the load from hour to hour, above which no job is calm


class Planning(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of the planning, calibrated on the training loads for all jobs together."""

    latency_weight: Annotated[float, Meta(ge=0.0, le=1.0)]  # lambda of the reward
    effect_minutes: PassingMinutes  # from a decision to its restart
    restart_minutes: PassingMinutes
    scenarios: Annotated[tuple[float, ...], Meta(min_length=1)]  # of the load, in standard deviations of the outlook
    later_restart: float  # price of a restart after the first stage, in reward of one stage
    gain_min: float  # by which a change must beat holding, in reward of one stage
    again: float  # every restart of the last hour adds so many times ``gain_min``: what has just changed changes less easily
    again_later: float = 0.0  # every restart of the last hour makes what comes later dearer by so many ``later_restart``
    surge_weight: float = 0.0  # of what surges like the last day's would cost
    surge_minutes: Annotated[float, Meta(ge=0.0)] = 5.0  # that one lasts
    young_minutes: int  # with fewer minutes known, no task shrinks
    calm_restarts: float = 0.0  # a job whose hours hardly differ counts as one that restarted so often in the last hour
    patience: float = 1.25  # such a job shrinks once the last 15 minutes lie within this factor of the last 5
    hindsight_days: float = 0.0  # for which a constant size counts where following the load did not pay
    hindsight_gain: float = 0.003  # by which a size must have been the better constant to be changed to, in reward of one stage
    hindsight_margin: Annotated[float, Meta(gt=0.0)] = (
        0.025  # by which the best constant must have been better, in reward of one stage
    )


@dataclass(frozen=True, slots=True)
class Limits:
    """Within which sizes may be planned: ``least`` and ``most`` int64 [N], the largest ratio of one step, the job's total."""

    least: Int64
    most: Int64
    step_ratio_max: float
    total: int


@dataclass(frozen=True, slots=True)
class Work:
    """What a record costs in B jobs of one graph.

    Attributes:
        minutes: float64 [B, N], busy subtask-minutes per record that enters the job; 0 where unknown and for source and sink.
        sized: bool [B, N], tasks whose size can be chosen: one that has processed nothing, or that no record which enters gets to
            (it works off old ones), keeps its own.
        scalable: bool [N].
    """

    minutes: Float64
    sized: Bool
    scalable: Bool

    @staticmethod
    def of(measured: Measured, graph: JobGraph) -> "Work":
        """Return what was measured."""
        sized = graph.scalable & ~np.isnan(measured.service_minutes) & (measured.visits > 0)
        per_record = measured.visits * np.nan_to_num(measured.service_minutes)
        return Work(np.where(sized, per_record, 0.0), sized, graph.scalable)

    def sizes(self, capacity: Float64, caution: Float64 | float = 1.0) -> Float64:
        """Return the fewest subtasks [B, C, N] for capacities [B, C], were every record ``caution`` [B, N] times as long."""
        wanted: Float64 = np.ceil(capacity[..., None] * (self.minutes * caution)[:, None] - _EPSILON)
        return wanted


@dataclass(frozen=True, slots=True)
class Choices:
    """Choices of B jobs.

    Attributes:
        sizes: int64 [B, C, N].
        capacity: float64 [B, C], records per minute.
        subtasks: int64 [B, C], of the real tasks.
        busy_per_record: float64 [B, C], busy subtask-minutes of a record over the subtasks.
    """

    sizes: Int64
    capacity: Float64
    subtasks: Int64
    busy_per_record: Float64

    @staticmethod
    def of(sizes: Int64, work: Work, caution: Float64 | float = 1.0) -> "Choices":
        """Return what sizes [B, C, N] can pass."""
        cost = (work.minutes * caution)[:, None]
        capacity = np.where(cost > 0, sizes / np.where(cost > 0, cost, 1.0), _UNBOUNDED).min(axis=-1)
        subtasks = np.where(work.scalable, sizes, 0).sum(axis=-1)
        busy = work.minutes.sum(axis=-1)
        return Choices(sizes, capacity, subtasks, busy[:, None] / np.maximum(subtasks, 1))

    def reward(self, planning: Planning, latency: Float64, loads: Float64) -> Float64:
        """Return the reward of latencies [B, C, ..] under loads [B, 1, ..]."""
        shape = (*self.capacity.shape, *(1,) * (latency.ndim - 2))
        served = np.minimum(loads, self.capacity.reshape(shape))
        used = np.minimum(served * self.busy_per_record.reshape(shape), 1.0)
        reward: Float64 = (1.0 - planning.latency_weight) * used - planning.latency_weight * latency
        return reward


def choices_of(
    planning: Planning,
    expected: Expected,
    measured: Measured,
    work: Work,
    current: Int64,
    graph: JobGraph,
    limits: Limits,
    residual: Float64,
) -> Choices:
    """Return holding and, after it, what may be changed to."""
    caution = np.exp(residual)
    load = np.exp(np.log(np.maximum(expected.means, LEAST)).mean(axis=1))
    least, most = _within_step(current, measured, graph, limits)
    young = (~np.isnan(measured.load)).sum(axis=1) < planning.young_minutes
    kept = young | ((calmness(planning, expected) > 0) & (expected.past.falling > planning.patience))
    least = np.where(kept[:, None], np.maximum(least, current), least)
    wanted = work.sizes(load[:, None] * _CAPACITIES, caution)
    wanted = np.clip(wanted, least[:, None], np.maximum(most, least)[:, None])
    changed = np.where(work.sized[:, None], wanted, current[:, None]).astype(np.int64)
    return Choices.of(np.concatenate([current[:, None], changed], axis=1), work, caution)


def calmness(planning: Planning, expected: Expected) -> Float64:
    """Return [B] how calm a job is: 1 where the hours of its last day hardly differ from one to the next, 0 where they do.

    ``CALM_CHANGE`` lies between the two per cent by which hours of sixty Poisson counts a minute differ and the seven by which
    the quietest days of ClarkNet and NASA do.
    """
    calm: Float64 = np.clip(2.0 * (1.0 - expected.past.change / CALM_CHANGE), 0.0, 1.0)
    return calm * (planning.calm_restarts > 0)


def _within_step(current: Int64, measured: Measured, graph: JobGraph, limits: Limits) -> tuple[Int64, Int64]:
    """Return the least and most [B, N] of one decision; as in the guardrails, overload lifts the limit of a step upward."""
    nearest, farthest = one_step(current, limits.step_ratio_max)
    farthest = np.where(situation(measured, graph, current).overloaded, limits.most, farthest)
    return np.maximum(limits.least, nearest), np.minimum(limits.most, farthest)
