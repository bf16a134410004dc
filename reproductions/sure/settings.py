"""The settings of a training run, and how to change them by name."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import Meta

from reproductions.sure.environment import PaperMode
from reproductions.sure.objective import INFORMATION
from reproductions.sure.sure import Estimator, Gnn, Pairing, Readout
from surescale.contracts.errors import SurescaleError

TAU_LAST = 0.1

Count = Annotated[int, Meta(ge=1, le=10_000)]
Positive = Annotated[float, Meta(gt=0, le=1000)]
Weight = Annotated[float, Meta(ge=0, le=1000)]


@dataclass(frozen=True, slots=True)
class PaperSettings:
    """All settings of a run. They are written to the model's card."""

    method: str
    jobs: tuple[str, ...]
    """One job for the tables. Several take turns, an episode each, to train a model that serves any job."""
    mode: PaperMode = "clean"
    latency_weight: float = 0.5
    seed: int = 0
    workload: str = "clarknet"
    budget_s: float = 30.0
    """Processor seconds of one thread."""
    updates_max: int | None = None
    """Ends a run after this many updates, before its budget."""
    hidden: Count = 32
    states: Annotated[int, Meta(ge=0, le=10_000)] = 0
    """Number of loops B; 0: 400 / tasks, between 8 and 16."""
    branches: Annotated[int, Meta(ge=2, le=10_000, multiple_of=2)] = 40
    hold_spans: Annotated[int, Meta(ge=0, le=168)] = 0
    """Hours a draw is held; 0: the mode's default."""
    discount: Annotated[float, Meta(ge=0, le=1)] = 0.7
    """Discount per hour while a draw is held."""
    episode: Count = 24
    """Decisions before the loops restart elsewhere in the week."""
    learning_rate: Positive = 1e-2
    """Adam's rate. It falls linearly to a twentieth."""
    entropy: Weight = 1e-3
    barrier: Weight = 1e-2
    """Weight of -log(1 - a^2) of the mean actions, because a saturated tanh has no gradient that leads back."""
    limits: Weight = 1.0
    """Weight of mean actions beyond bounds and total limit. A job that asks for more everywhere gets the same everywhere."""
    gradient_norm_max: Positive = 0.5
    """Applied to each part of a network separately; else the sampler's steep gradients would clip those of the head."""
    tau_first: Positive = 0.5
    tau_last: Positive = TAU_LAST
    """Temperature of the relaxed top-k, at the end of a run."""
    information_every: Count = 4
    """The information term needs the whole graph, which is costly. It is used once in this many updates, and weighs more then."""
    anchors: Count = 10
    neighbours_max: Count = 8
    readout: Readout = "own"
    gnn: Gnn = "sage"
    direction: Literal["down", "both"] = "down"
    estimator: Estimator = "st"
    pairing: Pairing = "bilinear"
    information: Weight = INFORMATION
    """Weight of the information term; w/o MI leaves it out."""

    def loops(self, tasks: int) -> int:
        """Return B for a job with this many tasks."""
        return self.states or int(np.clip(400 // tasks, 8, 16))


SET_ELSEWHERE = {"method", "jobs", "mode", "latency_weight", "seed", "workload", "budget_s", "updates_max", "anchors"}
"""Settings that come from the options and items of a campaign."""


class SettingRefused(SurescaleError):
    """A training setting does not exist or cannot have this value; the message names both."""


def changed_settings(settings: PaperSettings, changes: Mapping[str, str]) -> PaperSettings:
    """Return settings with some fields replaced by values given as text.

    >>> changed_settings(PaperSettings("SURE", ()), {"gnn": "gin", "hidden": "50"}).hidden
    50
    """
    known = sorted({field.name for field in fields(PaperSettings)} - SET_ELSEWHERE)
    for name, value in changes.items():
        if name not in known:
            raise SettingRefused(f"{name} is not a training setting; choose from {', '.join(known)}")
        try:
            settings = msgspec.convert({**asdict(settings), name: value}, PaperSettings, strict=False)
        except msgspec.ValidationError as error:
            raise SettingRefused(f"{name}={value}: {str(error).split(' - at ')[0]}") from None
    if settings.states == 1:
        raise SettingRefused("states=1: the information term compares states; use two or more, or 0")
    return settings


def refuse_other(begun: PaperSettings, wanted: PaperSettings, folder: Path) -> None:
    """Refuse to mix runs with different settings. Budgets may differ, because they only limit a run.

    Raises:
        SettingRefused: names the first field that differs, and both values.
    """
    for field in fields(PaperSettings):
        one, other = getattr(begun, field.name), getattr(wanted, field.name)
        if one != other and field.name != "budget_s":
            raise SettingRefused(
                f"{folder}: this run was started with {field.name}={one}, not {other}; use the same or another --out"
            )
