"""Records that flow, whole minutes at a time: the fast core of mode ``clean``. Pure.

The recursion is that of ``simulation.queueing``. In a minute arrivals and capacities are constant, so every lag is a convex
function of time within it (a maximum of lines), and a maximum of convex functions lies at the ends: the lags at minute marks are
exactly those of any finer step. Over m minutes, with G_i(t) = records entered less what task i could have served since the start,

    lag_i(t) = G_i(t) + max(lag_i(0), max over u <= t of (max over parents of lag(u) - G_i(u))):

one cumulative sum and one running maximum per level, no step over time. State: one number per task.

What differs from ``simulation.flow``: integrals over a minute are trapezoids between its marks (there: between quarters), which
matters only in a minute in which a queue begins or ends, and figures are real numbers (there: whole ones).
"""

from copy import copy
from dataclasses import dataclass
from functools import partial

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.windows import FIGURE, FIGURES, Float32
from simulation.cores import Bool, Float64, Int64, Span, Terms, flow_span
from simulation.flow import RECORD_BYTES
from simulation.jobs import SizedJob
from simulation.level_order import LevelOrder, in_order
from simulation.recent import Recent, as_figures


@dataclass(frozen=True, slots=True)
class _Chunk:
    """m minutes that have passed, kept until somebody asks for their figures; R real tasks in order of level.

    Attributes:
        requests: float64 [B, m].
        lags: float64 [R, B, m + 1], at the minutes' marks.
        up: float64 [B, m], share of the minute in which the job ran.
        parallelism: int64 [N, B], before and from minute ``begin`` of the chunk on.
        begin: minute.
        began: bool [B], rows of which an attempt began in that minute.
        counted: bool [B, m] or None.
    """

    requests: Float64
    lags: Float64
    up: Float64
    parallelism: tuple[Int64, Int64]
    begin: int
    began: Bool
    counted: Bool | None


class FluidRows:
    """B rows of one job whose records flow; see ``simulation.cores.Core``."""

    def __init__(self, job: SizedJob, parallelism: Int64, terms: Terms) -> None:
        """Start with empty queues at parallelism [B, N]; ``restart_ms`` must be whole minutes."""
        assert terms.restart_ms % MINUTE_MS == 0, terms.restart_ms
        self.job, self._terms = job, terms
        self._order = LevelOrder.of(job)
        self._parallelism = np.ascontiguousarray(parallelism.T)
        self._lag = np.zeros((job.size - 2, len(parallelism)))
        self._down = np.zeros(len(parallelism), dtype=np.int64)  # minutes still to stand after the last chunk
        self._recent = Recent(terms.window_minutes, (len(FIGURES), job.size, len(parallelism)))

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N]."""
        return self._parallelism.T

    def pass_time(self, requests: Float64, counted: Bool | None, desired: Int64 | None) -> Span:
        """Let m minutes pass (``simulation.cores.Core``)."""
        before = self._parallelism
        after = before if desired is None else np.ascontiguousarray(desired.T)
        changed = np.asarray((after != before).any(axis=0))
        begin = 0 if desired is None else min(self._terms.delay_minutes, requests.shape[1])
        up = self._up(requests.shape[1], begin, changed)
        lags = self._lags(requests, (before, after), begin, up)
        chunk = _Chunk(requests, lags, up, (before, after), begin, changed, counted)
        self._parallelism, self._lag = after, lags[..., -1]
        self._recent = self._recent.then(requests.shape[1], partial(_fill, self._order, chunk))
        return self._span(chunk, changed)

    def figures(self) -> Float32:
        """Return the last window (``simulation.cores.Core``)."""
        self._recent = self._recent.seen()
        assert self._recent.built is not None, "rows that have lived no minute have no figures"
        return as_figures(self._recent.built)

    def copy(self) -> "FluidRows":
        """Return rows in the same state that live on by themselves: state is replaced, never written to."""
        return copy(self)

    def repeated(self, times: int) -> "FluidRows":
        """Return all rows so many times over, one whole set after the other; figures begin anew, as nobody asks branches."""
        twin = copy(self)
        twin._parallelism, twin._lag = np.tile(self._parallelism, times), np.tile(self._lag, times)
        twin._down, twin._recent = np.tile(self._down, times), self._recent.repeated(times)
        return twin

    def _up(self, minutes: int, begin: int, changed: Bool) -> Float64:
        """Return 1 where the job runs, [B, m], 0 where it is down, and count the down time off."""
        down = self._terms.restart_ms // MINUTE_MS
        at = np.arange(minutes)
        up = at >= self._down[:, None]
        up &= ~(changed[:, None] & (at >= begin) & (at < begin + down))
        left = np.where(changed, begin + down, self._down) - minutes
        self._down = np.maximum(left, 0)
        return up.astype(np.float64)

    def _lags(self, requests: Float64, parallelism: tuple[Int64, Int64], begin: int, up: Float64) -> Float64:
        """Return float64 [R, B, m + 1]: lags at the marks, the first being the present ones."""
        order, present = self._order, self._lag
        entered = requests.sum(axis=1)
        enough = present.max(axis=0) + entered + 1.0  # serves all there is: keeps a task without service time finite
        grown = np.empty((*present.shape, requests.shape[1] + 1))
        grown[..., 0] = 0.0
        for subtasks, part in zip(parallelism, (slice(0, begin), slice(begin, None)), strict=True):
            most = _most_per_minute(order, subtasks, enough)
            np.subtract(requests[:, part], most[..., None] * up[:, part], out=grown[..., 1:][..., part])
        np.cumsum(grown[..., 1:], axis=-1, out=grown[..., 1:])
        lags = np.empty_like(grown)
        for level, members in enumerate(order.members):
            behind = order.latest(lags, level) if level else 0.0
            lag, gain = lags[members], grown[members]
            np.subtract(behind, gain, out=lag)
            lag[..., 0] = present[members]
            np.maximum.accumulate(lag, axis=-1, out=lag)
            lag += gain
            np.maximum(lag, behind, out=lag)  # rounding must not put a task ahead of its parents
        return lags

    def _span(self, chunk: _Chunk, changed: Bool) -> Span:
        requests, counted = chunk.requests, chunk.counted
        backlog = self._order.at_sink(chunk.lags)
        backlog = (backlog[:, 1:] + backlog[:, :-1]) / 2
        if counted is None:
            early, minutes = np.float64(chunk.begin), np.full(len(requests), float(requests.shape[1]))
            served = requests.sum(axis=1) - (chunk.lags[..., -1] - chunk.lags[..., 0])
        else:
            early, minutes = counted[:, : chunk.begin].sum(axis=1), counted.sum(axis=1).astype(np.float64)
            served = (_served(chunk) * counted).sum(axis=-1)
            requests, backlog = requests * counted, backlog * counted
        busy = in_order(served * self._order.service_minutes)
        before, after = (each[1:-1].sum(axis=0) for each in chunk.parallelism)
        allocated = before * early + after * (minutes - early)
        sums = (requests.sum(axis=1), backlog.sum(axis=1), np.maximum(busy, 0.0), allocated)
        return flow_span(sums, minutes, changed, self.job.path_minutes)


def _most_per_minute(order: LevelOrder, parallelism: Int64, enough: Float64) -> Float64:
    """Return the records [R, B] that real tasks can serve in a minute, at most ``enough`` [B]."""
    with np.errstate(divide="ignore"):
        most: Float64 = np.minimum(parallelism[order.tasks] / order.service_minutes, enough)
    return most


def _served(chunk: _Chunk) -> Float64:
    """Return float64 [R, B, m], records that each real task serves in each minute."""
    served: Float64 = chunk.requests + chunk.lags[..., :-1]
    served -= chunk.lags[..., 1:]
    return np.maximum(served, 0.0, out=served)


def _fill(order: LevelOrder, chunk: _Chunk, planes: Float32) -> None:
    """Write the chunk's figures into float32 [F, N, B, m]."""
    for name in ("backpressured_ms", "state_bytes", "restarts"):
        planes[FIGURE[name]] = 0.0
    planes[FIGURE["coverage"]] = 1.0
    _fill_flow(order, chunk, planes)
    _fill_queues(order, chunk, planes)
    _fill_parallelism(chunk, planes)
    if chunk.counted is not None:
        planes[:, :, ~chunk.counted] = np.nan


