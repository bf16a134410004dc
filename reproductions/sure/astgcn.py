"""ASTGCN-RL: spatial and temporal attention, Chebyshev graph convolution, convolution over time.

Source: Guo et al., Attention Based Spatial-Temporal Graph Convolutional Networks (AAAI 2019). Per block: temporal attention E
= softmax(tanh(Q K^T)) over minutes, spatial attention S = softmax(Q K^T / sqrt H) over tasks, sum over k < 3 of (T_k(L~) * S)
X W_k with T_0 = I, T_1 = L~, T_2 = 2 L~^2 - I, then a convolution over time. Differences: the attentions have no N x N
weights, because one model must fit any number of tasks. Only the branch for recent history is used, because the state holds
one hour and no days or weeks. Two blocks shorten the window, and the newest minutes go into the policy head.
"""

import torch
from torch import Tensor, nn

from reproductions.sure.layers import Head, Method, exists
from reproductions.sure.statistics import Statistics
from surescale.policies.features import SURE_WIDTH

ORDER = 3
MASKED = -1e9
KERNEL, STRIDE = 5, 3
NEWEST = 3  # positions the head reads


class Block(nn.Module):
    """x [B, L, N, F], there [B, N], polynomials [3, N, N] -> [B, L', N, H]."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.over_time = nn.Linear(width, 2 * hidden)
        self.over_tasks = nn.Linear(width, 2 * hidden)
        self.convolve = nn.Linear(ORDER * width, hidden)
        self.time = nn.Conv2d(hidden, hidden, (KERNEL, 1), (STRIDE, 1), (KERNEL // 2, 0))
        self.residual = nn.Linear(width, hidden)
        self.norm = nn.LayerNorm(hidden)

    def forward(self, x: Tensor, there: Tensor, polynomials: Tensor) -> Tensor:
        """Return the block's output."""
        weight = there[:, None, :, None]
        pooled = (x * weight).sum(dim=2) / weight.sum(dim=2).clamp(min=1.0)
        ask, answer = self.over_time(pooled).chunk(2, dim=-1)
        scale = ask.shape[-1] ** 0.5
        attended = torch.softmax(torch.tanh(ask @ answer.transpose(1, 2) / scale), dim=-1)
        rows, minutes, tasks, width = x.shape
        mixed = (attended @ x.reshape(rows, minutes, tasks * width)).reshape(rows, minutes, tasks, width)
        ask, answer = self.over_tasks(mixed.mean(dim=1)).chunk(2, dim=-1)
        score = ask @ answer.transpose(1, 2) / scale + MASKED * (1.0 - there).unsqueeze(1)
        spatial = torch.softmax(score, dim=-1)
        # S is scaled to a mean of 1 over existing tasks, so that even attention does not change the polynomials.
        spatial = spatial * there.sum(dim=1)[:, None, None]
        parts = [(polynomials[k] * spatial).unsqueeze(1) @ x for k in range(ORDER)]
        h = torch.relu(self.convolve(torch.cat(parts, dim=-1)))
        h = self.time(h.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
        return torch.relu(self.norm(h + self.residual(x[:, ::STRIDE]))) * weight


class Astgcn(Method):
    """x [B, L, N, 27], mask [B, L, N], down [N, N] -> action [B, N]."""

    def __init__(self, statistics: Statistics, hidden: int) -> None:
        super().__init__(statistics, hidden)
        self.blocks = nn.ModuleList([Block(SURE_WIDTH, hidden), Block(hidden, hidden)])
        self.head = Head(NEWEST * hidden)

    def forward(self, x: Tensor, mask: Tensor, down: Tensor) -> Tensor:
        """Return the actions."""
        there, h = exists(mask), self.scaled(x, mask).flip(1)  # newest first, so that strides never skip the newest minute
        polynomials = chebyshev(down)
        for block in self.blocks:
            h = block(h, there, polynomials)
        newest = h[:, :NEWEST].permute(0, 2, 1, 3).flatten(2)
        return self.head(newest) * there


def chebyshev(down: Tensor) -> Tensor:
    """Return T_0, T_1, T_2 [3, N, N] of the scaled Laplacian L~ = L - I = -D^(-1/2) A D^(-1/2), A the edges without direction."""
    edges = torch.maximum(down, down.transpose(0, 1))
    scale = edges.sum(dim=-1).clamp(min=1.0).rsqrt()
    laplacian = -scale.unsqueeze(1) * edges * scale
    identity = torch.eye(down.shape[0], dtype=down.dtype)
    return torch.stack([identity, laplacian, 2.0 * laplacian @ laplacian - identity])
