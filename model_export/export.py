"""Writes packages: whole or not at all, and never over what is no package."""

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import msgspec

from surescale.contracts.errors import SurescaleError
from surescale.model_export.outlook_fit import first_weeks, fit_base
from surescale.policies.package import CARD
from surescale.policies.policy import SPAN_MINUTES
from surescale.policies.registry import FORECAST, RULES
from surescale.policies.sure.package import FORMAT, Card
from surescale.simulation.loops.terms import Terms

STALE_MINUTES = 3
TERMS = (
    "Numbers: Apache-2.0, as surescale. Those that ship are fitted to request counts of the ClarkNet and NASA traces (Internet "
    "Traffic Archive, no restriction on use)."
)


class ExportRefused(SurescaleError):
    """A package cannot have this name or this place; the message says why."""


def check_name(folder: Path, name: str) -> None:
    """Refuse, before the export, a name that cannot be loaded and a place that holds something other than a package.

    Raises:
        ExportRefused: names the option and the fix.
    """
    if not name or "/" in name or "\0" in name or name.startswith(".") or name in (*RULES, FORECAST):
        raise ExportRefused(f"--name {name!r}: a rule has this name or no policy can have it; choose another, such as sure-2")
    target = folder / name
    if target.exists() and not (target / CARD).is_file():
        raise ExportRefused(
            f"--name {name}: {target} exists and is not a package (it has no {CARD}); choose another name or --out"
        )


def export_package(loads: Sequence[str], folder: Path, name: str) -> Path:
    """Fit ``sure`` to the first weeks of loads, write the package ``folder/name`` and return its folder.

    Raises:
        ExportRefused: the name cannot be used, or its place holds something other than a package.
        FitRefused: a load has too little to fit to.
        WorkloadError: there is no such load.
    """
    check_name(folder, name)
    card = Card(
        format=FORMAT,
        name=name,
        base=fit_base(first_weeks(loads)),
        span_minutes=SPAN_MINUTES,
        window_minutes=Terms().window_minutes,
        stale_minutes=STALE_MINUTES,
        training={
            "workloads": list(loads),
            "libraries": {"numpy": version("numpy")},
            "date": datetime.now(UTC).date().isoformat(),
        },
        terms=TERMS,
    )
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        part = Path(scratch) / name
        part.mkdir()
        write_card(card, part)
        return put_in_place(part, folder, name)


def put_in_place(part: Path, folder: Path, name: str) -> Path:
    """Swap a finished package in its scratch folder with the one at ``folder/name``, if any, and return that folder.

    Raises:
        ExportRefused: its place holds something other than a package.
    """
    check_name(folder, name)
    target, before = folder / name, part.with_name(f"{name}.before")
    if target.exists():
        target.replace(before)  # into the scratch folder, which is deleted with it
    part.replace(target)
    return target


def write_card(card: msgspec.Struct, folder: Path) -> None:
    """Write the card, one field a line; the same card gives the same bytes."""
    raw = msgspec.json.format(msgspec.json.encode(card, order="deterministic"), indent=1)
    (folder / CARD).write_bytes(raw + b"\n")
