"""From an outlook to sizes: what each choice would score over the next hours with its restart paid, and whether to change at all.

A job whose tasks run at p subtasks with service times w per entering record passes min(p / w) records a minute, so a choice is
one capacity c with the fewest subtasks that give it, p = ceil(c w). Holding and a row of capacities are tried against a few
scenarios of the load (low, mean, high): the first stage minute by minute, with the work that waits now, the restart and the
job's own bursts; later stages by the waiting that these bursts cause at a given utilisation, where a plan may resize again for
the price of a restart. In all of them the surges of the job's last day may come again at any minute. The best choice is taken
if it beats holding by enough. Pure. The reward is that of ``simulation.report`` without its cap on latency, so that even deep in
overload less waiting counts as better.
"""

from dataclasses import dataclass

import msgspec
import numpy as np

from policies.graph import Bool, Int64, JobGraph
from policies.measure import Measured
from policies.outlook import Expected
from policies.proposal import Float64

EASE_MAX = 1.5  # the least gain is scaled by exp(-1.5) to exp(1.5)
DRAIN_SHARE = 0.35  # of the load: the spare capacity assumed for work left over at the first stage's end
SHIFT_MINUTES = 13  # scenarios meet the same bursts from different minutes on
_EPSILON = 1e-9  # keeps a demand of 3.0000000001 from becoming 4
_LEAST = 1e-6  # records per minute
_UNBOUNDED = 1e9  # records per minute that a task passes of which nothing is known
_CAPACITIES = np.geomspace(0.75, 6.0, 36)  # of the mean load expected: from overload to a sixth busy
_BUSY_STEP = 0.05
_BUSY = np.arange(0.1, 1.601, _BUSY_STEP)  # utilisations at which waiting by bursts is computed


