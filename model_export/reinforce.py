"""REINFORCE with a group baseline: noise on the job's margin, each task's deviation and the gate; advantages within a group.

Noise is held for some hours: a margin that flickers between decisions restarts the job all the time, and then every margin
looks bad. Rows of a group start in the same state on the same stretch of load and differ only in their noise, so the load
itself cancels out of return minus group mean. That and a short horizon matter most for the variance of the gradient.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from policies.graph import JobGraph
from policies.learned import OWN_SHARE
from policies.proposal import Float64


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of the exploration, before the tanh of residual and gate, and how long a draw is held."""

    margin: float = 0.1
    own: float = 0.25
    ease: float = 0.15
    hold_spans: int = 6


@dataclass(frozen=True, slots=True)
class Drawn:
    """One exploratory action of B rows: margin [B], deviations [B, N], ease [B]."""

    margin: Float64
    own: Float64
    ease: Float64

    @property
    def residual(self) -> Float64:
        """Return the mixed residual [B, N] as ``policies.learned`` takes it."""
        return self.margin[:, None] + OWN_SHARE * self.own


def centred(outputs: Tensor, graph: JobGraph) -> tuple[Tensor, Tensor, Tensor]:
    """Split outputs [B, N, 2] into margin [B], deviations [B, N] and ease [B]; means run over scalable tasks."""
    scalable = torch.as_tensor(graph.scalable, dtype=outputs.dtype)
    mean = (outputs * scalable[:, None]).sum(dim=1) / scalable.sum().clamp(min=1.0)
    return mean[:, 0], outputs[..., 0] - mean[:, :1], mean[:, 1]


def draw(rows: int, tasks: int, noise: Noise, generator: np.random.Generator) -> Drawn:
    """Draw deviations from the mean action for B rows."""
    return Drawn(
        margin=noise.margin * generator.standard_normal(rows),
        own=noise.own * generator.standard_normal((rows, tasks)),
        ease=noise.ease * generator.standard_normal(rows),
    )


def around(outputs: Tensor, deviation: Drawn, graph: JobGraph) -> Drawn:
    """Return the action that deviates so from the mean action of outputs [B, N, 2]."""
    margin, own, ease = (part.detach().double().numpy() for part in centred(outputs, graph))
    return Drawn(margin + deviation.margin, own + deviation.own, ease + deviation.ease)


def log_probability(outputs: Tensor, drawn: Drawn, graph: JobGraph, noise: Noise) -> Tensor:
    """Return log pi(action | state) [B] up to a constant, summed over the real tasks."""
    margin, own, ease = centred(outputs, graph)
    scalable = torch.as_tensor(graph.scalable, dtype=outputs.dtype)

    def part(mean: Tensor, value: Float64, std: float) -> Tensor:
        return -0.5 * ((torch.as_tensor(value, dtype=mean.dtype) - mean) / std).square()

    tasks = (part(own, drawn.own, noise.own) * scalable).sum(dim=1)
    return part(margin, drawn.margin, noise.margin) + part(ease, drawn.ease, noise.ease) + tasks


def advantages(rewards: Float64, group: int, gamma: float) -> Float64:
    """Return advantages [T, B] of rewards [T, B]: discounted return minus its group's mean, over the spread of all.

    Rows ``k * group`` to ``(k + 1) * group`` form a group.
    """
    returns = np.zeros_like(rewards)
    later = np.zeros(rewards.shape[1])
    for step in range(len(rewards) - 1, -1, -1):
        later = rewards[step] + gamma * later
        returns[step] = later
    grouped = returns.reshape(len(rewards), -1, group)
    centred_returns = (grouped - grouped.mean(axis=-1, keepdims=True)).reshape(rewards.shape)
    advantage: Float64 = centred_returns / (centred_returns.std() + 1e-6)
    return advantage
