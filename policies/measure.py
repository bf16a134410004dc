"""What a window says about load, demand and backlog, without any model. Works on any number of leading batch axes.

The demand of a task follows DS2 (Kalavri et al., OSDI 2018): true service time = busy time over records processed, and rates
are carried along the graph by selectivity, so that a slow task does not hide the demand of those behind it.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.windows import FIGURE, Float32
from policies.graph import Bool, Int64, JobGraph
from policies.proposal import Float64

JOIN_SLACK = 1.05  # measured arrivals may pass the largest parent by this factor before the inputs count as added up


@dataclass(frozen=True, slots=True)
class Measured:
    """Figures of a job over its window; leading batch axes stand for ``..``.

    Attributes:
        reported: bool [.., L, N], task-minutes with figures.
        load: float64 [.., L], records that entered the job per minute; NaN where a source did not report that did at other times.
        service_minutes: float64 [.., N], busy subtask-minutes per record; NaN while a task has processed nothing.
        visits: float64 [.., N], records that reach a task per record that enters the job; NaN for sources that never reported,
            where others did, and for all tasks behind them.
        backlog_records: float64 [.., N], records waiting at the last reported minute; 0 where never reported.
    """

    reported: Bool
    load: Float64
    service_minutes: Float64
    visits: Float64
    backlog_records: Float64

    def demand(self, load: Float64) -> Float64:
        """Return busy subtasks [.., N] that a load [..] in records per minute needs; NaN where a factor of it is unknown."""
        return load[..., None] * self.visits * self.service_minutes

    def alone(self) -> "Measured":
        """Return a measurement without batch axes as a batch of one."""
        return Measured(
            reported=self.reported[None],
            load=self.load[None],
            service_minutes=self.service_minutes[None],
            visits=self.visits[None],
            backlog_records=self.backlog_records[None],
        )

    @property
    def silent_minutes(self) -> int:
        """Return for how many minutes no task has reported, all of them where none ever did; without batch axes."""
        newest_first = np.flip(self.reported.any(axis=-1))
        return int(np.argmax(newest_first)) if newest_first.any() else len(newest_first)

    def backlog_minutes(self, parallelism: Int64) -> Float64:
        """Return minutes that parallelism [.., N] needs to work off what waits, were nothing to arrive; 0 where unknown."""
        drain: Float64 = np.nan_to_num(self.backlog_records * self.service_minutes) / parallelism
        return drain


def measure(figures: Float32, graph: JobGraph) -> Measured:
    """Measure figures [.., L, N, F] (axis 3 as ``contracts.windows.FIGURES``)."""
    reported = ~np.isnan(figures[..., FIGURE["coverage"]])
    partly = None if reported.all() else reported
    names = ("records_in", "records_out", "busy_ms", "queued_records_last")
    records_in, records_out, worked, waiting = (figures[..., FIGURE[name]] for name in names)
    into, out, busy = (_known(values).sum(axis=-2) for values in (records_in, records_out, worked))
    heard = _Heard.of(reported, graph)
    with np.errstate(divide="ignore", invalid="ignore"):
        service = np.where(into > 0, busy / into / MINUTE_MS, np.nan)
    last = _at_reported(waiting, partly, -1)
    first = [_at_reported(values, partly, 0) for values in (records_in, records_out, waiting)]
    arrived = into - first[0] + last - first[2]
    return Measured(
        reported=reported,
        load=_load(records_in, records_out, heard, graph),
        service_minutes=np.where(graph.scalable, service, 0.0),
        visits=heard.known_visits(_visits(*heard.alike(into, out, figures, graph), arrived, out - first[1], graph), graph),
        backlog_records=last,
    )


@dataclass(frozen=True, slots=True)
class _Heard:
    """Which sources were heard of; leading batch axes stand for ``..``.

    Attributes:
        sources: bool [.., L, S], reported source-minutes.
        ever: bool [.., S], sources that reported at all. The others count as not there: a job may be scaled without them.
        minutes: bool [.., L], minutes in which all of these reported.
    """

    sources: Bool
    ever: Bool
    minutes: Bool

    @classmethod
    def of(cls, reported: Bool, graph: JobGraph) -> "_Heard":
        """Read it off the reported task-minutes [.., L, N]."""
        sources = reported[..., graph.by_level[0]]
        ever: Bool = np.asarray(sources.any(axis=-2))
        minutes = np.asarray((sources | ~ever[..., None, :]).all(axis=-1))
        return cls(sources, ever, minutes & sources.any(axis=-1))

    def alike(self, into: Float64, out: Float64, figures: Float32, graph: JobGraph) -> tuple[Float64, Float64]:
        """Return records into and out of each task [.., N], those of sources over the minutes of all of them.

        A source that was not heard of for a while would seem to bring a smaller share of the records than it does.
        """
        if not (self.sources.any(axis=-1) & ~self.minutes).any():
            return into, out
        into, out, at = into.copy(), out.copy(), graph.by_level[0]
        for total, name in ((into, "records_in"), (out, "records_out")):
            each = _known(figures[..., FIGURE[name]][..., at])
            total[..., at] = np.where(self.minutes[..., None], each, 0.0).sum(axis=-2)
        return into, out

    def known_visits(self, visits: Float64, graph: JobGraph) -> Float64:
        """Return visits [.., N], NaN where records of a source may come that was never heard of."""
        silent = ~self.ever & self.ever.any(axis=-1, keepdims=True)
        if not silent.any():
            return visits
        unknown = np.zeros(visits.shape, dtype=np.bool_)
        unknown[..., graph.by_level[0]] = silent
        for members in graph.by_level[1:]:
            parents, known = graph.parents.index[members], graph.parents.known[members]
            unknown[..., members] = (unknown[..., parents] & known).any(axis=-1)
        return np.where(unknown, np.nan, visits)


def restarts_seen(figures: Float32) -> Int64:
    """Return [..] the minutes of figures [.., L, N, F] in which an attempt of the job began."""
    began = np.nan_to_num(figures[..., FIGURE["restarts"]]).max(axis=-1) > 0
    seen: Int64 = began.sum(axis=-1)
    return seen


def mean_of_last(load: Float64, minutes: int) -> Float64:
    """Return the mean [..] of the last ``minutes`` known minutes of load [.., L]; NaN when none is known."""
    known = ~np.isnan(load)
    if known.all():
        newest = np.zeros_like(load)  # summed with the older minutes as zeros, as below: rounding is part of the number
        newest[..., -minutes:] = load[..., -minutes:]
        whole: Float64 = newest.sum(axis=-1) / min(minutes, load.shape[-1])
        return whole
    from_end = np.cumsum(known[..., ::-1], axis=-1)[..., ::-1]
    taken = known & (from_end <= minutes)
    count = taken.sum(axis=-1)
    total = np.where(taken, load, 0.0).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean: Float64 = np.where(count > 0, total / count, np.nan)
    return mean


def _known(figures: Float32) -> Float64:
    """Return figures in float64, 0 where unknown; they lie in memory as the caller's do, and so sums group their terms."""
    values: Float64 = figures.astype(np.float64)
    if not np.isfinite(figures).all():
        np.nan_to_num(values, copy=False)
    return values


