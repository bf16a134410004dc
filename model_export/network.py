"""SURE as one torch module, and its inputs from an observation. Nodes are sampled by the numpy code that serves.

Tensors live on the network's device. Logits are copied from it for numpy to choose by; the chosen nodes are copied to it.

Two parts become ONNX graphs of their own. `Sampler` goes from features to embeddings and NVSS logits. SURE (IJCAI 2022, section
3.2) draws omega ~ N(mu, Sigma) per task-minute and samples by it. A hard choice of indices has no gradient. So the gathered
features are multiplied by w = hard - stopgrad(soft) + soft: its value is 1, its gradient that of a relaxed top-k (softmax at
temperature tau). The second goes from sampled subgraphs to residual and ease per task, by GraphSAGE (Hamilton et al., NeurIPS
2017): h_i' = relu(norm(W_root h_i + W_neighbours mean of h_u over neighbours u)); a subgraph's embedding concatenates the means
of all layers. No parameter depends on the number of tasks and no statistic is taken over a batch.

Its mutual-information objective has the signs that maximise it (the paper's +CE would repel the drawn nodes). Per task
Y = -KL(q || prior) - 1/2 [log |Sigma| + (omega - mu)^T Sigma^-1 (omega - mu)] - CE(drawn, omega) + I(f(g), f(G));
the training loss adds w_kl KL + w_nl (1/2 [..] + CE) - w_mi I. All terms are means over states and tasks.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus
from torch_geometric.nn import DenseSAGEConv

from surescale.contracts.windows import Float32
from surescale.policies.features import Encoded
from surescale.policies.graph import JobGraph
from surescale.policies.nvss import MASKED, SampledNodes, adjacency, neighbours_sampled, newest_minute, node_index, sample_nodes
from surescale.policies.sure.package import SamplingCard, Statistics

PRIOR_VARIANCE = 0.995
INFORMATION = 1e-2  # weight of I


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the auxiliary losses that are added to the policy's own."""

    kl: float = 1e-3
    likelihood: float = 1e-2
    information: float = INFORMATION
    rule: float = 1.0  # on the mean square of the outputs: without anything learned, the plan decides alone


def kl_to_prior(mu: Tensor, std: Tensor, mask: Tensor) -> Tensor:
    """Return KL(N(mu, std^2) || N(0, 0.995)), mean over reported entries; mu and std [.., L, N, 2], mask [.., L, N]."""
    variance = std.square()
    entry = 0.5 * ((variance + mu.square()) / PRIOR_VARIANCE + torch.log(PRIOR_VARIANCE / variance) - 1.0)
    return _mean(entry.mean(dim=-1), mask)


def negative_log_density(omega: Tensor, mu: Tensor, std: Tensor, mask: Tensor) -> Tensor:
    """Return 1/2 [log variance + (omega - mu)^2 / variance], mean over reported entries."""
    entry = 0.5 * (2.0 * torch.log(std) + ((omega - mu) / std).square())
    return _mean(entry.mean(dim=-1), mask)


def cross_entropy(logits: Tensor, chosen: Tensor, known: Tensor) -> Tensor:
    """Return -mean log softmax(logits [.., n]) at the drawn indices chosen [.., k]; ``known`` [.., k] excludes padding."""
    return _mean(-torch.log_softmax(logits, dim=-1).gather(-1, chosen), known)


class Information(nn.Module):
    """Jensen-Shannon bound on the mutual information of subgraph and whole-graph embeddings, D = f(g)^T W f(G).

    W is learned and starts at zero, where matching and other pairs score alike. With ``dot`` it is the identity, as in the
    paper's code.
    """

    def __init__(self, width: int, dot: bool = False) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.eye(width) if dot else torch.zeros(width, width), requires_grad=not dot)

    def forward(self, parts: Tensor, wholes: Tensor, known: Tensor) -> Tensor:
        """Return I: the mean of -softplus(-D) over matching pairs minus the mean of softplus(D) over all others.

        Args:
            parts: f(g) [B, N, E]. wholes: f(G) [B, E], B >= 2. known: [B, N], real tasks.
        """
        assert len(wholes) >= 2, "information needs at least two states: one to match, one not to"
        score = torch.einsum("bne,ef,cf->bnc", parts, self.weight, wholes)
        own = torch.eye(len(wholes), device=score.device).unsqueeze(1) * known.unsqueeze(-1)
        other = known.unsqueeze(-1) * (1.0 - torch.eye(len(wholes), device=score.device)).unsqueeze(1)
        return _mean(-softplus(-score), own) - _mean(softplus(score), other)


