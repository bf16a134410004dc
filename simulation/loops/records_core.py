"""Flowing records, whole minutes at a time: the fast core of mode ``clean``. Pure.

The recursion is that of ``simulation.model.queueing``. Within a minute arrivals and capacities are constant, so every lag is a
convex function of time (a maximum of lines), and a convex function has its maximum at the ends: the lags at minute marks are
exactly those of any finer step. Over m minutes, with G_i(t) = records entered - records that task i could have served so far,

    lag_i(t) = G_i(t) + max(lag_i(0), max over u <= t of (max over parents of lag(u) - G_i(u))):

one cumulative sum and one running maximum per level, no step over time. State: one number per task.

In a world that varies (``simulation.model.course``) service times differ by the minute, and the busiest subtask is the limit.

Differences from ``simulation.model.attempts``: integrals over a minute are trapezoids between its marks (there: between
quarters), which matters only in a minute in which a queue starts or ends, and figures are real numbers (there: whole numbers).
"""

from copy import copy
from dataclasses import dataclass
from functools import partial

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.windows import FIGURE, FIGURES, Float32
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.loops.terms import Bool, Float64, Int64, Recent, Span, Terms, as_figures, fill_usual, flow_span
from surescale.simulation.model.attempts import RECORD_BYTES
from surescale.simulation.model.course import Variation, running_share
from surescale.simulation.model.level_order import LevelOrder, in_lines, in_order

_Redone = tuple[tuple[int, Float64], ...]
"""Minutes of a chunk in which restarts begin, each with the records [B] that they serve again."""


@dataclass(frozen=True, slots=True)
class _Scale:
    """Values that depend only on parallelism, computed once per change.

    Attributes:
        subtasks: int64 [N, B].
        most: float64 [R, B], records that real tasks can serve in a minute; infinite for one without service time.
        total: int64 [B], subtasks of the real tasks.
        busiest: float64 [N, B], work of the busiest subtask over the mean; None: always 1.
    """

    subtasks: Int64
    most: Float64
    total: Int64
    busiest: Float64 | None

    @classmethod
    def of(cls, order: LevelOrder, subtasks: Int64, variation: Variation | None) -> "_Scale":
        with np.errstate(divide="ignore"):
            most = subtasks[order.tasks] / order.service_minutes
        busiest = None
        if variation is not None:
            busiest = variation.busiest(subtasks)
            most = most / busiest[order.tasks]
        return cls(subtasks, most, subtasks[1:-1].sum(axis=0), busiest)


@dataclass(frozen=True, slots=True)
class _Chunk:
    """m minutes that have passed, kept until their figures are requested; R real tasks in order of level.

    Arrays per minute have m + 1 columns, like arrays per mark: minute t, from mark t - 1 to mark t, is column t. Arrays of one
    shape are read and written in one run; slices of them would not be.

    Attributes:
        requests: float64 [B, m + 1]; column 0 is the minute before the chunk.
        lags: float64 [R, B, m + 1], at the minutes' marks.
        behind: per level, the largest lag of its tasks' parents, [n, B, m + 1]; a single 0 if there are none.
        up: float64 [B, m + 1], share of the minute in which the job ran.
        scale: before minute ``begin`` of the chunk, and from it on.
        begin: minute.
        began: bool [B], rows in which an attempt began in that minute.
        counted: bool [B, m] or None.
        slowness: float64 [R, B, m + 1], factors on service times; column 0 is 1. None: all 1.
        began_before: bool [B], rows in which an attempt began with the chunk, due to a change in the one before.
        redone: minutes of the chunk in which restarts serve records [B] again, with these; None: in this world they serve none.
    """

    requests: Float64
    lags: Float64
    behind: tuple[Float64, ...]
    up: Float64
    scale: tuple[_Scale, _Scale]
    begin: int
    began: Bool
    counted: Bool | None
    slowness: Float64 | None
    began_before: Bool
    redone: _Redone | None

    @property
    def minutes(self) -> int:
        """Return m."""
        return int(self.up.shape[1]) - 1


