"""Closed loops of training: branches of one state under the same load, each with its own noise, and plain loops to validate.

REINFORCE on branches: all start in the same state, meet the same load and keep their deviation (of the job's margin, of each
task's own size, of the gate) for an hour. So load, past and the rest of the policy cancel in "return minus the mean of the
branches", and the effect of the deviation remains. Without this the gradient is lost in noise: on whole loops, the cosine
between the gradients of two equal batches was indistinguishable from zero.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from surescale.model_export.network import SampledInput, SureNetwork, choose, forward
from surescale.model_export.plan_loops import Ground, given_in, planned_in, some_of, starting_parallelism
from surescale.policies.answer import Float64
from surescale.policies.features import encode
from surescale.policies.graph import Int64, JobGraph
from surescale.policies.measure import Measured, measure
from surescale.policies.sure.correction import OWN_SHARE, Correction
from surescale.simulation.evaluation.hours import Hours, hours_of
from surescale.simulation.loops.rows import LoopRows, Observed

KINDS = 3  # margin, ease, own


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of the exploration, before the tanh of residual and gate."""

    margin: float = 0.08
    own: float = 0.15
    ease: float = 0.4


@dataclass(frozen=True, slots=True)
class Deviations:
    """How G branches deviate from the mean action, for B rows: margin [G, B], own [G, B, N], ease [G, B]."""

    margin: Float64
    own: Float64
    ease: Float64

    @property
    def residual(self) -> Float64:
        """Return the branches' addition to the residual, [G x B, N]."""
        mixed: Float64 = self.margin[..., None] + OWN_SHARE * self.own
        return mixed.reshape(-1, mixed.shape[-1])


def draw(branches: int, rows: int, tasks: int, noise: Noise, generator: np.random.Generator) -> Deviations:
    """Return drawn deviations: each branch deviates in one kind only, and the second half mirrors the first.

    Effects common to a deviation and its opposite cancel in the gradient. Kinds are kept apart because noise on the sizes keeps
    opening the gate; mixed, it taught the gate to stay closed.
    """
    assert branches % (2 * KINDS) == 0, f"branches come in mirrored pairs of {KINDS} kinds"
    pairs = branches // 2
    half = generator.standard_normal((pairs, rows, tasks + 2))
    kind = np.arange(pairs) % KINDS
    half[..., 0] *= (kind == 0)[:, None]
    half[..., 1] *= (kind == 1)[:, None]
    half[..., 2:] *= (kind == 2)[:, None, None]
    both = np.concatenate([half, -half])
    return Deviations(margin=noise.margin * both[..., 0], own=noise.own * both[..., 2:], ease=noise.ease * both[..., 1])


def centred(outputs: Tensor, graph: JobGraph) -> tuple[Tensor, Tensor, Tensor]:
    """Return outputs [B, N, 2] as margin [B], own [B, N] and ease [B]; means run over scalable tasks."""
    scalable = torch.as_tensor(graph.scalable, dtype=outputs.dtype, device=outputs.device)
    mean = (outputs * scalable[:, None]).sum(dim=1) / scalable.sum().clamp(min=1.0)
    return mean[:, 0], outputs[..., 0] - mean[:, :1], mean[:, 1]


def log_probability(outputs: Tensor, deviations: Deviations, graph: JobGraph, noise: Noise) -> Tensor:
    """Return log pi(action | state) [G, B] up to a constant, summed over the scalable tasks.

    The actions are the present means plus the deviations, detached: the value is that of the draw, the gradient REINFORCE's.
    """
    scalable = torch.as_tensor(graph.scalable, dtype=outputs.dtype, device=outputs.device)

    def part(mean: Tensor, deviation: Float64, std: float) -> Tensor:
        action = mean.detach() + torch.as_tensor(deviation, dtype=mean.dtype, device=mean.device)
        return -0.5 * ((action - mean) / std).square()

    margin, own, ease = centred(outputs, graph)
    tasks = (part(own, deviations.own, noise.own) * scalable).sum(dim=-1)
    return part(margin, deviations.margin, noise.margin) + part(ease, deviations.ease, noise.ease) + tasks


def advantages(returns: Float64) -> Float64:
    """Return returns [.., G, B] minus the mean over the branches of each state, divided by the spread of all."""
    spread = returns - returns.mean(axis=-2, keepdims=True)
    advantage: Float64 = spread / (spread.std() + 1e-6)
    return advantage


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