def _mean(values: Tensor, weight: Tensor) -> Tensor:
    weight = weight.to(values.dtype).expand_as(values)
    return (values * weight).sum() / weight.sum().clamp(min=1.0)


LAYERS = 3
OUTPUTS = 2  # residual, ease of the restart gate
OUTPUT_SCALE = 0.01  # an untrained network hardly changes the plan


class PolicyNet(nn.Module):
    """sub_x [G, m, H], sub_linked [G, m, m], sub_known [G, m], now [G, H] -> [G, 2].

    ``now`` is the task's own newest embedding: the subgraph may hold other minutes only, and sizes depend on the present.
    """

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([DenseSAGEConv(hidden, hidden) for _ in range(LAYERS)])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(LAYERS)])
        width = LAYERS * hidden
        self.join = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.head = nn.Sequential(nn.Linear(width + hidden, 2 * hidden), nn.ReLU(), nn.Linear(2 * hidden, hidden), nn.ReLU())
        self.out = nn.Linear(hidden, OUTPUTS)
        for part in (*self.join, *self.head):
            if isinstance(part, nn.Linear):
                nn.init.orthogonal_(part.weight, 2**0.5)
                nn.init.zeros_(part.bias)
        nn.init.orthogonal_(self.out.weight, OUTPUT_SCALE)
        nn.init.zeros_(self.out.bias)

    def forward(self, sub_x: Tensor, sub_linked: Tensor, sub_known: Tensor, now: Tensor) -> Tensor:
        """Return the outputs."""
        return self.outputs(self.embed(sub_x, sub_linked, sub_known), now)

    def outputs(self, embedded: Tensor, now: Tensor) -> Tensor:
        """Return outputs [G, 2] from subgraph embeddings [G, 3H]."""
        return self.out(self.head(torch.cat([embedded, now], dim=-1)))

    def embed(self, sub_x: Tensor, sub_linked: Tensor, sub_known: Tensor) -> Tensor:
        """Return subgraph embeddings f(g) [G, 3H]."""
        known = sub_known.unsqueeze(-1)
        count = known.sum(dim=1).clamp(min=1.0)
        h, means = sub_x, []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            h = torch.relu(norm(layer(h, sub_linked))) * known
            means.append(h.sum(dim=1) / count)
        joined = torch.cat(means, dim=-1)
        return joined + self.join(joined)

    def embed_whole(self, z: Tensor, mask: Tensor, linked: Tensor) -> Tensor:
        """Return f(G) [B, 3H] of the whole graph: every task-minute of z [B, L, N, H], job edges, and each task over time.

        It shares the weights of ``embed``. Neighbourhoods are two sums, so no (L N)^2 matrix is built.
        """
        known = mask.unsqueeze(-1)
        degree = _around(known, linked)
        count = known.sum(dim=(1, 2)).clamp(min=1.0)
        h, means = z * known, []
        for layer, norm in zip(self.layers, self.norms, strict=True):
            near = _around(h, linked) / degree.clamp(min=1.0)
            h = torch.relu(norm(layer.lin_rel(near) + layer.lin_root(h))) * known
            means.append(h.sum(dim=(1, 2)) / count)
        joined = torch.cat(means, dim=-1)
        return joined + self.join(joined)


def _around(h: Tensor, linked: Tensor) -> Tensor:
    """Return the sum over neighbours: linked tasks [N, N] in the same minute, the same task one minute before and after."""
    total = torch.einsum("ij,bljh->blih", linked, h)
    total[:, 1:] += h[:, :-1]
    total[:, :-1] += h[:, 1:]
    return total


MU_SCALE = 3.0
LOG_VARIANCE = (-8.0, 2.0)
INPUT_MAX = 5.0  # standard deviations


