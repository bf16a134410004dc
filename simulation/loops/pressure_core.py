"""Flowing records under back pressure, whole minutes at a time: the core of mode ``clean`` in the world ``pressure``. Pure.

The recursion is that of ``simulation.model.pressure``, exact at the ends of minutes. Only a minute in which a job stands still is
cut, into its quarters, as in ``simulation.model.attempts``. A change takes effect when its checkpoint is done, so each row has a
minute of its own for it.

Differences from ``simulation.model.attempts``: integrals over a minute are trapezoids between its marks, a task's free time is
split by what held it at the minute's ends, and figures are real numbers.
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
from surescale.simulation.model.course import Variation
from surescale.simulation.model.level_order import in_order
from surescale.simulation.model.pressure import PressureTables, next_lags
from surescale.simulation.model.queueing import STEP_MS, STEPS

_NEVER = 2**31  # minutes from now


@dataclass(frozen=True, slots=True)
class _Chunk:
    """m minutes that have passed, kept until their figures are requested.

    Attributes:
        requests: float64 [m, B].
        lags: float64 [m + 1, N, B], at the minutes' marks.
        up: float64 [m, B], share of the minute in which the job ran.
        subtasks: int64 [m, N, B].
        began: bool [m, B], an attempt began in this minute.
        counted: bool [B, m] or None.
        slowness: float64 [m, N, B], factors on service times; None: all 1.
        busiest: float64 [m, N, B], work of the busiest subtask over the mean; None: all 1.
        redone: float64 [m, B], records that a restart in this minute serves again; None: none.
    """

    requests: Float64
    lags: Float64
    up: Float64
    subtasks: Int64
    began: Bool
    counted: Bool | None
    slowness: Float64 | None
    busiest: Float64 | None
    redone: Float64 | None

    def worked(self, service: Float64) -> Float64:
        """Return busy subtask-minutes [m, N, B] for service times [N, 1]."""
        worked: Float64 = self.served() * service
        return worked if self.slowness is None else worked * self.slowness

    def served(self) -> Float64:
        """Return the records [m, N, B] that each task served."""
        served: Float64 = np.maximum(0.0, self.requests[:, None] - np.diff(self.lags, axis=0))
        return served


class PressureRows:
    """B rows of one job under back pressure; see ``simulation.loops.terms.Core``."""

    def __init__(self, job: SizedJob, parallelism: Int64, terms: Terms, first_minutes: Int64 | None = None) -> None:
        """Start with empty buffers at parallelism [B, N], at minutes [B] of the trace (0)."""
        self.job, self._terms = job, terms
        self._variation = Variation.start(job, terms.world, len(parallelism), first_minutes)
        self._tables = PressureTables.of(job)
        self._service = job.service_minutes[:, None]
        self._subtasks = np.ascontiguousarray(parallelism.T)
        self._lag = np.zeros((job.size, len(parallelism)))
        self._down_ms = np.zeros(len(parallelism), dtype=np.int64)  # still to stand still
        self._before = self._subtasks  # that run until a change comes into effect
        self._waits = np.full(len(parallelism), -1)  # minutes until then; -1: no change waits
        self._entered = np.zeros(len(parallelism))  # in the last minute
        self._recent = Recent.empty(terms.window_minutes, (len(FIGURES), job.size, len(parallelism)))

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N]."""
        return self._subtasks.T

    def pass_time(self, requests: Float64, counted: Bool | None, desired: Int64 | None) -> Span:
        """Let m minutes pass (``simulation.loops.terms.Core``)."""
        rows, minutes = requests.shape
        after = self._subtasks if desired is None else np.ascontiguousarray(desired.T)
        changed = np.asarray((after != self._subtasks).any(axis=0))
        before = np.where(self._waits >= 0, self._before, self._subtasks)
        begin = np.where(self._waits >= 0, self._waits, _NEVER)
        if changed.any():
            effect = np.minimum(self._effect_minutes(before), max(minutes, self._terms.span_minutes))
            begin = np.where(changed, effect, begin)
        at = np.arange(minutes)[:, None]
        subtasks = np.where((at >= begin)[:, None], after, before)
        began = at == begin
        up = self._up(begin, minutes)
        arrivals = np.ascontiguousarray(requests.T)
        slowness = busiest = redone = None
        if self._variation is not None:
            slowness = self._variation.slowness(minutes)
            now = self._variation.busiest(before)
            entered = np.concatenate([self._entered[None], arrivals[:-1]])
            redone = np.where(began, self._variation.redone(entered), 0.0)
            self._variation = self._variation.after(minutes, changed)
            busiest = np.where((at >= begin)[:, None], self._variation.busiest(after), now)
        lags = self._lags(arrivals, self._most(subtasks, slowness, busiest), up, redone)
        share = np.ones((minutes, rows)) if up is None else up.mean(axis=1)
        chunk = _Chunk(arrivals, lags, share, subtasks, began, counted, slowness, busiest, redone)
        self._subtasks, self._before, self._lag = after, before, lags[-1].copy()
        self._waits = np.where((begin >= minutes) & (begin < _NEVER), begin - minutes, -1)
        self._entered = arrivals[-1]
        self._recent = self._recent.then(minutes, partial(_fill, self._tables, self.job.service_minutes, chunk))
        return self._span(chunk, changed)

    def figures(self) -> Float32:
        """Return the last window (``simulation.loops.terms.Core``)."""
        self._recent = self._recent.seen()
        return as_figures(self._recent.built)

    def copy(self) -> "PressureRows":
        """Return independent rows in the same state: state is replaced, never written to."""
        return copy(self)

    def chosen(self, rows: Int64) -> "PressureRows":
        """Return these rows, one perhaps often, without figures: branches never show any."""
        twin = copy(self)
        twin._subtasks = np.ascontiguousarray(self._subtasks[:, rows])
        twin._lag = np.ascontiguousarray(self._lag[:, rows])
        twin._variation = None if self._variation is None else self._variation.chosen(rows)
        twin._before = np.ascontiguousarray(self._before[:, rows])
        twin._down_ms, twin._waits, twin._entered = self._down_ms[rows], self._waits[rows], self._entered[rows]
        twin._recent = self._recent.emptied(len(rows))
        return twin

    def _effect_minutes(self, subtasks: Int64) -> Int64:
        return self._tables.effect_minutes(self._lag, self._most(subtasks), self._terms.delay_minutes)

    def _most(self, subtasks: Int64, slowness: Float64 | None = None, busiest: Float64 | None = None) -> Float64:
        """Return the records that subtasks [.., N, B] serve in a minute at most."""
        with np.errstate(divide="ignore"):
            most: Float64 = subtasks / self._service
        for factor in (slowness, busiest):
            if factor is not None:
                most = most / factor
        return most

    def _up(self, begin: Int64, minutes: int) -> Float64 | None:
        """Return the share of each quarter in which the job runs, [m, STEPS, B], and use up the stillness; None: all."""
        restart_ms = np.full(len(begin), self._terms.restart_ms)
        if self._variation is not None:
            restart_ms = self._variation.restart_ms(self._terms.restart_ms, begin)
        stops = begin < minutes
        if not (stops.any() or self._down_ms.any()):
            return None
        ends_ms = STEP_MS * np.arange(1, minutes * STEPS + 1)[:, None]
        first_ms = begin * MINUTE_MS
        down = np.clip(self._down_ms - (ends_ms - STEP_MS), 0, STEP_MS)
        down = np.where(stops & (ends_ms > first_ms), _overlap(ends_ms, first_ms, first_ms + restart_ms), down)
        left = np.where(stops, first_ms + restart_ms, self._down_ms) - minutes * MINUTE_MS
        self._down_ms = np.maximum(left, 0)
        up: Float64 = 1.0 - down / STEP_MS
        return up.reshape(minutes, STEPS, -1)

    def _lags(self, arrivals: Float64, most: Float64, up: Float64 | None, redone: Float64 | None) -> Float64:
        """Return lags at the marks, float64 [m + 1, N, B], from the present ones on; tasks serve ``most`` [m, N, B] at most.

        Only rows in which some task is late, is offered too much or stands still are worked out; in the others all lags are 0.
        """
        lags = np.zeros((len(arrivals) + 1, *self._lag.shape))
        lags[0] = self._lag
        is_cut = np.zeros(arrivals.shape, dtype=np.bool_) if up is None else np.asarray((up < 1.0).any(axis=1))
        is_tight = np.asarray((arrivals[:, None] > most).any(axis=1))
        late = self._lag.any(axis=0)
        for minute, entered in enumerate(arrivals):
            whole, cut = np.flatnonzero((late | is_tight[minute]) & ~is_cut[minute]), np.flatnonzero(is_cut[minute])
            now = lags[minute + 1]
            if len(whole):
                now[:, whole] = next_lags(self._tables, lags[minute][:, whole], entered[whole], most[minute][:, whole])
            if len(cut) and up is not None:
                lag, quarter = lags[minute][:, cut], most[minute][:, cut] / STEPS
                if redone is not None:
                    lag = lag + redone[minute, cut]
                for step in range(STEPS):
                    lag = next_lags(self._tables, lag, entered[cut] / STEPS, quarter, up[minute, step, cut])
                now[:, cut] = lag
            late = now.any(axis=0)
        return lags

    def _span(self, chunk: _Chunk, changed: Bool) -> Span:
        weight = np.ones_like(chunk.requests) if chunk.counted is None else chunk.counted.T.astype(np.float64)
        backlog = (chunk.lags[1:, -1] + chunk.lags[:-1, -1]) / 2
        busy = in_order(chunk.worked(self._service)[:, 1:-1], 1)
        if chunk.redone is not None:  # work that is done twice is used once
            busy = np.maximum(busy - chunk.redone * self.job.service_minutes[1:-1].sum(), 0.0)
        allocated = chunk.subtasks[:, 1:-1].sum(axis=1).astype(np.float64)
        entered, waited, worked, paid = ((each * weight).sum(axis=0) for each in (chunk.requests, backlog, busy, allocated))
        sums = (entered, waited, worked, paid)
        return flow_span(sums, weight.sum(axis=0), changed, self.job.path_minutes, inside=chunk.lags[1:, -1].T)