class Planning(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of the planning, calibrated on the training loads for all jobs together."""

    latency_weight: float  # lambda of the reward
    effect_minutes: int  # from a decision to its restart
    restart_minutes: int
    scenarios: tuple[float, ...]  # of the load, in standard deviations of the outlook
    later_restart: float  # price of a restart after the first stage, in reward of one stage
    gain_min: float  # by which a change must beat holding, in reward of one stage
    again: float  # every restart of the last hour adds so many times ``gain_min``: what has just changed changes less easily
    again_later: float = (
        0.0  # every restart of the last hour adds so many times ``later_restart`` to the price of what comes later
    )
    surge_weight: float = 0.0  # of what surges like the last day's would cost
    surge_minutes: float = 5.0  # that one lasts
    young_minutes: int  # with fewer minutes known, no task shrinks


@dataclass(frozen=True, slots=True)
class Limits:
    """Within which sizes may be planned: ``least`` and ``most`` int64 [N], the largest ratio of one step, the job's total."""

    least: Int64
    most: Int64
    step_ratio_max: float
    total: int


@dataclass(frozen=True, slots=True)
class Planned:
    """What was planned for B jobs.

    Attributes:
        wanted: int64 [B, N], the present sizes where ``acts`` is false.
        acts: bool [B].
        best: int64 [B], subtasks of the best choice, whether taken or not.
        holding, changing: float64 [B], expected reward a stage of holding and of the best choice, the path's latency left out.
    """

    wanted: Int64
    acts: Bool
    best: Int64
    holding: Float64
    changing: Float64


@dataclass(frozen=True, slots=True)
class _Choices:
    """Choices of B jobs, the first one holding.

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


def plan(
    planning: Planning,
    expected: Expected,
    measured: Measured,
    current: Int64,
    graph: JobGraph,
    limits: Limits,
    restarts: Int64,
    residual: Float64,
    ease: Float64,
) -> Planned:
    """Plan for B jobs of one graph with sizes ``current`` [B, N] and ``restarts`` [B] in the last hour.

    ``residual`` [B, N] and ``ease`` [B] are the learned policy's, zero for the plan alone: each task's service time is taken
    exp(residual) times as long, and the least gain exp(-1.5 tanh(ease)) times as large.
    """
    choices = _choices(planning, expected, measured, current, graph, limits, residual)
    factors = np.exp(np.array(planning.scenarios)[:, None] * expected.spread[:, None])
    loads = expected.means[:, None] * factors  # [B, S, K]
    first = _first_stage(planning, expected, loads[..., 0], choices, waiting_inside(measured, graph))
    later = _later_stages(planning, expected, loads[..., 1:], choices)
    surprises = planning.latency_weight * _waiting_by_surges(planning, expected, loads, choices)  # [B, C, K]
    again = (
        planning.again_later * restarts[:, None] * (np.arange(later.shape[1]) > 0)
    )  # holding pays no more for what comes later
    price = np.asarray(planning.later_restart * (1.0 + again), dtype=np.float64)
    values = first - surprises[..., 0] + _value(later - surprises[..., 1:], price)
    allowed = (choices.subtasks <= limits.total) | (np.arange(values.shape[1]) == 0)
    values = np.where(allowed, values, -np.inf)
    rows, best = np.arange(len(values)), values.argmax(axis=1)
    gain_min = planning.gain_min * (1.0 + planning.again * restarts)
    acts = values[rows, best] - values[:, 0] > gain_min * np.exp(-EASE_MAX * np.tanh(ease))
    stages = loads.shape[-1]
    return Planned(
        wanted=np.where(acts[:, None], choices.sizes[rows, best], current),
        acts=acts,
        best=choices.subtasks[rows, best],
        holding=values[:, 0] / stages,
        changing=values[rows, best] / stages,
    )


def _choices(
    planning: Planning,
    expected: Expected,
    measured: Measured,
    current: Int64,
    graph: JobGraph,
    limits: Limits,
    residual: Float64,
) -> _Choices:
    per_record = measured.visits * np.nan_to_num(measured.service_minutes)
    sized = graph.scalable & ~np.isnan(measured.service_minutes)  # a task that has processed nothing keeps its size
    cautious = np.where(sized, per_record * np.exp(residual), 0.0)[:, None]
    load = np.exp(np.log(np.maximum(expected.means, _LEAST)).mean(axis=1))
    exact = (load[:, None] * _CAPACITIES)[..., None] * cautious
    most = np.minimum(
        limits.most,
        np.maximum(current + 1, np.floor(current * limits.step_ratio_max + _EPSILON)),
    )
    least = np.maximum(
        limits.least,
        np.minimum(current - 1, np.ceil(current / limits.step_ratio_max - _EPSILON)),
    )
    young = (~np.isnan(measured.load)).sum(axis=1, keepdims=True) < planning.young_minutes
    least = np.where(young, np.maximum(least, current), least)
    wanted = np.clip(np.ceil(exact - _EPSILON), least[:, None], np.maximum(most, least)[:, None])
    changed = np.where(sized[:, None], wanted, current[:, None]).astype(np.int64)
    sizes = np.concatenate([current[:, None], changed], axis=1)
    capacity = np.where(cautious > 0, sizes / np.where(cautious > 0, cautious, 1.0), _UNBOUNDED).min(axis=-1)
    subtasks = np.where(graph.scalable, sizes, 0).sum(axis=-1)
    busy = np.where(sized, per_record, 0.0).sum(axis=-1)
    return _Choices(sizes, capacity, subtasks, busy[:, None] / np.maximum(subtasks, 1))


def _first_stage(
    planning: Planning,
    expected: Expected,
    loads: Float64,
    choices: _Choices,
    waiting: Float64,
) -> Float64:
    """Return the reward [B, C] of the first stage, the mean over loads [B, S], with ``waiting`` [B] records at its beginning."""
    minutes, scenarios = expected.stage_minutes, loads.shape[1]
    order = (np.arange(minutes) + SHIFT_MINUTES * np.arange(scenarios)[:, None]) % expected.burst.shape[1]
    arrivals = loads[..., None] * expected.burst[:, order]  # [B, S, T]
    changed = (choices.sizes != choices.sizes[:, :1]).any(axis=-1)
    served = np.repeat(choices.capacity[..., None], minutes, axis=-1)  # [B, C, T]
    served[..., : planning.effect_minutes] = choices.capacity[:, :1, None]
    down = slice(planning.effect_minutes, planning.effect_minutes + planning.restart_minutes)
    served[..., down] = np.where(changed[..., None], 0.0, served[..., down])
    surplus = np.cumsum(arrivals[:, None] - served[:, :, None], axis=-1)  # [B, C, S, T]
    before = waiting[:, None, None, None]
    queue = surplus + np.maximum(before, -np.minimum.accumulate(surplus, axis=-1))
    left = queue[..., -1]
    entered = np.maximum(arrivals.sum(axis=-1), _LEAST)[:, None]
    worked_off = np.square(left) * minutes / (2.0 * DRAIN_SHARE * entered)
    waited = queue.sum(axis=-1) + (before[..., 0] - left) / 2.0 + worked_off
    return _mean_reward(planning, waited / entered, loads[:, None], choices)


def _later_stages(planning: Planning, expected: Expected, loads: Float64, choices: _Choices) -> Float64:
    """Return the reward [B, C, K-1] of each later stage on its own, the mean over loads [B, S, K-1]."""
    busy = loads[:, None] / choices.capacity[..., None, None]
    curve = waiting_by_bursts(expected.burst, expected.stage_minutes)
    return _mean_reward(planning, _waiting_at(busy, curve), loads[:, None], choices)


def _waiting_by_surges(planning: Planning, expected: Expected, loads: Float64, choices: _Choices) -> Float64:
    """Return [B, C, K] what a record waits longer, in minutes, should every hour surge as one of the last day's did.

    Under loads [B, S, K], the mean over scenarios. No surge is higher than the highest that was, and what the bursts of the last
    hour make a record wait already does not count twice.
    """
    busy = loads[:, None] / choices.capacity[..., None, None]  # [B, C, S, K]
    highest = np.nan_to_num(expected.highest_surge, nan=np.inf)[:, None, None] / np.maximum(loads, _LEAST)
    ratio = np.minimum(expected.surges[:, None, None], np.maximum(highest, 1.0)[..., None])  # [B, S, K, H]
    day = waiting_by_surges(ratio[:, None], busy, planning.surge_minutes)
    own = _waiting_at(busy, waiting_by_bursts(expected.burst, expected.stage_minutes))
    more: Float64 = planning.surge_weight * np.maximum(day - own, 0.0).mean(axis=2)
    return more


def waiting_by_surges(ratio: Float64, busy: Float64, minutes: float) -> Float64:
    """Return [..] how many minutes a record waits at utilisation ``busy`` [..] if an hour surges to one of ``ratio`` [.., H].

    A surge lasts so many minutes; its queue grows evenly and is worked off with the capacity left over, at ``DRAIN_SHARE`` of the
    load or faster. NaN: an hour not known.
    """
    room = 1.0 / np.maximum(busy, _LEAST)
    known = ~np.isnan(ratio)
    queue = minutes * np.maximum(np.where(known, ratio, 0.0) - room[..., None], 0.0)  # in minutes of the load
    worked_off = np.square(queue) / (2.0 * np.maximum(room - 1.0, DRAIN_SHARE))[..., None]
    waited: Float64 = ((queue * minutes / 2.0 + worked_off) / 60.0).sum(axis=-1) / np.maximum(known.sum(axis=-1), 1)
    return waited


def _mean_reward(planning: Planning, latency: Float64, loads: Float64, choices: _Choices) -> Float64:
    """Return the reward of latencies [B, C, S, ..] under loads [B, 1, S, ..], the mean over scenarios."""
    shape = (*choices.capacity.shape, *(1,) * (latency.ndim - 2))
    served = np.minimum(loads, choices.capacity.reshape(shape))
    used = np.minimum(served * choices.busy_per_record.reshape(shape), 1.0)
    reward: Float64 = ((1.0 - planning.latency_weight) * used - planning.latency_weight * latency).mean(axis=2)
    return reward


def _value(later: Float64, restart: Float64) -> Float64:
    """Return [B, C] what later stages [B, C, K-1] come to: in each, a plan keeps its choice or pays [B, C] for the best other."""
    value = np.zeros(later.shape[:2])
    for stage in range(later.shape[-1] - 1, -1, -1):
        value = value + later[..., stage]
        value = np.maximum(value, value.max(axis=1, keepdims=True) - restart)
    return value


def waiting_inside(measured: Measured, graph: JobGraph) -> Float64:
    """Return [B] the records that entered the job and wait in it: the most that lie before each other on one path.

    Parallel branches hold copies of the same records, so queues add up along a path only.
    """
    own = measured.backlog_records / np.maximum(measured.visits, _LEAST)
    lag = np.array(own)
    for members in graph.by_level[1:]:
        parents, known = graph.parents.index[members], graph.parents.known[members]
        lag[:, members] = own[:, members] + np.where(known, lag[:, parents], 0.0).max(axis=-1)
    inside: Float64 = lag.max(axis=-1)
    return inside


def waiting_by_bursts(burst: Float64, minutes: int) -> Float64:
    """Return [B, U] how many minutes a record waits at each utilisation in stages that begin with nothing waiting.

    The bursts [B, 60] are cut into stages of so many minutes; what is not served within its stage has waited to its end.
    """
    stages = burst.reshape(len(burst), 1, -1, minutes)
    surplus = np.cumsum(stages - 1.0 / _BUSY[:, None, None], axis=-1)
    queue = surplus - np.minimum(np.minimum.accumulate(surplus, axis=-1), 0.0)
    waited: Float64 = ((queue.sum(axis=-1) - queue[..., -1] / 2.0) / minutes).mean(axis=-1)
    return waited


def _waiting_at(busy: Float64, curve: Float64) -> Float64:
    """Interpolate curves [B, U] at utilisations [B, ..]."""
    at = np.clip((busy - _BUSY[0]) / _BUSY_STEP, 0.0, len(_BUSY) - 1 - 1e-6).reshape(len(busy), -1)
    low = at.astype(np.int64)
    below, above = (
        np.take_along_axis(curve, low, axis=1),
        np.take_along_axis(curve, low + 1, axis=1),
    )
    waited: Float64 = (below + (at - low) * (above - below)).reshape(busy.shape)
    return waited
