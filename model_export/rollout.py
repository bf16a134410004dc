"""Closed loops of the learner: groups of rows on the same load, each with its own noise, and plain loops for validation."""

from dataclasses import dataclass

import numpy as np
import torch

from model_export.learner import Chosen, Sure, choose, forward
from model_export.reinforce import Deviations, Noise, draw
from policies.choices import Limits
from policies.features import encode
from policies.graph import Int64, JobGraph
from policies.learned import Base, job_mean, learned_plan, mixed
from policies.measure import Measured, measure, restarts_seen
from policies.proposal import RATIO_MAX, Float64
from simulation.jobs import PARALLELISM_MAX, SizedJob
from simulation.loop import LoopRows, Observed, Terms, guarded
from simulation.report import block_reward
from simulation.workload import Workload


@dataclass(frozen=True, slots=True)
class Branching:
    """How a batch is explored.

    A deviation is held for ``hold_spans``; then its branch follows the mean action until ``spans`` are over, long enough for a
    restart to have paid off.
    """

    rows: int = 16
    """Closed loops of a batch."""
    apart_spans: int = 4
    """Spans between two branchings of a loop."""
    times: int = 3
    """Branchings of each loop."""
    branches: int = 12
    hold_spans: int = 6
    spans: int = 18


@dataclass(frozen=True, slots=True)
class Branched:
    """States of all rows that were branched from: what the network saw, what the branches did, their returns [G, B]."""

    chosen: Chosen
    deviations: Deviations
    returns: Float64


def starting_parallelism(job: SizedJob, workload: Workload, minutes: Int64, generator: np.random.Generator) -> Int64:
    """Return [B, N]: sizes for a random utilisation of .6 to .8 under the load of the hour before each minute [B]."""
    cumulated = np.concatenate([[0], np.cumsum(workload.requests)])
    load = (cumulated[minutes] - cumulated[minutes - 60]) / 60.0
    utilisation = generator.uniform(0.6, 0.8, size=len(minutes))
    wanted = np.ceil(load[:, None] / utilisation[:, None] * job.service_minutes)
    sizes: Int64 = np.where(job.scalable, np.clip(wanted, 1, PARALLELISM_MAX), 1).astype(np.int64)
    return sizes


@torch.no_grad()
def explore(
    model: Sure,
    base: Base,
    job: SizedJob,
    week: Workload,
    branching: Branching,
    noise: Noise,
    generator: np.random.Generator,
) -> list[Branched]:
    """Follow the mean policy from random minutes and branch off it every few spans.

    All branches of a row run along from the beginning, doing the same, so that branching is one copy of the whole batch; row
    ``g * B + b`` is branch g of row b.
    """
    count, branches = branching.rows, branching.branches
    first = generator.integers(120, week.minutes, size=count)
    start = starting_parallelism(job, week, first, generator)
    rows = LoopRows(job, week, np.tile(first, branches), np.tile(start, (branches, 1)), Terms())
    found = []
    for at in range(branching.times * branching.apart_spans):
        observed = _first_rows(rows.observe(), count)
        measured = measure(observed.figures, rows.graph)
        branches_here = at % branching.apart_spans == branching.apart_spans - 1
        chosen = _chosen(model, observed, measured, rows, generator if branches_here else None)
        outputs = forward(model, chosen, rows.graph, None).outputs.double().cpu().numpy()
        residual, ease = (
            mixed(outputs[..., 0], rows.graph),
            job_mean(outputs[..., 1], rows.graph),
        )
        if branches_here:
            deviations = draw(branches, count, job.size, noise, generator)
            found.append(
                Branched(
                    chosen,
                    deviations,
                    _follow(rows.copy(), base, residual, ease, deviations, branching),
                )
            )
        rows.step(np.tile(_desired(base, observed, measured, rows, residual, ease), (branches, 1)))
    return found


def _follow(
    rows: LoopRows,
    base: Base,
    residual: Float64,
    ease: Float64,
    deviations: Deviations,
    branching: Branching,
) -> Float64:
    """Follow all branches with the answer of their first state and return [G, B]; no network is asked on the way."""
    count = len(deviations.margin)
    mean, mean_ease = np.tile(residual, (count, 1)), np.tile(ease, count)
    total = np.zeros(len(mean_ease))
    for at in range(branching.spans):
        held = 1.0 if at < branching.hold_spans else 0.0
        observed = rows.observe()
        measured = measure(observed.figures, rows.graph)
        own, shift = (
            mean + held * deviations.residual,
            mean_ease + held * deviations.ease.ravel(),
        )
        total += rows.reward(rows.step(_desired(base, observed, measured, rows, own, shift)))
    return total.reshape(count, -1)


def _first_rows(observed: Observed, count: int) -> Observed:
    return Observed(
        observed.figures[:count],
        observed.ends_ms[:count],
        observed.hourly_load[:count],
        observed.hourly_peak[:count],
        observed.current[:count],
    )


@torch.no_grad()
def mean_reward(
    model: Sure | None,
    base: Base,
    job: SizedJob,
    workload: Workload,
    first_minutes: Int64,
    spans: int,
) -> float:
    """Return the mean hourly reward of the deterministic policy over rows that begin at the given minutes.

    Without a model: of the plan alone.
    """
    start = starting_parallelism(job, workload, first_minutes, np.random.default_rng(0))
    rows = LoopRows(job, workload, first_minutes, start, Terms())
    sums = []
    for _ in range(spans):
        observed = rows.observe()
        measured = measure(observed.figures, rows.graph)
        residual, ease = (
            np.zeros(observed.current.shape),
            np.zeros(len(observed.current)),
        )
        if model is not None:
            chosen = _chosen(model, observed, measured, rows, None)
            outputs = forward(model, chosen, rows.graph, None).outputs.double().cpu().numpy()
            residual, ease = (
                mixed(outputs[..., 0], rows.graph),
                job_mean(outputs[..., 1], rows.graph),
            )
        span = rows.step(_desired(base, observed, measured, rows, residual, ease))
        sums.append(
            (
                span.arrivals,
                span.backlog_minutes,
                span.busy_minutes,
                span.allocated_minutes,
            )
        )
    hours = np.array(sums).transpose(1, 0, 2)
    hours = hours[:, : spans // 6 * 6].reshape(4, spans // 6, 6, -1).sum(axis=2)
    return float(block_reward(*hours, job.path_minutes, rows.terms.latency_weight).mean())


def _chosen(
    model: Sure,
    observed: Observed,
    measured: Measured,
    rows: LoopRows,
    generator: np.random.Generator | None,
) -> Chosen:
    encoded = encode(observed.figures, rows.graph, observed.ends_ms, observed.hourly_load, measured)
    return choose(model, encoded, rows.graph, generator)


def limits_of(job: SizedJob, graph: JobGraph) -> Limits:
    """Return the limits of a simulated job under default settings."""
    return Limits(
        np.ones(job.size, dtype=np.int64),
        graph.parallelism_max,
        RATIO_MAX,
        job.total_limit,
    )


def _desired(
    base: Base,
    observed: Observed,
    measured: Measured,
    rows: LoopRows,
    residual: Float64,
    ease: Float64,
) -> Int64:
    expected = base.outlook.expect(measured.load, observed.hourly_load, observed.ends_ms, observed.hourly_peak)
    limits = limits_of(rows.job, rows.graph)
    restarts = restarts_seen(observed.figures)
    planned = learned_plan(
        base,
        expected,
        measured,
        observed.current,
        rows.graph,
        limits,
        restarts,
        residual,
        ease,
    )
    return guarded(planned.wanted, measured, observed.current, rows.job, rows.graph)