def _overlap(ends_ms: Int64, first_ms: Int64, last_ms: Int64) -> Int64:
    """Return how long the steps that end at ``ends_ms`` [S, 1] lie between two times [B], int64 [S, B]."""
    inside: Int64 = np.minimum(ends_ms, last_ms) - np.maximum(ends_ms - STEP_MS, first_ms)
    return np.maximum(inside, 0)


def _held_up(tables: PressureTables, lags: Float64) -> tuple[Float64, Bool]:
    """Return waiting records and blocked tasks, both [m + 1, N, B]; where the sink is not late there are none."""
    waiting, blocked = np.zeros_like(lags), np.zeros(lags.shape, dtype=np.bool_)
    marks, rows = np.nonzero(lags[:, -1] > 0.0)
    late = np.ascontiguousarray(lags[marks, :, rows].T)
    waiting[marks, :, rows], blocked[marks, :, rows] = tables.waiting(late).T, tables.blocked(late).T
    return waiting, blocked


def _fill(tables: PressureTables, service_minutes: Float64, chunk: _Chunk, planes: Float32) -> None:
    """Write the chunk's figures into float32 [F, N, B, m]."""

    def write(name: str, values: Float64 | Int64) -> None:
        planes[FIGURE[name]] = np.moveaxis(values, 0, -1)

    fill_usual(planes)
    planes[FIGURE["arrived"], 0] = chunk.requests.T
    served, (waiting, blocked) = chunk.served(), _held_up(tables, chunk.lags)
    busy = chunk.worked((service_minutes * MINUTE_MS)[:, None])
    free = np.maximum(0.0, chunk.subtasks * chunk.up[:, None] * MINUTE_MS - busy)
    held = free * (blocked[1:].astype(np.float64) + blocked[:-1]) / 2
    waited = (waiting[1:] + waiting[:-1]) * (MINUTE_MS / 2)
    for name in ("records_in", "records_out"):
        write(name, served)
    for name in ("bytes_in", "bytes_out"):
        write(name, served * RECORD_BYTES)
    write("busy_ms", busy)
    write("busy_ms_max", busy / chunk.subtasks if chunk.busiest is None else busy / chunk.subtasks * chunk.busiest)
    write("idle_ms", free - held)
    write("backpressured_ms", held)
    write("queued_records_last", waiting[1:])
    write("queued_records_mean", 0.625 * waiting[1:] + 0.375 * waiting[:-1])  # of samples at each quarter
    write("queue_wait_record_ms", waited)
    write("latency_record_ms", waited + busy)
    write("parallelism", chunk.subtasks)
    write("restarts", np.repeat(chunk.began[:, None].astype(np.float64), len(service_minutes), axis=1))
    if chunk.counted is not None:
        planes[:, :, ~chunk.counted] = np.nan
