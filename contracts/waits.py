"""How long records wait before they leave a job, minute by minute of the last day. Pure.

The latency of a minute is the age of the record that leaves at its end. With R records inside it is the R-th newest that came, so
its age follows from what came; the work on a record itself is not part of it. Parallel branches hold copies of the same records,
so only the longest path counts. A queue that nobody knows counts as empty, but not one of a source: then the wait is unknown.

While a job restarts nobody reports its queues. Once the new attempt runs, the silent minutes before it count as waited through.

What is kept is how many minutes waited how many seconds, so a bound on latency may change at any time.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

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


@dataclass(frozen=True, slots=True)
class WaitedMinute:
    """A minute whose waits are asked for.

    Attributes:
        newest: its figures [N, F].
        topology: of its job.
        window: returns the figures [L, N, F] of the last minutes, with this one; asked only if they matter.
        load: the records that came to the job so many minutes ago; NaN: unknown.
    """

    newest: Float32
    topology: JobTopology
    window: Callable[[], Float32]
    load: Callable[[int], float]


@dataclass(slots=True)
class HourlyWaits:
    """The waits of a job's last day: by hour start, how many minutes waited how many seconds."""

    hours: dict[int, dict[int, int]] = field(default_factory=dict)

    def close(self, end_ms: int, minute: WaitedMinute) -> None:
        """Add the minute that ends at ``end_ms``; ends never go backwards."""
        self.add(end_ms, waits_together([minute])[0])

    def add(self, end_ms: int, waits_s: Sequence[int]) -> None:
        """Add the waits of the minute that ends at ``end_ms``, as ``waits_together`` returns them."""
        hour = (end_ms - 1) // HOUR_MS * HOUR_MS
        own = self.hours.setdefault(hour, {}) if waits_s else {}
        for wait_s in waits_s:
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


def waits_together(minutes: Sequence[WaitedMinute]) -> list[list[int]]:
    """Return the waits of minutes of jobs, computed in one go: NumPy's calls cost more than the work on one job.

    They are those of the minute and, if an attempt began in it, of the silent ones before it; none if unknown.
    """
    newest = np.concatenate([each.newest for each in minutes])
    sources = [np.array([not spec.upstream for spec in each.topology.tasks]) for each in minutes]
    firsts = [*accumulate((len(each) for each in sources[:-1]), initial=0)]
    is_source, queued = np.concatenate(sources), newest[:, _QUEUED]
    began, waits, is_untold, has_source = (
        np.logical_or.reduceat(each, firsts).tolist()  # False where unknown
        for each in (newest[:, _BEGAN] > 0, queued > _ROUNDING, is_source & np.isnan(queued), is_source)
    )
    looked = [at for at in range(len(minutes)) if has_source[at] and (began[at] or waits[at] or is_untold[at])]
    figures = {at: minutes[at].window() for at in looked}
    told = [at for at in looked if not is_untold[at]]
    inside = dict(zip(told, _insides([(figures[at], minutes[at].topology, sources[at]) for at in told]), strict=True))
    return [
        _waits_s(figures[at], sources[at], began[at], inside.get(at), each.load) if at in figures else [0] * has_source[at]
        for at, each in enumerate(minutes)
    ]


def _waits_s(
    figures: Float32, sources: npt.NDArray[np.bool_], began: bool, inside: float | None, load: Callable[[int], float]
) -> list[int]:
    """Return the waits of a minute by its figures [L, N, F]; ``inside``: None where a source does not tell."""
    wait_s = math.nan
    if inside is not None:  # of the oldest minute the load may be lost: it takes the minute before
        wait_s = 60.0 * _age(inside, load, max(1, len(figures) - 1))
    own = [] if math.isnan(wait_s) else [int(whole_seconds(np.array(wait_s)))]
    told = np.asarray(np.isfinite(figures[:-1, :, _QUEUED][:, sources]).all(axis=1)) if began else np.zeros(0, dtype=np.bool_)
    if not told.any():
        return own
    silent = int(np.argmax(told[::-1]))
    return [*(60 * minute for minute in range(1, silent + 1)), *(own or [60 * (silent + 1)])]


def whole_seconds(waits_s: npt.NDArray[np.floating]) -> npt.NDArray[np.floating]:
    """Return waits [..] in whole seconds, none too few: a wait that is above a bound stays above it; NaN: unknown."""
    whole: npt.NDArray[np.floating] = np.minimum(np.ceil(waits_s - _ROUNDING), WAITED_MOST_S)
    return whole


def _insides(jobs: Sequence[tuple[Float32, JobTopology, npt.NDArray[np.bool_]]]) -> list[float]:
    """Return how many of the records that came to each job are still inside; NaN: unknown.

    Args:
        jobs: the figures [L, N, F] of each, its topology, and bool [N], which tasks are sources.
    """
    if not jobs:
        return []
    recent = [figures[-RECENT_MINUTES:] for figures, _, _ in jobs]
    whole = of_all_subtasks(np.concatenate(recent, axis=1))
    into, out, queued = (whole[..., at].astype(np.float64) for at in (_IN, _OUT, _QUEUED))
    is_source, counts = np.concatenate([sources for _, _, sources in jobs]), [len(sources) for _, _, sources in jobs]
    edges = [*pairwise(accumulate(counts, initial=0))]
    taken = np.nansum(np.where(is_source, read_or_emitted(into, out), into), axis=0)
    came = [float(taken[begin:end][sources].sum()) for (begin, end), (_, _, sources) in zip(edges, jobs, strict=True)]
    all_came, waiting = np.repeat(came, counts), np.nan_to_num(queued[-1])
    visits = np.where(all_came > 0, taken / np.where(all_came > 0, all_came, 1.0), 0.0)
    own = np.where(visits > 0, waiting / np.where(visits > 0, visits, 1.0), np.where(is_source, waiting, 0.0))
    waits_behind = np.logical_or.reduceat((own > _ROUNDING) & ~is_source, [begin for begin, _ in edges]).tolist()
    return [
        _longest(own[begin:end].tolist(), topology, behind)
        for (begin, end), (_, topology, _), behind in zip(edges, jobs, waits_behind, strict=True)
    ]


def _longest(own: list[float], topology: JobTopology, waits_behind: bool) -> float:
    try:
        return max(longest_paths(own, topology.tasks) if waits_behind else own)
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
