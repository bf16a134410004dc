"""Plans sizes from an outlook: scores each choice over the next hours, restart included, and decides whether to change at all.

A job whose tasks run at p subtasks with service times w per entering record passes min(p / w) records a minute. So a choice is
one capacity c and the fewest subtasks that give it, p = ceil(c w). Holding and a row of capacities are tried against a few
scenarios of the load (low, mean, high):

- the first stage minute by minute, with the present backlog, the restart and the job's own bursts;
- later stages by the delay these bursts cause at a given utilisation; there a plan may resize again for the price of a restart.

In every stage the surges of the last day may return at any minute. Where following the load did not pay over the last days, a
choice is also credited with what it would have scored as a constant (``policies.sure.hindsight``). The best choice is taken if it
beats holding by enough. A job of which the widest choice saves a good part, and carries the last day's highest peak, is far too
wide: its size is halved whatever a long restart costs, since half of next to nothing gains nothing by the hour. Where a restart
is long and the guardrails change the size in any case, the best one that they allow is
taken: the restart is paid for already.

Under a bound on latency, minutes above it count in place of latency (``policies.latency_bound``).

The reward is that of ``simulation.model.reward`` without its cap on latency: even deep in overload, less waiting is better.
"""

from dataclasses import dataclass, replace

import numpy as np

from surescale.contracts.job_settings import LATE_SECONDS
from surescale.policies.answer import Float64
from surescale.policies.graph import Bool, Int64
from surescale.policies.latency_bound import DRAIN_SHARE, Bound
from surescale.policies.measure import NOTHING_MINUTES
from surescale.policies.sure.choices import Choices, Work, calmness, choices_of, is_falling, is_young, leap_of, reach_of
from surescale.policies.sure.hindsight import hindsight
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.past import DAY_HOURS
from surescale.policies.sure.planning_input import Planning, PlanningInput
from surescale.policies.sure.queue_delay import (
    LEAST,
    late_by_surges,
    waiting_at,
    waiting_by_bursts,
    waiting_by_surges,
    waiting_inside,
)

WALK_SHARE = 0.7  # of the spread of the task that walks most: it is not always the bottleneck
WALK_GAIN = 30.0  # times that spread more must a change gain: what it is sized for may have walked off before it has paid
REVERSED = 0.5  # share of a forced restart's price that hindsight asks for as well: days differ, and every other change is undone
PAST_DOUBT = 2.0  # times that doubt, in the gain that hindsight asks for: a constant has to be right for a day, not for two hours
WALK_MOST = 0.15  # of the spread, in that gain: a jump is no walk, and to wait after one costs more than a restart
FOLLOWED_WIDTH = float(np.log(2.0))  # a day wider than a step is followed if that paid, however calm most of its hours are
WIDE_SAVING = 0.25  # share of a job's subtasks that it must be able to do without to be far too wide
WIDE_BUSY = 0.75  # how busy the highest peak of the last day may make what is left of such a job
LITTLE_BUSY = 0.6  # share of its time in which the least size does next to nothing
SHIFT_MINUTES = 13  # each scenario starts this many minutes further into the same bursts


@dataclass(frozen=True, slots=True)
class Planned:
    """Plans for B jobs.

    Attributes:
        wanted: int64 [B, N], the present sizes where ``acts`` is false.
        acts: bool [B].
        best: int64 [B], subtasks of the best choice, taken or not.
        holding, changing: float64 [B], expected reward per stage of holding and of the best choice, without the path's latency.
        idle: bool [B], nothing, or next to nothing, comes and waits, and the least that limits allow is enough for what is
            expected. Then the fewest subtasks are best, and a score is minus their number: nothing else tells sizes apart.
        wide: bool [B], the job is far too wide, and its size is halved though no score says so.
        rising: bool [B], what a timetable brings takes several steps, and the first of them is due.
        forced: bool [B], the guardrails change the present size in any case; ``holding`` is then what they make of it.
        gain_needed: float64 [B], by which the best choice must beat holding, per stage like these; 0 where it must in any case.
        heed: float64 [B], the weight of the past in it, 0 to 1 (``policies.sure.hindsight``).
        blind: bool [B], of no task another size can be judged (``policies.sure.choices.Work.sized``).
        young, falling: bool [B], why no smaller size was compared (``policies.sure.choices.is_young`` and ``is_falling``).
        choices: that were compared.
        expected: the outlook that they were compared under.
        waiting: float64 [B], records in the job now.
        leap: int64 ([B, N], [B, N]), ``policies.sure.choices.leap_of``.
    """

    wanted: Int64
    acts: Bool
    best: Int64
    holding: Float64
    changing: Float64
    idle: Bool
    wide: Bool
    rising: Bool
    forced: Bool
    gain_needed: Float64
    heed: Float64
    blind: Bool
    young: Bool
    falling: Bool
    choices: Choices
    expected: Expected
    waiting: Float64
    leap: tuple[Int64, Int64] | None


