"""What a record costs a task *now*, where that changes: a local level per task, filtered from blocks of minutes. Any batch axes.

The log of a task's service time is taken as a random walk seen through noise (Harvey 1989, the local level model). Noise and
walk are estimated from the window itself: noise from neighbouring minutes (by a median, so a jump is no noise), the walk from
neighbouring blocks and from blocks half an hour apart, as far as they differ by more than the noise explains. A task that does
not walk keeps the mean of its window, bit for bit. One that walks gets the filter's level, which forgets as fast as the walk
demands, and the standard deviation of where it may be by the time a new size takes effect and has paid off.

Minutes in which a task was hardly busy or starved say little, and count as unknown; so do those after a restart.
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from surescale.policies.answer import Float64
from surescale.policies.graph import Bool

Number = TypeVar("Number", np.float64, np.int8)

BLOCK_MINUTES = 5
APART = 6  # blocks: half an hour
AHEAD_BLOCKS = 4.0  # the first stage of a plan
WALK_LEAST = 0.03  # smaller differences of a service time, in logs, are none
NOISE_TIMES = 3.0  # differences count as a walk beyond this many times what noise explains
SPREAD_MOST = 0.35  # a task that jumped once is not expected to jump further than this
_MINUTES_LEAST = 2  # known ones, in a block
_MEDIAN_SHARE = 0.455  # median of a squared standard normal


@dataclass(frozen=True, slots=True)
class Level:
    """The present service times of tasks, [.., N].

    Attributes:
        service_minutes: busy subtask-minutes per record; NaN for a task that does not walk, or that too little is known of.
        spread: standard deviation of its log over the coming minutes; 0 where NaN.
    """

    service_minutes: Float64
    spread: Float64


def level_of(busy_minutes: Float64, records: Float64, known: Bool) -> Level | None:
    """Return the level for busy subtask-minutes and records [.., L, N] over known minutes; None if no task walks."""
    blocks = busy_minutes.shape[-2] // BLOCK_MINUTES
    if blocks < APART + 1:
        return None
    recent = slice(busy_minutes.shape[-2] - blocks * BLOCK_MINUTES, None)
    busy_minutes, records = busy_minutes[..., recent, :], records[..., recent, :]
    known = known[..., recent, :]
    spent, done = (_in_blocks(np.where(known, each, 0.0), blocks) for each in (busy_minutes, records))
    count = _in_blocks(known.astype(np.int8), blocks)
    is_known = (count >= _MINUTES_LEAST) & (spent > 0) & (done > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(is_known, np.log(spent / done), np.nan)
    near, far = _mean_square(logs, 1), _mean_square(logs, APART)
    moves = np.maximum(near, far) > WALK_LEAST**2
    if not moves.any():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        jumps = np.square(np.diff(np.where(known, np.log(busy_minutes / records), np.nan), axis=-2))
    noise = _median(jumps) / (2.0 * _MEDIAN_SHARE) / BLOCK_MINUTES
    explained = 2.0 * NOISE_TIMES * noise
    walk = np.maximum(near - explained, (far - explained) / APART)
    walks = moves & (walk > 0) & (jumps > 0.0).any(axis=-2)  # where no two minutes tell the noise, nothing is known to walk
    if not walks.any():
        return None
    walk = np.where(walks, walk, 1.0)
    before = (walk + np.sqrt(np.square(walk) + 4.0 * walk * noise)) / 2.0
    gain = before / (before + noise)
    ages = np.arange(blocks - 1, -1, -1.0)[:, None]
    weight = np.where(is_known, np.power(1.0 - np.minimum(gain, 0.99)[..., None, :], ages), 0.0)
    mean = (weight * np.where(is_known, logs, 0.0)).sum(axis=-2) / np.maximum(weight.sum(axis=-2), 1e-300)
    silent = np.argmax(np.flip(is_known, axis=-2), axis=-2)  # blocks since the last known one
    spread = np.minimum(np.sqrt(gain * noise + walk * (AHEAD_BLOCKS + silent)), SPREAD_MOST)
    return Level(np.where(walks, np.exp(mean), np.nan), np.where(walks, spread, 0.0))


def _in_blocks(values: npt.NDArray[Number], blocks: int) -> npt.NDArray[Number]:
    """Return the sums of blocks [.., K, N] of values [.., K * BLOCK_MINUTES, N].

    They are added minute by minute: numpy's own sum takes every block by itself, which is far slower for many rows.
    """
    minutes = np.moveaxis(values.reshape(*values.shape[:-2], blocks, BLOCK_MINUTES, values.shape[-1]), -2, 0)
    total: npt.NDArray[Number] = minutes[0] + minutes[1]
    for each in minutes[2:]:
        total += each
    return total


def _mean_square(logs: Float64, apart: int) -> Float64:
    """Return the mean square [.., N] of differences of logs [.., K, N] so many blocks apart; 0 if none is known."""
    squares = np.square(logs[..., apart:, :] - logs[..., :-apart, :])
    known = ~np.isnan(squares)
    mean: Float64 = np.where(known, squares, 0.0).sum(axis=-2) / np.maximum(known.sum(axis=-2), 1)
    return mean


def _median(values: Float64) -> Float64:
    """Return the median [.., N] of the known values [.., m, N], the lower one of an even number; 0 if none is known."""
    ordered = np.sort(values, axis=-2)  # NaN last
    count = (~np.isnan(values)).sum(axis=-2)
    middle: Float64 = np.take_along_axis(ordered, (np.maximum(count - 1, 0) // 2)[..., None, :], axis=-2)[..., 0, :]
    return np.nan_to_num(middle)
