"""How service times wander: an Ornstein-Uhlenbeck process seen through noise, fitted by restricted maximum likelihood. Pure.

The log of a task's service time is mu + x(t) + e(t). x wanders with standard deviation s and time constant tau, e has standard
deviation n and no memory. A Kalman filter gives the likelihood exactly, also with minutes missing (Harvey 1989, chapter 3). mu
and s have closed forms, so the likelihood is taken on a grid of tau and of n/s only. Tasks share tau: one task alone hardly tells
it from s, since only s^2 / tau shows in a stretch of a few tau.

A jump that lasts, such as a slow host, is fitted as wandering.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]

MINUTES_LEAST = 30  # known ones, of a task that is fitted
GAIN_LEAST = 3.0  # in the log of the likelihood, before scatter counts as wandering
SPREAD_LEAST = 0.01  # less is rounding, and counts as none
_TAU_MINUTES = np.geomspace(20.0, 1_440.0, 13)
_TAU_SHARE = 0.5  # of the recording; a longer memory cannot be told
_RATIOS = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 19)])  # (n / s)^2


@dataclass(frozen=True, slots=True)
class ServiceDrift:
    """How the service times of N tasks wander.

    Attributes:
        level: float64 [N], mu; NaN for a task with too few known minutes.
        drift: float64 [N], s; 0 where nothing wanders.
        jitter: float64 [N], n.
        minutes: tau, NaN if nothing wanders.
    """

    level: Float64
    drift: Float64
    jitter: Float64
    minutes: float

    @property
    def scatter(self) -> Float64:
        """Return the standard deviation [N] of the log around its level."""
        return np.hypot(self.drift, self.jitter)


def fit_drift(logs: Float64) -> ServiceDrift:
    """Return the fit for logs of service times [T, N], NaN where unknown."""
    known = ~np.isnan(logs)
    count = known.sum(axis=0)
    fitted = np.flatnonzero(count >= MINUTES_LEAST)
    tasks = logs.shape[1]
    level, drift, jitter = np.full(tasks, np.nan), np.zeros(tasks), np.zeros(tasks)
    if not len(fitted):
        return ServiceDrift(level, drift, jitter, np.nan)
    logs, known, count = logs[:, fitted], known[:, fitted], count[fitted]
    centre = np.nanmean(logs, axis=0)
    logs = np.where(known, logs - centre, 0.0)
    white = np.sqrt(np.square(logs).sum(axis=0) / (count - 1))
    level[fitted], jitter[fitted] = centre, white
    scatters = white >= SPREAD_LEAST
    taus = _TAU_MINUTES[max(_TAU_SHARE * len(logs), _TAU_MINUTES[0]) >= _TAU_MINUTES]
    likelihood, mean, spread = _likelihood(logs, known, taus)  # [G, R, n]
    gain = likelihood - _white_likelihood(white, count)
    wanders = scatters & (gain.max(axis=(0, 1)) > GAIN_LEAST)
    jitter[fitted[~scatters]] = 0.0
    if not wanders.any():
        return ServiceDrift(level, drift, jitter, np.nan)
    best = int(gain[:, :, wanders].max(axis=1).sum(axis=1).argmax())
    at_ratio = gain[best].argmax(axis=0)
    for place, task in enumerate(fitted.tolist()):
        ratio, deviation = at_ratio[place], spread[best, at_ratio[place], place]
        noise = deviation * np.sqrt(_RATIOS[ratio])
        if wanders[place] and deviation >= SPREAD_LEAST:
            level[task] = centre[place] + mean[best, ratio, place]
            drift[task], jitter[task] = deviation, noise if noise >= SPREAD_LEAST else 0.0
    return ServiceDrift(level, drift, jitter, float(taus[best]) if drift.any() else np.nan)


def _likelihood(logs: Float64, known: npt.NDArray[np.bool_], taus: Float64) -> tuple[Float64, Float64, Float64]:
    """Return the restricted log likelihood, mu and s, each [G, R, n], for logs [T, n] of which some are known."""
    keeps = np.exp(-1.0 / taus)[:, None, None]
    noise = _RATIOS[None, :, None]
    shape = (len(taus), len(_RATIOS), logs.shape[1])
    state, ones, variance = np.zeros(shape), np.zeros(shape), np.ones(shape)
    yy, y1, oo, total = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for value, is_known in zip(logs, known, strict=True):
        here = variance + noise
        surprise, unit = value - state, 1.0 - ones
        seen = is_known / here
        yy += surprise * surprise * seen
        y1 += surprise * unit * seen
        oo += unit * unit * seen
        total += np.log(here) * is_known
        gain = variance * seen
        state, ones = keeps * (state + gain * surprise), keeps * (ones + gain * unit)
        variance = keeps**2 * (variance - gain * variance) + (1.0 - keeps**2)
    count = known.sum(axis=0) - 1.0
    mean = y1 / oo
    square = np.maximum(yy - y1 * mean, 1e-300) / count
    likelihood = -0.5 * (count * np.log(square) + total + np.log(oo))
    return likelihood, mean, np.sqrt(square)


def _white_likelihood(deviation: Float64, count: npt.NDArray[np.int64]) -> Float64:
    """Return the same [n] for scatter without memory."""
    known = count.astype(np.float64)
    likelihood: Float64 = -0.5 * ((known - 1.0) * 2.0 * np.log(np.maximum(deviation, 1e-150)) + np.log(known))
    return likelihood
