"""Many closed loops of one job at once: decisions in, a span of figures and rewards out.

Evaluation and training drive it alike:

    terms = Terms(mode="clean", latency_weight=0.5, span_minutes=60)
    rows = LoopRows(job, workload, first_minutes, start, terms)    # [B] minutes of the first decision, [B, N] parallelism
    seen = rows.observe()                                          # figures [B, L, N, F] for policies.features.encode
    span = rows.step(desired)                                      # [B, N] whole subtasks; one span passes
    reward = rows.reward(span)                                     # [B]; weigh by span.counted_minutes
    twin = rows.copy()                                             # independent: for branches and oracles

``simulation.loops.terms`` defines terms and spans. Mode and world select the core: ``simulation.loops.records_core``, under back
pressure ``simulation.loops.pressure_core`` (or ``simulation.model.attempts``, for the pipeline's own numbers), or
``simulation.loops.batches_core``. Rows do not affect one another: B = 1 and B = 64 give the same bits.

``Arrivals`` says how long ago the record came that leaves a job now, exactly for flowing records that leave in the order they
came. If L records are inside at a minute's end, the one that leaves next is the L-th newest arrival. So its age follows from
the cumulative arrivals alone, whatever the job's graph does inside; while a job stands still, the age grows with the clock.
"""

from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from surescale.contracts.block_load import Codes
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.windows import FIGURES, WAITED_HOURS, Float32
from surescale.policies.graph import JobGraph
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.batches_core import BatchRows
from surescale.simulation.loops.hourly import BlockCodes, HourlyFigures
from surescale.simulation.loops.pressure_core import PressureRows
from surescale.simulation.loops.records_core import RecordRows
from surescale.simulation.loops.terms import Bool, Core, Float64, Int64, Span, Terms, flow_span
from surescale.simulation.model.attempts import Flow, FlowRows
from surescale.simulation.model.blindness import Blindness
from surescale.simulation.model.course import job_in, load_in

