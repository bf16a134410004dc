"""A model package on disk: ``sampler.onnx``, ``policy.onnx`` and ``card.json``. Reads and verifies; runs nothing."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from surescale.contracts.messages import Text
from surescale.policies import forecast
from surescale.policies.features import WIDTH
from surescale.policies.package import (
    CARD,
    Minutes,
    PackageRejected,
    StaleMinutes,
    check_features,
    check_format,
    decoded,
    read_file,
    read_verified,
)
from surescale.policies.sure import outlook
from surescale.policies.sure.base import Base
from surescale.policies.sure.drift import Ranges

SAMPLER = "sampler.onnx"
POLICY = "policy.onnx"
FORMAT = 2  # 1: sizes behind a gate; 2: a plan over scenarios of the load


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """Mean and standard deviation per feature slot over training rollouts; frozen inside ``sampler.onnx`` too."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


class SamplingCard(msgspec.Struct, frozen=True, kw_only=True):
    """k1 = ``anchors``; k2 = floor(``neighbours_share`` x K), at most ``neighbours_max``."""

    anchors: Annotated[int, Meta(ge=1)]
    neighbours_share: Annotated[float, Meta(ge=0.0)]
    neighbours_max: Annotated[int, Meta(ge=1)]


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What a package states about itself; ``training`` is for people and reports."""

    format: int
    name: Text
    feature_version: int
    slots_sha256: str
    statistics: Statistics
    hidden: int
    sampling: SamplingCard
    base: Base
    span_minutes: Minutes
    window_minutes: Minutes
    stale_minutes: StaleMinutes  # a window whose newest figures are older than this is not answered
    files: dict[str, str]  # file name -> sha256
    training: dict[str, object]
    terms: str
    ranges: Ranges | None = None  # null: drift from the training is not known


@dataclass(frozen=True, slots=True)
class Package:
    """A verified package: the card, its hash (which covers the files' hashes) and the two graphs."""

    card: Card
    sha256: str
    sampler: bytes
    policy: bytes


def read_package(folder: Path) -> Package:
    """Return the package in a folder, verified.

    Raises:
        PackageRejected: a file is missing or has another checksum, the card does not parse, or the features differ.
    """
    raw = read_file(folder, CARD)
    check_format(folder, raw, "format", FORMAT)
    card = decoded(folder, raw, Card)
    check_features(folder, card.feature_version, card.slots_sha256)
    _check_numbers(folder, card)
    sampler, policy = (read_verified(folder, name, card.files) for name in (SAMPLER, POLICY))
    return Package(card=card, sha256=hashlib.sha256(raw).hexdigest(), sampler=sampler, policy=policy)


def _check_numbers(folder: Path, card: Card) -> None:
    """Refuse a card whose lists of numbers have the wrong length for their inputs or for one another."""
    hourly, coming, slots = card.base.forecast, card.base.outlook, card.statistics
    stages = coming.stages
    wanted: dict[str, tuple[object, tuple[int, ...]]] = {
        "statistics.mean": (slots.mean, (WIDTH,)),
        "statistics.std": (slots.std, (WIDTH,)),
        "base.forecast.with_history": (hourly.with_history, (len(forecast.INPUTS) + 1,)),
        "base.forecast.trend_only": (hourly.trend_only, (forecast.TRENDS + 1,)),
        "base.outlook.with_history": (coming.with_history, (stages, len(outlook.INPUTS) + 1)),
        "base.outlook.trend_only": (coming.trend_only, (stages, len(outlook.TRENDS) + 1)),
        "base.outlook.spread": (coming.spread, (stages, 2)),
        "base.outlook.trend_spread": (coming.trend_spread, (stages,)),
    }
    if card.ranges is not None:
        wanted |= {"ranges.low": (card.ranges.low, (WIDTH,)), "ranges.high": (card.ranges.high, (WIDTH,))}
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