def _load(records_in: Float32, records_out: Float32, heard: _Heard, graph: JobGraph) -> Float64:
    # A source may count what it reads or only what it emits, hence the larger of the two.
    sources = graph.by_level[0]
    entered = np.maximum(_known(records_in[..., sources]), _known(records_out[..., sources]))
    load: Float64 = np.where(heard.minutes, np.where(heard.sources, entered, 0.0).sum(axis=-1), np.nan)
    return load


def _at_reported(values: Float32, reported: Bool | None, which: Literal[0, -1]) -> Float64:
    """Return values [.., N] at each task's first (0) or newest (-1) minute in ``reported`` (None: all), 0 where there is none."""
    if reported is None:
        return _known(values[..., which, :])
    forward = slice(None, None, 1 if which == 0 else -1)
    at = np.argmax(reported[..., forward, :], axis=-2)
    found = _known(np.take_along_axis(values[..., forward, :], at[..., None, :], axis=-2)[..., 0, :])
    seen: Float64 = np.where(reported.any(axis=-2), found, 0.0)
    return seen


def _visits(into: Float64, out: Float64, arrived: Float64, sent: Float64, graph: JobGraph) -> Float64:
    """Carry one entering record along the graph by the selectivity (records out over in) of each task.

    Where several parents meet, their records may add up (union) or be matched (join): arrivals that never pass the largest
    parent mean a join, and then the largest contribution counts. ``arrived`` is what was processed and what the queue grew by
    or, while it is worked off, shrank by: after the first reported minute, at whose end the first queue was seen; ``sent`` is
    what left after it.
    """
    entered = np.maximum(into, out)
    with np.errstate(divide="ignore", invalid="ignore"):
        selectivity = np.where(into > 0, out / into, 1.0)
    visits: Float64 = np.ones_like(into)
    sources = graph.by_level[0]
    total = entered[..., sources].sum(axis=-1, keepdims=True)
    visits[..., sources] = np.where(total > 0, entered[..., sources] / np.where(total > 0, total, 1.0), 1.0)
    # A source's visits count records entering; it may report them as out only, so nothing is multiplied twice.
    passed = np.array(selectivity)
    with np.errstate(divide="ignore", invalid="ignore"):
        passed[..., sources] = np.where(entered[..., sources] > 0, out[..., sources] / entered[..., sources], 1.0)
    for members in graph.by_level[1:]:
        parents, known = graph.parents.index[members], graph.parents.known[members]
        if not known[:, 1:].any():  # nothing meets
            visits[..., members] = visits[..., parents[:, 0]] * passed[..., parents[:, 0]]
            continue
        offered = np.where(known, (visits * passed)[..., parents], 0.0)
        emitted = np.where(known, sent[..., parents], 0.0)
        added_up = arrived[..., members] > JOIN_SLACK * emitted.max(axis=-1)
        visits[..., members] = np.where(added_up, offered.sum(axis=-1), offered.max(axis=-1))
    return visits