HOUR_MINUTES = 60
_NONE_INSIDE = 1e-6  # records: rounding of the recursion


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Cumulative arrivals [2 M + 1] of a workload of M minutes, played twice: it repeats after its last minute."""

    until: Float64

    @classmethod
    def of(cls, requests: Int64) -> "Arrivals":
        """Return the arrivals of a workload [M]."""
        return cls(np.concatenate([[0.0], np.cumsum(np.tile(requests.astype(np.float64), 2))]))

    def ages(self, ends: Int64, inside: Float64) -> Float64:
        """Return minutes [B, m] since the record came that leaves at each of the m minute marks up to minute ``ends`` [B].

        ``inside`` [B, m]: records in the job at these marks. An age is at most the length of the workload.
        """
        minutes, count = (len(self.until) - 1) // 2, inside.shape[1]
        marks = (ends[:, None] - count + np.arange(1, count + 1)) % minutes + minutes
        left = self.until[marks] - np.where(inside > _NONE_INSIDE, inside, 0.0)
        came = np.interp(left, self.until, np.arange(len(self.until), dtype=np.float64))
        ages: Float64 = np.where(inside > _NONE_INSIDE, np.clip(marks - came, 0.0, minutes), 0.0)
        return ages


__all__ = ["LoopRows", "Observed", "Span", "Terms"]


Number = TypeVar("Number", np.float64, np.bool_)


@dataclass(frozen=True, slots=True)
class Observed:
    """What a policy sees of B rows: figures [B, L, N, F], window ends [B], hourly loads and peaks [B, 192], sizes [B, N].

    ``load_codes`` [B, 2304] are those of ``Window``. Where there is a bound on latency it also sees how long records waited.
    """

    figures: Float32
    ends_ms: Int64
    hourly_load: Float64
    hourly_peak: Float64
    current: Int64
    load_codes: Codes
    waits_s: Float64 | None = None  # [B, W] of the last day's minutes, NaN where unknown; None: nobody counts them


class LoopRows:
    """B rows of one job, each at its own minute of the workload, which repeats after its last minute."""

    def __init__(self, job: SizedJob, workload: Workload, first_minutes: Int64, start: Int64, terms: Terms) -> None:
        """Warm up for one window at parallelism ``start`` [B, N]; the first decision is due at ``first_minutes`` [B]."""
        workload = load_in(terms.world, workload)
        self.job, self.terms = job_in(terms.world, job, workload), terms
        self.graph: JobGraph = self.job.tables
        self._load = _Load.of(workload, (terms.window_minutes, terms.span_minutes, 1))
        self._minute = np.asarray(first_minutes, dtype=np.int64) - terms.window_minutes
        assert (self._minute >= 0).all(), "a loop needs one window of workload before its first decision"
        self._core = core_of(self.job, np.asarray(start, dtype=np.int64), terms, self._minute)
        self._waits_s: Float64 | None = None
        if terms.latency_bound is not None:
            self._waits_s = np.full((len(self._minute), WAITED_HOURS * HOUR_MINUTES), np.nan)
        is_pipeline = isinstance(self._core, _PipelineRows)  # whose own rows show all that follows
        self._waves = None if is_pipeline else self.job.waves
        self._blindness = None if is_pipeline else Blindness.of(terms.world, self.job)
        self._pass(terms.window_minutes, None)

    def observe(self) -> Observed:
        """Return the observation at the end of the last span."""
        figures = self._core.figures()
        for effect in (self._waves, self._blindness):
            if effect is not None:
                figures = effect.seen(figures, self._minute - figures.shape[1])
        return Observed(
            figures=figures,
            ends_ms=self._load.trace_start_ms + self._minute * MINUTE_MS,
            hourly_load=self._load.hours.before(self._minute),
            hourly_peak=self._load.peaks.before(self._minute),
            current=self._core.parallelism,
            load_codes=self._load.blocks.before(self._minute),
            waits_s=None if self._waits_s is None else self._of_whole_hours(self._waits_s),
        )

    def _of_whole_hours(self, waits_s: Float64) -> Float64:
        """Return waits [B, W] without the minutes before the hours that a window tells of."""
        of_hour = (self._minute - 1) % HOUR_MINUTES + 1
        oldest = HOUR_MINUTES - of_hour
        return np.where(np.arange(waits_s.shape[1]) >= oldest[:, None], waits_s, np.nan)

    @property
    def minutes(self) -> Int64:
        """Return int64 [B], the minute of the workload at which each row's next decision is due."""
        return self._minute

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N], the current parallelism; unlike ``observe``, this builds no figures."""
        return self._core.parallelism

    def step(self, desired: Int64) -> Span:
        """Bring desired parallelism [B, N] within the job's bounds and total limit, apply it, and let one span pass."""
        return self._pass(self.terms.span_minutes, self.job.within_limits(desired))

    def step_minute(self, desired: Int64 | None) -> Span:
        """Let one minute pass, whatever the span; ``desired`` as of ``step``, None changes nothing."""
        return self._pass(1, None if desired is None else self.job.within_limits(desired))

    def reward(self, span: Span) -> Float64:
        """Return the reward [B] of one span; 0 where no minute counts."""
        weight = self.terms.latency_weight
        reward: Float64 = -weight * span.latency + (1 - weight) * span.utilisation
        return reward

    def copy(self) -> "LoopRows":
        """Return independent rows in the same state."""
        twin = copy(self)
        twin._core = self._core.copy()
        return twin

    def repeated(self, times: int) -> "LoopRows":
        """Return ``times`` copies of all rows, one whole set after another, in the same states: branches to compare."""
        return self.chosen(np.tile(np.arange(len(self._minute)), times))

    def chosen(self, rows: Int64) -> "LoopRows":
        """Return these rows, one perhaps often, in the same states.

        Their figures start empty. Rows that run as in the pipeline cannot be chosen from.
        """
        assert isinstance(self._core, RecordRows | PressureRows | BatchRows), "rows that run as in the pipeline stay together"
        twin = copy(self)
        twin._core, twin._minute = self._core.chosen(rows), self._minute[rows]
        twin._waits_s = None if self._waits_s is None else self._waits_s[rows]
        return twin

    def _pass(self, minutes: int, desired: Int64 | None) -> Span:
        at = self._minute % self._load.minutes
        counted = None if self._load.counted is None else self._load.counted[minutes][at]
        span = self._core.pass_time(self._load.requests[minutes][at], counted, desired)
        self._minute = self._minute + minutes
        if span.inside is None:
            return span
        ages = self._load.arrivals.ages(self._minute, span.inside)
        if self._waits_s is not None:
            waits_s = 60.0 * (ages if counted is None else np.where(counted, ages, np.nan))
            self._waits_s = np.concatenate([self._waits_s[:, minutes:], waits_s], axis=1)
        late = ages + self.job.path_minutes > self.terms.late_after_seconds / 60.0
        return replace(span, late_minutes=(late if counted is None else late & counted).sum(axis=1).astype(np.float64))


