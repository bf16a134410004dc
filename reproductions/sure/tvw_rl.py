"""TVW-RL: one action for the whole job, from time series of its aggregates.

Source: Mondal et al., Scheduling of Time-Varying Workloads Using Reinforcement Learning (AAAI 2021): time series of the workload
through a recurrent network, decisions at the level of the job. Here: per minute the mean and the largest value over tasks of
every feature -> GRU -> head; the one action goes to all tasks, and one draw explores for all of them.
"""

import torch
from torch import Tensor, nn

from reproductions.sure.layers import Head, Method, exists
from reproductions.sure.statistics import Statistics
from surescale.policies.features import SURE_WIDTH

LOW = -1e3


class TvwRl(Method):
    """x [B, L, N, 27], mask [B, L, N], down [N, N] -> action [B, N], the same for every task."""

    joint = True

    def __init__(self, statistics: Statistics, hidden: int) -> None:
        super().__init__(statistics, hidden)
        self.embed = nn.Sequential(nn.Linear(2 * SURE_WIDTH, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.cell = nn.GRU(hidden, hidden, batch_first=True)
        self.head = Head(2 * hidden)

    def forward(self, x: Tensor, mask: Tensor, down: Tensor) -> Tensor:
        """Return the actions."""
        scaled, weight = self.scaled(x, mask), mask.unsqueeze(-1)
        mean = scaled.sum(dim=2) / weight.sum(dim=2).clamp(min=1.0)
        most = (scaled + LOW * (1.0 - weight)).amax(dim=2).clamp(min=-5.0)
        series = self.embed(torch.cat([mean, most], dim=-1))
        after, _ = self.cell(series)
        action = self.head(torch.cat([series[:, -1], after[:, -1]], dim=-1))
        there = exists(mask)
        return (action.unsqueeze(-1) + 0.0 * down.sum()) * there  # keeps down among the inputs of the exported graph
