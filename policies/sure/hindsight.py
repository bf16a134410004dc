"""Scores constant sizes over the last three days, and decides whether that should count in a plan.

A plan of two hours cannot see what a size is worth over days. Two kinds of jobs suffer:

- Under bursts without a rhythm, each change looks worth its restart, but all of them together are not. So the last hours are
  replayed. A constant is scored on the load and peak of each hour. Following the load is scored hour by hour: of the sizes that
  the load floor allows, take the one that looked best for the hour expected (``policies.sure.past``) under the surges of the last
  day, if it pays for its restart over two hours; then score it on the hour as it was. It expects what the plan expects: surges
  no higher than the day's highest, and no change from hour to hour beyond that of the outlook.
- Under a constant load, two hours gain too little to tell two sizes apart, so noise decides now and then. A whole day tells them
  apart at once, and tells the same the next time. Its first hours do so as well, for as long as they have lasted: where restarts
  take minutes, a job too wide would else stay so for half a day. The days before it may have been others, and do not count.
"""

from dataclasses import replace

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.forecast import TINY
from surescale.policies.graph import Bool
from surescale.policies.limits import Limits
from surescale.policies.sure.choices import Choices, Work, calmness
from surescale.policies.sure.outlook import SURGE_MAX, Expected
from surescale.policies.sure.past import DAY_HOURS, WEEK_HOURS, Past
from surescale.policies.sure.planning_input import Planning
from surescale.policies.sure.queue_delay import waiting_at, waiting_by_bursts, waiting_by_surges

KNOWN_HOURS_MIN = 66  # fewer cannot tell whether following pays
KNOWN_SHARE = 0.9  # of a week's hours; fewer cannot tell what a constant scores over it
CALM_HOURS_MIN = 3  # fewer cannot tell that a load is constant
CALM_WIDTH = 0.15  # a day counts as constant below this logarithm of its highest over its lowest hour
HEADROOM = 1.1  # a constant load is sized as if it were ten per cent higher
AHEAD_HOURS = 2  # a change must pay for its restart over this time, as in the plan
CAPACITIES = 32  # tried, from the load of the lowest hour to ``HIGHEST`` times that of the highest
HIGHEST = 5.0
STEADY = np.ones((1, 60))  # an hour without bursts
FLOOR_SHARE = 0.5  # from an hour's mean to its peak of five minutes: about its highest quarter of an hour, which the floor counts


def hindsight(
    planning: Planning, expected: Expected, curve: Float64, choices: Choices, work: Work, limits: Limits
) -> tuple[Float64, Float64, Float64]:
    """Return the weight [B] of the past in a plan, the days [B] it counts for, and each choice's reward [B, C] as a constant.

    The reward is per stage. The weight is 0 if the load has left the range of the last day. For a calm job whose day was no wider
    than ``CALM_WIDTH`` it is its ``policies.sure.choices.calmness``; what was constant for some hours is expected to stay so for
    as many more, at most a day. For any other job it grows with the reward by which following lost against the best constant: 0
    up to ``hindsight_margin``, 1 from twice that. ``curve`` is the delay by the bursts of the last hour [B, U].

    Where a restart is long, a constant has to be right for the day that comes, and undoing it costs too much to wait until the
    load has shown that. So the last days are taken at the level of the last twelve hours. From five minutes on the last week
    counts instead, and its same day as much as all of it: on a Monday the last days know nothing of workdays. That is where it
    is known and the load is still as it was.
    """
    past = expected.past
    counted = known_hours(past)
    of_day = counted[:, -DAY_HOURS:].sum(axis=1)
    calm = np.where((of_day >= CALM_HOURS_MIN) & (past.width < CALM_WIDTH), calmness(planning, expected), 0.0)
    days = planning.hindsight_days * np.where(calm > 0, of_day / DAY_HOURS, 1.0)
    asked = past.usual & (counted.sum(axis=1) >= KNOWN_HOURS_MIN) & (calm == 0) & (planning.hindsight_days > 0)
    heed = np.where(past.usual & (planning.hindsight_days > 0), calm, 0.0)
    if asked.any():
        heed = np.where(asked, _following_lost(planning, expected, work, limits), heed)
    if not heed.any():
        return heed, days, np.zeros(choices.capacity.shape)
    coming = expected
    if planning.forced_restart > 0:
        coming = replace(expected, past=replace(past, loads=past.loads * past.level, peaks=past.peaks * past.level))
    counted[:, :-DAY_HOURS] &= (calm == 0)[:, None]
    constant = _mean_of(counted, _scored(planning, coming, curve, choices, calm > 0))
    if planning.looks_back_a_week:
        of_week = replace(past, loads=past.week, peaks=past.week_peaks)
        known = known_hours(of_week) & (calm == 0)[:, None]
        is_known = known[:, :DAY_HOURS].all(axis=1) & (known.sum(axis=1) >= KNOWN_SHARE * WEEK_HOURS)
        scored = _scored(planning, replace(expected, past=of_week), curve, choices, calm > 0)
        same_day = _mean_of(known[:, :DAY_HOURS], scored[..., :DAY_HOURS])
        constant = np.where(is_known[:, None], (_mean_of(known, scored) + same_day) / 2.0, constant)
    return heed, days, constant


