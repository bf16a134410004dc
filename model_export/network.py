"""SURE as one torch module, and its inputs from an observation. Nodes are sampled by the numpy code that serves.

Tensors live on the network's device. Logits are copied from it for numpy to choose by; the chosen nodes are copied to it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from contracts.windows import Float32
from model_export.gnn import PolicyNet
from model_export.objective import Information, Weights, cross_entropy, kl_to_prior, negative_log_density
from model_export.sampler import Sampler, node_weights
from policies.features import Encoded
from policies.graph import JobGraph
from policies.nvss import MASKED, SampledNodes, adjacency, neighbours_sampled, newest_minute, node_index, sample_nodes
from policies.sure.package import SamplingCard, Statistics


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
