"""The first ONNX graph: from features to embeddings and NVSS logits; and straight-through weights that carry gradients to them.

SURE (IJCAI 2022, section 3.2) draws omega ~ N(mu, Sigma) per task-minute and samples by it. A hard choice of indices has no
gradient. So the gathered features are multiplied by w = hard - stopgrad(soft) + soft: its value is 1, its gradient that of a
relaxed top-k (softmax at temperature tau).
"""

import torch
from torch import Tensor, nn

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
