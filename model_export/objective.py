"""SURE's mutual-information objective, with the signs that maximise it (the paper's +CE would repel the drawn nodes).

Per task Y = -KL(q || prior) - 1/2 [log |Sigma| + (omega - mu)^T Sigma^-1 (omega - mu)] - CE(drawn, omega) + I(f(g), f(G));
the training loss adds w_kl KL + w_nl (1/2 [..] + CE) - w_mi I. All terms are means over states and tasks.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

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
