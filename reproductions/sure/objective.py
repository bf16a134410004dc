"""What SURE's networks learn by: the sampler's logits, the auxiliary losses, straight-through choices, and one step of Adam.

SURE (IJCAI 2022, section 3.2) draws omega ~ N(mu, Sigma) per task-minute and samples by it. A hard choice of indices has no
gradient. So the gathered features are multiplied by w = hard - stopgrad(soft) + soft: its value is 1, its gradient that of a
relaxed top-k (softmax at temperature tau).

The mutual-information objective has the signs that maximise it (the paper's +CE would repel the drawn nodes). Per task
Y = -KL(q || prior) - 1/2 [log |Sigma| + (omega - mu)^T Sigma^-1 (omega - mu)] - CE(drawn, omega) + I(f(g), f(G));
the training loss adds w_kl KL + w_nl (1/2 [..] + CE) - w_mi I. All terms are means over states and tasks.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from surescale.contracts.errors import SurescaleError

PRIOR_VARIANCE = 0.995
INFORMATION = 1e-2  # weight of I


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of the auxiliary losses that are added to the policy's own."""

    kl: float = 1e-3
    likelihood: float = 1e-2
    information: float = INFORMATION


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


class TrainingDiverged(SurescaleError):
    """A loss or gradient is not finite. Weights and checkpoint are still those before the step."""


def take_step(optimiser: torch.optim.Optimizer, loss: float, parts: Iterable[nn.Module], norm_max: float) -> None:
    """Clip the gradients of each part by their norm and take the step.

    Raises:
        TrainingDiverged: the loss or a gradient is not finite; no step is taken.
    """
    learning = [part for part in parts if next(part.parameters(), None) is not None]  # some hold only constants
    norms = [float(nn.utils.clip_grad_norm_(part.parameters(), norm_max)) for part in learning]
    if not all(map(isfinite, (loss, *norms))):
        raise TrainingDiverged(f"its loss ({loss:g}) or a gradient is not finite, so no step was taken; the checkpoint stays")
    optimiser.step()
