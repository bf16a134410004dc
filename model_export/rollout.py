"""Closed loops of training: branches of one state under the same load, each with its own noise, and plain loops to validate."""

from dataclasses import dataclass

import numpy as np
import torch

from model_export.network import SampledInput, SureNetwork, choose, forward
from model_export.plan_loops import Ground, given_in, planned_in, some_of, starting_parallelism
from model_export.reinforce import Deviations, Noise, draw
from policies.answer import Float64
from policies.features import encode
from policies.graph import Int64
from policies.measure import Measured, measure
from policies.sure.correction import Correction
from simulation.evaluation.hours import Hours, hours_of
from simulation.loops.rows import LoopRows, Observed


@dataclass(frozen=True, slots=True)
class Branching:
    """How a batch is explored.

    A branch keeps its deviation for ``hold_spans``. It then follows the mean action until ``spans`` are over, long enough for a
    restart to pay off.
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
    """One branching of all rows: what the network saw, what the branches did, and their returns [G, B]."""

    chosen: SampledInput
    deviations: Deviations
    returns: Float64


@torch.no_grad()
def explore(
    network: SureNetwork, ground: Ground, branching: Branching, noise: Noise, generator: np.random.Generator
) -> list[Branched]:
    """Return the branchings of loops that start at random minutes and follow the mean policy.

    All branches of a row run from the start and do the same, so branching copies the whole batch once. Row ``g * B + b`` is
    branch g of row b.
    """
    count, branches = branching.rows, branching.branches
    first = generator.integers(120, ground.load.minutes, size=count)
    rows = ground.rows(first, starting_parallelism(ground.job, ground.load, first, generator), branches)
    found = []
    for at in range(branching.times * branching.apart_spans):
        observed = some_of(rows.observe(), slice(count))
        measured = measure(observed.figures, rows.graph)
        branches_here = at % branching.apart_spans == branching.apart_spans - 1
        chosen = _chosen(network, observed, measured, rows, generator if branches_here else None)
        correction = _correction(network, chosen, rows)
        if branches_here:
            deviations = draw(branches, count, ground.job.size, noise, generator)
            returns = _follow(rows.copy(), ground, correction, deviations, branching)
            found.append(Branched(chosen, deviations, returns))
        wanted = planned_in(ground.planning, given_in(ground.base, observed, rows, measured), correction)[1]
        rows.step(np.tile(wanted, (branches, 1)))
    return found


def _follow(rows: LoopRows, ground: Ground, mean: Correction, deviations: Deviations, branching: Branching) -> Float64:
    """Return the returns [G, B] of all branches, each run with the correction of its first state; the network is asked once."""
    count = len(deviations.margin)
    residual, ease = np.tile(mean.residual, (count, 1)), np.tile(mean.ease, count)
    total = np.zeros(len(ease))
    for at in range(branching.spans):
        held = 1.0 if at < branching.hold_spans else 0.0
        deviating = Correction(residual + held * deviations.residual, ease + held * deviations.ease.ravel())
        given = given_in(ground.base, rows.observe(), rows)
        total += rows.reward(rows.step(planned_in(ground.planning, given, deviating)[1]))
    return total.reshape(count, -1)


def mean_reward(network: SureNetwork | None, ground: Ground, first_minutes: Int64, spans: int) -> float:
    """Return the mean hourly reward of ``hours_of_loops``."""
    hours: Hours = hours_of_loops(network, ground, first_minutes, spans)
    return hours.reward


@torch.no_grad()
def hours_of_loops(network: SureNetwork | None, ground: Ground, first_minutes: Int64, spans: int) -> Hours:
    """Return the hours of the deterministic policy in rows that start at the given minutes, so many decisions each.

    Without a network, the plan decides alone.
    """
    start = starting_parallelism(ground.job, ground.load, first_minutes, np.random.default_rng(0))
    rows = ground.rows(first_minutes, start)
    passed = []
    for _ in range(spans):
        observed = rows.observe()
        measured = measure(observed.figures, rows.graph)
        correction = Correction.none(*observed.current.shape)
        if network is not None:
            correction = _correction(network, _chosen(network, observed, measured, rows, None), rows)
        given = given_in(ground.base, observed, rows, measured)
        passed.append(rows.step(planned_in(ground.planning, given, correction)[1]))
    return hours_of(passed, rows.terms, first_minutes, ground.job)


def _chosen(
    network: SureNetwork, observed: Observed, measured: Measured, rows: LoopRows, generator: np.random.Generator | None
) -> SampledInput:
    encoded = encode(observed.figures, rows.graph, observed.ends_ms, observed.hourly_load, measured)
    chosen: SampledInput = choose(network, encoded, rows.graph, generator)
    return chosen


def _correction(network: SureNetwork, chosen: SampledInput, rows: LoopRows) -> Correction:
    return Correction.of(forward(network, chosen, rows.graph, None).outputs.cpu().numpy(), rows.graph)
