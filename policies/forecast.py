"""Forecasts the load of the next minutes from a window: short trend, yesterday and the days before. A fixed linear model.

The daily rhythm comes from the job's own hourly load of the last eight days, not from learned hours of the day. So a model
trained on one workload does not carry that workload's day into another.
"""

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.windows import HOUR_MS, HOURS
from surescale.policies.answer import Float64
from surescale.policies.measure import mean_of_last

DAYS = 7
TRENDS = 3  # the first inputs, known without any history
INPUTS = ("log 5/60", "log 15/60", "log 30/60", "yesterday next/last", "days next/last", "yesterday/now", "days/now")
LOG_MAX = 1.5  # no input exceeds "4.5 times"
CHANGE_MAX = 0.7  # no forecast exceeds "twice the last hour"
TINY = 1e-3  # records per minute; keeps the logarithm of an idle hour finite


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """log(mean of the next ``horizon_minutes`` / mean of the last hour) as a linear function of ``INPUTS``.

    ``with_history`` has one weight per input and an intercept. ``trend_only`` has the first three and an intercept, for jobs
    whose yesterday is unknown.
    """

    horizon_minutes: int
    with_history: tuple[float, ...]
    trend_only: tuple[float, ...]

    def load(self, load: Float64, hourly_load: npt.NDArray[np.floating], window_end_ms: npt.NDArray[np.int64]) -> Float64:
        """Return the expected mean load [..] in records per minute; NaN where no minute of load [.., L] is known."""
        return self.expected(LookedBack.of(load, hourly_load, window_end_ms))

    def expected(self, seen: "LookedBack") -> Float64:
        """Return ``load`` from what was read of it: several forecasts may share that."""
        full = seen.inputs @ np.array(self.with_history[:-1]) + self.with_history[-1]
        trend = seen.inputs[..., :TRENDS] @ np.array(self.trend_only[:-1]) + self.trend_only[-1]
        change = np.clip(np.where(seen.known, full, trend), -CHANGE_MAX, CHANGE_MAX)
        expected: Float64 = seen.hour * np.exp(change)
        return expected


@dataclass(frozen=True, slots=True)
class LookedBack:
    """What forecasts read of the past; leading batch axes stand for ``..``.

    Attributes:
        inputs: float64 [.., 7], in the order of ``INPUTS``.
        known: bool [..], whether yesterday is known.
        hour: float64 [..], mean load of the last hour, records per minute; NaN where no minute is known.
    """

    inputs: Float64
    known: npt.NDArray[np.bool_]
    hour: Float64

    @classmethod
    def of(cls, load: Float64, hourly_load: npt.NDArray[np.floating], window_end_ms: npt.NDArray[np.int64]) -> "LookedBack":
        """Return it for load [.., L], hourly loads [.., 192] (hours as in ``Window.hourly_load``) and window ends [..]."""
        hour = mean_of_last(load, 60)
        inputs, known = _inputs(load, hour, hourly_load, window_end_ms)
        return cls(inputs, known, hour)

    def rows(self, chosen: slice) -> "LookedBack":
        """Return some rows, if the first axis is the batch."""
        return LookedBack(self.inputs[chosen], self.known[chosen], self.hour[chosen])


def forecast_inputs(
    load: Float64, hourly_load: npt.NDArray[np.floating], window_end_ms: npt.NDArray[np.int64]
) -> tuple[Float64, npt.NDArray[np.bool_]]:
    """Return ``inputs`` and ``known`` of ``LookedBack``."""
    seen = LookedBack.of(load, hourly_load, window_end_ms)
    return seen.inputs, seen.known


def _inputs(
    load: Float64, hour: Float64, hourly_load: npt.NDArray[np.floating], window_end_ms: npt.NDArray[np.int64]
) -> tuple[Float64, npt.NDArray[np.bool_]]:
    last = [mean_of_last(load, minutes) for minutes in (5, 15, 30)]
    trends = log_ratio(np.stack(last, axis=-1), hour[..., None])
    into_hour = ((window_end_ms - 1) % HOUR_MS + 1) / MINUTE_MS / 60.0  # (0, 1]: share of the present hour that has passed
    back = 24 * np.arange(1, DAYS + 1)
    hours = np.asarray(hourly_load, dtype=np.float64)
    this, after, before = hours[..., HOURS - 1 - back], hours[..., HOURS - back], hours[..., HOURS - 2 - back]
    share = into_hour[..., None]
    coming = (1 - share) * this + share * after
    past = share * this + (1 - share) * before
    growth, level = log_ratio(coming, past), log_ratio(past, hour[..., None])
    known = ~np.isnan(coming + past)
    growth, level = np.where(known, growth, 0.0), np.where(known, level, 0.0)
    days = np.maximum(known.sum(axis=-1), 1)
    columns = [trends, growth[..., :1], _mean(growth, days), level[..., :1], _mean(level, days)]
    inputs = np.concatenate(columns, axis=-1)
    inputs = np.clip(np.where(np.isnan(inputs), 0.0, inputs), -LOG_MAX, LOG_MAX)
    return inputs, known[..., 0]


def log_ratio(top: Float64, bottom: Float64) -> Float64:
    """Return the logarithm of a ratio of loads; finite even if one of them is idle."""
    ratio: Float64 = np.log(np.maximum(top, TINY) / np.maximum(bottom, TINY))
    return ratio


def _mean(values: Float64, number: npt.NDArray[np.int64]) -> Float64:
    mean: Float64 = (values.sum(axis=-1) / number)[..., None]
    return mean
