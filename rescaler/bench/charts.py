"""Bars, pairs of dots and lines as SVG text. Same data, same bytes: no clock, no library, fonts left to the reader.

What it does not do: know what is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999")
"""Okabe and Ito's, told apart by everyone."""
_INK, _GRID = "#333333", "#dddddd"
_LINE = 18
"""Height of a line of text."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of grouped bars: ``values[series][group]``; None leaves a gap."""

    title: str
    groups: Sequence[str]
    values: Mapping[str, Sequence[float | None]]


@dataclass(frozen=True, slots=True)
class Pair:
    """One row of a chart of dots: what was claimed and what was found, as shares."""

    label: str
    claimed: float
    found: float


def bars(panels: Sequence[Panel], *, columns: int = 3, colours: Sequence[str] = COLOURS, width: int = 300) -> str:
    """Panels of grouped bars in a grid, with one legend; all panels have the same series. Zero is always in the picture."""
    height = 200
    series = list(panels[0].values)
    parts = [_legend(series, colours, 10, 10)] if len(series) > 1 else []
    top = 2 * _LINE if parts else 0
    for at, panel in enumerate(panels):
        left, upper = at % columns * width, top + at // columns * height
        parts.append(f'<g transform="translate({left} {upper})">{_bar_panel(panel, width, height, colours)}</g>')
    return _svg(columns * width, top + ceil(len(panels) / columns) * height, parts)


def _bar_panel(panel: Panel, width: int, height: int, colours: Sequence[str]) -> str:
    left, bottom, upper = 48, height - 30, 30
    found = [value for values in panel.values.values() for value in values if value is not None]
    ticks = _ticks(min(0.0, *found), max(0.0, *found))
    scale = (bottom - upper) / (ticks[-1] - ticks[0])

    def y(value: float) -> float:
        return bottom - (value - ticks[0]) * scale

    parts = [_text(panel.title, left, 18, weight="bold")]
    for tick in ticks:
        parts += [_rule(left, y(tick), width - 8, y(tick)), _text(_number(tick), left - 4, y(tick) + 4, anchor="end")]
    slot = (width - 8 - left) / len(panel.groups)
    bar = slot * 0.8 / len(panel.values)
    for place, (values, colour) in enumerate(zip(panel.values.values(), colours, strict=False)):
        for at, value in enumerate(values):
            if value is not None:
                x, high, low = left + at * slot + slot * 0.1 + place * bar, y(max(value, 0.0)), y(min(value, 0.0))
                parts.append(f'<rect x="{x:.1f}" y="{high:.1f}" width="{bar:.1f}" height="{low - high:.1f}" fill="{colour}"/>')
    for at, group in enumerate(panel.groups):
        parts.append(_text(group, left + (at + 0.5) * slot, height - 12, anchor="middle"))
    return "".join(parts)


def pairs(title: str, rows: Sequence[Pair]) -> str:
    """Rows of two dots joined by a line: an empty one for what was claimed, a full one for what was found."""
    left, width, upper = 280, 800, 2 * _LINE + 8
    ticks = _ticks(min(min(row.claimed, row.found) for row in rows), max(max(row.claimed, row.found) for row in rows))
    bottom = upper + _LINE * len(rows)

    def x(value: float) -> float:
        return left + (value - ticks[0]) / (ticks[-1] - ticks[0]) * (width - left - 30)

    parts = [_text(title, 8, 18, weight="bold")]
    for tick in ticks:
        parts += [_rule(x(tick), upper - 4, x(tick), bottom), _text(_percent(tick), x(tick), upper - 8, anchor="middle")]
    for at, row in enumerate(rows):
        y = upper + _LINE * (at + 0.5)
        parts += [
            _text(row.label, left - 10, y + 4, anchor="end"),
            f'<line x1="{x(row.claimed):.1f}" y1="{y:.1f}" x2="{x(row.found):.1f}" y2="{y:.1f}" stroke="{COLOURS[6]}"/>',
            f'<circle cx="{x(row.claimed):.1f}" cy="{y:.1f}" r="4" fill="#ffffff" stroke="{COLOURS[5]}" stroke-width="2"/>',
            f'<circle cx="{x(row.found):.1f}" cy="{y:.1f}" r="4" fill="{COLOURS[0]}"/>',
        ]
    return _svg(width, int(bottom) + 10, parts)


def lines(title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Lines with dots; both axes begin at 0."""
    width, height, left, upper = 560, 320, 64, 56
    bottom, right = height - 44, width - 20
    points = [point for each in series.values() for point in each]
    across, up = _ticks(0.0, max(x for x, _ in points)), _ticks(0.0, max(y for _, y in points))

    def place(x: float, y: float) -> tuple[float, float]:
        return left + x / across[-1] * (right - left), bottom - y / up[-1] * (bottom - upper)

    parts = [_text(title, 8, 18, weight="bold"), _legend(list(series), COLOURS, 240, 34)]
    for tick in up:
        parts += [_rule(left, place(0, tick)[1], right, place(0, tick)[1])]
        parts += [_text(_number(tick), left - 6, place(0, tick)[1] + 4, anchor="end")]
    parts += [_text(_number(tick), place(tick, 0)[0], bottom + 16, anchor="middle") for tick in across]
    parts += [_text(x_label, (left + right) / 2, height - 8, anchor="middle"), _text(y_label, 8, upper - 8)]
    for each, colour in zip(series.values(), COLOURS, strict=False):
        placed = [place(x, y) for x, y in each]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed]
    return _svg(width, height, parts)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers around a range, about five."""
    span = (high - low) or 1.0
    step = 10.0 ** floor(log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    return [at * step for at in range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{round(value, 9):g}"


def _percent(share: float) -> str:
    return f"{share * 100:+.0f} %" if abs(share) > 1e-9 else "0 %"


def _legend(names: Sequence[str], colours: Sequence[str], left: float, upper: float) -> str:
    parts, x = [], left
    for name, colour in zip(names, colours, strict=False):
        parts.append(f'<rect x="{x:.1f}" y="{upper:.1f}" width="11" height="11" fill="{colour}"/>')
        parts.append(_text(name, x + 16, upper + 10))
        x += 34 + 6.6 * len(name)
    return "".join(parts)


def _rule(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{_GRID}"/>'


def _text(words: str, x: float, y: float, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" fill="{_INK}">{escape(words)}</text>'


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    background = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([f'{head} font-family="sans-serif" font-size="12">', background, *parts, "</svg>"]) + "\n"
