"""Parts that every model package on disk shares: the names of its files, checks of its card, files read with their checksums."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from surescale.contracts.errors import UNREADABLE, SurescaleError, reason_of
from surescale.contracts.foreign_files import contents
from surescale.policies.features import FEATURE_VERSION, SLOTS_SHA256

CARD = "card.json"
FILE_BYTES_MAX = 64 * 2**20

Minutes = Annotated[int, Meta(ge=1, le=1_440)]
StaleMinutes = Annotated[int, Meta(ge=0, le=1_440)]
Decoded = TypeVar("Decoded")


class PackageRejected(SurescaleError):
    """A model package is missing, damaged or made for another version of the features; the message says which."""


def decoded(folder: Path, raw: bytes | msgspec.Raw, kind: type[Decoded]) -> Decoded:
    """Return the card in the bytes of ``card.json``.

    Raises:
        PackageRejected: they are not JSON, or a field is missing or out of range; the message names it.
    """
    try:
        return msgspec.json.decode(raw, type=kind)
    except UNREADABLE as error:
        raise PackageRejected(f"{folder.name}/{CARD} is not a valid card: {error}; export the package again") from None


def check_format(folder: Path, raw: bytes, field: str, wanted: int) -> None:
    """Refuse a card of another format before reading its fields, which may differ.

    Raises:
        PackageRejected: the bytes are not a JSON object, or ``field`` holds another number.
    """
    fields = decoded(folder, raw, dict[str, msgspec.Raw])
    found = decoded(folder, fields[field], object) if field in fields else wanted
    if found != wanted:
        raise PackageRejected(
            f"{folder.name}/{CARD} has format {found}; this version reads format {wanted}: export the package again"
        )


def check_features(folder: Path, version: int, slots_sha256: str) -> None:
    """Refuse a package whose network was trained on features that this version does not make.

    Raises:
        PackageRejected: version or slots differ.
    """
    if version != FEATURE_VERSION:
        raise PackageRejected(
            f"{folder.name} was trained on feature version {version}; this version makes {FEATURE_VERSION}: train it again"
        )
    if slots_sha256 != SLOTS_SHA256:
        raise PackageRejected(
            f"{folder.name} was trained on other features of version {version} (slots_sha256 differs): train it again"
        )


def read_verified(folder: Path, name: str, checksums: Mapping[str, str]) -> bytes:
    """Return a file of a package after comparing it with the sha256 in the card.

    Raises:
        PackageRejected: it is missing, its checksum differs, or the card has none for it.
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
        return contents(folder / name, FILE_BYTES_MAX)
    except OSError as error:
        raise PackageRejected(f"{folder.name}/{name} cannot be read: {reason_of(error)}") from None
