"""Parts that all of the paper's networks share: frozen input scaling, the head that acts, and the state they read."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from reproductions.sure.statistics import Statistics
from surescale.policies.features import SURE_WIDTH, Encoded
from surescale.policies.graph import JobGraph
from surescale.policies.paper.models import downward

INPUT_MAX = 5.0  # standard deviations
ACTION_SCALE = 0.01  # an untrained network keeps every size


@dataclass(frozen=True, slots=True)
class State:
    """B encoded windows of one graph: x [B, L, N, 27], mask [B, L, N], down [N, N] (1 where an edge leads from row to column)."""

    x: Tensor
    mask: Tensor
    down: Tensor
    graph: JobGraph
    encoded: Encoded

    @classmethod
    def of(cls, encoded: Encoded, graph: JobGraph) -> "State":
        """Return the state as tensors."""
        return cls(
            x=torch.from_numpy(np.ascontiguousarray(encoded.x[..., :SURE_WIDTH])),
            mask=torch.from_numpy(encoded.mask.astype(np.float32)),
            down=torch.from_numpy(downward(graph)),
            graph=graph,
            encoded=encoded,
        )


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """One forward pass: the mean action [B, N] in (-1, 1), and auxiliary losses (None: there are none).

    ``log_choice`` [B] is the log probability of the chosen nodes, for a sampler that learns from it.
    """

    mean: Tensor
    auxiliary: Tensor | None = None
    log_choice: Tensor | None = None


class Method(nn.Module):
    """A policy of the paper: a normal distribution per task, or one for the whole job, around a mean in (-1, 1).

    Attributes:
        joint: whether one action applies to all tasks of the job.
        log_std: one learned number, independent of the state.
    """

    joint = False

    def __init__(self, statistics: Statistics, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.scaled = InputScale(statistics)
        self.log_std = nn.Parameter(torch.tensor(-0.5))

    def explore(self, state: State, generator: np.random.Generator | None, tau: float, information: float) -> ForwardPass:
        """Return the pass that a training step differentiates.

        Only a sampler uses the generator, tau and the weight of the information term (0: skip it).
        """
        return ForwardPass(self.mean_action(state, ()))

    def mean_action(self, state: State, seeds: Sequence[int]) -> Tensor:
        """Return the mean action [B, N] without noise, as served. Only a uniform sampler uses ``seeds`` [B]."""
        action: Tensor = self(state.x, state.mask, state.down)
        return action


class InputScale(nn.Module):
    """x [.., L, N, 27] -> standard deviations from the mean of training rollouts, clipped at five; masked task-minutes are 0."""

    def __init__(self, statistics: Statistics) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(statistics.mean))
        self.register_buffer("std", torch.tensor(statistics.std))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return the scaled features."""
        return ((x - self.mean) / self.std).clamp(-INPUT_MAX, INPUT_MAX) * mask.unsqueeze(-1)


class Head(nn.Module):
    """[.., E] -> 100 -> 50 -> 1, ReLU, tanh. The last layer starts near zero, the others orthogonal with gain sqrt 2."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(width, 100), nn.ReLU(), nn.Linear(100, 50), nn.ReLU())
        self.out = nn.Linear(50, 1)
        for part in self.layers:
            if isinstance(part, nn.Linear):
                nn.init.orthogonal_(part.weight, 2**0.5)
                nn.init.zeros_(part.bias)
        nn.init.orthogonal_(self.out.weight, ACTION_SCALE)
        nn.init.zeros_(self.out.bias)

    def forward(self, embedded: Tensor) -> Tensor:
        """Return actions [..]."""
        return torch.tanh(self.out(self.layers(embedded))).squeeze(-1)


def window_mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over reported minutes, [B, L, N, D] -> [B, N, D]."""
    weight = mask.unsqueeze(-1)
    return (values * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)


def exists(mask: Tensor) -> Tensor:
    """Return [B, N], 1 for tasks that reported at least once; padding never does."""
    return mask.amax(dim=1)


def row_mean(matrix: Tensor) -> Tensor:
    """Divide every row of [.., N, N] by its sum; rows of zeros stay zero."""
    return matrix / matrix.sum(dim=-1, keepdim=True).clamp(min=1.0)


def task_mean(values: Tensor, there: Tensor) -> Tensor:
    """Return the mean over existing tasks, [B, N, E] -> [B, E]."""
    weight = there.unsqueeze(-1)
    return (values * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1.0)
