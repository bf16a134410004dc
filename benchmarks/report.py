"""Print the figures of a benchmark, as JSON or as text."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import click

from benchmarks.machine import conditions_line
from surescale.contracts.errors import SurescaleError

Document = dict[str, Any]
"""Figures by name, nested by section: free in form, since each benchmark prints its own."""
_WIDTH = 44


class BenchFailed(SurescaleError):
    """A benchmark could not take its figures; the message says why."""


def percentile(values: Sequence[float], percent: float) -> float | None:
    """Return a percentile by nearest rank; None if there are no values."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def show(title: str, document: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a report as JSON, or as text with one line per figure and indented sections."""
    if as_json:
        click.echo(json.dumps(document, indent=2))
        return
    click.echo(f"{title}: {conditions_line(document['conditions'])}")
    _lines({name: value for name, value in document.items() if name != "conditions"}, 1)


def say(line: str) -> None:
    """Print a progress line on standard error."""
    click.echo(line, err=True)


def _lines(document: Mapping[str, Any], depth: int) -> None:
    margin = "  " * depth
    for name, value in document.items():
        label = str(name).replace("_", " ")
        if isinstance(value, Mapping):
            click.echo(f"{margin}{label}")
            _lines(value, depth + 1)
        else:
            click.echo(f"{margin}{label:<{_WIDTH - 2 * depth}}{_text(value)}")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".") if abs(value) < 100 else f"{value:,.0f}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list):
        return " ".join(map(_text, value))
    return "-" if value is None else str(value)
