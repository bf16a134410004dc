"""Many closed loops of one job at once: a decision in, a span of figures and reward out. Knows no network.

How to drive it (evaluation and training alike):

    terms = Terms(mode="clean", latency_weight=0.5, span_minutes=60)
    rows = LoopRows(job, workload, first_minutes, start, terms)    # [B] minutes of the first decision, [B, N] parallelism
    seen = rows.observe()                                          # figures [B, L, N, F] for policies.features.encode
    span = rows.step(desired)                                      # [B, N] whole subtasks; one span passes
    reward = rows.reward(span)                                     # [B]; weigh by span.counted_minutes
    twin = rows.copy()                                             # lives on by itself: branches, oracles

``simulation.cores`` tells what terms and spans mean; the core follows from the mode: ``simulation.fluid`` (or ``.flow``, for the
road's own numbers), ``simulation.batches``. Rows do not see one another: B = 1 and B = 64 give the same bits.
"""

from copy import copy, deepcopy
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from contracts.clock import MINUTE_MS
from contracts.windows import FIGURES, HOURS, PEAK_MINUTES, Float32
from policies.graph import JobGraph, job_graph
from policies.guardrails import situation
from policies.measure import Measured
from simulation.batches import BatchRows
from simulation.cores import Bool, Core, Float64, Int64, Span, Terms, flow_span
from simulation.flow import Flow, FlowRows
from simulation.fluid import FluidRows
from simulation.jobs import PARALLELISM_MAX, SizedJob
from simulation.workload import Workload

__all__ = [
    "HourlyLoads",
    "HourlyPeaks",
    "LoopRows",
    "Observed",
    "Span",
    "Terms",
    "guarded",
    "resized",
    "within_limits",
]


