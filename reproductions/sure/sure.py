"""SURE: the neural variational subgraph sampler, GraphSAGE over sampled subgraphs, and the mutual-information objective.

Source: IJCAI 2022, sections 4.1 to 4.3. We depart from the printed text where it cannot be followed: logits are
omega = mu + eps * std instead of the logarithm of a Gaussian; nodes are drawn without replacement by Gumbel top-k; cross entropy
is a loss, because with the printed sign it would push away from the drawn nodes; weights are straight-through, because an index
has no gradient. Ablations: ``w/o NVSS`` draws nodes evenly (KL, density and cross entropy then have nothing to act on; the
information term stays), and ``w/o MI`` only leaves out the information term.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.nn import DenseSAGEConv

from reproductions.sure.layers import ForwardPass, Head, Method, State
from reproductions.sure.objective import (
    Information,
    Sampler,
    Weights,
    cross_entropy,
    kl_to_prior,
    negative_log_density,
    plackett_luce,
    straight_through,
)
from reproductions.sure.statistics import Statistics
from surescale.contracts.windows import Float32
from surescale.policies.graph import JobGraph
from surescale.policies.nvss import MASKED, SampledNodes, neighbours_sampled
from surescale.policies.paper.models import Blocks, blocks, even_noise, look_at, neighbour_places, neighbourhood

LAYERS = 3

Readout = Literal["own", "all"]
Gnn = Literal["sage", "gin"]
Estimator = Literal["st", "score"]
Pairing = Literal["bilinear", "dot"]


@dataclass(frozen=True, slots=True)
class SureOptions:
    """Options of the policy: k1 = ``anchors``; k2 = floor(share x K), at most ``neighbours_max``; ``uniform`` is w/o NVSS.

    ``estimator`` is how the choice of nodes learns: straight-through (``choice_gradient``), or by the score of the drawn nodes
    (the paper's equation 2, ``log_choice``). ``pairing`` is the bilinear or plain product of embeddings in the information term.
    """

    anchors: int = 10
    neighbours_share: float = 0.5
    neighbours_max: int = 8
    direction: str = "down"
    uniform: bool = False
    readout: Readout = "own"
    gnn: Gnn = "sage"
    estimator: Estimator = "st"
    pairing: Pairing = "bilinear"
    weights: Weights = field(default_factory=Weights)


class SubgraphNet(nn.Module):
    """sub_x [G, k1, w, H], links [G, k1, w, w], known [G, k1, w] -> action [G].

    h_i' = relu(norm(W_root h_i + W_near mean of h_u over neighbours u)). Neighbours are connected tasks in the same minute and,
    for the task itself, its anchors before and after. The readout joins the means of all layers: over all nodes as in the paper
    (``all``), or over the task's own nodes (``own``), which carry the messages of their neighbours. With ``gin``, as in the
    paper's code: h_i' = relu(norm(MLP(h_i + sum of h_u))).
    """

    def __init__(self, hidden: int, readout: str, gnn: str = "sage") -> None:
        super().__init__()
        self.own = readout == "own"
        self.layers = nn.ModuleList([DenseSAGEConv(hidden, hidden) if gnn == "sage" else Gin(hidden) for _ in range(LAYERS)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(LAYERS)])
        width = LAYERS * hidden
        self.join = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.head = Head(width)

    def forward(self, sub_x: Tensor, links: Tensor, known: Tensor) -> Tensor:
        """Return the actions."""
        return self.head(self.embed(sub_x, links, known))

    def embed(self, sub_x: Tensor, links: Tensor, known: Tensor) -> Tensor:
        """Return subgraph embeddings f(g) [G, 3H]."""
        there = known.unsqueeze(-1)
        own = known[:, :, 0]
        chained = own[:, :-1] * own[:, 1:]
        before, after = nn.functional.pad(chained, (1, 0)), nn.functional.pad(chained, (0, 1))
        degree = links.sum(dim=-1) + nn.functional.pad((before + after).unsqueeze(-1), (0, links.shape[-1] - 1))
        counted = own if self.own else known.sum(dim=2)
        count = counted.sum(dim=1, keepdim=True).clamp(min=1.0)
        h, means = sub_x * there, []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            first = h[:, :, 0]
            over_time = before.unsqueeze(-1) * first.roll(1, 1) + after.unsqueeze(-1) * first.roll(-1, 1)
            near = links @ h
            near = torch.cat([near[:, :, :1] + over_time.unsqueeze(2), near[:, :, 1:]], dim=2)
            h = torch.relu(norm(_passed(layer, h, near, degree.unsqueeze(-1)))) * there
            means.append((h[:, :, 0] if self.own else h.sum(dim=2)).sum(dim=1) / count)
        joined = torch.cat(means, dim=-1)
        return joined + self.join(joined)

    def embed_whole(self, z: Tensor, mask: Tensor, linked: Tensor) -> Tensor:
        """Return f(G) [B, 3H] of the whole graph: all task-minutes of z [B, L, N, H], linked by job edges and over time."""
        known = mask.unsqueeze(-1)
        degree = _around(known, linked)
        count = known.sum(dim=(1, 2)).clamp(min=1.0)
        h, means = z * known, []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = torch.relu(norm(_passed(layer, h, _around(h, linked), degree))) * known
            means.append(h.sum(dim=(1, 2)) / count)
        joined = torch.cat(means, dim=-1)
        return joined + self.join(joined)


class Gin(nn.Module):
    """The layer of a graph isomorphism network: a small MLP on a node plus the sum of its neighbours."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))

    def forward(self, summed: Tensor) -> Tensor:
        """Return the layer's output."""
        return self.mlp(summed)


def _passed(layer: nn.Module, h: Tensor, near: Tensor, degree: Tensor) -> Tensor:
    """Return a layer's output from the sum over neighbours ``near``."""
    if isinstance(layer, Gin):
        return layer(h + near)
    return layer.lin_rel(near / degree.clamp(min=1.0)) + layer.lin_root(h)


def _around(h: Tensor, linked: Tensor) -> Tensor:
    """Return the sum over linked tasks [N, N] in the same minute, and the same task one minute before and after."""
    over_time = nn.functional.pad(h[:, :-1], (0, 0, 0, 0, 1, 0)) + nn.functional.pad(h[:, 1:], (0, 0, 0, 0, 0, 1))
    return linked @ h + over_time


class PaperSure(Method):
    """The paper's policy, and both ablations by its options."""

    def __init__(self, statistics: Statistics, hidden: int, options: SureOptions) -> None:
        super().__init__(statistics, hidden)
        self.options = options
        self.sampler = Sampler(self.scaled.mean, self.scaled.std, hidden)
        del self.scaled  # the sampler scales
        self.policy = SubgraphNet(hidden, options.readout, options.gnn)
        self.information = Information(LAYERS * hidden, dot=options.pairing == "dot")

    def look(self, omega: Tensor, state: State, keys: tuple[Float32, Float32] | None) -> tuple[SampledNodes, Blocks, JobGraph]:
        """Choose nodes by logits omega plus noise ``keys`` (see ``look_at``). A uniform sampler uses only the noise."""
        graph = neighbourhood(state.graph, self.options.direction)
        width = neighbours_sampled(graph, self.options.neighbours_share, self.options.neighbours_max)
        known = omega.detach().numpy()
        known = np.zeros_like(known) if self.options.uniform else known
        looked = look_at(known, state.encoded.mask, graph, self.options.anchors, width, keys)
        return looked, blocks(looked, graph), graph

    def draws(self, shape: Sequence[int], state: State, generator: np.random.Generator, tau: float) -> tuple[Float32, Float32]:
        """Return Gumbel noise times tau, [B, N, L] and [B, N, k1, K]: draws without replacement from softmax(omega / tau)."""
        rows, minutes, tasks, _ = shape
        width = neighbourhood(state.graph, self.options.direction).neighbours.index.shape[1]
        theta, phi = ((rows, tasks, minutes), (rows, tasks, min(self.options.anchors, minutes), width))
        return _gumbel(theta, tau, generator), _gumbel(phi, tau, generator)

    def mean_action(self, state: State, seeds: Sequence[int]) -> Tensor:
        """Return the mean action for the best nodes, or, with a uniform sampler, for nodes drawn evenly by each row's seed."""
        z, mu, _ = self.sampler(state.x, state.mask)
        keys = None
        if self.options.uniform:
            keys = even_noise(mu.shape[1], neighbourhood(state.graph, self.options.direction), self.options.anchors, seeds)
        parts = self.look(mu, state, keys)[1]
        action = self.policy(*subgraph_inputs(z, parts))
        return action.reshape(z.shape[0], -1)

    def explore(self, state: State, generator: np.random.Generator | None, tau: float, information: float) -> ForwardPass:
        """Return the mean action for drawn nodes, with the log probability of the choice and the auxiliary loss."""
        z, mu, std = self.sampler(state.x, state.mask)
        noise = torch.zeros_like(mu)
        if generator is not None and not self.options.uniform:
            noise = torch.from_numpy(generator.standard_normal(mu.shape, dtype=np.float32)) * std
        keys = None if generator is None else self.draws(mu.shape, state, generator, tau)
        looked, parts, graph = self.look(mu + noise, state, keys)
        nodes, links, known = subgraph_inputs(z, parts)
        auxiliary, chosen = torch.zeros(()), None
        if not self.options.uniform:
            theta, phi = anchor_logits(mu + noise, state.mask, looked, graph)
            if self.options.estimator == "st":
                nodes = nodes + choice_gradient(z, nodes, known, theta, phi, torch.from_numpy(looked.slots), tau)
            elif keys is not None:
                chosen = log_choice(theta, phi, looked, keys[0], tau)
            auxiliary = self._sampling_loss(mu, std, mu + noise, theta, phi, looked, state)
        embedded = self.policy.embed(nodes, links, known)
        rows = z.shape[0]
        if information and self.options.weights.information:
            whole = self.policy.embed_whole(z, state.mask, torch.from_numpy(graph.linked.astype(np.float32)))
            real = torch.from_numpy(graph.scalable.astype(np.float32)).expand(rows, -1)
            bound = self.information(embedded.reshape(rows, -1, embedded.shape[-1]), whole, real)
            auxiliary = auxiliary - information * self.options.weights.information * bound
        return ForwardPass(self.policy.head(embedded).reshape(rows, -1), auxiliary, chosen)

    def _sampling_loss(
        self, mu: Tensor, std: Tensor, omega: Tensor, theta: Tensor, phi: Tensor, looked: SampledNodes, state: State
    ) -> Tensor:
        entropy = cross_entropy(theta, torch.from_numpy(looked.minutes), torch.from_numpy(looked.minutes_known))
        entropy = entropy + cross_entropy(phi, torch.from_numpy(looked.slots), torch.from_numpy(looked.neighbours_known))
        density = negative_log_density(omega, mu, std, state.mask)
        weights = self.options.weights
        return weights.kl * kl_to_prior(mu, std, state.mask) + weights.likelihood * (density + entropy)


def anchor_logits(omega: Tensor, mask: Tensor, looked: SampledNodes, graph: JobGraph) -> tuple[Tensor, Tensor]:
    """Return theta [B, N, L] and the anchors' phi [B, N, k1, K] of omega [B, L, N, 2] as ``look_at`` forms them."""
    there = torch.where(mask.unsqueeze(-1) > 0, omega, torch.full_like(omega, MASKED))
    places = torch.from_numpy(neighbour_places(looked.minutes, graph))
    phi = there[..., 1].flatten(1).gather(1, places.flatten(1)).reshape(places.shape)
    known = torch.from_numpy(graph.neighbours.known).unsqueeze(1)
    return there[..., 0].transpose(-1, -2), torch.where(known, phi, torch.full_like(phi, MASKED))


def choice_gradient(z: Tensor, nodes: Tensor, known: Tensor, theta: Tensor, phi: Tensor, slots: Tensor, tau: float) -> Tensor:
    """Return zeros of the shape of nodes [G, k1, w, H] through which the choice of nodes learns (straight-through).

    A task's own nodes lean towards the mean of z [B, L, N, H] under softmax(theta [B, N, L] / tau): a minute gains weight if it
    would serve better than the mean of the chosen ones, whether drawn or not. A neighbour has the weight of the relaxed choice by
    phi [B, N, k1, K], applied to its difference from the mean of the neighbours next to it (slots [B, N, k1, k2]). Weights on the
    drawn nodes themselves would ask whether more of a node is better, which no choice can provide. The common part of all nodes
    would drown the rest, and such a sampler comes to like early minutes as much as late ones.
    """
    mean = torch.einsum("bnl,blnh->bnh", torch.softmax(theta / tau, dim=-1), z.detach())
    own = (mean - mean.detach()).reshape(-1, 1, 1, z.shape[-1]).expand(-1, nodes.shape[1], -1, -1)
    near, there = nodes[:, :, 1:].detach(), known[:, :, 1:].unsqueeze(-1)
    apart = near - (near * there).sum(dim=2, keepdim=True) / there.sum(dim=2, keepdim=True).clamp(min=1.0)
    weight = straight_through(phi, slots, tau).reshape(*near.shape[:3], 1) - 1.0
    return torch.cat([own, weight * apart], dim=2) * known.unsqueeze(-1)


def log_choice(theta: Tensor, phi: Tensor, looked: SampledNodes, noise: Float32, tau: float) -> Tensor:
    """Return the log probability [B] of the nodes chosen for all tasks of a row, given logits theta [B, N, L] and phi.

    Minutes were drawn in falling order of theta plus ``noise`` (Gumbel times tau), neighbours in the order of their slots.
    """
    minutes, known = torch.from_numpy(looked.minutes), torch.from_numpy(looked.minutes_known).float()
    order = (theta.detach() + torch.from_numpy(noise)).gather(-1, minutes).argsort(dim=-1, descending=True)
    anchors = plackett_luce(theta / tau, minutes.gather(-1, order), known.gather(-1, order))
    near = plackett_luce(phi / tau, torch.from_numpy(looked.slots), torch.from_numpy(looked.neighbours_known).float())
    return (anchors + near.sum(dim=-1)).sum(dim=-1)


def _gumbel(shape: tuple[int, ...], scale: float, generator: np.random.Generator) -> Float32:
    even = generator.random(shape, dtype=np.float32)
    drawn: Float32 = np.float32(-scale) * np.log(-np.log(even + 1e-9) + 1e-9)
    return drawn


def subgraph_inputs(z: Tensor, parts: Blocks) -> tuple[Tensor, Tensor, Tensor]:
    """Gather the node embeddings of all B N subgraphs (zero where unknown), with their links and a mask of known nodes."""
    rows, _, tasks, hidden = z.shape
    k1, width = parts.known.shape[-2:]
    index = torch.from_numpy(parts.index).reshape(rows, -1)
    flat = z.reshape(rows, -1, hidden)
    places = (index + (torch.arange(rows) * flat.shape[1]).unsqueeze(1)).reshape(-1)
    known = torch.from_numpy(parts.known).reshape(rows * tasks, k1, width)
    nodes = flat.reshape(-1, hidden).index_select(0, places).reshape(rows * tasks, k1, width, hidden)
    links = torch.from_numpy(parts.links).reshape(rows * tasks, k1, width, width)
    return nodes * known.unsqueeze(-1), links, known
