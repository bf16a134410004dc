"""One step of an optimiser, taken only where all numbers are finite."""

from collections.abc import Iterable
from math import isfinite

import torch
from torch import nn

from contracts.errors import SurescaleError


class TrainingDiverged(SurescaleError):
    """A loss or gradient is not finite; the weights are still those of the step before, and so is the checkpoint."""


def take_step(optimiser: torch.optim.Optimizer, loss: float, parts: Iterable[nn.Module], norm_max: float) -> None:
    """Cut the gradients of each part by its own norm and take the step.

    Raises:
        TrainingDiverged: the loss or a gradient is not finite; no step is taken.
    """
    learning = [part for part in parts if next(part.parameters(), None) is not None]  # some hold only constants
    norms = [float(nn.utils.clip_grad_norm_(part.parameters(), norm_max)) for part in learning]
    if not all(map(isfinite, (loss, *norms))):
        raise TrainingDiverged(f"its loss ({loss:g}) or a gradient is not finite, so no step was taken and the checkpoint stays")
    optimiser.step()
