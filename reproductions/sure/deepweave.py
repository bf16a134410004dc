"""DeepWeave-RL: a graph network over the job, with the policy head and REINFORCE training that all methods share.

Source: Sun et al., DeepWeave (IJCAI 2020), which schedules coflows of batch jobs; its network passes messages from
descendants, e_v = x_v + g(sum over children u of f(e_u)), and joins each node's embedding with a summary of the job.
Differences: features are means over the window (time is not modelled), and the head returns a size per task instead of a
priority.
"""

import torch
from torch import Tensor, nn

from reproductions.sure.layers import Head, Method, exists, row_mean, task_mean, window_mean
from reproductions.sure.statistics import Statistics
from surescale.policies.features import SURE_WIDTH

ROUNDS = 3


class DeepWeave(Method):
    """x [B, L, N, 27], mask [B, L, N], down [N, N] -> action [B, N]."""

    def __init__(self, statistics: Statistics, hidden: int) -> None:
        super().__init__(statistics, hidden)
        self.embed = nn.Sequential(nn.Linear(SURE_WIDTH, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.told = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())
        self.heard = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())
        self.summary = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())
        self.head = Head(3 * hidden)

    def forward(self, x: Tensor, mask: Tensor, down: Tensor) -> Tensor:
        """Return the actions."""
        there = exists(mask)
        node = self.embed(window_mean(self.scaled(x, mask), mask)) * there.unsqueeze(-1)
        below, state = row_mean(down), node
        for _ in range(ROUNDS):  # means instead of sums, so that thirty children do not drown out a source
            state = node + self.heard(below @ self.told(state))
        job = self.summary(task_mean(state, there)).unsqueeze(1).expand_as(state)
        return self.head(torch.cat([node, state, job], dim=-1)) * there
