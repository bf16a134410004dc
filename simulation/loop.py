"""Many closed loops of one job at once: a decision in, ten minutes of figures and reward out. Knows no network.

Time runs as on the road: a decision at the end of a span takes effect one minute later and then costs a restart of the job.
"""

from copy import copy, deepcopy
from dataclasses import dataclass

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.windows import FIGURES, HOURS, Float32
from policies.graph import Bool, Int64, JobGraph, job_graph
from policies.guardrails import situation
from policies.measure import Measured
from policies.proposal import Float64
from simulation.flow import FlowRows
from simulation.jobs import SizedJob
from simulation.report import REWARD_LAMBDA, block_reward
from simulation.workload import Workload

EFFECT_MINUTES = 1


@dataclass(frozen=True, slots=True)
class Terms:
    """How the loop runs and what counts: r = -weight x latency (minutes) + (1 - weight) x utilisation (``simulation.report``)."""

    latency_weight: float = REWARD_LAMBDA
    restart_ms: int = 60_000
    span_minutes: int = 10
    window_minutes: int = 60


@dataclass(frozen=True, slots=True)
class Observed:
    """What a policy may see of B rows: figures [B, L, N, F], window ends [B], hourly loads [B, 192], parallelism [B, N]."""

    figures: Float32
    ends_ms: Int64
    hourly_load: Float64
    current: Int64


@dataclass(frozen=True, slots=True)
class Span:
    """One span of B rows, summed over its minutes; all [B]: records that entered, record-minutes inside, busy and allocated
    subtask-minutes of the real tasks, and whether the job restarted.
    """

    arrivals: Float64
    backlog_minutes: Float64
    busy_minutes: Float64
    allocated_minutes: Float64
    restarted: Bool


class LoopRows:
    """B rows of one job, each at its own place in the workload; the workload repeats after its last minute."""

    def __init__(self, job: SizedJob, workload: Workload, first_minutes: Int64, start: Int64, terms: Terms) -> None:
        """Warm up for one window at parallelism ``start`` [B, N]; the first decision is due at ``first_minutes`` [B]."""
        self.job, self.terms = job, terms
        self.graph: JobGraph = job_graph(job.specs())
        self._requests = workload.requests.astype(np.float64)
        self._cumulated = np.concatenate([[0.0], np.cumsum(self._requests)])
        self._trace_start_ms = workload.trace_start_ms
        self._minute = np.asarray(first_minutes, dtype=np.int64) - terms.window_minutes
        assert (self._minute >= 0).all(), "a loop needs one window of workload before its first decision"
        self._flow = FlowRows(job, start)
        shape = (len(start), terms.window_minutes, job.size, len(FIGURES))
        self._figures = np.full(shape, np.nan, dtype=np.float32)
        self._advance(terms.window_minutes)

    def observe(self) -> Observed:
        """Return what is known at the end of the last span."""
        return Observed(
            figures=self._figures,
            ends_ms=self._trace_start_ms + self._minute * MINUTE_MS,
            hourly_load=hourly_load(self._cumulated, self._minute),
            current=self._flow.parallelism,
        )

    def step(self, desired: Int64) -> Span:
        """Carry out desired parallelism [B, N] and let one span pass."""
        changed = (desired != self._flow.parallelism).any(axis=1)
        parts = [self._advance(EFFECT_MINUTES)]
        self._flow.restart(desired, self.terms.restart_ms, changed)
        parts.append(self._advance(self.terms.span_minutes - EFFECT_MINUTES))
        arrivals, backlog, busy, allocated = (np.sum(column, axis=0) for column in zip(*parts, strict=True))
        return Span(arrivals, backlog, busy, allocated, restarted=changed)

    def reward(self, span: Span) -> Float64:
        """Return the reward [B] of one span on its own."""
        return block_reward(
            span.arrivals,
            span.backlog_minutes,
            span.busy_minutes,
            span.allocated_minutes,
            self.job.path_minutes,
            self.terms.latency_weight,
        )

    def copy(self) -> "LoopRows":
        """Return rows in the same state that live on by themselves."""
        twin = copy(self)
        twin._flow = deepcopy(self._flow, {id(self.job): self.job})  # the job never changes and is shared
        return twin

    def _advance(self, minutes: int) -> tuple[Float64, Float64, Float64, Float64]:
        at = (self._minute + np.arange(minutes)[:, None]) % len(self._requests)
        flow = self._flow.advance(self._requests[at])
        self._minute = self._minute + minutes
        fresh = np.moveaxis(flow.rows, 0, 1)
        self._figures = np.concatenate([self._figures[:, minutes:], fresh], axis=1)
        return (
            flow.arrivals.sum(axis=0),
            flow.backlog_minutes.sum(axis=0),
            flow.busy_minutes.sum(axis=0),
            flow.allocated_minutes.sum(axis=0),
        )


def hourly_load(cumulated: Float64, minute: Int64) -> Float64:
    """Return float64 [B, 192], mean records a minute per hour up to ``minute`` [B]; NaN before the trace begins."""
    last = (minute - 1) // 60
    hours = last[:, None] - np.arange(HOURS - 1, -1, -1)
    first = np.maximum(hours * 60, 0)
    end = np.minimum(first + 60, np.maximum(minute[:, None], first + 1))
    total = len(cumulated) - 1
    mean = (cumulated[np.minimum(end, total)] - cumulated[np.minimum(first, total)]) / (end - first)
    return np.where(hours >= 0, mean, np.nan)


def guarded(wanted: Int64, measured: Measured, current: Int64, job: SizedJob, graph: JobGraph) -> Int64:
    """Apply the guardrails' floor, step of two and bounds to wanted parallelism [B, N].

    The total limit is left to serving: sizes of the training jobs stay well below it.
    """
    seen = situation(measured, graph, current)
    lifted = np.maximum(wanted, seen.floor)
    most = np.where(seen.overloaded, np.maximum(2 * current, lifted), 2 * current)
    stepped = np.clip(lifted, (current + 1) // 2, most)
    return np.where(graph.scalable, np.clip(stepped, 1, graph.parallelism_max), current)
