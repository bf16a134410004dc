"""The outlook: the expected load of the next two hours, stage by stage, with its uncertainty. A fixed linear model.

As in ``policies.forecast``, the daily rhythm comes from the job's own hourly load of the last eight days. The uncertainty grows
with the error that "as on earlier days" made over the job's own last day: a job whose days do not repeat gets wider margins than
one whose days do, whatever workload the model was trained on. Surges that come a few times a day do not show in a window of one
hour; they are read from the peaks of the last day's hours.
"""

from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.windows import HOUR_MS, HOURS, PEAK_MINUTES
from surescale.policies.answer import Float64
from surescale.policies.forecast import DAYS, TINY, log_ratio
from surescale.policies.measure import mean_of_last, or_zero
from surescale.policies.sure.past import Past, past_of

TREND_MINUTES = (5, 15, 30)
TRENDS = (
    *(f"log {minutes}/60" for minutes in TREND_MINUTES),
    "jump 15", "jump 30",  # the change that 5 and 15, or 5, 15 and 30 minutes share, beyond ``JUMP``: rarely just a burst
)  # fmt: skip
INPUTS = (*TRENDS, "yesterday stage/last", "days stage/last", "yesterday/now", "days/now")
STAGES_MINUTES_MAX = 23 * 60  # the stages after the same time yesterday must have passed by now
JUMP = 0.35
LOG_MAX = 1.5  # no input exceeds "4.5 times"
LEVEL_MAX = 0.5  # cap on the distance of the present from earlier days: a load farther away does not return to them
CHANGE_MAX = 1.2  # no outlook exceeds "3.3 times the last hour"
UNSEEN_MOST = 1.25  # times the highest load of eight days, in an outlook: a rise that came earlier than usual comes only once
SPREAD = (0.03, 0.6)  # least and largest standard deviation of the logarithm
ERROR_HOURS = 24  # over which the error of the rhythm is measured
ERROR_HOURS_MIN = 12
ERROR_MAX = 0.7  # of one hour: a single jump does not mean that there is no rhythm
ERROR_UNKNOWN = 0.2
SURGE_HOURS = 24
SURGE_MINUTES_MIN = 20  # minutes of the present hour that must have passed for it to count
SURGE_MAX = 8.0  # times the load of an hour's other minutes


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected load of B jobs over K stages.

    Attributes:
        hour: float64 [B], mean load of the last hour, records per minute; NaN where no minute is known.
        means: float64 [B, K], expected mean load of each stage.
        spread: float64 [B, K], standard deviation of its logarithm.
        burst: float64 [B, 60], minutes over their running mean, 1 on average: the shape of the load within a stage.
        surges: float64 [B, 24], for each of the last hours its peak over the mean of its other minutes, at least 1; NaN if
            unknown.
        highest_surge: float64 [B], the highest of these peaks, records per minute; NaN if none is known.
        stage_minutes: length of a stage; divides 60.
        past: the hours of the last days.
        shape: float64 [B, K T], the load of each minute over the mean of its stage, where the job follows a timetable
            (``policies.sure.timetable``); None: it has none, and stages are even.
    """

    hour: Float64
    means: Float64
    spread: Float64
    burst: Float64
    surges: Float64
    highest_surge: Float64
    stage_minutes: int
    past: Past
    shape: Float64 | None = None


@dataclass(frozen=True, slots=True)
class OutlookInputs:
    """Inputs of the outlook: ``hour`` [B], ``inputs`` [B, K, 9], ``yesterday_known`` [B], ``error`` [B] of the rhythm."""

    hour: Float64
    inputs: Float64
    yesterday_known: npt.NDArray[np.bool_]
    error: Float64


class Outlook(msgspec.Struct, frozen=True, kw_only=True):
    """log(mean of a stage / mean of the last hour) as a linear function of ``INPUTS``, one row of weights per stage.

    Rows of ``with_history`` hold a weight per input and an intercept; those of ``trend_only`` the weights of ``TRENDS`` and an
    intercept, for jobs whose yesterday is unknown. Rows of ``spread`` are (slope over the rhythm's recent error, constant);
    ``trend_spread`` has one number per stage.
    """

    stage_minutes: int
    with_history: tuple[tuple[float, ...], ...]
    trend_only: tuple[tuple[float, ...], ...]
    spread: tuple[tuple[float, float], ...]
    trend_spread: tuple[float, ...]

    @property
    def stages(self) -> int:
        """Return K."""
        return len(self.with_history)

    def expect(
        self,
        load: Float64,
        hourly_load: npt.NDArray[np.floating],
        ends_ms: npt.NDArray[np.int64],
        hourly_peak: npt.NDArray[np.floating] | None = None,
    ) -> Expected:
        """Return the outlook from load [B, L], hourly loads and peaks [B, 192] and window ends [B]; None: no peaks known."""
        seen, change, spread = self._predict(load, hourly_load, ends_ms)
        peaks = np.full_like(hourly_load, np.nan) if hourly_peak is None else hourly_peak
        means = seen.hour[:, None] * np.exp(change)
        highest = np.maximum(_highest(peaks), np.fmax(_highest(hourly_load), _highest(load)))  # NaN where no peak is known
        most = np.where(seen.yesterday_known, UNSEEN_MOST * highest, np.nan)[:, None]
        return Expected(
            seen.hour,
            np.where(means > most, most, means),  # NaN stays NaN
            spread,
            bursts(load),
            surges(hourly_load, peaks, ends_ms),
            np.fmax.reduce(peaks[:, -SURGE_HOURS:].astype(np.float64), axis=1),
            self.stage_minutes,
            past_of(load, hourly_load, peaks),
        )

    def stages_of(
        self, load: Float64, hourly_load: npt.NDArray[np.floating], ends_ms: npt.NDArray[np.int64]
    ) -> tuple[Float64, Float64, npt.NDArray[np.bool_]]:
        """Return only ``means`` [B, K] and ``spread`` [B, K] of ``expect``, and whether yesterday is known [B]."""
        seen, change, spread = self._predict(load, hourly_load, ends_ms)
        return seen.hour[:, None] * np.exp(change), spread, seen.yesterday_known

    def _predict(
        self, known: Float64, hourly_load: npt.NDArray[np.floating], ends_ms: npt.NDArray[np.int64]
    ) -> tuple[OutlookInputs, Float64, Float64]:
        """Return the inputs, the expected log change of each stage [B, K], and its standard deviation [B, K]."""
        seen = look_back(known, hourly_load, ends_ms, self.stage_minutes, self.stages)
        weights, trend = np.array(self.with_history), np.array(self.trend_only)
        full = np.einsum("bki,ki->bk", seen.inputs, weights[:, :-1]) + weights[:, -1]
        short = seen.inputs[:, 0, : len(TRENDS)] @ trend[:, :-1].T + trend[:, -1]
        slope, least = np.array(self.spread).T
        history = seen.yesterday_known[:, None]
        change = np.clip(np.where(history, full, short), -CHANGE_MAX, CHANGE_MAX)
        spread = np.where(history, np.clip(seen.error[:, None] * slope + least, *SPREAD), np.array(self.trend_spread))
        return seen, change, spread


def _highest(values: npt.NDArray[np.floating]) -> Float64:
    """Return the highest known of values [B, n]; NaN: none is known."""
    highest: Float64 = np.fmax.reduce(values.astype(np.float64), axis=1)
    return highest


def look_back(
    load: Float64, hourly_load: npt.NDArray[np.floating], ends_ms: npt.NDArray[np.int64], stage_minutes: int, stages: int
) -> OutlookInputs:
    """Return the inputs for loads [B, L], hourly loads [B, 192] (hours as in ``Window.hourly_load``) and window ends [B]."""
    hours = hourly_load.astype(np.float64)
    hour = mean_of_last(load, 60)
    trends = _trends(load, hour)
    past, coming = _same_time_before(hours, ends_ms, stage_minutes, stages)
    known = ~np.isnan(past) & ~np.isnan(coming).any(axis=-1)
    growth = np.where(known[..., None], log_ratio(coming, past[..., None]), 0.0).clip(-LOG_MAX, LOG_MAX)
    level = np.where(known, log_ratio(past, hour[:, None]), 0.0).clip(-LEVEL_MAX, LEVEL_MAX)
    count = np.maximum(known.sum(axis=1), 1)
    columns = [
        *(np.broadcast_to(trend[:, None], (len(hour), stages)) for trend in trends.T),
        growth[:, 0],
        growth.sum(axis=1) / count[:, None],
        np.broadcast_to(level[:, :1], (len(hour), stages)),
        np.broadcast_to((level.sum(axis=1) / count)[:, None], (len(hour), stages)),
    ]
    inputs = np.clip(or_zero(np.stack(columns, axis=-1)), -LOG_MAX, LOG_MAX)
    return OutlookInputs(hour, inputs, known[:, 0], rhythm_error(hours))


def _trends(load: Float64, hour: Float64) -> Float64:
    """Return the inputs [B, 5] of ``TRENDS``."""
    changes = [or_zero(log_ratio(mean_of_last(load, minutes), hour)) for minutes in TREND_MINUTES]
    agreed = [_agreed(changes[:2]), _agreed(changes)]
    jumps = [np.sign(change) * np.maximum(np.abs(change) - JUMP, 0.0) for change in agreed]
    return np.stack([*changes, *jumps], axis=-1)


def _agreed(changes: list[Float64]) -> Float64:
    """Return the smallest of several changes [B] if all have one sign, else 0."""
    signs = np.sign(changes)
    one_sign = np.abs(signs.sum(axis=0)) == len(changes)
    agreed: Float64 = np.where(one_sign, signs[0] * np.abs(changes).min(axis=0), 0.0)
    return agreed


def _same_time_before(hours: Float64, ends_ms: npt.NDArray[np.int64], stage_minutes: int, stages: int) -> tuple[Float64, Float64]:
    """Return the mean load one to seven days ago: of the hour up to the same time [B, 7], and of the stages after it [B, 7, K].

    Within an hour the load is taken as even.
    """
    into_hour = ((ends_ms - 1) % HOUR_MS + 1) / MINUTE_MS / 60.0  # (0, 1]: share of the present hour that has passed
    width = 3 + -(-stages * stage_minutes // 60)
    first = HOURS - 2 - 24 * np.arange(1, DAYS + 1)  # the hour before the one that contains this time of day
    taken = hours[:, first[:, None] + np.arange(width)]
    total = np.concatenate([np.zeros((*taken.shape[:-1], 1)), np.cumsum(taken, axis=-1)], axis=-1)
    marks = np.concatenate([[-1.0], np.arange(stages + 1) * stage_minutes / 60.0])
    position = 1.0 + into_hour[:, None] + marks
    whole = np.clip(np.floor(position).astype(np.int64), 0, width - 1)
    rows, days = np.arange(len(hours))[:, None, None], np.arange(DAYS)[:, None]
    low, high = total[rows, days, whole[:, None]], total[rows, days, whole[:, None] + 1]
    sums = low + (position - whole)[:, None, :] * (high - low)
    return sums[..., 1] - sums[..., 0], np.diff(sums[..., 1:], axis=-1) * 60.0 / stage_minutes


def rhythm_error(hours: Float64) -> Float64:
    """Return [B] the root mean square, over the last day's whole hours, of log growth minus its mean on earlier days."""
    growth = log_ratio(hours[:, 1:-1], hours[:, :-2])
    last = growth[:, -ERROR_HOURS:]
    end = growth.shape[1]
    before = np.stack([growth[:, end - ERROR_HOURS - 24 * day : end - 24 * day] for day in range(1, DAYS)])
    days = (~np.isnan(before)).sum(axis=0)
    usual = np.nansum(before, axis=0) / np.maximum(days, 1)
    known = ~np.isnan(last) & (days > 0)
    error = np.where(known, np.square(np.clip(last - usual, -ERROR_MAX, ERROR_MAX)), 0.0).sum(axis=1)
    count = known.sum(axis=1)
    return np.where(count >= ERROR_HOURS_MIN, np.sqrt(error / np.maximum(count, 1)), ERROR_UNKNOWN)


def surges(
    hourly_load: npt.NDArray[np.floating], hourly_peak: npt.NDArray[np.floating], ends_ms: npt.NDArray[np.int64]
) -> Float64:
    """Return [B, 24] the peaks of the last hours over the mean of the other minutes, from loads and peaks [B, 192].

    The other minutes are those of the hour or of the one before, whichever had more load. So a load that drops for good does not
    end in a surge.
    """
    mean, peak = (hours[:, -SURGE_HOURS - 1 :].astype(np.float64) for hours in (hourly_load, hourly_peak))
    minutes = np.full_like(mean, 60.0)
    minutes[:, -1] = ((ends_ms - 1) % HOUR_MS + 1) // MINUTE_MS
    others = (minutes * mean - PEAK_MINUTES * peak) / np.maximum(minutes - PEAK_MINUTES, 1.0)
    others = np.where(minutes >= SURGE_MINUTES_MIN, others, np.nan)
    around = np.fmax(others[:, :-1], others[:, 1:])
    ratio = np.clip(peak[:, 1:] / np.maximum(around, TINY), 1.0, SURGE_MAX)
    return np.where(np.isnan(others[:, 1:]), np.nan, ratio)


def bursts(load: Float64) -> Float64:
    """Return the last 60 minutes of load [B, L] over their running mean of 15, scaled to mean 1; unknown ones count as even."""
    last = load[:, -60:]
    known = ~np.isnan(last)
    mean = np.where(known, last, 0.0).sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    filled = np.pad(np.where(known, last, mean), ((0, 0), (60 - last.shape[1], 0)), mode="edge")
    padded = np.pad(filled, ((0, 0), (7, 7)), mode="edge")
    total = np.concatenate([np.zeros((len(load), 1)), np.cumsum(padded, axis=1)], axis=1)
    running = (total[:, 15:] - total[:, :-15]) / 15.0
    ratio = np.where(running > TINY, filled / np.maximum(running, TINY), 1.0)
    scaled: Float64 = ratio / ratio.mean(axis=1, keepdims=True)
    return scaled