def plan(planning: Planning, given: PlanningInput) -> Planned:
    """Return plans for B jobs of one graph."""
    expected, current, limits = given.expected, given.current, given.limits
    work = Work.of(given.measured, given.graph)
    walk = np.where(work.sized, given.measured.spread, 0.0).max(axis=-1)
    expected = _with_spread(expected, walk)
    choices, forced = choices_of(planning, given, work, limits.caution)
    curve = waiting_by_bursts(expected.burst, expected.stage_minutes, planning.bound)
    if expected.shape is None:
        heed, days, constant = hindsight(planning, expected, curve, choices, work, limits)
    else:  # what comes is known, so neither the last days as a constant nor rest beats following
        heed, days, constant = np.zeros(len(current)), np.zeros(len(current)), np.zeros(choices.capacity.shape)
    is_followed = (expected.shape is not None) | ((expected.past.width > FOLLOWED_WIDTH) & (heed == 0))
    calm = np.where(is_followed, 0.0, calmness(planning, expected))
    unrest = np.maximum(given.restarts, planning.calm_restarts * calm)
    waiting = waiting_inside(given.measured, given.graph)
    values = _values(planning, expected, curve, choices, waiting, unrest)
    past = heed * days * 24.0 * 60.0 / expected.stage_minutes  # stages a constant counts for
    stages = expected.means.shape[1] + past
    values = values + past[:, None] * constant
    rows, held = np.arange(len(values)), forced.astype(np.int64)  # where holding is not allowed, the first change stands for it
    allowed = (choices.subtasks <= limits.total) | (np.arange(values.shape[1]) == held[:, None])
    allowed[forced, 0] = False
    idle = _is_idle(given, expected, work, waiting)
    values = np.where(idle[:, None], -choices.subtasks * stages[:, None], values)
    values = np.where(allowed, values, -np.inf)
    holding = values[rows, held]
    rising = np.zeros(len(values), dtype=np.bool_)
    reach = reach_of(planning, given, work)
    if reach is not None:
        short: Bool = np.asarray((choices.sizes < reach[:, None]).any(axis=-1))
        rising = np.asarray(short[rows, held] & ~(short | ~allowed).all(axis=1))
        values = np.where(rising[:, None] & short, -np.inf, values)
    best = values.argmax(axis=1)
    doubt = WALK_GAIN * np.minimum(walk, WALK_MOST)
    is_no_noise = _spares_a_good_part(expected, choices, best)
    gain_min = planning.gain_min * (1.0 + planning.again * np.where(is_no_noise, given.restarts, unrest) + doubt)
    gain_min = gain_min + planning.hindsight_gain * (1.0 + PAST_DOUBT * doubt) * past
    gain_min = gain_min + REVERSED * planning.forced_restart * (1.0 + PAST_DOUBT * doubt) * heed
    needed = np.where(forced | idle | rising, 0.0, gain_min)
    acts = forced | rising | (values[rows, best] - holding > needed)
    wide = _is_far_too_wide(planning, expected, choices) & ~acts & allowed[:, -1]
    best, acts = np.where(wide, values.shape[1] - 1, best), acts | wide
    return Planned(
        wanted=np.where(acts[:, None], choices.sizes[rows, best], current),
        acts=acts,
        best=choices.subtasks[rows, best],
        holding=holding / stages,
        changing=values[rows, best] / stages,
        idle=idle,
        wide=wide,
        rising=rising,
        forced=forced,
        gain_needed=needed / stages,
        heed=heed,
        blind=np.logical_not(work.sized.any(axis=-1)),
        young=is_young(planning, given.measured),
        falling=is_falling(planning, expected),
        choices=choices,
        expected=expected,
        waiting=waiting,
        leap=leap_of(planning, given, work),
    )


def late_minutes(planning: Planning, planned: Planned) -> Float64:
    """Return [B, C] in how many minutes of all stages records wait longer than ``late_after`` says, each choice kept for all.

    By the job's own bursts or by surges like those of the last day, whichever is more in a stage, averaged over the scenarios.
    """
    expected, choices, bound = planned.expected, planned.choices, late_after(planning)
    loads = _scenarios(planning, expected)
    coming = np.maximum(np.repeat(loads, expected.stage_minutes, axis=-1), LEAST)
    waits = _queue(planning, choices, _arrivals(expected, loads), planned.waiting) / coming[:, None]
    own = bound.above(waits).mean(axis=2)
    own = own.reshape(*own.shape[:2], -1, expected.stage_minutes).mean(axis=-1)  # [B, C, K]
    busy = loads[:, None] / choices.capacity[..., None, None]
    surges = late_by_surges(_surge_ratio(expected, loads)[:, None], busy, planning.surge_minutes, bound.minutes).mean(axis=2)
    late: Float64 = expected.stage_minutes * np.maximum(own, surges).sum(axis=-1)
    return late


