"""The timetable of a load: what came at the same times of its own period, five minutes by five minutes. No fitted constants.

Nights, office hours, weekends and jobs that run every four hours come back at the same minute, and so does a load whose period is
no day. The outlook knows the past by the hour and the day only. Here the period is looked for among all from two hours to two
days, and a week: the lag after which the load is like itself again although it has moved away in between. What came at the same
times of earlier periods is then expected, corrected by how far the last minutes were from it.

How far this was off on the job's own last day is its standard deviation. The timetable takes the place of the outlook where that
is at most half of what "as on earlier days" was off, or would be off by knowing no more than hours.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from surescale.contracts.block_load import BLOCK_MINUTES, BLOCK_MS, BLOCKS, HOUR_BLOCKS, first_block
from surescale.policies.answer import Float64
from surescale.policies.forecast import TINY, log_ratio
from surescale.policies.graph import Bool, Int64
from surescale.policies.sure.outlook import ERROR_MAX, SPREAD, SURGE_HOURS, SURGE_MAX, Expected, bursts
from surescale.policies.sure.past import Past

DAY, WEEK = 24 * HOUR_BLOCKS, 7 * 24 * HOUR_BLOCKS
PERIOD_LEAST, PERIOD_MOST = 2 * HOUR_BLOCKS, 2 * DAY  # beside a week
PAIRS_LEAST = DAY // 2  # blocks that are known a period apart
REPEATS = 0.15  # a load repeats if it differs by at most this share of what two of its blocks differ by on average
RETURNS = 0.25  # and by at most this share of what it differed by after some shorter lag
AS_GOOD = 1.25  # the shortest period counts whose difference is at most so many times the least
NOISE = 4e-4  # a difference of two per cent is none
MOVES_LEAST = 0.04  # variance of the logarithm below which there is nothing to follow
OTHER_DAYS = 0.25  # most of a week's blocks that may differ from those a day before, or one week is no timetable
KIND_BLOCKS = 2 * HOUR_BLOCKS  # another kind of day differs for at least so long; what is shorter is a burst
LATELY = 5  # periods that count
LEVEL = 0.02  # of the highest load is added before logarithms: what is less matters to no size
JUMP_LEAST = float(np.log(2.0))
EDGES = float(np.sqrt(2 * 15 / 1440))
SEEN_SHARE = 0.25  # of a deviation must have been there a stage earlier to tell which share of it stays
BETTER = 0.5  # times what "as on earlier days" was off, or less
FFT_SIZE = 2 * BLOCKS  # of all lengths, since it has small factors alone


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of the last eight days up to now.

    Attributes:
        load: float64 [n], records per minute; NaN where unknown.
        level: what is added before logarithms.
        log: float64 [n], logarithm of the mean of the ``width`` blocks up to each, with the level.
        width: blocks of a stage.
    """

    load: Float64
    level: float
    log: Float64
    width: int


def followed(expected: Expected, load: Float64, blocks: Float64, hourly_load: npt.NDArray[np.floating], end_ms: int) -> Expected:
    """Return the outlook [1, ..] as the job's timetable has it, where it has one and that is more certain; else the same.

    Args:
        expected: the outlook of one job.
        load: [L], of the last minutes.
        blocks: [2304], as decoded from ``Window.load_codes``.
        hourly_load: [192]; its hours stand for blocks that are unknown.
        end_ms: the end of the window.
    """
    seen = _seen(blocks, hourly_load, end_ms, expected.stage_minutes)
    if seen is None:
        return expected
    at_most = BETTER * max(_days_error(expected.past), _hours_error(seen))
    period = _period(seen.log) if at_most >= SPREAD[0] else None
    if period is None:
        return expected
    stages, now = expected.means.shape[1], len(seen.log)
    marks = seen.width * np.arange(1, stages + 1)
    usual = _usual(seen.log, period, int(marks[-1]))  # [n + ahead]
    off = seen.log - usual[:now]
    loads = _usual(seen.load, period, int(marks[-1]))
    before, coming = loads[:now], loads[now:]
    share, spread, beside_bursts = _errors(off, marks)
    if not spread.mean() < at_most:
        return expected
    newest = float(log_ratio(seen.load[-1] + seen.level, before[-1] + seen.level))
    logs = usual[now + marks - 1] + share * _still_off(float(off[-1]), newest)
    if not (np.isfinite(logs).all() and np.isfinite(coming).all()):
        return expected
    return replace(
        expected,
        means=np.maximum(np.exp(logs) - seen.level, TINY)[None],
        spread=beside_bursts.clip(*SPREAD)[None],
        burst=_bursts(load, before, seen.level)[None],
        surges=_surges(seen, before)[None],
        shape=_shape(coming + seen.level, seen.width)[None],
    )


def _days_error(past: Past) -> float:
    """Return how far the last three days' hours were from what could be expected of them: root mean square of the logarithm."""
    off = np.square(log_ratio(past.loads[0], past.expected[0]))
    known = ~np.isnan(off)
    return float(np.sqrt(off[known].mean())) if known.any() else 0.0


