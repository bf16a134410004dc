"""A package of ``sure`` on disk: a card with the constants of its forecast and its plan. Reads and verifies it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from surescale.contracts.messages import Text
from surescale.policies import forecast
from surescale.policies.package import (
    CARD,
    Minutes,
    PackageRejected,
    StaleMinutes,
    check_format,
    decoded,
    read_file,
)
from surescale.policies.sure import outlook
from surescale.policies.sure.base import Base

FORMAT = 3  # 1: sizes behind a gate; 2: a plan over scenarios of the load, with a network that corrects it; 3: the plan


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a package holds and states about itself; ``training`` is for people and reports."""

    format: int
    name: Text
    base: Base
    span_minutes: Minutes
    window_minutes: Minutes
    stale_minutes: StaleMinutes  # a window whose newest figures are older than this is not answered
    training: dict[str, object]
    terms: str


@dataclass(frozen=True, slots=True)
class Package:
    """A verified package: the card and its hash."""

    card: Card
    sha256: str


def read_package(folder: Path) -> Package:
    """Return the package in a folder, verified.

    Raises:
        PackageRejected: the card is missing, is of another format, or does not parse.
    """
    raw = read_file(folder, CARD)
    check_format(folder, raw, "format", FORMAT)
    card = decoded(folder, raw, Card)
    _check_numbers(folder, card)
    return Package(card=card, sha256=hashlib.sha256(raw).hexdigest())


def _check_numbers(folder: Path, card: Card) -> None:
    """Refuse a card whose lists of numbers have the wrong length for their inputs or for one another."""
    hourly, coming = card.base.forecast, card.base.outlook
    stages = coming.stages
    wanted: dict[str, tuple[object, tuple[int, ...]]] = {
        "base.forecast.with_history": (hourly.with_history, (len(forecast.INPUTS) + 1,)),
        "base.forecast.trend_only": (hourly.trend_only, (forecast.TRENDS + 1,)),
        "base.outlook.with_history": (coming.with_history, (stages, len(outlook.INPUTS) + 1)),
        "base.outlook.trend_only": (coming.trend_only, (stages, len(outlook.TRENDS) + 1)),
        "base.outlook.spread": (coming.spread, (stages, 2)),
        "base.outlook.trend_spread": (coming.trend_spread, (stages,)),
    }
    for field, (numbers, shape) in wanted.items():
        if np.array(numbers, dtype=object).shape != shape:
            expected = " rows of ".join(str(length) for length in shape)
            raise PackageRejected(f"{folder.name}/{CARD}: {field} must hold {expected} numbers; export the package again")
    if coming.stage_minutes < 1 or 60 % coming.stage_minutes:
        raise PackageRejected(f"{folder.name}/{CARD}: base.outlook.stage_minutes must divide 60, not {coming.stage_minutes}")
    if stages * coming.stage_minutes > outlook.STAGES_MINUTES_MAX:
        raise PackageRejected(
            f"{folder.name}/{CARD}: base.outlook holds {stages} stages of {coming.stage_minutes} minutes;"
            f" together they may last {outlook.STAGES_MINUTES_MAX}"
        )