@dataclass(frozen=True, slots=True)
class _Load:
    """A workload as the loop reads it.

    Attributes:
        minutes: its length; after the last minute comes the first.
        requests: per length m, float64 [minutes, m]: the m minutes from each minute on.
        counted: the same as bool: whether they count; None if all minutes do.
        hours, peaks, blocks: what forecasts look back on.
        arrivals: when each record came.
        trace_start_ms: start of the first minute.
    """

    minutes: int
    requests: dict[int, Float64]
    counted: dict[int, Bool] | None
    hours: HourlyFigures
    peaks: HourlyFigures
    blocks: BlockCodes
    arrivals: Arrivals
    trace_start_ms: int

    @classmethod
    def of(cls, workload: Workload, lengths: tuple[int, ...]) -> "_Load":
        """Return the workload."""
        masked = workload.masked
        return cls(
            minutes=workload.minutes,
            requests=_stretches(workload.requests.astype(np.float64), lengths),
            counted=_stretches(~masked, lengths) if masked.any() else None,
            hours=HourlyFigures.loads(workload.requests, masked),
            peaks=HourlyFigures.peaks(workload.requests, masked),
            blocks=BlockCodes.of(workload.requests, masked),
            arrivals=Arrivals.of(workload.requests),
            trace_start_ms=workload.trace_start_ms,
        )


def _stretches(values: npt.NDArray[Number], lengths: tuple[int, ...]) -> dict[int, npt.NDArray[Number]]:
    """Return, per length m, a view [n, m] of values [n]: the m values from each one on, wrapping around at the end."""
    return {m: np.lib.stride_tricks.sliding_window_view(np.resize(values, len(values) + m - 1), m) for m in lengths}


def core_of(job: SizedJob, start: Int64, terms: Terms, first_minutes: Int64 | None = None) -> Core:
    """Return the core for these terms; rows begin at these minutes [B] of the trace (0)."""
    if terms.mode != "clean":
        return BatchRows(job, start, terms)
    if terms.world.has_pressure and not terms.engine_steps:
        return PressureRows(job, start, terms, first_minutes)
    if terms.engine_steps or (terms.restart_ms % MINUTE_MS and not terms.world.varies):
        return _PipelineRows(job, start, terms, first_minutes)
    return RecordRows(job, start, terms, first_minutes)


class _PipelineRows:
    """``FlowRows``, the model of the simulated engine, as a core."""

    def __init__(self, job: SizedJob, parallelism: Int64, terms: Terms, first_minutes: Int64 | None) -> None:
        self.job, self._terms = job, terms
        self._flow = FlowRows(job, parallelism, world=terms.world, first_minutes=first_minutes)
        shape = (len(parallelism), terms.window_minutes, job.size, len(FIGURES))
        self._figures: Float32 = np.full(shape, np.nan, dtype=np.float32)

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N]."""
        return self._flow.parallelism

    def pass_time(self, requests: Float64, counted: Bool | None, desired: Int64 | None) -> Span:
        """Let m minutes pass (``simulation.loops.terms.Core``)."""
        rows, minutes = requests.shape
        changed = np.zeros(rows, np.bool_) if desired is None else np.asarray((desired != self.parallelism).any(axis=1))
        begin = np.minimum(self._flow.effect_minutes(self._terms.delay_minutes), minutes)
        flows, at = [], 0
        for end in np.unique([*begin[changed], minutes]).tolist():
            if end > at:
                flows.append(self._advance(requests[:, at:end], counted if counted is None else counted[:, at:end]))
            if desired is not None:
                self._flow.restart(desired, self._terms.restart_ms, changed & (begin == end))
            at = end
        weight = np.ones((rows, minutes)) if counted is None else counted.astype(np.float64)
        sums = (
            (np.concatenate(parts).T * weight).sum(axis=1)
            for parts in zip(
                *((flow.arrivals, flow.backlog_minutes, flow.busy_minutes, flow.allocated_minutes) for flow in flows), strict=True
            )
        )
        arrivals, backlog, busy, allocated = sums
        inside = np.concatenate([flow.inside for flow in flows]).T
        return flow_span((arrivals, backlog, busy, allocated), weight.sum(axis=1), changed, self.job.path_minutes, inside)

    def figures(self) -> Float32:
        """Return the last window (``simulation.loops.terms.Core``)."""
        return self._figures

    def copy(self) -> "_PipelineRows":
        """Return independent rows in the same state; the job never changes and is shared."""
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