class RecordRows:
    """B rows of one job with flowing records; see ``simulation.loops.terms.Core``."""

    def __init__(self, job: SizedJob, parallelism: Int64, terms: Terms, first_minutes: Int64 | None = None) -> None:
        """Start with empty queues at parallelism [B, N], at minutes [B] of the trace (0); see ``Terms.restart_ms``."""
        assert terms.world.varies or terms.restart_ms % MINUTE_MS == 0, terms.restart_ms
        self.job, self._terms = job, terms
        self._variation = Variation.start(job, terms.world, len(parallelism), first_minutes)
        self._order = LevelOrder.of(job)
        self._scale = _Scale.of(self._order, np.ascontiguousarray(parallelism.T), self._variation)
        self._lag = np.zeros((job.size - 2, len(parallelism)))
        self._down = np.zeros(len(parallelism), dtype=np.int64)  # minutes still down after the last chunk
        self._down_ms = np.zeros(len(parallelism), dtype=np.int64)  # the same in a world that varies
        self._entered = np.zeros(len(parallelism))  # in the last minute
        self._begins = np.zeros(len(parallelism), dtype=np.bool_)  # an attempt begins in the next minute
        self._recent = Recent.empty(terms.window_minutes, (len(FIGURES), job.size, len(parallelism)))

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N]."""
        return self._scale.subtasks.T

    def pass_time(self, requests: Float64, counted: Bool | None, desired: Int64 | None) -> Span:
        """Let m minutes pass (``simulation.loops.terms.Core``)."""
        before = after = self._scale
        subtasks = before.subtasks if desired is None else np.ascontiguousarray(desired.T)
        rows, minutes = requests.shape
        changed = np.asarray((subtasks != before.subtasks).any(axis=0))
        begin = 0 if desired is None else min(self._terms.delay_minutes, minutes)
        padded = np.zeros((rows, minutes + 1))
        padded[:, 0], padded[:, 1:] = self._entered, requests
        entered = requests.sum(axis=1)
        slowness = redone = None
        if self._variation is None:
            up = self._up(padded.shape, begin, changed)
        else:
            slowness = self._slowness(minutes)
            up = self._varied_up(self._variation, padded.shape, begin, changed)
            redone = self._redone(self._variation, padded, begin, changed)
            self._variation = self._variation.after(minutes, changed)
        if desired is not None:
            after = _Scale.of(self._order, subtasks, self._variation)
        scale = (before, after)
        lags, behind = self._lags(padded, entered, scale, begin, up, slowness, redone)
        chunk = _Chunk(padded, lags, behind, up, scale, begin, changed, counted, slowness, self._begins, redone)
        self._scale, self._lag = after, lags[..., -1]
        self._entered, self._begins = padded[:, -1], changed & (begin == minutes)
        self._recent = self._recent.then(minutes, partial(_fill, self._order, chunk))
        return self._span(chunk, entered, changed)

    def figures(self) -> Float32:
        """Return the last window (``simulation.loops.terms.Core``)."""
        self._recent = self._recent.seen()
        return as_figures(self._recent.built)

    def copy(self) -> "RecordRows":
        """Return independent rows in the same state: state is replaced, never written to."""
        return copy(self)

    def chosen(self, rows: Int64) -> "RecordRows":
        """Return these rows, one perhaps often, without figures: branches never show any."""
        twin = copy(self)
        twin._variation = None if self._variation is None else self._variation.chosen(rows)
        twin._scale = _Scale.of(self._order, np.ascontiguousarray(self._scale.subtasks[:, rows]), twin._variation)
        twin._lag, twin._down = np.ascontiguousarray(self._lag[:, rows]), self._down[rows]
        twin._down_ms = self._down_ms[rows]
        twin._entered, twin._begins = self._entered[rows], self._begins[rows]
        twin._recent = self._recent.emptied(len(rows))
        return twin

    def _up(self, shape: tuple[int, int], begin: int, changed: Bool) -> Float64:
        """Return 1 where the job runs, [B, m + 1], 0 where it is down, and use up the down time."""
        down, minutes = self._terms.restart_ms // MINUTE_MS, shape[1] - 1
        up = np.ones(shape)
        if self._down.any():
            up[:, 1:] = np.arange(minutes) >= self._down[:, None]
        up[changed, 1 + begin : 1 + begin + down] = 0.0
        left = np.where(changed, begin + down, self._down) - minutes
        self._down = np.maximum(left, 0)
        return up

    def _slowness(self, minutes: int) -> Float64 | None:
        """Return factors on service times [R, B, m + 1] in the coming minutes; column 0 is 1. None: all 1."""
        found = None if self._variation is None else self._variation.slowness(minutes)
        if found is None:
            return None
        slowness = np.ones((len(self._order.tasks), found.shape[2], minutes + 1))
        slowness[..., 1:] = np.moveaxis(found[:, self._order.tasks], 0, -1)
        return slowness

    def _varied_up(self, variation: Variation, shape: tuple[int, int], begin: int, changed: Bool) -> Float64:
        """Return the share of each minute in which the job runs, [B, m + 1], and use up the time that it stands still."""
        minutes, up = shape[1] - 1, np.ones(shape)
        lasts = variation.restart_ms(self._terms.restart_ms, begin)
        up[:, 1:] = running_share(0, self._down_ms, minutes)
        up[changed, 1 + begin :] = running_share(begin, lasts, minutes)[changed, begin:]
        left = np.where(changed, begin * MINUTE_MS + lasts, self._down_ms) - minutes * MINUTE_MS
        self._down_ms = np.maximum(left, 0)
        return up

    def _redone(self, variation: Variation, requests: Float64, begin: int, changed: Bool) -> _Redone:
        """Return what restarts serve again, by the minute in which they begin."""
        found: list[tuple[int, Float64]] = []
        for minute, began in ((0, self._begins), (begin, changed)):
            if began.any() and minute < requests.shape[1] - 1:
                found.append((minute, np.where(began, variation.redone(requests[:, minute]), 0.0)))
        return tuple(found)

    def _lags(
        self,
        requests: Float64,
        entered: Float64,
        scale: tuple[_Scale, _Scale],
        begin: int,
        up: Float64,
        slowness: Float64 | None,
        redone: _Redone | None,
    ) -> tuple[Float64, tuple[Float64, ...]]:
        """Return lags at the marks, float64 [R, B, m + 1], from the current ones on, and the parents' lags per level."""
        order, present = self._order, self._lag
        enough = present.max(axis=0) + entered + 1.0  # serves everything: keeps a task without service time finite
        for _, records in redone or ():
            enough = enough + records
        if slowness is not None:
            enough = enough * slowness.max()
        part = up.min(where=up > 0.0, initial=1.0)  # of a minute, in which it must still be enough
        if part < 1.0:
            enough = enough / part
        before, after = (np.minimum(each.most, enough)[..., None] for each in scale)
        grown = after * up
        np.multiply(before, up[:, 1 : 1 + begin], out=grown[..., 1 : 1 + begin])
        if slowness is not None:
            grown /= slowness
        np.subtract(requests, grown, out=grown)
        for minute, records in redone or ():
            grown[..., 1 + minute] += records
        grown[..., 0] = 0.0
        np.cumsum(grown, axis=-1, out=grown)
        lags, parents = np.empty_like(grown), []
        for level, members in enumerate(order.members):
            behind = order.latest(lags, level) if level else np.zeros(1)
            lag, gain = lags[members], grown[members]
            np.subtract(behind, gain, out=lag)
            lag[..., 0] = present[members]
            np.maximum.accumulate(lag, axis=-1, out=lag)
            lag += gain
            np.maximum(lag, behind, out=lag)  # rounding must not put a task ahead of its parents
            parents.append(behind)
        return lags, tuple(parents)

    def _span(self, chunk: _Chunk, entered: Float64, changed: Bool) -> Span:
        counted, lags, minutes = chunk.counted, chunk.lags, chunk.minutes
        sink = self._order.at_sink(lags)
        backlog = sink[:, 1:] + sink[:, :-1]
        early: float | Float64 = float(chunk.begin)
        if counted is None:
            counted_minutes = np.full(len(entered), float(minutes))
            served = entered - (lags[..., -1] - lags[..., 0])
        else:
            counted_minutes = counted.sum(axis=1, dtype=np.float64)
            early = counted[:, : chunk.begin].sum(axis=1, dtype=np.float64)
            served = (_served(chunk)[..., 1:] * counted).sum(axis=-1)
            entered, backlog = (chunk.requests[:, 1:] * counted).sum(axis=1), backlog * counted
        if chunk.slowness is not None:
            worked = _served(chunk)[..., 1:] * chunk.slowness[..., 1:]
            served = (worked if counted is None else worked * counted).sum(axis=-1)
        if not (chunk.slowness is None and counted is None):
            for _, records in chunk.redone or ():
                served = served - records  # work that is done twice is used once
        busy = in_order(served * self._order.service_minutes)
        before, after = (each.total for each in chunk.scale)
        allocated = before * early + after * (counted_minutes - early)
        sums = (entered, backlog.sum(axis=1) / 2, np.maximum(busy, 0.0), allocated)
        return flow_span(sums, counted_minutes, changed, self.job.path_minutes, inside=sink[:, 1:])


