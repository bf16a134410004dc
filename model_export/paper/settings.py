"""What shapes a training run of a method, and how one changes it by name. Trains nothing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from contracts.errors import SurescaleError
from model_export.objective import INFORMATION
from model_export.paper.sure import Estimator, Gnn, Pairing, Readout
from model_export.paper.world import PaperMode

TAU_LAST = 0.1

Count = Annotated[int, Meta(ge=1, le=10_000)]
Positive = Annotated[float, Meta(gt=0, le=1000)]
Weight = Annotated[float, Meta(ge=0, le=1000)]


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """Everything that shapes a run; it travels into the model's card."""

    method: str
    jobs: tuple[str, ...]
    """One for the tables; several in turn, an episode each, for a model that serves any."""
    mode: PaperMode = "clean"
    latency_weight: float = 0.5
    seed: int = 0
    workload: str = "clarknet"
    budget_s: float = 30.0
    """Processor seconds of one thread."""
    updates_max: int | None = None
    """Ends a run before its budget; for tests."""
    hidden: Count = 32
    states: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Loops B; 0: 400 over the tasks, from 8 to 16."""
    branches: Annotated[int, Meta(ge=2, le=10_000, multiple_of=2)] = 40
    hold_spans: Annotated[int, Meta(ge=0, le=168)] = 0
    """0: the mode's own."""
    discount: Annotated[float, Meta(ge=0, le=1)] = 0.7
    """What is drawn is held for so many hours, each counting less."""
    episode: Count = 24
    """Decisions before the loops begin anew elsewhere in the week."""
    learning_rate: Positive = 1e-2
    """Adam's, falling linearly to a twentieth."""
    entropy: Weight = 1e-3
    barrier: Weight = 1e-2
    """On -log(1 - a^2) of the mean actions: a saturated tanh has no gradient to come back by."""
    limits: Weight = 1.0
    """On what a mean action asks beyond bounds and total limit: a job that asks for more everywhere gets the same everywhere."""
    gradient_norm_max: Positive = 0.5
    """Of each part of a network by itself: the steep slopes of a sampler's relaxed choice would cut those of its head short."""
    tau_first: Positive = 0.5
    tau_last: Positive = TAU_LAST
    """Temperature of the relaxed top-k."""
    information_every: Count = 4
    """Updates per one with the information term, whose whole graph is dear; it counts so many times then."""
    anchors: Count = 10
    neighbours_max: Count = 8
    readout: Readout = "own"
    gnn: Gnn = "sage"
    direction: Literal["down", "both"] = "down"
    estimator: Estimator = "st"
    pairing: Pairing = "bilinear"
    information: Weight = INFORMATION
    """Weight of the information term; w/o MI has none."""

    def loops(self, tasks: int) -> int:
        """Return B for a job of so many tasks."""
        return self.states or int(np.clip(400 // tasks, 8, 16))


SET_ELSEWHERE = {"method", "jobs", "mode", "latency_weight", "seed", "workload", "budget_s", "updates_max", "anchors"}
"""Fields of settings that a campaign's own options and items give."""


class SettingRefused(SurescaleError):
    """A training setting that does not exist, or a value that it cannot have; the message names both."""


def changed_settings(settings: PaperSettings, changes: Mapping[str, str]) -> PaperSettings:
    """Return settings with fields replaced by values as one types them.

    >>> changed_settings(PaperSettings("SURE", ()), {"gnn": "gin", "hidden": "50"}).hidden
    50
    """
    known = sorted({field.name for field in fields(PaperSettings)} - SET_ELSEWHERE)
    for name, value in changes.items():
        if name not in known:
            raise SettingRefused(f"{name}: not a training setting; there are {', '.join(known)}")
        try:
            settings = msgspec.convert({**asdict(settings), name: value}, PaperSettings, strict=False)
        except msgspec.ValidationError as error:
            raise SettingRefused(f"{name}={value}: {str(error).split(' - at ')[0]}") from None
    if settings.states == 1:
        raise SettingRefused("states=1: the information term tells states apart; give two and more, or 0")
    return settings


def refuse_other(begun: PaperSettings, wanted: PaperSettings, folder: Path) -> None:
    """Refuse to mix what was trained under other settings with what is wanted; budgets, which only bound a run, may differ.

    Raises:
        SettingRefused: names the first field that differs, and both values.
    """
    for field in fields(PaperSettings):
        one, other = getattr(begun, field.name), getattr(wanted, field.name)
        if one != other and field.name != "budget_s":
            raise SettingRefused(
                f"{folder}: its run was begun with {field.name}={one}, not {other}; give the same, or another folder by --out"
            )
