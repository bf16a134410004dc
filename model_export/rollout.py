"""Closed loops of the learner: groups of rows on the same load, each with its own noise, and plain loops for validation."""

from dataclasses import dataclass

import numpy as np
import torch

from model_export.environment import LoopRows, Observed, Terms, guarded
from model_export.learner import Chosen, Sure, choose, forward
from model_export.reinforce import Drawn, Noise, around, draw
from policies.features import encode
from policies.graph import Int64
from policies.learned import Base, job_mean, learned_wish, mixed
from policies.measure import Measured, measure
from policies.proposal import Float64
from simulation.jobs import SizedJob
from simulation.report import block_reward
from simulation.workload import Workload


@dataclass(frozen=True, slots=True)
class Step:
    """One decision of all rows: what the network saw and what was drawn around its answer."""

    chosen: Chosen
    drawn: Drawn


@dataclass(frozen=True, slots=True)
class Group:
    """``segments`` stretches of load with ``replicas`` rows each, for ``spans`` decisions."""

    segments: int = 4
    replicas: int = 8
    spans: int = 24


def starting_parallelism(job: SizedJob, workload: Workload, minutes: Int64, generator: np.random.Generator) -> Int64:
    """Return [B, N]: sizes for a random utilisation of .5 to 1 under the load of the hour before each minute [B]."""
    cumulated = np.concatenate([[0], np.cumsum(workload.requests)])
    load = (cumulated[minutes] - cumulated[minutes - 60]) / 60.0
    utilisation = generator.uniform(0.5, 1.0, size=len(minutes))
    wanted = np.ceil(load[:, None] / utilisation[:, None] * job.service_minutes)
    sizes: Int64 = np.where(job.scalable, np.clip(wanted, 1, 10), 1).astype(np.int64)
    return sizes


def explore(
    model: Sure,
    base: Base,
    job: SizedJob,
    workload: Workload,
    first_minutes: Int64,
    group: Group,
    noise: Noise,
    generator: np.random.Generator,
) -> tuple[list[Step], Float64]:
    """Run one batch of exploring rows, group after group, and return its steps and rewards [T, B].

    ``first_minutes`` [segments]: first decision of each group.
    """
    minutes = np.repeat(first_minutes, group.replicas)
    start = np.repeat(starting_parallelism(job, workload, first_minutes, generator), group.replicas, axis=0)
    rows = LoopRows(job, workload, minutes, start, Terms())
    steps, rewards = [], []
    for at in range(group.spans):
        if at % noise.hold_spans == 0:
            deviation = draw(len(minutes), job.size, noise, generator)
        observed = rows.observe()
        measured = measure(observed.figures, rows.graph)
        chosen = _chosen(model, observed, measured, rows, generator)
        with torch.no_grad():
            outputs = forward(model, chosen, rows.graph, None).outputs
        drawn = around(outputs, deviation, rows.graph)
        desired = _desired(base, observed, measured, rows, drawn.residual, drawn.ease)
        rewards.append(rows.reward(rows.step(desired)))
        steps.append(Step(chosen, drawn))
    return steps, np.array(rewards)


@torch.no_grad()
def mean_reward(model: Sure | None, base: Base, job: SizedJob, workload: Workload, first_minutes: Int64, spans: int) -> float:
    """Return the mean hourly reward of the deterministic policy over rows that begin at the given minutes.

    Without a model: of the forecast rule under it.
    """
    start = starting_parallelism(job, workload, first_minutes, np.random.default_rng(0))
    rows = LoopRows(job, workload, first_minutes, start, Terms())
    sums = []
    for _ in range(spans):
        observed = rows.observe()
        measured = measure(observed.figures, rows.graph)
        residual, ease = np.zeros(observed.current.shape), np.zeros(len(observed.current))
        if model is not None:
            chosen = _chosen(model, observed, measured, rows, None)
            outputs = forward(model, chosen, rows.graph, None).outputs.double().numpy()
            residual, ease = mixed(outputs[..., 0], rows.graph), job_mean(outputs[..., 1], rows.graph)
        span = rows.step(_desired(base, observed, measured, rows, residual, ease))
        sums.append((span.arrivals, span.backlog_minutes, span.busy_minutes, span.allocated_minutes))
    hours = np.array(sums).transpose(1, 0, 2)
    hours = hours[:, : spans // 6 * 6].reshape(4, spans // 6, 6, -1).sum(axis=2)
    return float(block_reward(*hours, job.path_minutes, rows.terms.latency_weight).mean())


def _chosen(model: Sure, observed: Observed, measured: Measured, rows: LoopRows, generator: np.random.Generator | None) -> Chosen:
    encoded = encode(observed.figures, rows.graph, observed.ends_ms, observed.hourly_load, measured)
    return choose(model, encoded, rows.graph, generator)


def _desired(base: Base, observed: Observed, measured: Measured, rows: LoopRows, residual: Float64, ease: Float64) -> Int64:
    load = base.forecast.load(measured.load, observed.hourly_load, observed.ends_ms)
    wished = learned_wish(base, measured, load, observed.current, rows.graph, residual, ease)
    wanted = np.where(wished.opened[:, None], wished.sizes.wanted, observed.current)
    return guarded(wanted, measured, observed.current, rows.job, rows.graph)