def _served(chunk: _Chunk) -> Float64:
    """Return float64 [R, B, m + 1], records that each real task serves in each minute; column 0 is meaningless."""
    served = np.empty_like(chunk.lags)
    lags, later = in_lines(chunk.lags), in_lines(served)[:, 1:]
    in_lines(served)[:, 0] = 0.0
    np.add(chunk.requests.ravel()[1:], lags[:, :-1], out=later)
    later -= lags[:, 1:]
    return np.maximum(served, 0.0, out=served)


def _fill(order: LevelOrder, chunk: _Chunk, planes: Float32) -> None:
    """Write the chunk's figures into float32 [F, N, B, m]."""
    fill_usual(planes)
    _fill_flow(order, chunk, planes)
    _fill_queues(order, chunk, planes)
    _fill_parallelism(chunk, planes)
    if chunk.counted is not None:
        planes[:, :, ~chunk.counted] = np.nan


def _fill_flow(order: LevelOrder, chunk: _Chunk, planes: Float32) -> None:
    """Write records, bytes and busy time; the source takes all arrivals, and the sink what its last parent has finished."""
    records, data, busy = planes[FIGURE["records_in"]], planes[FIGURE["bytes_in"]], planes[FIGURE["busy_ms"]]
    served, requests, sink = _served(chunk).astype(np.float32), chunk.requests[:, 1:], order.at_sink(chunk.lags)
    records[order.tasks] = served[..., 1:]
    records[0] = requests
    planes[FIGURE["arrived"], 0] = requests
    records[-1] = requests - (sink[:, 1:] - sink[:, :-1])
    if chunk.redone is not None:
        np.maximum(records[-1], 0.0, out=records[-1])
    planes[FIGURE["records_out"]] = records
    planes[FIGURE["bytes_out"]] = np.multiply(records, RECORD_BYTES, out=data)
    served *= (order.service_minutes * MINUTE_MS).astype(np.float32)[..., None]
    if chunk.slowness is not None:
        served *= chunk.slowness
    busy[:: len(busy) - 1] = 0.0  # source and sink
    busy[order.tasks] = served[..., 1:]