def _fill_flow(order: LevelOrder, chunk: _Chunk, planes: Float32) -> None:
    """Write records, bytes and busy time; the source takes what comes, and what is last through its tasks reaches the sink."""
    records, busy = planes[FIGURE["records_in"]], planes[FIGURE["busy_ms"]]
    served = _served(chunk).astype(np.float32)
    records[order.tasks] = served
    records[0] = chunk.requests
    records[-1] = chunk.requests - np.diff(order.at_sink(chunk.lags), axis=-1)
    planes[FIGURE["records_out"]] = records
    np.multiply(records, RECORD_BYTES, out=planes[FIGURE["bytes_in"]])
    np.multiply(records, RECORD_BYTES, out=planes[FIGURE["bytes_out"]])
    busy[[0, -1]] = 0.0
    served *= (order.service_minutes * MINUTE_MS).astype(np.float32)[..., None]
    busy[order.tasks] = served


def _fill_queues(order: LevelOrder, chunk: _Chunk, planes: Float32) -> None:
    """Write queues, waiting and latency; the mean queue is that of samples at the quarters of a minute."""
    names = ("queued_records_last", "queued_records_mean", "queue_wait_record_ms", "latency_record_ms")
    last, mean, wait, latency = (planes[FIGURE[name]] for name in names)
    waiting = np.empty(chunk.lags.shape, dtype=np.float32)
    for level, members in enumerate(order.members):
        np.subtract(
            chunk.lags[members], order.latest(chunk.lags, level) if level else 0.0, out=waiting[members], casting="same_kind"
        )
    for plane in (last, mean, wait, latency):
        plane[[0, -1]] = 0.0
    begin, end = waiting[..., :-1], waiting[..., 1:]
    last[order.tasks] = end
    mean[order.tasks] = np.float32(0.375) * begin + np.float32(0.625) * end
    waited = begin + end
    waited *= np.float32(MINUTE_MS / 2)
    wait[order.tasks] = waited
    np.add(wait, planes[FIGURE["busy_ms"]], out=latency)


def _fill_parallelism(chunk: _Chunk, planes: Float32) -> None:
    """Write parallelism, the minutes in which attempts began, and idle time."""
    parallelism, idle = planes[FIGURE["parallelism"]], planes[FIGURE["idle_ms"]]
    for subtasks, part in zip(chunk.parallelism, (slice(0, chunk.begin), slice(chunk.begin, None)), strict=True):
        parallelism[..., part] = subtasks[..., None]
    if chunk.begin < parallelism.shape[-1]:
        planes[FIGURE["restarts"], ..., chunk.begin] = chunk.began
    np.multiply(parallelism, (chunk.up * MINUTE_MS).astype(np.float32), out=idle)
    np.subtract(idle, planes[FIGURE["busy_ms"]], out=idle)
    np.maximum(idle, 0.0, out=idle)