Number = TypeVar("Number", np.float64, np.bool_)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a policy may see of B rows: figures [B, L, N, F], window ends [B], hourly loads and peaks [B, 192], sizes [B, N]."""

    figures: Float32
    ends_ms: Int64
    hourly_load: Float64
    hourly_peak: Float64
    current: Int64


class LoopRows:
    """B rows of one job, each at its own place in the workload; the workload repeats after its last minute."""

    def __init__(self, job: SizedJob, workload: Workload, first_minutes: Int64, start: Int64, terms: Terms) -> None:
        """Warm up for one window at parallelism ``start`` [B, N]; the first decision is due at ``first_minutes`` [B]."""
        self.job, self.terms = job, terms
        self.graph: JobGraph = job_graph(job.specs())
        self._load = _Load.of(workload, (terms.window_minutes, terms.span_minutes))
        self._minute = np.asarray(first_minutes, dtype=np.int64) - terms.window_minutes
        assert (self._minute >= 0).all(), "a loop needs one window of workload before its first decision"
        self._core = core_of(job, np.asarray(start, dtype=np.int64), terms)
        self._pass(terms.window_minutes, None)

    def observe(self) -> Observed:
        """Return what is known at the end of the last span."""
        return Observed(
            figures=self._core.figures(),
            ends_ms=self._load.trace_start_ms + self._minute * MINUTE_MS,
            hourly_load=self._load.hours.before(self._minute),
            hourly_peak=self._load.peaks.before(self._minute),
            current=self._core.parallelism,
        )

    @property
    def minutes(self) -> Int64:
        """Return int64 [B], the minute of the workload at which each row's next decision is due."""
        return self._minute

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N], the present parallelism; unlike ``observe`` it builds no figures."""
        return self._core.parallelism

    def step(self, desired: Int64, *, is_full: bool = False) -> Span:
        """Carry out desired parallelism [B, N], brought within the job's bounds and total limit, and let one span pass.

        ``is_full``: the span tells ``full_latency``.
        """
        return self._pass(self.terms.span_minutes, within_limits(desired, self.job), is_full=is_full)

    def reward(self, span: Span) -> Float64:
        """Return the reward [B] of one span on its own; 0 where no minute counts."""
        weight = self.terms.latency_weight
        reward: Float64 = -weight * span.latency + (1 - weight) * span.utilisation
        return reward

    def copy(self) -> "LoopRows":
        """Return rows in the same state that live on by themselves."""
        twin = copy(self)
        twin._core = self._core.copy()
        return twin

    def repeated(self, times: int) -> "LoopRows":
        """Return all rows so many times over, one whole set after the other, in the same states: branches to compare.

        Their figures begin with the spans they live from here on. Rows that run as on the road cannot be repeated.
        """
        assert isinstance(self._core, FluidRows | BatchRows), "rows that run as on the road cannot be repeated"
        twin = copy(self)
        twin._core, twin._minute = self._core.repeated(times), np.tile(self._minute, times)
        return twin

    def _pass(self, minutes: int, desired: Int64 | None, *, is_full: bool = False) -> Span:
        at = self._minute % self._load.minutes
        counted = None if self._load.counted is None else self._load.counted[minutes][at]
        span = self._core.pass_time(self._load.requests[minutes][at], counted, desired, is_full=is_full)
        self._minute = self._minute + minutes
        return span


@dataclass(frozen=True, slots=True)
class _Load:
    """A workload as the loop reads it.

    Attributes:
        minutes: of the workload; after the last one the first follows.
        requests: per length m, float64 [minutes, m]: the m minutes that begin with each minute.
        counted: the same, bool: do they count; None where all minutes do.
        hours, peaks: what forecasts look back on.
        trace_start_ms: of the first minute.
    """

    minutes: int
    requests: dict[int, Float64]
    counted: dict[int, Bool] | None
    hours: "HourlyLoads"
    peaks: "HourlyPeaks"
    trace_start_ms: int

    @classmethod
    def of(cls, workload: Workload, lengths: tuple[int, ...]) -> "_Load":
        masked = workload.masked
        return cls(
            minutes=workload.minutes,
            requests=_stretches(workload.requests.astype(np.float64), lengths),
            counted=_stretches(~masked, lengths) if masked.any() else None,
            hours=HourlyLoads.of(workload.requests, masked),
            peaks=HourlyPeaks.of(workload.requests, masked),
            trace_start_ms=workload.trace_start_ms,
        )


def _stretches(values: npt.NDArray[Number], lengths: tuple[int, ...]) -> dict[int, npt.NDArray[Number]]:
    """Return, per length m, a view [n, m] of values [n]: the m of them from each one on, the first again after the last."""
    return {m: np.lib.stride_tricks.sliding_window_view(np.resize(values, len(values) + m - 1), m) for m in lengths}


def core_of(job: SizedJob, start: Int64, terms: Terms) -> Core:
    """Return the core that runs these terms."""
    if terms.mode != "clean":
        return BatchRows(job, start, terms)
    if terms.as_on_the_road or terms.restart_ms % MINUTE_MS:
        return _RoadRows(job, start, terms)
    return FluidRows(job, start, terms)


class _RoadRows:
    """``FlowRows``, the model of the simulated engine, as a core."""

    def __init__(self, job: SizedJob, parallelism: Int64, terms: Terms) -> None:
        self.job, self._terms = job, terms
        self._flow = FlowRows(job, parallelism)
        shape = (len(parallelism), terms.window_minutes, job.size, len(FIGURES))
        self._figures: Float32 = np.full(shape, np.nan, dtype=np.float32)

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N]."""
        return self._flow.parallelism

    def pass_time(self, requests: Float64, counted: Bool | None, desired: Int64 | None, *, is_full: bool = False) -> Span:
        """Let m minutes pass (``simulation.cores.Core``)."""
        rows, minutes = requests.shape
        changed = np.zeros(rows, np.bool_) if desired is None else np.asarray((desired != self.parallelism).any(axis=1))
        delay = 0 if desired is None else min(self._terms.delay_minutes, minutes)
        flows = [self._advance(requests[:, :delay], counted if counted is None else counted[:, :delay])] if delay else []
        if desired is not None:
            self._flow.restart(desired, self._terms.restart_ms, changed)
        if minutes > delay:
            flows.append(self._advance(requests[:, delay:], counted if counted is None else counted[:, delay:]))
        weight = np.ones((rows, minutes)) if counted is None else counted.astype(np.float64)
        sums = (
            (np.concatenate(parts).T * weight).sum(axis=1)
            for parts in zip(
                *((flow.arrivals, flow.backlog_minutes, flow.busy_minutes, flow.allocated_minutes) for flow in flows), strict=True
            )
        )
        arrivals, backlog, busy, allocated = sums
        return flow_span(
            (arrivals, backlog, busy, allocated), weight.sum(axis=1), changed, self.job.path_minutes, is_full=is_full
        )

    def figures(self) -> Float32:
        """Return the last window (``simulation.cores.Core``)."""
        return self._figures

    def copy(self) -> "_RoadRows":
        """Return rows in the same state that live on by themselves; the job never changes and is shared."""
        twin = copy(self)
        twin._flow = deepcopy(self._flow, {id(self.job): self.job})
        return twin

    def _advance(self, requests: Float64, counted: Bool | None) -> Flow:
        flow = self._flow.advance(np.ascontiguousarray(requests.T))
        fresh = np.moveaxis(flow.rows, 0, 1)
        if counted is not None:
            fresh = np.where(counted[..., None, None], fresh, np.float32(np.nan))
        self._figures = np.concatenate([self._figures[:, requests.shape[1] :], fresh], axis=1)[:, -self._terms.window_minutes :]
        return flow


