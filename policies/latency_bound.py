"""What a bound on latency asks of a plan or a rule: at most a share of the minutes above it, with as few subtasks as that takes.

A plan cannot count minutes over days, so a minute above the bound gets a price, and the plan maximises utilisation less that
price. Which price leads to which share follows as for the newsvendor: if the need for capacity is spread normally, a little more
capacity costs u of utilisation and avoids phi(z) / sigma minutes above, with z the quantile of 1 - share. Both are equal at the
price u sigma / phi(z).
"""

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from surescale.contracts.job_settings import LatencyBound
from surescale.policies.answer import Float64
from surescale.policies.graph import JobGraph
from surescale.policies.measure import Measured

U_SIGMA = 0.1  # a utilisation of 0.7, and a need for capacity that a plan knows to a seventh
RAMP = 0.25  # a wait counts in part from this much below the bound to as much above: nobody knows it to the second
BUSY_MOST = 0.95  # of capacity, in the stretch of the last hour that came with that share
STRETCH_MINUTES = 10
DRAIN_SHARE = 0.35  # spare capacity assumed while a queue drains later, as a share of the load
WAIT_LEAST = 1.0 / 60.0  # minutes; a job whose work alone takes longer than its bound can still not wait less than nothing


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound for a plan: ``minutes`` that a record may wait, and the price of a share of minutes above it, in utilisation."""

    minutes: float
    price: float

    @classmethod
    def of(cls, wanted: LatencyBound, path_minutes: float) -> "Bound":
        """Return the bound of a job in which the work on a record alone takes ``path_minutes``."""
        return cls(max(WAIT_LEAST, wanted.seconds / 60.0 - path_minutes), price_of(wanted.share))

    def above(self, waits: Float64) -> Float64:
        """Return how much each wait [..], in minutes, counts as above the bound: 0 to 1."""
        share: Float64 = np.clip((waits / self.minutes - 1.0 + RAMP) / (2.0 * RAMP), 0.0, 1.0)
        return share

    def penalty(self, above: Float64, waited: Float64) -> Float64:
        """Return what takes the place of latency in a reward: shares above [..], and how far the mean wait [..] exceeds it."""
        found: Float64 = self.price * above + np.maximum(waited - self.minutes, 0.0)
        return found


def price_of(share: float) -> float:
    """Return the price of a minute above a bound at which a plan leaves about this share of minutes above it.

    >>> price_of(0.05) < price_of(0.01) < price_of(0.001)
    True
    """
    normal = NormalDist()
    return U_SIGMA / normal.pdf(normal.inv_cdf(1.0 - share))


def restart_late_minutes(restart_minutes: float, bound_minutes: float) -> float:
    """Return how many minutes a restart puts above a bound: records wait up to its whole length, less as the queue drains."""
    return max(0.0, restart_minutes - bound_minutes) * (1.0 + 1.0 / DRAIN_SHARE)


def path_minutes(measured: Measured, graph: JobGraph) -> Float64:
    """Return [B] the service times on the longest path, in minutes; tasks of unknown cost count as nothing."""
    took = np.nan_to_num(measured.service_minutes)
    until = np.array(took)
    for members in graph.by_level[1:]:
        parents, known = graph.parents.index[members], graph.parents.known[members]
        until[:, members] = took[:, members] + np.where(known, until[:, parents], 0.0).max(axis=-1)
    longest: Float64 = until.max(axis=-1)
    return longest


def busy_most(load: Float64, bound: LatencyBound) -> Float64:
    """Return [..] how busy tasks may be on the average under a bound, from the loads [.., L] of the last minutes; NaN: unknown.

    Stretches as long as the bound have to fit: of the means over such stretches the one that only ``share`` of them exceed.
    """
    minutes = int(np.clip(round(bound.seconds / 60.0), 1, STRETCH_MINUTES))
    known = ~np.isnan(load)
    sums, counts = (_running(values, minutes) for values in (np.where(known, load, 0.0), known.astype(np.float64)))
    means = np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
    mean = np.where(known, load, 0.0).sum(axis=-1) / np.maximum(known.sum(axis=-1), 1)
    ordered = np.sort(means, axis=-1)  # NaN last
    at = np.ceil((1.0 - bound.share) * (~np.isnan(means)).sum(axis=-1)).astype(np.int64) - 1
    high = np.take_along_axis(ordered, np.maximum(at, 0)[..., None], axis=-1)[..., 0]
    most: Float64 = np.where(high > 0, BUSY_MOST * mean / np.where(high > 0, high, 1.0), np.nan)
    return most


def _running(values: Float64, minutes: int) -> Float64:
    """Return the sums [.., L - m + 1] of m neighbouring values; of all of them where there are fewer."""
    windows = np.lib.stride_tricks.sliding_window_view(values, min(minutes, values.shape[-1]), axis=-1)
    sums: Float64 = windows.sum(axis=-1)
    return sums
