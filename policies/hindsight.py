"""What constant sizes would have scored over the last three days, and whether that should count. Pure.

A plan of two hours does not know what a size is worth for days. Two kinds of jobs lose by that:

- under a load of bursts without a rhythm every single change looks worth its restart and all together are not. So the last
  hours are passed through once more. A constant is scored on each hour's own load and peak. Following is scored hour by hour:
  the size that looked best for what was to be expected of the hour (``policies.past``) under the surges of the last day, taken
  if it paid for its restart over two hours as the plan reckons; then on what the hour was. This following, an hour late, is
  poorer than the plan's own, by less than the difference that counts: on the first third of Twitter it lies .03 to .06 below the
  best constant, on the first weeks of ClarkNet and NASA at most .02 below and nearly always above.
- under a constant load two hours gain too little to tell two sizes apart, so that noise decides, now and again. A whole day
  tells at the first look and says the same at the next.
"""

import numpy as np

from policies.choices import Choices, Limits, Planning, Work, calmness
from policies.forecast import TINY
from policies.graph import Bool
from policies.outlook import SURGE_MAX, Expected
from policies.past import Past
from policies.proposal import Float64
from policies.waiting import BUSY, waiting_at, waiting_by_bursts, waiting_by_surges

KNOWN_HOURS_MIN = 66  # fewer do not tell whether following pays
CALM_HOURS_MIN = 12  # fewer do not tell that a load is constant
CALM_WIDTH = 0.15  # logarithm of the highest over the lowest hour of a day that counts as constant
HEADROOM = 1.1  # a constant load is sized as if it were a tenth higher
AHEAD_HOURS = 2  # over which a change must pay for its restart, as in the plan
CAPACITIES = 32  # tried, from the load of the lowest hour to ``HIGHEST`` times that of the highest
HIGHEST = 5.0
STEADY = np.ones((1, 60))  # an hour without bursts


def hindsight(
    planning: Planning, expected: Expected, curve: Float64, choices: Choices, work: Work, limits: Limits
) -> tuple[Float64, Float64]:
    """Return how far [B] the plan should go by the past, 0 to 1, and the reward [B, C] of each choice as its constant, per stage.

    Never where the load has left what the last day was. A calm job (``policies.choices.calmness``) always, if its day was no
    wider than ``CALM_WIDTH``. Another one where following was worse than the best constant: by ``hindsight_margin`` not at all,
    by twice that fully. ``curve``: waiting by the bursts of the last hour [B, U].
    """
    past = expected.past
    known = known_hours(past).sum(axis=1)
    calm = np.where((known >= CALM_HOURS_MIN) & (past.width < CALM_WIDTH), calmness(planning, expected), 0.0)
    asked = past.usual & (known >= KNOWN_HOURS_MIN) & (calm == 0) & (planning.hindsight_days > 0)
    heed = np.where(past.usual & (planning.hindsight_days > 0), calm, 0.0)
    if asked.any():
        heed = np.where(asked, _following_lost(planning, expected, work, limits), heed)
    if not heed.any():
        return heed, np.zeros(choices.capacity.shape)
    constant: Float64 = _scored(planning, expected, curve, choices, calm > 0).sum(axis=-1) / np.maximum(known, 1)[:, None]
    return heed, constant


def known_hours(past: Past) -> Bool:
    """Return [B, 72] the hours with load and peak."""
    known: Bool = ~np.isnan(past.loads) & ~np.isnan(past.peaks)
    return known


def _following_lost(planning: Planning, expected: Expected, work: Work, limits: Limits) -> Float64:
    """Return [B] 0 where following did not lose against the best constant, up to 1 where it did.

    Both are reckoned without bursts inside an hour beside its peak: those of the last hour, the only ones known, would make the
    same three days look lost after a restless hour and won after a calm one.
    """
    hours = np.maximum(known_hours(expected.past).sum(axis=1), 1)
    curve = np.repeat(waiting_by_bursts(STEADY, expected.stage_minutes), len(hours), axis=0)
    row = _capacities(expected.past, work, limits)
    scored = _scored(planning, expected, curve, row, np.zeros(len(hours), dtype=np.bool_))
    followed = _followed(planning, _looked(planning, expected, curve, row), scored, 60.0 / expected.stage_minutes)
    worse = (scored.sum(axis=-1).max(axis=1) - followed) / hours
    lost: Float64 = (worse / planning.hindsight_margin - 1.0).clip(0.0, 1.0)
    return lost


