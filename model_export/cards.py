"""Writes the card of a package."""

from pathlib import Path

import msgspec

from policies.package import CARD


def write_card(card: msgspec.Struct, folder: Path) -> None:
    """Write the card, one field a line; the same card gives the same bytes."""
    raw = msgspec.json.format(msgspec.json.encode(card, order="deterministic"), indent=1)
    (folder / CARD).write_bytes(raw + b"\n")
