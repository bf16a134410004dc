"""A model package on disk: ``sampler.onnx``, ``policy.onnx`` and ``card.json``. Reads and verifies; runs nothing."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import numpy as np
from msgspec import Meta

from contracts.errors import SurescaleError
from contracts.messages import Text
from policies import forecast, outlook
from policies.features import FEATURE_VERSION, SLOTS_SHA256, WIDTH
from policies.learned import Base

CARD = "card.json"
SAMPLER = "sampler.onnx"
POLICY = "policy.onnx"
FORMAT = 2  # 1: sizes behind a gate; 2: a plan over scenarios of the load

Minutes = Annotated[int, Meta(ge=1, le=1_440)]
StaleMinutes = Annotated[int, Meta(ge=0, le=1_440)]
Kind = TypeVar("Kind")


class PackageRejected(SurescaleError):
    """A model package is missing, damaged or made for another version of the features; the message says which."""


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
    """What a package says of itself. ``training`` and ``scores`` are for people and reports."""

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
    scores: dict[str, object]
    terms: str


@dataclass(frozen=True, slots=True)
class Package:
    """A verified package: the card, its hash (which covers the files' hashes) and the two graphs."""

    card: Card
    sha256: str
    sampler: bytes
    policy: bytes


def read_package(folder: Path) -> Package:
    """Read and verify a package.

    Raises:
        PackageRejected: a file is missing or has another checksum, the card does not parse, or the features differ.
    """
    raw = read_file(folder, CARD)
    check_format(folder, raw, "format", FORMAT)
    card = decoded(folder, raw, Card)
    check_features(folder, card.feature_version, card.slots_sha256)
    _check_numbers(folder, card)
    sampler, policy = (read_verified(folder, name, card.files) for name in (SAMPLER, POLICY))
    return Package(
        card=card,
        sha256=hashlib.sha256(raw).hexdigest(),
        sampler=sampler,
        policy=policy,
    )


def decoded(folder: Path, raw: bytes | msgspec.Raw, kind: type[Kind]) -> Kind:
    """Return the card in the bytes of ``card.json``.

    Raises:
        PackageRejected: they are no JSON, or a field is missing or out of range; the message names it.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PackageRejected(f"{folder.name}/{CARD} is not a valid card: {error}; export the package again") from None


def check_format(folder: Path, raw: bytes, field: str, wanted: int) -> None:
    """Refuse the bytes of a card of another format, before its fields are read: they may be other ones.

    Raises:
        PackageRejected: they are no JSON object, or ``field`` holds another number.
    """
    fields = decoded(folder, raw, dict[str, msgspec.Raw])
    found = decoded(folder, fields[field], object) if field in fields else wanted
    if found != wanted:
        raise PackageRejected(
            f"{folder.name}/{CARD} has format {found}; this version reads format {wanted}: export the package again"
        )


def _check_numbers(folder: Path, card: Card) -> None:
    """Refuse a card whose lists of numbers do not fit the inputs that they are weights of, or one another."""
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


def check_features(folder: Path, version: int, slots_sha256: str) -> None:
    """Refuse a package whose network was trained on other features than this version makes.

    Raises:
        PackageRejected: version or slots differ.
    """
    if version != FEATURE_VERSION:
        raise PackageRejected(
            f"{folder.name} was trained on feature version {version}; this version makes {FEATURE_VERSION}: train it anew"
        )
    if slots_sha256 != SLOTS_SHA256:
        raise PackageRejected(
            f"{folder.name} was trained on other features of version {version} (slots_sha256 differs): train it anew"
        )


def read_verified(folder: Path, name: str, checksums: Mapping[str, str]) -> bytes:
    """Return a file of a package whose sha256 the card names.

    Raises:
        PackageRejected: it is missing, has another checksum, or the card names none.
    """
    raw = read_file(folder, name)
    if name not in checksums:
        raise PackageRejected(f"{folder.name}/{CARD} is damaged: files holds no checksum of {name}; copy the package again")
    if hashlib.sha256(raw).hexdigest() != checksums[name]:
        raise PackageRejected(f"{folder.name}/{name} is damaged: its checksum is not the one in {CARD}; copy the package again")
    return raw


def read_file(folder: Path, name: str) -> bytes:
    """Return a file of a package.

    Raises:
        PackageRejected: it cannot be read.
    """
    try:
        return (folder / name).read_bytes()
    except OSError as error:
        raise PackageRejected(f"{folder.name}/{name} cannot be read: {error.strerror}") from None