def _capacities(past: Past, work: Work, limits: Limits) -> Choices:
    """Return a row of capacities from overload in the lowest hour to room for surges in the highest, within the job's limits."""
    low = np.fmax(np.fmin.reduce(past.loads, axis=1), TINY)
    high = np.fmax(np.fmax.reduce(past.loads, axis=1), low)
    row = low[:, None] * (HIGHEST * high / low)[:, None] ** np.linspace(0.0, 1.0, CAPACITIES)
    most = np.maximum(limits.most, 1)
    return Choices.of(np.clip(work.sizes(row), 1, most).astype(np.int64), work)


def _scored(planning: Planning, expected: Expected, curve: Float64, choices: Choices, calm: Bool) -> Float64:
    """Return [B, C, 72] the reward of each hour with its own load and peak, 0 where unknown.

    Inside an hour the bursts of the last one count; in ``calm`` jobs [B] none but a hidden overload, as bursts of the last hour
    would bring the noise back in.
    """
    loads, peaks = expected.past.loads, expected.past.peaks
    known = known_hours(expected.past)
    load = np.where(known, loads, 0.0)[:, None]
    ratio = np.clip(np.where(known, peaks / np.maximum(loads, TINY), 1.0), 1.0, SURGE_MAX)
    busy = load / choices.capacity[..., None]
    surge = waiting_by_surges(np.broadcast_to(ratio[:, None], busy.shape)[..., None], busy, planning.surge_minutes)
    bursts = waiting_at(busy, curve)
    full = 30.0 * np.maximum(HEADROOM * busy - 1.0, 0.0)  # minutes, the mean over an hour in which a queue grows evenly
    own = np.where(calm[:, None, None], full, bursts)
    latency = own + planning.surge_weight * np.maximum(surge - own, 0.0)
    return np.where(known[:, None], choices.reward(planning, latency, load), 0.0)


def _looked(planning: Planning, expected: Expected, curve: Float64, choices: Choices) -> Float64:
    """Return [B, C, 72] what each hour looked like beforehand: its expected load, and the last day's surges at any minute.

    0, so that nothing looks better than anything else, where unknown.
    """
    surge = waiting_by_surges(expected.surges[:, None], np.broadcast_to(BUSY, curve.shape), planning.surge_minutes)
    both = curve + planning.surge_weight * np.maximum(surge - curve, 0.0)
    known = ~np.isnan(expected.past.expected)[:, None]
    load = np.where(known, expected.past.expected[:, None], 0.0)
    return np.where(known, choices.reward(planning, waiting_at(load / choices.capacity[..., None], both), load), 0.0)


def _followed(planning: Planning, looked: Float64, scored: Float64, stages: float) -> Float64:
    """Return [B] the sum over hours of what following scored, its restarts paid; both [B, C, 72], hours of so many stages."""
    best = looked.argmax(axis=1)
    gain = AHEAD_HOURS * stages * (looked.max(axis=1, keepdims=True) - looked)
    moves = (gain > planning.later_restart + planning.gain_min).transpose(0, 2, 1)  # [B, 72, C]
    taken = np.array([_taken(*row) for row in zip(moves.tolist(), best.tolist(), strict=True)], dtype=np.int64)
    score = np.take_along_axis(scored, taken[:, None], axis=1)[:, 0]
    restarts = (np.diff(taken, axis=1) != 0).sum(axis=1)
    total: Float64 = score.sum(axis=1) - planning.later_restart / stages * restarts
    return total


def _taken(moves: list[list[bool]], best: list[int]) -> list[int]:
    """Return the choice that each hour is passed with; ``moves`` says of hour and choice whether it is left for the best one."""
    taken, at = [], best[0]
    for leaves, better in zip(moves, best, strict=True):
        at = better if leaves[at] else at
        taken.append(at)
    return taken
