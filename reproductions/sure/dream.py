"""DREAM-RL: a graph encoder, and a decoder that sizes one task after another.

Source: Ni et al., DREAM (2020): encoder and decoder with a graph network, tasks in the order of their dependencies.
Differences: the decoder, a GRU cell with attention over all tasks, receives the mean action of the previous task instead of a
drawn one. The policy is then an independent normal distribution per task given the state, as for all methods here. Features
are means over the window.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reproductions.sure.layers import Head, Method, State, exists, row_mean, task_mean, window_mean
from reproductions.sure.statistics import Statistics
from surescale.policies.features import SURE_WIDTH
from surescale.policies.paper.models import visiting_order

LAYERS = 2
OUT_OF_SIGHT = -1e9


class DreamEncoder(nn.Module):
    """x, mask, down -> task states [B, N, H], which exist [B, N], the decoder's first state [B, H]."""

    def __init__(self, scaled: nn.Module, hidden: int) -> None:
        super().__init__()
        self.scaled = scaled
        self.embed = nn.Sequential(nn.Linear(SURE_WIDTH, hidden), nn.LayerNorm(hidden), nn.ReLU())
        self.layers = nn.ModuleList([nn.Linear(3 * hidden, hidden) for _ in range(LAYERS)])

    def forward(self, x: Tensor, mask: Tensor, down: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return states, existence, first state."""
        there = exists(mask)
        h = self.embed(window_mean(self.scaled(x, mask), mask)) * there.unsqueeze(-1)
        below, above = row_mean(down), row_mean(down.transpose(0, 1))
        for layer in self.layers:
            h = (h + torch.relu(layer(torch.cat([h, below @ h, above @ h], dim=-1)))) * there.unsqueeze(-1)
        return h, there, task_mean(h, there)


class DreamDecoder(nn.Module):
    """One step: nodes [B, N, H], there [B, N], task [B, H], last action [B, 1], state [B, H] -> action [B, 1], state [B, H]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.cell = nn.GRUCell(hidden + 1, hidden)
        self.ask = nn.Linear(hidden, hidden, bias=False)
        self.head = Head(3 * hidden)

    def forward(self, nodes: Tensor, there: Tensor, task: Tensor, last: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the action and the next state."""
        state = self.cell(torch.cat([task, last], dim=-1), state)
        score = (nodes @ self.ask(state).unsqueeze(-1)).squeeze(-1) / nodes.shape[-1] ** 0.5
        share = torch.softmax(score + OUT_OF_SIGHT * (1.0 - there), dim=-1)
        seen = (share.unsqueeze(-1) * nodes).sum(dim=1)
        return self.head(torch.cat([task, state, seen], dim=-1)).unsqueeze(-1), state


class Dream(Method):
    """Encoder once, decoder task by task."""

    def __init__(self, statistics: Statistics, hidden: int) -> None:
        super().__init__(statistics, hidden)
        self.encoder = DreamEncoder(self.scaled, hidden)
        self.decoder = DreamDecoder(hidden)

    def mean_action(self, state: State, seeds: Sequence[int]) -> Tensor:
        """Return the actions [B, N], decided in the order of the graph's levels."""
        nodes, there, memory = self.encoder(state.x, state.mask, state.down)
        last = nodes.new_zeros(len(nodes), 1)
        actions: list[Tensor] = [last] * nodes.shape[1]
        for task in visiting_order(state.graph):
            action, after = self.decoder(nodes, there, nodes[:, task], last, memory)
            known = there[:, task].unsqueeze(-1) > 0  # padding is skipped
            last, memory = torch.where(known, action, last), torch.where(known, after, memory)
            actions[task] = action
        return torch.cat(actions, dim=-1) * there
