"""How far the outlook was off on a job's own last day, made again from the hourly loads of its window: no memory is needed.

For each of the last day's whole hours the outlook is asked what it would have expected of the next two, from the hours that were
known then; within an hour the load is taken as a straight line. What came is known by now. The spread is then widened or narrowed
so that four fifths of these errors lie within the band: split conformal prediction over a moving window (Papadopoulos et al.,
ECML 2002).

A mean of an hour is off by less than one of twenty minutes, and the line within an hour is not what the minutes were. ``SCALE``
makes up for both. It is fitted so that the corrected band holds four fifths on the first week of ClarkNet and the first third of
NASA, each with the same weight (``surescale dev bench coverage --fit``).
"""

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from surescale.contracts.windows import HOUR_MS, HOURS
from surescale.policies.answer import Float64
from surescale.policies.forecast import TINY
from surescale.policies.sure.outlook import SPREAD, Expected, Outlook

SHARE = 0.8
DEVIATIONS = 1.2816  # within which a normal error lies in four of five cases
ERROR_HOURS = 24
ERRORS_LEAST = 12  # fewer say nothing; the spread stays
FACTORS = (0.5, 2.5)  # the least and the most that a spread is corrected by
LEADS = 2  # hours ahead: the first and the second half of the stages
SCALE = (1.268, 1.143)
_STEEPEST = 1.0 / 45.0  # of the hour's mean a minute, in the line within an hour, which stays above 0


def spread_factors(outlook: Outlook, hourly_load: npt.NDArray[np.floating]) -> Float64:
    """Return by how much to widen each stage's spread, [B, K], from hourly loads [B, 192]; 1 where too few errors are known."""
    errors = past_errors(outlook, hourly_load)
    known = ~np.isnan(errors)
    count = known.sum(axis=1)
    rank = np.ceil(SHARE * (count + 1)).astype(np.int64).clip(1, np.maximum(count, 1)) - 1
    ordered = np.sort(np.where(known, errors, np.inf), axis=1)
    held = np.take_along_axis(ordered, rank[:, None], axis=1)[:, 0]
    factor = np.where(count >= ERRORS_LEAST, held * np.array(SCALE) / DEVIATIONS, 1.0).clip(*FACTORS)
    factors: Float64 = np.repeat(factor, outlook.stages // LEADS, axis=1)
    return factors


def calibrated(outlook: Outlook, expected: Expected, hourly_load: npt.NDArray[np.floating]) -> Expected:
    """Return an outlook whose spread is corrected by its own errors over the last day, within the bounds of any spread."""
    return replace(expected, spread=np.clip(expected.spread * spread_factors(outlook, hourly_load), *SPREAD))


def past_errors(outlook: Outlook, hourly_load: npt.NDArray[np.floating]) -> Float64:
    """Return [B, 24, 2] the errors of the log mean one and two hours ahead over the spread, without sign; NaN if unknown."""
    whole = hourly_load[:, :-1].astype(np.float64)
    jobs, end = len(whole), whole.shape[1]
    at = end - LEADS - ERROR_HOURS + np.arange(ERROR_HOURS)  # the last hour known to each forecast that is made again
    padded = np.concatenate([np.full((jobs, HOURS), np.nan), whole], axis=1)
    then = padded[:, at[:, None] + 1 + np.arange(HOURS)]
    last, before = then[..., -1:], then[..., -2:-1]
    slope = np.clip((last - before) / 60.0, -last * _STEEPEST, last * _STEEPEST)
    minutes = np.maximum(last + np.nan_to_num(slope) * (np.arange(60) - 29.5), TINY)
    flat = then.reshape(-1, HOURS)
    means, spread, known = outlook.stages_of(minutes.reshape(-1, 60), flat, np.full(len(flat), HOUR_MS))
    means, spread = (each.reshape(jobs, ERROR_HOURS, LEADS, -1).mean(axis=-1) for each in (means, spread))
    came = whole[:, at[:, None] + 1 + np.arange(LEADS)]
    errors = np.abs(np.log(np.maximum(came, TINY) / np.maximum(means, TINY))) / spread
    return np.where(known.reshape(jobs, ERROR_HOURS, 1) & ~np.isnan(errors), errors, np.nan)