def _fill_queues(order: LevelOrder, chunk: _Chunk, planes: Float32) -> None:
    """Write queues, waiting and latency; the mean queue is that of samples at each quarter of a minute."""
    names = ("queued_records_last", "queued_records_mean", "queue_wait_record_ms", "latency_record_ms")
    last, mean, wait, latency = (planes[FIGURE[name]] for name in names)
    waiting = np.empty_like(chunk.lags)
    for members, behind in zip(order.members, chunk.behind, strict=True):
        np.subtract(chunk.lags[members], behind, out=waiting[members])
    end = waiting.astype(np.float32)
    between, waited = np.float32(0.625) * end, end.copy()
    in_lines(between)[:, 1:] += in_lines(np.float32(0.375) * end)[:, :-1]
    in_lines(waited)[:, 1:] += in_lines(end)[:, :-1]
    waited *= np.float32(MINUTE_MS / 2)
    for plane, value in ((last, end), (mean, between), (wait, waited)):
        plane[:: len(plane) - 1] = 0.0  # source and sink
        plane[order.tasks] = value[..., 1:]
    np.add(wait, planes[FIGURE["busy_ms"]], out=latency)


def _fill_parallelism(chunk: _Chunk, planes: Float32) -> None:
    """Write parallelism, restarts, and idle time."""
    parallelism, idle = planes[FIGURE["parallelism"]], planes[FIGURE["idle_ms"]]
    before, after = (each.subtasks.astype(np.float32)[..., None] for each in chunk.scale)
    parallelism[...] = after
    parallelism[..., : chunk.begin] = before
    planes[FIGURE["restarts"], ..., 0] = chunk.began_before
    if chunk.begin < chunk.minutes:
        planes[FIGURE["restarts"], ..., chunk.begin] += chunk.began
    busiest = np.divide(planes[FIGURE["busy_ms"]], parallelism, out=planes[FIGURE["busy_ms_max"]])
    earlier, later = (each.busiest for each in chunk.scale)
    if earlier is not None and later is not None:
        busiest[..., : chunk.begin] *= earlier[..., None]
        busiest[..., chunk.begin :] *= later[..., None]
    np.multiply(parallelism, (chunk.up[:, 1:] * MINUTE_MS).astype(np.float32), out=idle)
    idle -= planes[FIGURE["busy_ms"]]
    np.maximum(idle, 0.0, out=idle)
