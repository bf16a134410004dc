"""REINFORCE on branches from one state: deviations of the job's margin, of each task's own size, and of the gate.

All branches start in the same state, meet the same load and keep their deviation for an hour. So load, past and the rest of the
policy cancel in "return minus the mean of the branches", and the effect of the deviation remains. Without this the gradient is
lost in noise: on whole loops, the cosine between the gradients of two equal batches was indistinguishable from zero.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from policies.answer import Float64
from policies.graph import JobGraph
from policies.sure.correction import OWN_SHARE

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