class Sampler(nn.Module):
    """x [B, L, N, D], mask [B, L, N] -> z [B, L, N, H], mu and std [B, L, N, 2] (as an anchor, as a neighbour)."""

    def __init__(self, mean: Tensor, std: Tensor, hidden: int) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.embed = nn.Linear(len(mean), hidden)
        self.norm = nn.LayerNorm(hidden)
        self.mu = nn.Linear(hidden, 2)
        self.log_variance = nn.Linear(hidden, 2)
        nn.init.constant_(self.log_variance.bias, -2.0)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return z, mu, std."""
        scaled = ((x - self.mean) / self.std).clamp(-INPUT_MAX, INPUT_MAX) * mask.unsqueeze(-1)
        z = self.norm(self.embed(scaled))
        mu = MU_SCALE * torch.tanh(self.mu(z))
        return z, mu, torch.exp(0.5 * self.log_variance(z).clamp(*LOG_VARIANCE))


def straight_through(logits: Tensor, chosen: Tensor, tau: float) -> Tensor:
    """Return weights of value 1 for chosen indices [.., k], with the gradient of k x softmax(logits [.., n] / tau)."""
    soft = (torch.softmax(logits / tau, dim=-1) * chosen.shape[-1]).gather(-1, chosen)
    return 1.0 - soft.detach() + soft


def node_weights(theta: Tensor, phi: Tensor, minutes: Tensor, slots: Tensor, tau: float) -> Tensor:
    """Return straight-through weights [.., N, k1, 1 + k2] of subgraph nodes: the anchor, then its neighbours times the anchor.

    Args:
        theta: [.., N, L]. phi: [.., N, L, K]. minutes: chosen anchors [.., N, k1]. slots: chosen neighbours [.., N, k1, k2].
        tau: temperature of the relaxation.
    """
    anchor = straight_through(theta, minutes, tau)
    at_anchor = phi.gather(-2, minutes.unsqueeze(-1).expand(*minutes.shape, phi.shape[-1]))
    neighbour = straight_through(at_anchor, slots, tau) * anchor.unsqueeze(-1)
    return torch.cat([anchor.unsqueeze(-1), neighbour], dim=-1)


def plackett_luce(logits: Tensor, drawn: Tensor, known: Tensor) -> Tensor:
    """Return the log probability [..] of drawing indices [.., k] one by one, without replacement, from softmax(logits [.., n]).

    Draws that are not ``known`` [.., k] (nothing was left to draw) do not count. Source: Plackett (1975). With Gumbel noise on
    the logits, the k largest in descending order are such draws.
    """
    left, total = logits, torch.zeros(logits.shape[:-1])
    for at in range(drawn.shape[-1]):
        one = drawn[..., at : at + 1]
        total = total + known[..., at] * torch.log_softmax(left, dim=-1).gather(-1, one).squeeze(-1)
        left = left.scatter(-1, one, -1e9)
    return total


class SureNetwork(nn.Module):
    """Sampler, policy network and the information term's bilinear form (training only)."""

    def __init__(self, statistics: Statistics, hidden: int, sampling: SamplingCard) -> None:
        super().__init__()
        self.hidden, self.sampling, self.statistics = hidden, sampling, statistics
        self.sampler = Sampler(torch.tensor(statistics.mean), torch.tensor(statistics.std), hidden)
        self.policy = PolicyNet(hidden)
        self.information = Information(len(self.policy.norms) * hidden)

    @property
    def device(self) -> torch.device:
        """Return the device of the weights."""
        return self.policy.out.weight.device


def on_device(values: npt.NDArray[Any], device: torch.device) -> Tensor:
    """Return an array as a tensor on a device; on the CPU the two share memory."""
    return torch.from_numpy(values).to(device)


@dataclass(frozen=True, slots=True)
class SampledInput:
    """One sampled state of B rows: inputs, logit noise, chosen nodes and their subgraphs."""

    x: Tensor  # [B, L, N, D]
    mask: Tensor  # [B, L, N]
    eps: Tensor  # [B, L, N, 2]
    looked: SampledNodes
    linked: Tensor  # [B, N, m, m]
    known: Tensor  # [B, N, m]
    newest: Tensor  # [B, N], each task's last reported minute


@torch.no_grad()
def choose(network: SureNetwork, encoded: Encoded, graph: JobGraph, generator: np.random.Generator | None) -> SampledInput:
    """Return the nodes that the sampler's logits lead to; without a generator the best, as in serving."""
    device = network.device
    x, mask = on_device(encoded.x, device), on_device(encoded.mask.astype(np.float32), device)
    _, mu, std = network.sampler(x, mask)
    eps = torch.zeros_like(mu)
    gumbel: tuple[Float32, Float32] | None = None
    if generator is not None:
        eps = on_device(generator.standard_normal(mu.shape, dtype=np.float32), device)
        rows, minutes, tasks, _ = mu.shape
        width = graph.neighbours.index.shape[1]
        uniform = generator.random((rows, tasks, minutes, 1 + width), dtype=np.float32)
        noise = -np.log(-np.log(uniform + 1e-9) + 1e-9)
        gumbel = (noise[..., 0], noise[..., 1:])
    width = neighbours_sampled(graph, network.sampling.neighbours_share, network.sampling.neighbours_max)
    looked = sample_nodes((mu + eps * std).cpu().numpy(), encoded.mask, graph, network.sampling.anchors, width, gumbel)
    linked, known = adjacency(looked, graph)
    arrays = linked, known, newest_minute(encoded.mask)
    return SampledInput(x, mask, eps, looked, *(on_device(array, device) for array in arrays))