def _mean_of(counted: Bool, scored: Float64) -> Float64:
    """Return [B, C] the mean reward of the hours that count [B, n], from rewards [B, C, n]; 0 where none does."""
    mean: Float64 = np.where(counted[:, None], scored, 0.0).sum(axis=-1) / np.maximum(counted.sum(axis=1), 1)[:, None]
    return mean


def known_hours(past: Past) -> Bool:
    """Return [B, n] which hours have both load and peak, and a record.

    An hour without one tells nothing of constant sizes: in it the job goes to its least, whatever sizes are worth over days.
    """
    known: Bool = (past.loads > 0.0) & ~np.isnan(past.peaks)
    return known


def _following_lost(planning: Planning, expected: Expected, work: Work, limits: Limits) -> Float64:
    """Return [B] 0 if following did not lose against the best constant, up to 1 if it did.

    Both are scored without bursts inside an hour except its peak. Only the last hour's bursts are known; with them the same three
    days would look lost after a restless hour and won after a calm one.
    """
    hours = np.maximum(known_hours(expected.past).sum(axis=1), 1)
    curve = np.repeat(waiting_by_bursts(STEADY, expected.stage_minutes, planning.bound), len(hours), axis=0)
    row = _capacities(expected.past, work, limits)
    scored = _scored(planning, expected, curve, row, np.zeros(len(hours), dtype=np.bool_))
    looked = _expected_rewards(planning, expected, curve, row)
    looked = np.where(_is_allowed(expected.past, row), looked, -np.inf)
    followed = _followed(planning, looked, scored, 60.0 / expected.stage_minutes)
    worse = (scored.sum(axis=-1).max(axis=1) - followed) / hours
    lost: Float64 = (worse / planning.hindsight_margin - 1.0).clip(0.0, 1.0)
    return lost


def _capacities(past: Past, work: Work, limits: Limits) -> Choices:
    """Return choices from overload in the lowest hour to room for surges in the highest, within the job's limits."""
    low = np.fmax(np.fmin.reduce(past.loads, axis=1), TINY)
    high = np.fmax(np.fmax.reduce(past.loads, axis=1), low)
    row = low[:, None] * (HIGHEST * high / low)[:, None] ** np.linspace(0.0, 1.0, CAPACITIES)
    most = np.maximum(limits.most, 1)
    return Choices.of(np.clip(work.sizes(row), 1, most).astype(np.int64), work)