def late_after(planning: Planning) -> Bound:
    """Return the bound that a plan keeps, or that of a job without one, which costs nothing."""
    return planning.bound or Bound(LATE_SECONDS / 60.0, 0.0)


def _is_idle(given: PlanningInput, expected: Expected, work: Work, waiting: Float64) -> Bool:
    """Return ``Planned.idle`` [B].

    The less comes, the less any size gains by the hour, and less than a change must gain: next to nothing kept a job as wide as
    the day's load had made it.
    """
    lately = given.measured.load[:, -NOTHING_MINUTES:]
    silent: Bool = (lately == 0.0).all(axis=-1) & (given.measured.waiting_records == 0.0).all(axis=-1)
    highest = (expected.means * np.exp(expected.spread)).max(axis=-1)
    idle: Bool = silent & _are_enough(given, work, highest)
    if given.is_restart_known:
        most: Float64 = np.maximum(highest, lately.max(axis=-1)) + waiting  # NaN where unknown
        idle |= np.isfinite(most) & _are_enough(given, work, np.nan_to_num(most) / LITTLE_BUSY)
    return idle


def _are_enough(given: PlanningInput, work: Work, load: Float64) -> Bool:
    """Return [B] whether the fewest subtasks that limits allow carry a load [B]; False where of no task that is known."""
    enough = (work.sizes(load[:, None])[:, 0] <= given.limits.least) | ~work.sized
    return np.asarray(enough.all(axis=-1) & work.sized.any(axis=-1), dtype=np.bool_)


def _is_far_too_wide(planning: Planning, expected: Expected, choices: Choices) -> Bool:
    """Return ``Planned.wide`` [B], whatever scores say. Never where a restart is no longer than those of the calibration.

    Where it is longer still, nor below what the day that comes needed a week ago: what a quiet Sunday spares, Monday takes back
    with a second restart.
    """
    if planning.forced_restart <= 0.0:
        return np.zeros(len(choices.subtasks), dtype=np.bool_)
    wide = _spares_a_good_part(expected, choices, np.full(len(choices.subtasks), -1))
    if planning.looks_back_a_week:
        then = np.fmax.reduce(expected.past.week_peaks[:, :DAY_HOURS], axis=1)
        wide &= ~(WIDE_BUSY * choices.capacity[:, -1] < then)  # not where NaN
    return wide


def _spares_a_good_part(expected: Expected, choices: Choices, which: Int64) -> Bool:
    """Return [B] whether a choice of each job saves a good part of its subtasks and carries the last day's highest peak."""
    rows = np.arange(len(which))
    saves = choices.subtasks[rows, which] <= (1.0 - WIDE_SAVING) * choices.subtasks[:, 0]
    peak = np.fmax(expected.highest_surge, (expected.means * np.exp(expected.spread)).max(axis=-1))
    carries: Bool = WIDE_BUSY * choices.capacity[rows, which] >= peak
    return saves & carries


def _with_spread(expected: Expected, walk: Float64) -> Expected:
    """Return the outlook, wider where service times walk by ``walk`` [B]: too small a capacity is like too large a load."""
    if not walk.any():
        return expected
    wider = np.sqrt(np.square(expected.spread) + np.square(WALK_SHARE * walk)[:, None])
    return replace(expected, spread=wider)


def _values(
    planning: Planning, expected: Expected, curve: Float64, choices: Choices, waiting: Float64, unrest: Float64
) -> Float64:
    """Return [B, C] the sum of rewards over the stages, starting with ``waiting`` [B] records in the job.

    Each restart of the last hour (``unrest`` [B]) raises the price of a later restart for every change, but not for holding.
    """
    loads = _scenarios(planning, expected)
    first = _first_stage(planning, expected, loads[..., 0], choices, waiting)
    later = _later_stages(planning, curve, loads[..., 1:], choices)
    surprises = planning.latency_weight * _waiting_by_surges(planning, expected, curve, loads, choices)  # [B, C, K]
    again = planning.again_later * unrest[:, None] * (np.arange(later.shape[1]) > 0)
    price = np.asarray(planning.later_restart * (1.0 + again), dtype=np.float64)
    values: Float64 = first - surprises[..., 0] + _value(later - surprises[..., 1:], price)
    return values