@dataclass(frozen=True, slots=True)
class ForwardPass:
    """Results of a forward pass: outputs [B, N, 2], embeddings f(g) [B, N, E], and the inputs of the auxiliary losses."""

    outputs: Tensor
    embedded: Tensor
    z: Tensor
    mu: Tensor
    std: Tensor


def forward(network: SureNetwork, chosen: SampledInput, graph: JobGraph, tau: float | None) -> ForwardPass:
    """Return the results of both graphs on chosen nodes; a temperature gives the choice a straight-through gradient."""
    z, mu, std = network.sampler(chosen.x, chosen.mask)
    device = z.device
    rows, _, tasks, hidden = z.shape
    index = on_device(node_index(chosen.looked, graph), device).reshape(rows, -1, 1).expand(-1, -1, hidden)
    sub_x = z.reshape(rows, -1, hidden).gather(1, index).reshape(rows * tasks, -1, hidden)
    nodes = sub_x.shape[1]
    known = chosen.known.reshape(rows * tasks, nodes)
    weight = known
    if tau is not None:
        theta, phi = logits(mu + chosen.eps * std, chosen.mask, graph)
        minutes, slots = (on_device(part, device) for part in (chosen.looked.minutes, chosen.looked.slots))
        weight = known * node_weights(theta, phi, minutes, slots, tau).reshape(rows * tasks, nodes)
    now = z.gather(1, chosen.newest[:, None, :, None].expand(-1, 1, -1, hidden)).reshape(rows * tasks, hidden)
    linked = chosen.linked.reshape(rows * tasks, nodes, nodes)
    embedded = network.policy.embed(sub_x * weight.unsqueeze(-1), linked, known)
    outputs = network.policy.outputs(embedded, now)
    return ForwardPass(outputs.reshape(rows, tasks, -1), embedded.reshape(rows, tasks, -1), z, mu, std)


def logits(omega: Tensor, mask: Tensor, graph: JobGraph) -> tuple[Tensor, Tensor]:
    """Return theta [B, N, L] and phi [B, N, L, K] as ``policies.nvss`` computes them, with gradients."""
    there = torch.where(mask.unsqueeze(-1) > 0, omega, torch.full_like(omega, MASKED))
    theta = there[..., 0].transpose(-1, -2)
    table, there_at_all = (on_device(part, omega.device) for part in (graph.neighbours.index, graph.neighbours.known))
    near = there[..., 1][..., table]
    phi = torch.where(there_at_all, near, torch.full_like(near, MASKED)).transpose(-2, -3)
    return theta, phi


def auxiliary_loss(network: SureNetwork, chosen: SampledInput, passed: ForwardPass, graph: JobGraph, weights: Weights) -> Tensor:
    """Return w_kl KL + w_nl (density + CE) - w_mi I for one forward pass."""
    omega = passed.mu + chosen.eps * passed.std
    theta, phi = logits(omega, chosen.mask, graph)
    looked, device = chosen.looked, omega.device
    minutes, slots = on_device(looked.minutes, device), on_device(looked.slots, device)
    at_anchor = phi.gather(-2, minutes.unsqueeze(-1).expand(*minutes.shape, phi.shape[-1]))
    entropy = cross_entropy(theta, minutes, on_device(looked.minutes_known, device))
    entropy = entropy + cross_entropy(at_anchor, slots, on_device(looked.neighbours_known, device))
    density = negative_log_density(omega, passed.mu, passed.std, chosen.mask)
    whole = network.policy.embed_whole(passed.z, chosen.mask, on_device(graph.linked.astype(np.float32), device))
    real = on_device(graph.scalable.astype(np.float32), device).expand(len(whole), -1)
    information = network.information(passed.embedded, whole, real)
    return (
        weights.kl * kl_to_prior(passed.mu, passed.std, chosen.mask)
        + weights.likelihood * (density + entropy)
        - weights.information * information
    )
