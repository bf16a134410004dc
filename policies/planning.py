"""From an outlook to sizes: what each choice would score over the next hours with its restart paid, and whether to change at all.

A job whose tasks run at p subtasks with service times w per entering record passes min(p / w) records a minute, so a choice is
one capacity c with the fewest subtasks that give it, p = ceil(c w). Holding and a row of capacities are tried against a few
scenarios of the load (low, mean, high): the first stage minute by minute, with the work that waits now, the restart and the
job's own bursts; later stages by the waiting that these bursts cause at a given utilisation, where a plan may resize again for
the price of a restart. In all of them the surges of the job's last day may come again at any minute. Where following the load
did not pay over the last days, what a choice would have scored on them as a constant counts as well (``policies.hindsight``).
The best choice is taken if it beats holding by enough. Pure. The reward is that of ``simulation.report`` without its cap on
latency, so that even deep in overload less waiting counts as better.
"""

from dataclasses import dataclass

import numpy as np

from policies.choices import Choices, Limits, Planning, Work, calmness, choices_of
from policies.graph import Bool, Int64, JobGraph
from policies.hindsight import hindsight
from policies.measure import Measured
from policies.outlook import Expected
from policies.proposal import Float64
from policies.waiting import DRAIN_SHARE, LEAST, waiting_at, waiting_by_bursts, waiting_by_surges, waiting_inside

EASE_MAX = 1.5  # the least gain is scaled by exp(-1.5) to exp(1.5)
SHIFT_MINUTES = 13  # scenarios meet the same bursts from different minutes on


@dataclass(frozen=True, slots=True)
class Planned:
    """What was planned for B jobs.

    Attributes:
        wanted: int64 [B, N], the present sizes where ``acts`` is false.
        acts: bool [B].
        best: int64 [B], subtasks of the best choice, whether taken or not.
        holding, changing: float64 [B], expected reward a stage of holding and of the best choice, the path's latency left out.
        heed: float64 [B], how far the past counted as well, 0 to 1 (``policies.hindsight``).
    """

    wanted: Int64
    acts: Bool
    best: Int64
    holding: Float64
    changing: Float64
    heed: Float64


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
    work = Work.of(measured, graph)
    choices = choices_of(planning, expected, measured, work, current, graph, limits, residual)
    unrest = np.maximum(restarts, planning.calm_restarts * calmness(planning, expected))
    curve = waiting_by_bursts(expected.burst, expected.stage_minutes)
    values = _values(planning, expected, curve, choices, waiting_inside(measured, graph), unrest)
    heed, constant = hindsight(planning, expected, curve, choices, work, limits)
    past = heed * planning.hindsight_days * 24.0 * 60.0 / expected.stage_minutes  # stages that a constant counts for
    values = values + past[:, None] * constant
    allowed = (choices.subtasks <= limits.total) | (np.arange(values.shape[1]) == 0)
    values = np.where(allowed, values, -np.inf)
    rows, best = np.arange(len(values)), values.argmax(axis=1)
    gain_min = planning.gain_min * (1.0 + planning.again * unrest) + planning.hindsight_gain * past
    acts = values[rows, best] - values[:, 0] > gain_min * np.exp(-EASE_MAX * np.tanh(ease))
    stages = expected.means.shape[1] + past
    return Planned(
        wanted=np.where(acts[:, None], choices.sizes[rows, best], current),
        acts=acts,
        best=choices.subtasks[rows, best],
        holding=values[:, 0] / stages,
        changing=values[rows, best] / stages,
        heed=heed,
    )


def _values(
    planning: Planning, expected: Expected, curve: Float64, choices: Choices, waiting: Float64, unrest: Float64
) -> Float64:
    """Return [B, C] the sum of rewards over the stages, with ``waiting`` [B] records at their beginning.

    Every restart of the last hour (``unrest`` [B]) makes what comes after a change dearer; holding pays no more for it.
    """
    factors = np.exp(np.array(planning.scenarios)[:, None] * expected.spread[:, None])
    loads = expected.means[:, None] * factors  # [B, S, K]
    first = _first_stage(planning, expected, loads[..., 0], choices, waiting)
    later = _later_stages(planning, curve, loads[..., 1:], choices)
    surprises = planning.latency_weight * _waiting_by_surges(planning, expected, curve, loads, choices)  # [B, C, K]
    again = planning.again_later * unrest[:, None] * (np.arange(later.shape[1]) > 0)
    price = np.asarray(planning.later_restart * (1.0 + again), dtype=np.float64)
    values: Float64 = first - surprises[..., 0] + _value(later - surprises[..., 1:], price)
    return values


def _first_stage(
    planning: Planning,
    expected: Expected,
    loads: Float64,
    choices: Choices,
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
    entered = np.maximum(arrivals.sum(axis=-1), LEAST)[:, None]
    worked_off = np.square(left) * minutes / (2.0 * DRAIN_SHARE * entered)
    waited = queue.sum(axis=-1) + (before[..., 0] - left) / 2.0 + worked_off
    reward: Float64 = choices.reward(planning, waited / entered, loads[:, None]).mean(axis=2)
    return reward


def _later_stages(planning: Planning, curve: Float64, loads: Float64, choices: Choices) -> Float64:
    """Return the reward [B, C, K-1] of each later stage on its own, the mean over loads [B, S, K-1]."""
    busy = loads[:, None] / choices.capacity[..., None, None]
    reward: Float64 = choices.reward(planning, waiting_at(busy, curve), loads[:, None]).mean(axis=2)
    return reward


def _waiting_by_surges(planning: Planning, expected: Expected, curve: Float64, loads: Float64, choices: Choices) -> Float64:
    """Return [B, C, K] what a record waits longer, in minutes, should every hour surge as one of the last day's did.

    Under loads [B, S, K], the mean over scenarios. No surge is higher than the highest that was, and what the bursts of the last
    hour make a record wait already does not count twice.
    """
    busy = loads[:, None] / choices.capacity[..., None, None]  # [B, C, S, K]
    highest = np.nan_to_num(expected.highest_surge, nan=np.inf)[:, None, None] / np.maximum(loads, LEAST)
    ratio = np.minimum(expected.surges[:, None, None], np.maximum(highest, 1.0)[..., None])  # [B, S, K, H]
    day = waiting_by_surges(ratio[:, None], busy, planning.surge_minutes)
    own = waiting_at(busy, curve)
    more: Float64 = planning.surge_weight * np.maximum(day - own, 0.0).mean(axis=2)
    return more


def _value(later: Float64, restart: Float64) -> Float64:
    """Return [B, C] what later stages [B, C, K-1] come to: in each, a plan keeps its choice or pays [B, C] for the best other."""
    value = np.zeros(later.shape[:2])
    for stage in range(later.shape[-1] - 1, -1, -1):
        value = value + later[..., stage]
        value = np.maximum(value, value.max(axis=1, keepdims=True) - restart)
    return value
