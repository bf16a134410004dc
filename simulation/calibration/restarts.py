"""How long restarts stopped a job, from its figures. Pure.

A task that runs is busy, idle or held up; what is missing to its subtasks' time, it stood still. So a restart's length is the
missing share of the minutes around it, and no reporting at all counts as standing still.
"""

from dataclasses import dataclass

import numpy as np

from contracts.clock import MINUTE_MS
from simulation.calibration.recorded import Float64, Recorded

MINUTES_MOST = 60  # of one restart
_STILL_LEAST = 0.02  # of a minute; less is rounding
_SPREAD_FROM = 3  # restarts, before their scatter is told


@dataclass(frozen=True, slots=True)
class Restarts:
    """Restarts that were seen.

    Attributes:
        seconds: float64 [k], how long each stopped the job.
    """

    seconds: Float64

    @property
    def median(self) -> float:
        """Return the usual length in seconds; NaN if none was seen."""
        return float(np.median(self.seconds)) if len(self.seconds) else np.nan

    @property
    def spread(self) -> float:
        """Return the standard deviation of the log of the lengths; 0 with fewer than three."""
        lasting = self.seconds[self.seconds > 0]
        return float(np.log(lasting).std(ddof=1)) if len(lasting) >= _SPREAD_FROM else 0.0


def restarts(recorded: Recorded) -> Restarts:
    """Return the restarts of the recording, without one in its first minute, whose beginning is not known.

    Of a job whose engine does not say what tasks do with their time, no length can be told.
    """
    still = _still(recorded)
    began = np.flatnonzero(recorded.began()).tolist()
    lengths = []
    for at, after in zip(began, [*began, recorded.minutes][1:], strict=True):
        if at == 0 or after == at + 1 < recorded.minutes:  # two attempts in a row are one restart, told by the second
            continue
        end = at
        while end < min(after, at + MINUTES_MOST) and (end == at or still[end] > _STILL_LEAST):
            end += 1
        stretch = still[at:end]
        before = at
        while before > 0 and np.isnan(recorded.figures[before - 1]).all() and at - before < MINUTES_MOST:
            before -= 1
        ended = still[before - 1] if before > 0 else 0.0  # the last minute of the attempt before
        total = float(np.concatenate([[ended if ended > _STILL_LEAST else 0.0], np.ones(at - before), stretch]).sum())
        if np.isfinite(total):
            lengths.append(60.0 * total)
    return Restarts(np.array(lengths))


def _still(recorded: Recorded) -> Float64:
    """Return the share [T] of each minute in which the job stood still; 1 in a minute without figures, NaN where unknown."""
    spent = recorded.figure("busy_ms") + recorded.figure("idle_ms") + np.nan_to_num(recorded.figure("backpressured_ms"))
    ran = spent / (MINUTE_MS * np.maximum(recorded.figure("parallelism"), 1.0))
    silent = np.isnan(recorded.figures).all(axis=(1, 2))
    known = ~np.isnan(ran)
    ordered = np.sort(ran, axis=1)
    middle = np.take_along_axis(ordered, np.maximum(known.sum(axis=1) - 1, 0)[:, None] // 2, axis=1)[:, 0]
    still: Float64 = np.where(silent, 1.0, np.clip(1.0 - middle, 0.0, 1.0))
    return still