def _scored(planning: Planning, expected: Expected, curve: Float64, choices: Choices, calm: Bool) -> Float64:
    """Return [B, C, 72] the reward of each hour with its own load and peak, 0 if unknown.

    Inside an hour the bursts of the last one count. In ``calm`` jobs [B] only a hidden overload counts: those bursts would bring
    the noise back. A choice that is too small for the highest quarter of an hour does not last: the load floor raises it, and the
    hour pays for that restart. What was left of the hour before at the beginning of a quieter one is no surge of it.
    """
    loads, peaks = expected.past.loads, expected.past.peaks
    known = known_hours(expected.past)
    load = np.where(known, loads, 0.0)[:, None]
    around = np.fmax(loads, _hour_before(loads))
    ratio = np.clip(np.where(known, peaks / np.maximum(around, TINY), 1.0), 1.0, SURGE_MAX)
    busy = load / choices.capacity[..., None]
    peak = np.broadcast_to(ratio[:, None], busy.shape)[..., None]
    surge = waiting_by_surges(peak, busy, planning.surge_minutes, planning.bound)
    bursts = waiting_at(busy, curve)
    full = 30.0 * np.maximum(HEADROOM * busy - 1.0, 0.0)  # mean minutes over an hour in which a queue grows evenly
    if planning.bound is not None:
        full = planning.bound.penalty(planning.bound.above(full), full)
    own = np.where(calm[:, None, None], full, bursts)
    latency = own + planning.surge_weight * np.maximum(surge - own, 0.0)
    reward = choices.reward(planning, latency, load)
    if planning.forced_restart > 0:
        quarter = load * (1.0 + FLOOR_SHARE * (ratio[:, None] - 1.0))
        reward = reward - planning.forced_restart * expected.stage_minutes / 60.0 * (quarter > choices.capacity[..., None])
    return np.where(known[:, None], reward, 0.0)


def _expected_rewards(planning: Planning, expected: Expected, curve: Float64, choices: Choices) -> Float64:
    """Return the reward [B, C, 72] expected of each hour beforehand, with the last day's surges at any minute.

    As in the plan, none is above the day's highest. It is 0 for unknown hours, so that no choice looks better than another.
    """
    known = ~np.isnan(expected.past.expected)
    load = np.where(known, expected.past.expected, 0.0)
    highest = np.nan_to_num(expected.highest_surge, nan=np.inf)[:, None] / np.maximum(load, TINY)
    ratio = np.minimum(expected.surges[:, None], np.maximum(highest, 1.0)[..., None])  # [B, 72, H]
    busy = load[:, None] / choices.capacity[..., None]
    surge = waiting_by_surges(ratio[:, None], busy, planning.surge_minutes, planning.bound)
    own = waiting_at(busy, curve)
    latency = own + planning.surge_weight * np.maximum(surge - own, 0.0)
    return np.where(known[:, None], choices.reward(planning, latency, load[:, None]), 0.0)


def _is_allowed(past: Past, choices: Choices) -> Bool:
    """Return [B, C, 72] which choices the load floor allows in each hour: those that carry what came before it and still comes.

    Where none does, the largest is allowed.
    """
    lasting = np.nan_to_num(np.minimum(past.loads, _hour_before(past.loads)))
    least = np.minimum(lasting, choices.capacity.max(axis=1, keepdims=True))
    allowed: Bool = choices.capacity[..., None] >= least[:, None]
    return allowed


def _hour_before(hours: Float64) -> Float64:
    """Return for each hour [B, n] the one before it; NaN for the first."""
    return np.concatenate([np.full((len(hours), 1), np.nan), hours[:, :-1]], axis=1)


def _followed(planning: Planning, looked: Float64, scored: Float64, stages: float) -> Float64:
    """Return [B] the total reward of following, restarts included, from rewards [B, C, 72] expected and scored per hour."""
    best = looked.argmax(axis=1)
    gain = AHEAD_HOURS * stages * (looked.max(axis=1, keepdims=True) - looked)
    moves = (gain > planning.later_restart + planning.gain_min).transpose(0, 2, 1)  # [B, 72, C]
    taken = np.array([_taken(*row) for row in zip(moves.tolist(), best.tolist(), strict=True)], dtype=np.int64)
    score = scored[np.arange(len(taken))[:, None], taken, np.arange(taken.shape[1])]
    restarts = (np.diff(taken, axis=1) != 0).sum(axis=1)
    total: Float64 = score.sum(axis=1) - planning.later_restart / stages * restarts
    return total


def _taken(moves: list[list[bool]], best: list[int]) -> list[int]:
    """Return the choice in force in each hour; ``moves`` says, by hour and choice, whether to leave it for the best one."""
    taken, at = [], best[0]
    for leaves, better in zip(moves, best, strict=True):
        at = better if leaves[at] else at
        taken.append(at)
    return taken
