"""Whether following the load would have paid over the last three days, and what constant sizes would have scored. Pure.

A plan of two hours does not know whether a constant would have done as well over days: under a load of bursts without a rhythm
every single change looks worth its restart and all together are not. So the last hours are passed through once more. A constant
is scored on each hour's own load and peak. Following is scored hour by hour: the size that looked best for what was to be
expected of the hour (``policies.past``), under the surges of the last day, taken if it paid for its restart over two hours as
the plan reckons; then on what the hour was. This one-hour-old following is poorer than the plan's own by far less than the
difference that counts here: by some .03 on the first weeks of ClarkNet and NASA, where constants lose by .06 and .08.
"""

import numpy as np

from policies.choices import Choices, Limits, Planning, Work
from policies.graph import Int64
from policies.outlook import SURGE_MAX, Expected
from policies.past import PAST_HOURS, TINY, Past
from policies.proposal import Float64
from policies.waiting import BUSY, waiting_at, waiting_by_bursts, waiting_by_surges

KNOWN_HOURS_MIN = 48  # fewer say nothing
AHEAD_HOURS = 2  # over which a change must pay for its restart, as in the plan
CAPACITIES = 32  # tried, from the load of the lowest hour to ``HIGHEST`` times that of the highest
HIGHEST = 5.0


def hindsight(planning: Planning, expected: Expected, choices: Choices, work: Work, limits: Limits) -> tuple[Float64, Float64]:
    """Return how far [B] the plan should go by the past, 0 to 1, and the reward [B, C] of each choice as its constant, per stage.

    0 where fewer than ``KNOWN_HOURS_MIN`` are known, where the load has left what the last day was, and where following was not
    worse than the best constant by ``hindsight_margin`` (more with less than ``PAST_HOURS`` known); 1 from twice that on.
    """
    past = expected.past
    known = (~np.isnan(past.loads) & ~np.isnan(past.peaks)).sum(axis=1)
    speaks = (known >= KNOWN_HOURS_MIN) & past.usual
    if not (planning.hindsight_days > 0 and speaks.any()):
        return np.zeros(len(speaks)), np.zeros(choices.capacity.shape)
    hours = np.maximum(known, 1)
    row = _capacities(past, work, limits)
    scored = _scored(planning, expected, row)
    followed = _followed(planning, _looked(planning, expected, row), scored, 60.0 / expected.stage_minutes)
    margin = planning.hindsight_margin * np.sqrt(PAST_HOURS / hours)
    worse = (scored.sum(axis=-1).max(axis=1) - followed) / hours
    heed = np.where(speaks, np.clip(worse / margin - 1.0, 0.0, 1.0), 0.0)
    return heed, _scored(planning, expected, choices).sum(axis=-1) / hours[:, None]


def _capacities(past: Past, work: Work, limits: Limits) -> Choices:
    """Return a row of capacities from overload in the lowest hour to room for surges in the highest, within the job's limits."""
    low = np.fmax(np.fmin.reduce(past.loads, axis=1), TINY)
    high = np.fmax(np.fmax.reduce(past.loads, axis=1), low)
    share = np.linspace(0.0, 1.0, CAPACITIES)
    row = low[:, None] * (HIGHEST * high / low)[:, None] ** share
    sizes = np.clip(work.sizes(row), 1, np.asarray(limits.most)).astype(np.int64)
    return Choices.of(sizes, work)


def _scored(planning: Planning, expected: Expected, choices: Choices) -> Float64:
    """Return [B, C, 72] the reward of each hour with its own load and peak, 0 where unknown."""
    loads, peaks = expected.past.loads, expected.past.peaks
    known = ~np.isnan(loads) & ~np.isnan(peaks)
    load = np.where(known, loads, 0.0)[:, None]
    ratio = np.clip(np.where(known, peaks / np.maximum(loads, TINY), 1.0), 1.0, SURGE_MAX)
    busy = load / choices.capacity[..., None]
    surge = waiting_by_surges(np.broadcast_to(ratio[:, None], busy.shape)[..., None], busy, planning.surge_minutes)
    own = waiting_at(busy, waiting_by_bursts(expected.burst, expected.stage_minutes))
    latency = own + planning.surge_weight * np.maximum(surge - own, 0.0)
    return np.where(known[:, None], choices.reward(planning, latency, load), 0.0)


def _looked(planning: Planning, expected: Expected, choices: Choices) -> Float64:
    """Return [B, C, 72] what each hour looked like beforehand: its expected load, and the last day's surges at any minute."""
    own = waiting_by_bursts(expected.burst, expected.stage_minutes)
    surge = waiting_by_surges(expected.surges[:, None], np.broadcast_to(BUSY, own.shape), planning.surge_minutes)
    curve = own + planning.surge_weight * np.maximum(surge - own, 0.0)
    load = np.nan_to_num(expected.past.expected)[:, None]
    return choices.reward(planning, waiting_at(load / choices.capacity[..., None], curve), load)


def _followed(planning: Planning, looked: Float64, scored: Float64, stages: float) -> Float64:
    """Return [B] the sum over hours of what following scored, its restarts paid; both [B, C, 72], hours of so many stages."""
    rows, best = np.arange(len(looked)), looked.argmax(axis=1)
    price = planning.later_restart + planning.gain_min
    taken: Int64 = np.empty(best.shape, dtype=np.int64)
    at = best[:, 0]
    for hour in range(best.shape[1]):
        gain = looked[rows, best[:, hour], hour] - looked[rows, at, hour]
        at = np.where(AHEAD_HOURS * stages * gain > price, best[:, hour], at)
        taken[:, hour] = at
    score = np.take_along_axis(scored, taken[:, None], axis=1)[:, 0]
    restarts = (np.diff(taken, axis=1) != 0).sum(axis=1)
    total: Float64 = score.sum(axis=1) - planning.later_restart / stages * restarts
    return total