def _first_stage(planning: Planning, expected: Expected, loads: Float64, choices: Choices, waiting: Float64) -> Float64:
    """Return the reward [B, C] of the first stage, averaged over loads [B, S], starting with ``waiting`` [B] records."""
    minutes = expected.stage_minutes
    arrivals = _arrivals(expected, loads[..., None])
    queue = _queue(planning, choices, arrivals, waiting)
    before, left = waiting[:, None, None], queue[..., -1]
    entered = np.maximum(arrivals.sum(axis=-1), LEAST)[:, None]
    worked_off = np.square(left) * minutes / (2.0 * DRAIN_SHARE * entered)
    waited = queue.sum(axis=-1) + (before - left) / 2.0 + worked_off
    latency = waited / entered
    if planning.bound is not None:
        above = planning.bound.above(queue * minutes / entered[..., None]).mean(axis=-1)
        latency = planning.bound.penalty(above, latency)
    reward: Float64 = choices.reward(planning, latency, loads[:, None]).mean(axis=2)
    return reward


def _arrivals(expected: Expected, loads: Float64) -> Float64:
    """Return the records [B, S, K T] of each minute under loads [B, S, K]; each scenario starts elsewhere in the job's bursts."""
    scenarios, minutes = loads.shape[1], loads.shape[2] * expected.stage_minutes
    order = (np.arange(minutes) + SHIFT_MINUTES * np.arange(scenarios)[:, None]) % expected.burst.shape[1]
    arrivals: Float64 = np.repeat(loads, expected.stage_minutes, axis=-1) * expected.burst[:, order]
    if expected.shape is not None:
        arrivals *= expected.shape[:, None, :minutes]
    return arrivals


def _queue(planning: Planning, choices: Choices, arrivals: Float64, waiting: Float64) -> Float64:
    """Return what waits [B, C, S, T] at the end of each minute, with a change's restart; ``arrivals`` [B, S, T]."""
    changed = (choices.sizes != choices.sizes[:, :1]).any(axis=-1)
    served = np.repeat(choices.capacity[..., None], arrivals.shape[-1], axis=-1)  # [B, C, T]
    served[..., : planning.effect_minutes] = choices.capacity[:, :1, None]
    down = slice(planning.effect_minutes, planning.effect_minutes + planning.restart_minutes)
    served[..., down] = np.where(changed[..., None], 0.0, served[..., down])
    served[..., down.stop : down.stop + 1] *= np.where(changed[..., None], 1.0 - planning.restart_part, 1.0)
    surplus = np.cumsum(arrivals[:, None] - served[:, :, None], axis=-1)  # [B, C, S, T]
    queue: Float64 = surplus + np.maximum(waiting[:, None, None, None], -np.minimum.accumulate(surplus, axis=-1))
    return queue


def _scenarios(planning: Planning, expected: Expected) -> Float64:
    """Return loads [B, S, K]."""
    factors = np.exp(np.array(planning.scenarios)[:, None] * expected.spread[:, None])
    loads: Float64 = expected.means[:, None] * factors
    return loads


def _surge_ratio(expected: Expected, loads: Float64) -> Float64:
    """Return [B, S, K, H] to how many times the loads [B, S, K] an hour surges; no surge exceeds the highest one seen."""
    highest = np.nan_to_num(expected.highest_surge, nan=np.inf)[:, None, None] / np.maximum(loads, LEAST)
    ratio: Float64 = np.minimum(expected.surges[:, None, None], np.maximum(highest, 1.0)[..., None])
    return ratio


def _later_stages(planning: Planning, curve: Float64, loads: Float64, choices: Choices) -> Float64:
    """Return the reward [B, C, K-1] of each later stage by itself, averaged over loads [B, S, K-1]."""
    busy = loads[:, None] / choices.capacity[..., None, None]
    reward: Float64 = choices.reward(planning, waiting_at(busy, curve), loads[:, None]).mean(axis=2)
    return reward


def _waiting_by_surges(planning: Planning, expected: Expected, curve: Float64, loads: Float64, choices: Choices) -> Float64:
    """Return [B, C, K] the extra minutes a record waits if every hour surges like one of the last day's.

    Averaged over the scenarios of loads [B, S, K]. Delay that the last hour's bursts already cause is not counted twice.
    """
    busy = loads[:, None] / choices.capacity[..., None, None]  # [B, C, S, K]
    day = waiting_by_surges(_surge_ratio(expected, loads)[:, None], busy, planning.surge_minutes, planning.bound)
    own = waiting_at(busy, curve)
    more: Float64 = planning.surge_weight * np.maximum(day - own, 0.0).mean(axis=2)
    return more


def _value(later: Float64, restart: Float64) -> Float64:
    """Return [B, C] the value of later stages [B, C, K-1]: in each, a plan keeps its choice or pays [B, C] for the best other."""
    value = np.zeros(later.shape[:2])
    for stage in range(later.shape[-1] - 1, -1, -1):
        value = value + later[..., stage]
        value = np.maximum(value, value.max(axis=1, keepdims=True) - restart)
    return value
