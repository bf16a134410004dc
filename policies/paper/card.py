"""A package of the paper's policies on disk: ``card.json`` and the ONNX graphs of its kind. Reads and verifies them.

Kinds: ``subgraph`` (SURE and its ablations: ``sampler.onnx``, ``policy.onnx``, sampling in numpy between them), ``whole`` (one
graph over the whole window: ``model.onnx``), ``sequential`` (``encoder.onnx`` once, ``decoder.onnx`` task by task), ``recurrent``
(``prepare.onnx`` once, ``cell.onnx`` minute by minute, ``act.onnx`` once).
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from surescale.contracts.errors import UNREADABLE
from surescale.contracts.foreign_files import contents
from surescale.contracts.messages import Text
from surescale.policies.drift import Ranges
from surescale.policies.features import SURE_WIDTH
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

FORMAT = 1
FILES: dict[str, tuple[str, ...]] = {
    "subgraph": ("sampler.onnx", "policy.onnx"),
    "whole": ("model.onnx",),
    "sequential": ("encoder.onnx", "decoder.onnx"),
    "recurrent": ("prepare.onnx", "cell.onnx", "act.onnx"),
}
Kind = Literal["subgraph", "whole", "sequential", "recurrent"]


class PaperCard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a package states about itself; ``training`` is for people and reports."""

    paper_format: int
    kind: Kind
    name: Text
    method: str  # SURE, w/o NVSS, DeepWeave, ...
    feature_version: int
    slots_sha256: str
    window_minutes: Minutes
    span_minutes: Minutes
    stale_minutes: StaleMinutes
    hidden: int
    anchors: Annotated[int, Meta(ge=0)] = 0  # k1, kind subgraph
    neighbours_share: Annotated[float, Meta(ge=0.0)] = 0.0
    neighbours_max: Annotated[int, Meta(ge=0)] = 0
    direction: Literal["down", "both"] = "down"
    sampler: Literal["learned", "uniform"] = "learned"
    reach: Annotated[float, Meta(gt=0.0, le=1.0)] = 1.0  # the action that means a ratio of 2
    rounding: Literal["half-up", "towards-zero"] = "half-up"  # of the change an action means
    files: dict[str, str]
    training: dict[str, object]
    terms: str
    ranges: Ranges | None = None  # of the features in training; null: drift from it is not known


@dataclass(frozen=True, slots=True)
class PaperPackage:
    """A verified package: the card, its hash (which covers the files' hashes) and the graphs by file name."""

    card: PaperCard
    sha256: str
    graphs: dict[str, bytes] = field(repr=False)


def is_paper_package(folder: Path) -> bool:
    """Return whether a folder holds a card of this kind, and not one of the default policy."""
    try:
        fields = msgspec.json.decode(contents(folder / CARD))
    except (OSError, *UNREADABLE):
        return False
    return isinstance(fields, dict) and "paper_format" in fields


def read_paper_package(folder: Path) -> PaperPackage:
    """Return the package in a folder, verified.

    Raises:
        PackageRejected: a file is missing or has another checksum, the card does not parse, or the features differ.
    """
    raw = read_file(folder, CARD)
    check_format(folder, raw, "paper_format", FORMAT)
    card = decoded(folder, raw, PaperCard)
    if card.kind == "subgraph" and card.anchors < 1:
        raise PackageRejected(f"{folder.name}/{CARD}: anchors must be at least 1; export the package again")
    if _trained_in(card) == "compat" and card.reach == 1.0:
        raise PackageRejected(
            f"{folder.name}/{CARD} lacks reach, the action that doubles a task: it was trained in compat; export its run again"
        )
    if card.ranges is not None and {len(card.ranges.low), len(card.ranges.high)} != {SURE_WIDTH}:
        raise PackageRejected(f"{folder.name}/{CARD}: ranges must hold {SURE_WIDTH} numbers each; export the package again")
    check_features(folder, card.feature_version, card.slots_sha256)
    graphs = {name: read_verified(folder, name, card.files) for name in FILES[card.kind]}
    return PaperPackage(card=card, sha256=hashlib.sha256(raw).hexdigest(), graphs=graphs)


def _trained_in(card: PaperCard) -> object:
    """Return the mode in the training's settings, None if they have none."""
    settings = card.training.get("settings")
    return settings.get("mode") if isinstance(settings, dict) else None
