"""One step of an optimiser, taken only if all numbers are finite."""

from collections.abc import Iterable
from math import isfinite

import torch
from torch import nn

from contracts.errors import SurescaleError


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
