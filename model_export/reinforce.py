"""REINFORCE on branches from one state: deviations on the job's margin, each task's own size, and the gate.

Every branch starts in the same state, meets the same load and holds its deviation for an hour; so the load, the past and the
rest of the policy cancel out of "return minus the mean of the branches", and what is left is what the deviation did. Without
this the gradient drowns: on whole loops its cosine between two batches of the same size was indistinguishable from zero.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from policies.graph import JobGraph
from policies.learned import OWN_SHARE
from policies.proposal import Float64

KINDS = 3  # margin, ease, own


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of the exploration, before the tanh of residual and gate."""

    margin: float = 0.08
    own: float = 0.15
    ease: float = 0.4


@dataclass(frozen=True, slots=True)
class Deviations:
    """What G branches do otherwise than the mean action, for B rows: margin [G, B], own [G, B, N], ease [G, B]."""

    margin: Float64
    own: Float64
    ease: Float64

    @property
    def residual(self) -> Float64:
        """Return what the branches add to the mixed residual, [G x B, N]."""
        mixed: Float64 = self.margin[..., None] + OWN_SHARE * self.own
        return mixed.reshape(-1, mixed.shape[-1])


def draw(branches: int, rows: int, tasks: int, noise: Noise, generator: np.random.Generator) -> Deviations:
    """Draw deviations: each branch deviates in one kind only, and the second half mirrors the first.

    Whatever a deviation and its opposite do alike cancels in the gradient. Kinds are kept apart because noise on the sizes opens
    the gate all the time: mixed, it taught the gate to stay shut.
    """
    assert branches % (2 * KINDS) == 0, f"branches come in mirrored pairs of {KINDS} kinds"
    pairs = branches // 2
    half = generator.standard_normal((pairs, rows, tasks + 2))
    kind = np.arange(pairs) % KINDS
    half[..., 0] *= (kind == 0)[:, None]
    half[..., 1] *= (kind == 1)[:, None]
    half[..., 2:] *= (kind == 2)[:, None, None]
    both = np.concatenate([half, -half])
    return Deviations(
        margin=noise.margin * both[..., 0],
        own=noise.own * both[..., 2:],
        ease=noise.ease * both[..., 1],
    )


def centred(outputs: Tensor, graph: JobGraph) -> tuple[Tensor, Tensor, Tensor]:
    """Split outputs [B, N, 2] into margin [B], own [B, N] and ease [B]; means run over scalable tasks."""
    scalable = torch.as_tensor(graph.scalable, dtype=outputs.dtype, device=outputs.device)
    mean = (outputs * scalable[:, None]).sum(dim=1) / scalable.sum().clamp(min=1.0)
    return mean[:, 0], outputs[..., 0] - mean[:, :1], mean[:, 1]


def log_probability(outputs: Tensor, deviations: Deviations, graph: JobGraph, noise: Noise) -> Tensor:
    """Return log pi(action | state) [G, B] up to a constant, summed over the real tasks.

    The actions are the present means plus the deviations, held fixed: the value is that of the draw, the gradient REINFORCE's.
    """
    scalable = torch.as_tensor(graph.scalable, dtype=outputs.dtype, device=outputs.device)

    def part(mean: Tensor, deviation: Float64, std: float) -> Tensor:
        action = mean.detach() + torch.as_tensor(deviation, dtype=mean.dtype, device=mean.device)
        return -0.5 * ((action - mean) / std).square()

    margin, own, ease = centred(outputs, graph)
    tasks = (part(own, deviations.own, noise.own) * scalable).sum(dim=-1)
    return part(margin, deviations.margin, noise.margin) + part(ease, deviations.ease, noise.ease) + tasks


def advantages(returns: Float64) -> Float64:
    """Return returns [.., G, B] minus the mean of the branches of each state, over the spread of all."""
    spread = returns - returns.mean(axis=-2, keepdims=True)
    advantage: Float64 = spread / (spread.std() + 1e-6)
    return advantage