@dataclass(frozen=True, slots=True)
class HourlyLoads:
    """Mean records a minute of every hour of a workload, over the minutes that count, as forecasts look back on them.

    Attributes:
        days: float64 [hours + 193, 192], the eight days before every hour of the trace; NaN for hours outside of it and for those
            of which no minute counts.
        so_far: float64 [minutes + 61], of the hour that a minute ends in, up to that minute; it goes on for an hour after the
            trace, of whose last hour no more is known.
    """

    days: Float64
    so_far: Float64

    @classmethod
    def of(cls, requests: Int64 | Float64, masked: Bool | None = None) -> "HourlyLoads":
        """Return the hours of a workload of which some minutes do not count."""
        counted = np.ones(len(requests), dtype=np.bool_) if masked is None else ~masked
        records = np.concatenate([[0.0], np.cumsum(requests * counted, dtype=np.float64)])
        minutes = np.concatenate([[0.0], np.cumsum(counted, dtype=np.float64)])
        ends = np.append(np.arange(0, len(requests), 60), len(requests))
        now = np.arange(len(requests) + 61)
        first, end = np.minimum((now - 1) // 60 * 60, len(requests)), np.minimum(now, len(requests))
        so_far = _mean(records[end] - records[first], minutes[end] - minutes[first])
        return cls(_days(_mean(np.diff(records[ends]), np.diff(minutes[ends]))), so_far)

    def before(self, minute: Int64) -> Float64:
        """Return float64 [B, 192], the hours up to ``minute`` [B], the last one as far as it has come; NaN outside the trace."""
        return _before(self.days, self.so_far, minute)


@dataclass(frozen=True, slots=True)
class HourlyPeaks:
    """The largest mean of five minutes in a row that ends in every hour of a workload, minutes that do not count left out.

    Attributes:
        days: float64 [hours + 193, 192], as those of ``HourlyLoads``.
        so_far: float64 [minutes + 2], of the hour that a minute ends in, up to that minute; NaN where no five minutes count, and
            after the trace.
    """

    days: Float64
    so_far: Float64

    @classmethod
    def of(cls, requests: Int64 | Float64, masked: Bool | None = None) -> "HourlyPeaks":
        """Return the peaks of a workload of which some minutes do not count."""
        load = np.asarray(requests, dtype=np.float64) if masked is None else np.where(masked, np.nan, requests)
        unknown = np.full(PEAK_MINUTES - 1, np.nan)
        fives = np.lib.stride_tricks.sliding_window_view(np.concatenate([unknown, load]), PEAK_MINUTES).mean(axis=1)
        padded = np.concatenate([fives, np.full(-len(fives) % 60, np.nan)]).reshape(-1, 60)
        highest = np.fmax.accumulate(padded, axis=1)
        return cls(_days(highest[:, -1]), np.concatenate([[np.nan], highest.ravel()[: len(fives)], [np.nan]]))

    def before(self, minute: Int64) -> Float64:
        """Return float64 [B, 192], the peaks of the hours up to ``minute`` [B]; NaN outside the trace."""
        return _before(self.days, self.so_far, minute)


def _days(whole: Float64) -> Float64:
    """Return [hours + 193, 192], the eight days before every hour of figures [hours]."""
    unknown = np.full(HOURS, np.nan)
    return np.lib.stride_tricks.sliding_window_view(np.concatenate([unknown, whole, unknown]), HOURS)


def _before(days: Float64, so_far: Float64, minute: Int64) -> Float64:
    """Return the eight days up to ``minute`` [B], float64 [B, 192], the last hour as far as it has come."""
    hours = days[np.minimum((minute - 1) // 60 + 1, len(days) - 1)]
    hours[:, -1] = so_far[np.minimum(minute, len(so_far) - 1)]
    return hours


def _mean(records: Float64, minutes: Float64) -> Float64:
    return np.where(minutes > 0, records / np.maximum(minutes, 1.0), np.nan)


def resized(current: Int64, ratio: Float64, terms: Terms) -> Int64:
    """Return whole subtasks [B, N] for ratios in (0, 2] of the current ones, rounded as the mode does.

    ``clean`` and ``slo`` round half up. ``compat`` truncates the change towards 0, as the paper's code does: from 1 subtask only
    a ratio of 2 leads anywhere, so that 1 almost absorbs.
    """
    if terms.mode == "compat":
        return current + np.trunc((ratio - 1.0) * current).astype(np.int64)
    return np.floor(current * ratio + 0.5).astype(np.int64)


def within_limits(desired: Int64, job: SizedJob) -> Int64:
    """Bring desired parallelism [B, N] within 1 to 10 and the job's total limit, by lowering one common cap per row.

    Source and sink keep one subtask. The total counts real tasks.
    """
    inside = np.minimum(np.maximum(desired, 1), PARALLELISM_MAX)
    inside[:, [0, -1]] = 1
    for cap in range(PARALLELISM_MAX - 1, 0, -1):
        if (cap + 1) * (job.size - 2) <= job.total_limit:
            break  # no row can be above it
        above = inside.sum(axis=1) - 2 > job.total_limit
        if not above.any():
            break
        inside = np.where(above[:, None], np.minimum(inside, cap), inside)
    return inside.astype(np.int64, copy=False)


def guarded(wanted: Int64, measured: Measured, current: Int64, job: SizedJob, graph: JobGraph) -> Int64:
    """Apply the guardrails' floor, step of two and bounds to wanted parallelism [B, N]; ``LoopRows`` keeps the total limit."""
    seen = situation(measured, graph, current)
    lifted = np.maximum(wanted, seen.floor)
    most = np.where(seen.overloaded, np.maximum(2 * current, lifted), 2 * current)
    stepped = np.clip(lifted, (current + 1) // 2, most)
    return np.where(graph.scalable, np.clip(stepped, 1, graph.parallelism_max), current)
