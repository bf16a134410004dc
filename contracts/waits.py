"""How long records wait before they leave a job, minute by minute of the last day. Pure.

The latency of a minute is the age of the record that leaves at its end. With R records inside it is the R-th newest that came, so
its age follows from what came; the work on a record itself is not part of it. Parallel branches hold copies of the same records,
so only the longest path counts. A queue that nobody knows counts as empty, but not one of a source: then the wait is unknown.

While a job restarts nobody reports its queues. Once the new attempt runs, the silent minutes before it count as waited through.

What is kept is how many minutes waited how many seconds, so a bound on latency may change at any time.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import JobTopology
from surescale.contracts.source_load import read_or_emitted
from surescale.contracts.topology import longest_paths
from surescale.contracts.windows import FIGURE, HOUR_MS, WAITED_HOURS, WAITED_MOST_S, Float32, Waits, of_all_subtasks

RECENT_MINUTES = 10
"""Over which what reaches a task is compared with what comes to the job."""
_ROUNDING = 1e-6  # records: a queue of less is empty

_QUEUED, _BEGAN, _IN, _OUT = (FIGURE[name] for name in ("queued_records_last", "restarts", "records_in", "records_out"))


@dataclass(slots=True)
class HourlyWaits:
    """The waits of a job's last day: by hour start, how many minutes waited how many seconds."""

    hours: dict[int, dict[int, int]] = field(default_factory=dict)

    def close(
        self, end_ms: int, newest: Float32, topology: JobTopology, window: Callable[[], Float32], load: Callable[[int], float]
    ) -> None:
        """Add the minute that ends at ``end_ms``.

        Args:
            end_ms: ends of minutes never go backwards.
            newest: its figures [N, F].
            topology: of its job.
            window: returns the figures [L, N, F] of the last minutes, with this one; asked only if they matter.
            load: the records that came to the job so many minutes ago; NaN: unknown.
        """
        hour = (end_ms - 1) // HOUR_MS * HOUR_MS
        waits = _waits_s(newest, topology, window, load)
        own = self.hours.setdefault(hour, {}) if waits else {}
        for wait_s in waits:
            own[wait_s] = own.get(wait_s, 0) + 1
        for old in [start for start in self.hours if start <= hour - WAITED_HOURS * HOUR_MS]:
            del self.hours[old]

    def until(self, end_ms: int) -> Waits:
        """Return ``Window.waits`` of the window that ends then."""
        oldest = (end_ms - 1) // HOUR_MS * HOUR_MS - (WAITED_HOURS - 1) * HOUR_MS
        found: dict[int, int] = {}
        for hour, own in self.hours.items():
            if oldest <= hour < end_ms:
                for wait_s, minutes in own.items():
                    found[wait_s] = found.get(wait_s, 0) + minutes
        return tuple(sorted(found.items()))


def counted_waits(waits_s: npt.NDArray[np.floating]) -> Waits:
    """Return ``Window.waits`` of the waits [m] of minutes, in seconds; NaN: unknown."""
    found, minutes = np.unique(whole_seconds(waits_s[~np.isnan(waits_s)]), return_counts=True)
    return tuple(zip(found.astype(np.int64).tolist(), minutes.tolist(), strict=True))


def minutes_known(waits: Waits) -> int:
    """Return in how many minutes of the last day the wait is known."""
    return sum(minutes for _, minutes in waits)


def minutes_above(waits: Waits, seconds: float) -> int:
    """Return in how many minutes of the last day records waited longer.

    >>> minutes_above(((0, 1400), (30, 2), (31, 3)), 30.0)
    3
    """
    return sum(minutes for wait_s, minutes in waits if wait_s > seconds)


def _waits_s(newest: Float32, topology: JobTopology, window: Callable[[], Float32], load: Callable[[int], float]) -> list[int]:
    """Return the waits of the newest minute, and of the silent ones before it if an attempt began in it; none if unknown."""
    began, queued = bool((newest[:, _BEGAN] > 0).any()), newest[:, _QUEUED]  # False where unknown
    sources = np.array([not spec.upstream for spec in topology.tasks])
    if not sources.any():
        return []
    is_told = not bool(np.isnan(queued[sources]).any())
    if is_told and not began and not (queued > _ROUNDING).any():
        return [0]
    figures = window()
    wait_s = math.nan
    if is_told:  # of the oldest minute the load may be lost: it takes the minute before
        wait_s = 60.0 * _age(_inside(figures[-RECENT_MINUTES:], topology, sources), load, max(1, len(figures) - 1))
    told = np.asarray(np.isfinite(figures[:-1, :, _QUEUED][:, sources]).all(axis=1))
    if not (began and told.any()):
        return [] if math.isnan(wait_s) else [int(whole_seconds(np.array(wait_s)))]
    silent = int(np.argmax(told[::-1]))
    waits = [60 * minute for minute in range(1, silent + 1)]
    return [*waits, 60 * (silent + 1) if math.isnan(wait_s) else int(whole_seconds(np.array(wait_s)))]


def whole_seconds(waits_s: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return waits [..] in whole seconds, none too few: a wait that is above a bound stays above it; NaN: unknown."""
    whole: npt.NDArray[np.floating] = np.minimum(np.ceil(waits_s - _ROUNDING), WAITED_MOST_S)
    return whole


def _inside(figures: Float32, topology: JobTopology, sources: npt.NDArray[np.bool_]) -> float:
    """Return how many of the records that came to a job are still inside, by its figures [m, N, F]; NaN: unknown."""
    whole = of_all_subtasks(figures).astype(np.float64)
    into, out, queued = whole[..., _IN], whole[..., _OUT], np.nan_to_num(whole[-1, :, _QUEUED])
    taken = np.nansum(np.where(sources, read_or_emitted(into, out), into), axis=0)
    came = float(taken[sources].sum())
    visits = taken / came if came > 0 else np.zeros(len(taken))
    own = np.where(visits > 0, queued / np.where(visits > 0, visits, 1.0), np.where(sources, queued, 0.0))
    if not (own[~sources] > _ROUNDING).any():
        return float(own.max())
    try:
        return max(longest_paths(own.tolist(), topology.tasks))
    except RecordRejected:  # a cycle
        return math.nan


def _age(inside: float, load: Callable[[int], float], minutes: int) -> float:
    """Return how many minutes ago the record came that has ``inside`` others behind it; minutes of unknown load have the mean."""
    if math.isnan(inside) or inside <= _ROUNDING:
        return inside if math.isnan(inside) else 0.0
    newest = load(0)
    if newest >= inside:
        return inside / newest
    came: list[float] = [load(back) for back in range(minutes)]
    known = [records for records in came if not math.isnan(records)]
    if not known:
        return math.nan
    mean = math.fsum(known) / len(known)
    until = list(accumulate(mean if math.isnan(records) else records for records in came))
    at = bisect_left(until, inside)
    if at < minutes:
        before = until[at - 1] if at else 0.0
        return at + (inside - before) / (until[at] - before)
    return minutes + (inside - until[-1]) / mean if mean > 0 else math.inf
