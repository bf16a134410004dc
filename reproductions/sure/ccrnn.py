"""CCRNN-RL: recurrent cells over graphs that are learned and coupled from layer to layer.

Source: Ye et al., Coupled Layer-wise Recurrent Neural Network (AAAI 2021): A_l = softmax(relu(E1_l E2_l^T)), embeddings
coupled by E_(l+1) = E_l W_l + b_l; a coupled graph convolution joins all layers' outputs by attention, and gates of a GRU are
such convolutions; encoder, then decoder. Differences: the first embeddings come from each task's features, including its graph
position, while the original learns a free vector per node; this way one model fits any number of tasks. The job's own edges
are added to A_0. The decoder makes one step, for one decision.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from reproductions.sure.layers import Head, Method, State, exists, row_mean, window_mean
from reproductions.sure.statistics import Statistics
from surescale.policies.features import SURE_WIDTH

LAYERS = 2
EMBEDDING = 8
MASKED = -1e9


class Coupled(nn.Module):
    """Coupled graph convolution: x [B, N, F], graphs [B, layers, N, N] -> [B, N, H], layers joined by attention."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2 * (width if at == 0 else hidden), hidden) for at in range(LAYERS)])
        self.score = nn.Linear(hidden, 1, bias=False)  # a bias would cancel in the shares

    def forward(self, x: Tensor, graphs: Tensor) -> Tensor:
        """Return the convolved values."""
        h, outputs = x, []
        for at, layer in enumerate(self.layers):
            h = layer(torch.cat([h, graphs[:, at] @ h], dim=-1))
            outputs.append(h)
        stacked = torch.stack(outputs, dim=2)
        share = torch.softmax(self.score(torch.tanh(stacked)), dim=2)
        return (share * stacked).sum(dim=2)


class Cell(nn.Module):
    """A GRU cell whose gates are coupled convolutions of input and state."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.gates = Coupled(width + hidden, 2 * hidden)
        self.candidate = Coupled(width + hidden, hidden)

    def forward(self, x: Tensor, state: Tensor, graphs: Tensor) -> Tensor:
        """Return the next state [B, N, H]."""
        reset, update = torch.sigmoid(self.gates(torch.cat([x, state], dim=-1), graphs)).chunk(2, dim=-1)
        fresh = torch.tanh(self.candidate(torch.cat([x, reset * state], dim=-1), graphs))
        return update * state + (1.0 - update) * fresh


class CcrnnInput(nn.Module):
    """x [B, L, N, 27], mask, down -> series [B, L, N, H], graphs [B, layers, N, N], which tasks exist [B, N]."""

    def __init__(self, scaled: nn.Module, hidden: int) -> None:
        super().__init__()
        self.scaled = scaled
        self.embed = nn.Linear(SURE_WIDTH, hidden)
        self.from_features = nn.Linear(SURE_WIDTH, 2 * EMBEDDING)
        self.coupling = nn.ModuleList([nn.Linear(2 * EMBEDDING, 2 * EMBEDDING) for _ in range(LAYERS - 1)])

    def forward(self, x: Tensor, mask: Tensor, down: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return series, graphs, existence."""
        there, scaled = exists(mask), self.scaled(x, mask)
        return torch.relu(self.embed(scaled)), self.graphs(window_mean(scaled, mask), there, down), there

    def graphs(self, features: Tensor, there: Tensor, down: Tensor) -> Tensor:
        """Return the coupled adjacency matrices [B, layers, N, N]."""
        table = torch.tanh(self.from_features(features))
        known = there.unsqueeze(1) * there.unsqueeze(2)
        found = []
        for at in range(LAYERS):
            if at:
                table = self.coupling[at - 1](table)
            one, other = table.chunk(2, dim=-1)
            score = torch.relu(one @ other.transpose(1, 2)) + MASKED * (1.0 - there).unsqueeze(1)
            found.append(torch.softmax(score, dim=-1) * known)
        edges = row_mean(torch.maximum(down, down.transpose(0, 1)))
        found[0] = 0.5 * (found[0] + edges * known)
        return torch.stack(found, dim=1)


class CcrnnOutput(nn.Module):
    """The newest minute [B, N, H], the encoder's state, graphs, existence -> action [B, N]."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.decoder = Cell(hidden, hidden)
        self.head = Head(2 * hidden)

    def forward(self, newest: Tensor, state: Tensor, graphs: Tensor, there: Tensor) -> Tensor:
        """Return the actions."""
        decoded = self.decoder(newest, state, graphs)
        return self.head(torch.cat([state, decoded], dim=-1)) * there


class Ccrnn(Method):
    """The input once, the encoder's cell minute by minute, the output once."""

    def __init__(self, statistics: Statistics, hidden: int) -> None:
        super().__init__(statistics, hidden)
        self.prepare = CcrnnInput(self.scaled, hidden)
        self.encoder = Cell(hidden, hidden)
        self.act = CcrnnOutput(hidden)

    def mean_action(self, state: State, seeds: Sequence[int]) -> Tensor:
        """Return the actions [B, N]."""
        series, graphs, there = self.prepare(state.x, state.mask, state.down)
        memory = torch.zeros_like(series[:, 0])
        for minute in range(series.shape[1]):
            memory = self.encoder(series[:, minute], memory, graphs)
        action: Tensor = self.act(series[:, -1], memory, graphs, there)
        return action