def _hours_error(seen: _Blocks) -> float:
    """Return what hours do not tell of a load that jumps, as a root mean square over the last day; 0 where it does not.

    The highest jump within a stage is there at two edges at least, each a quarter of an hour off if only hours are known.
    """
    rise = np.abs(seen.log[-DAY:] - seen.log[-DAY - seen.width : -seen.width])
    highest = float(np.fmax.reduce(rise, initial=0.0))
    return EDGES * highest if highest > JUMP_LEAST else 0.0


def _seen(blocks: Float64, hourly_load: npt.NDArray[np.floating], end_ms: int, stage_minutes: int) -> _Blocks | None:
    """Return what is known of a load; None: too little, or there is none."""
    width = stage_minutes // BLOCK_MINUTES
    if width * BLOCK_MINUTES != stage_minutes:
        return None
    whole = np.where(np.isnan(blocks), np.repeat(hourly_load, HOUR_BLOCKS), blocks).astype(np.float64)
    load = whole[: end_ms // BLOCK_MS - first_block(end_ms)]
    known = load[~np.isnan(load)]
    level = LEVEL * float(np.percentile(known, 99)) if len(known) >= 2 * PAIRS_LEAST else 0.0
    if level <= 0.0:
        return None
    sums = np.concatenate([[0.0], np.cumsum(np.nan_to_num(load))])
    unknown = np.concatenate([[0], np.cumsum(np.isnan(load))])
    means = np.full(len(load), np.nan)
    is_whole = unknown[width:] == unknown[:-width]
    means[width - 1 :] = np.where(is_whole, (sums[width:] - sums[:-width]) / width, np.nan)
    return _Blocks(load, level, np.log(means + level), width)


def _period(log: Float64) -> int | None:
    """Return the period of a load in blocks; None: it has none."""
    known = ~np.isnan(log)
    values = np.where(known, log - log[known].mean(), 0.0)
    variance = float(np.square(values).sum() / known.sum())
    if variance < MOVES_LEAST:
        return None
    differs = _differences(values, known)
    between = np.maximum.accumulate(np.where(np.isfinite(differs), differs, 0.0))
    lags, near = np.arange(len(log)), 2.0 * REPEATS * variance
    repeats = (differs <= near) & (differs <= RETURNS * between)
    found = lags[repeats & (lags >= PERIOD_LEAST) & (lags <= PERIOD_MOST)]
    if len(found):
        least = differs[found].min()
        first = int(found[differs[found] <= AS_GOOD * least + NOISE][0])
        return first + int(differs[first : first + first // 8 + 1].argmin())
    if len(log) > WEEK and repeats[WEEK] and _has_kinds_of_days(np.square(log[DAY:] - log[:-DAY]) > near):
        return WEEK
    return None


def _differences(values: Float64, known: Bool) -> Float64:
    """Return [n] the mean square of what values [n] differ by from those a lag before; infinite where too few are known."""
    weight, pairs = _all_known(len(values)) if known.all() else _pairs(known)
    plain, square = (np.fft.rfft(each, FFT_SIZE) for each in (values, np.square(values)))
    product = square * weight.conj() + weight * square.conj() - 2.0 * plain * plain.conj()
    apart = np.fft.irfft(product, FFT_SIZE)[: len(values)]
    return np.where(pairs >= PAIRS_LEAST, np.maximum(apart, 0.0) / np.maximum(pairs, 1.0), np.inf)


def _pairs(known: Bool) -> tuple[npt.NDArray[np.complex128], Float64]:
    """Return the transform of what is known [n], and how many pairs are known a lag apart [n]."""
    weight = np.fft.rfft(known.astype(np.float64), FFT_SIZE)
    pairs: Float64 = np.rint(np.fft.irfft(weight * weight.conj(), FFT_SIZE)[: len(known)])
    return weight, pairs


@lru_cache(maxsize=HOUR_BLOCKS)
def _all_known(length: int) -> tuple[npt.NDArray[np.complex128], Float64]:
    """Return the same where all is known, as of most jobs: windows have so many lengths. Nobody may write to it."""
    return _pairs(np.ones(length, dtype=np.bool_))


def _has_kinds_of_days(differs: Bool) -> bool:
    """Return whether a week has days of a few kinds: most blocks [n] are as a day before, and the others differ for hours."""
    if not 0 < differs.sum() <= OTHER_DAYS * len(differs):
        return False
    lasts = np.diff(_runs(differs))
    return bool(lasts[lasts >= KIND_BLOCKS].sum() >= (1.0 - OTHER_DAYS) * lasts.sum())


def _usual(values: Float64, period: int, ahead: int) -> Float64:
    """Return [n + ahead] the median of values [n] at the same times of the last periods, from each one on; NaN: unknown.

    No mean: what came on one of five days would come back on each of the next five, at a fifth of its height.
    """
    if period == WEEK:
        return _of_a_week(values, ahead)
    then = _earlier(values, period, min(LATELY, len(values) // period), ahead)
    then.sort(axis=0)  # NaN last
    known, at = (~np.isnan(then)).sum(axis=0), np.arange(then.shape[1])
    usual: Float64 = (then[np.maximum(known - 1, 0) // 2, at] + then[known // 2, at]) / 2.0
    return usual


def _of_a_week(values: Float64, ahead: int) -> Float64:
    """Return [n + ahead] the same where the period is a week, without what was above, or below, all other days at its time.

    Only one week is known. What lasts as another kind of day does stays.
    """
    beyond = ahead + KIND_BLOCKS
    then, days = _earlier(values, WEEK, 1, beyond)[0], _earlier(values, DAY, WEEK // DAY - 1, beyond)
    within = np.fmax(np.fmin(then, np.fmax.reduce(days)), np.fmin.reduce(days))
    is_beyond = (then > within) | (then < within)  # False where unknown
    for begin, end in _runs(is_beyond):
        is_beyond[begin:end] = end - begin < KIND_BLOCKS
    found: Float64 = np.where(is_beyond, within, then)[: len(values) + ahead]
    return found


def _earlier(values: Float64, lag: int, times: int, ahead: int) -> Float64:
    """Return [times, n + ahead] values [n] so many lags before each block; NaN: unknown, as all are at a lag within ``ahead``."""
    size = len(values) + ahead
    found = np.full((max(times, 1), size), np.nan)
    for time in range(1, times + 1):
        if time * lag >= ahead:
            length = min(len(values), size - time * lag)
            found[time - 1, time * lag : time * lag + length] = values[:length]
    return found


def _runs(which: Bool) -> Int64:
    """Return [runs, 2] where each run of true values [n] begins, and the first place after it."""
    edges: Int64 = np.flatnonzero(np.diff(which, prepend=False, append=False)).astype(np.int64).reshape(-1, 2)
    return edges


def _errors(off: Float64, marks: Int64) -> tuple[Float64, Float64, Float64]:
    """Return for each stage [K] which share of the last deviation stays, and the standard deviation of what is left.

    It comes twice: in the second one no block counts for more than ``ERROR_MAX``, as no hour does in that of the outlook. What
    surges do is charged by itself. Infinite if too little of the last day is known.
    """
    share, spread = np.zeros(len(marks)), np.full((2, len(marks)), np.inf)
    for stage, mark in enumerate(marks.tolist()):
        then, came = off[-DAY - mark : -mark], off[-DAY:]
        known = ~np.isnan(then) & ~np.isnan(came)
        if known.sum() < PAIRS_LEAST // 2:
            continue
        first, second = then[known], came[known]
        seen = max(float(np.square(first).sum()), SEEN_SHARE * float(np.square(second).sum()))
        share[stage] = np.clip((first * second).sum() / max(seen, TINY), 0.0, 1.0)
        left = second - share[stage] * first
        spread[:, stage] = [np.sqrt(np.square(each).mean()) for each in (left, left.clip(-ERROR_MAX, ERROR_MAX))]
    return share, spread[0], spread[1]


def _still_off(lately: float, newest: float) -> float:
    """Return the last stage's deviation as far as the newest block has it too: what is over stays over. 0 where unknown."""
    return float(np.sign(lately) * min(abs(lately), abs(newest))) if lately * newest > 0.0 else 0.0


def _bursts(load: Float64, usual: Float64, level: float) -> Float64:
    """Return [60] the bursts of the last minutes beside what is usual in them [n]; unknown ones count as even."""
    minutes = np.full(60, np.nan)
    minutes[60 - min(60, len(load)) :] = load[-60:]
    ratio = (minutes + level) / (np.repeat(usual[-HOUR_BLOCKS:], BLOCK_MINUTES) + level)
    beside: Float64 = bursts(ratio[None])[0]
    return beside


def _surges(seen: _Blocks, usual: Float64) -> Float64:
    """Return [24] how far each of the last hours rose above what is usual in it [n], at least 1; NaN where unknown.

    What is within an hour of a higher rise belongs to it: a surge across the end of an hour is one.
    """
    ratio = ((seen.load + seen.level) / (usual + seen.level))[-SURGE_HOURS * HOUR_BLOCKS :]
    around = sliding_window_view(np.pad(ratio, HOUR_BLOCKS, constant_values=np.nan), 2 * HOUR_BLOCKS + 1)
    own = np.where(ratio < np.fmax.reduce(around, axis=1), 1.0, ratio)
    highest: Float64 = np.fmax.reduce(own.reshape(SURGE_HOURS, -1), axis=1).clip(1.0, SURGE_MAX)
    return highest


def _shape(coming: Float64, width: int) -> Float64:
    """Return the load of each minute [K T] over the mean of its stage, from that of each block [K w]."""
    stages = coming.reshape(-1, width)
    even = stages / stages.mean(axis=1, keepdims=True)
    minutes: Float64 = np.repeat(even.ravel(), BLOCK_MINUTES)
    return minutes
