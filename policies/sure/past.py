"""The past of a load: its last hours, what could have been expected of each, and how calm they were."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surescale.contracts.windows import HOURS
from surescale.policies.answer import Float64
from surescale.policies.forecast import DAYS, TINY, log_ratio
from surescale.policies.measure import mean_of_last

PAST_HOURS = 72  # one day is too short to tell whether following its load pays
DAY_HOURS = 24
_CHANGE_MAX = 1.2  # no hour is expected above "3.3 times the one before"
LEVEL_HOURS = 12  # that two days are compared over
LEVEL_MAX = 1.6  # a day further above or below another is another kind of day: as far as this, no further
WEEK_HOURS = 7 * DAY_HOURS
WEEK_ALIKE = 1.25  # hours further above or below those a week before: the load is no longer what it was
_BEYOND = 1.05  # the last minutes are outside the last day's range beyond this factor


@dataclass(frozen=True, slots=True)
class Past:
    """The past of B jobs, without the unfinished present hour.

    Attributes:
        loads: float64 [B, 72], mean load of the last whole hours, records per minute; NaN if unknown.
        peaks: float64 [B, 72], their largest means of five minutes.
        expected: float64 [B, 72], what could be expected of each: the hour before times the growth on earlier days; the load
            itself if the hour before is unknown.
        change: float64 [B], the median over the last day of the log change from one hour to the next; infinite if none is
            known.
        width: float64 [B], the logarithm of the last day's highest hour over its lowest; NaN if none is known.
        falling: float64 [B], mean of the last 15 minutes over that of the last 5.
        usual: bool [B], the last minutes are within the range of the last day's hours and peaks.
        level: float64 [B, 72], the mean of the last ``LEVEL_HOURS`` whole hours over that of the same hours on each hour's own
            day; 1 where fewer than half of them are known, or all are 0.
        week: float64 [B, 168], mean load of each hour of a week, beginning with the present hour a week ago; NaN where the last
            hours are beyond ``WEEK_ALIKE`` of what they were a week before.
        week_peaks: float64 [B, 168], their largest means of five minutes.
    """

    loads: Float64
    peaks: Float64
    expected: Float64
    change: Float64
    width: Float64
    falling: Float64
    usual: npt.NDArray[np.bool_]
    level: Float64
    week: Float64
    week_peaks: Float64


def past_of(load: Float64, hourly_load: npt.NDArray[np.floating], hourly_peak: npt.NDArray[np.floating]) -> Past:
    """Return the past for load [B, L] and hourly loads and peaks [B, 192]."""
    hours, peaks = (values[:, :-1].astype(np.float64) for values in (hourly_load, hourly_peak))
    growth = log_ratio(hours[:, 1:], hours[:, :-1])
    day, highest = hours[:, -DAY_HOURS:], peaks[:, -DAY_HOURS:]
    five, fifteen = (mean_of_last(load, minutes) for minutes in (5, 15))
    low, high = np.fmin.reduce(day, axis=1), np.fmax.reduce(highest, axis=1)
    loads, before = hours[:, -PAST_HOURS:], hours[:, -PAST_HOURS - 1 : -1]
    is_alike = (np.abs(np.log(np.maximum(_lead(hours, WEEK_HOURS), TINY))) <= np.log(WEEK_ALIKE))[:, None]
    return Past(
        loads=loads,
        peaks=peaks[:, -PAST_HOURS:],
        expected=np.where(np.isnan(before), loads, before * np.exp(_usual_growth(growth))),
        change=_median(np.abs(growth[:, -DAY_HOURS + 1 :])),
        width=log_ratio(np.fmax.reduce(day, axis=1), low),
        falling=fifteen / np.maximum(five, TINY),
        usual=(np.fmax(five, fifteen) * _BEYOND > low) & (np.fmin(five, fifteen) < _BEYOND * high),
        level=_level(hours),
        week=np.where(is_alike, hours[:, -WEEK_HOURS:], np.nan),
        week_peaks=np.where(is_alike, peaks[:, -WEEK_HOURS:], np.nan),
    )


def _level(hours: Float64) -> Float64:
    """Return ``Past.level`` [B, 72] from whole hours [B, n]."""
    days = range(PAST_HOURS // DAY_HOURS, 0, -1)
    levels = [_lead(hours, DAY_HOURS * day).clip(1.0 / LEVEL_MAX, LEVEL_MAX) for day in days]
    return np.repeat(np.stack(levels, axis=1), DAY_HOURS, axis=1)


def _lead(hours: Float64, earlier: int) -> Float64:
    """Return [B] the mean of the last ``LEVEL_HOURS`` of hours [B, n] over that of as many, so many hours earlier.

    It is 1 where fewer than half of them are known, or all are 0.
    """
    last, before = hours[:, -LEVEL_HOURS:], hours[:, -LEVEL_HOURS - earlier : -earlier]
    known = ~np.isnan(last) & ~np.isnan(before)
    now, then = (np.where(known, each, 0.0).sum(axis=1) for each in (last, before))
    lead: Float64 = np.where((known.sum(axis=1) >= LEVEL_HOURS // 2) & (now + then > 0.0), now / np.maximum(then, TINY), 1.0)
    return lead


def _usual_growth(growth: Float64) -> Float64:
    """Return [B, 72] the mean growth at the same hour on the days before each of the last hours, 0 if none is known."""
    padded = np.concatenate([np.full((len(growth), HOURS), np.nan), growth], axis=1)
    end = padded.shape[1]
    days = [padded[:, end - PAST_HOURS - DAY_HOURS * day : end - DAY_HOURS * day] for day in range(1, DAYS)]
    known = np.sum([~np.isnan(day) for day in days], axis=0)
    usual: Float64 = np.sum(np.nan_to_num(days), axis=0) / np.maximum(known, 1)
    return usual.clip(-_CHANGE_MAX, _CHANGE_MAX)


def _median(values: Float64) -> Float64:
    """Return the median [B] of the known values [B, n], the upper one of an even number; infinite if none is known."""
    ordered = np.sort(np.where(np.isnan(values), np.inf, values), axis=1)
    middle = (~np.isnan(values)).sum(axis=1) // 2
    median: Float64 = ordered[np.arange(len(ordered)), middle]
    return median
