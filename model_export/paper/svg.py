"""Lines with error bars, a heat map, a scatter and grouped bars as SVG text. Same data, same bytes: no clock, no library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import ceil, floor, log10

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442", "#000000")
"""Okabe and Ito's, told apart by everyone."""
INK, GRID = "#333333", "#dddddd"
WIDTH, HEIGHT = 340, 240
LEFT, TOP, RIGHT, BOTTOM = 56, 30, 12, 44


@dataclass(frozen=True, slots=True)
class Line:
    """One line: values at the panel's places, and the ends of their error bars."""

    values: Sequence[float | None]
    ends: Sequence[tuple[float, float] | None] = field(default=())


@dataclass(frozen=True, slots=True)
class Panel:
    """One chart of lines over named places."""

    title: str
    across: str
    places: Sequence[str]
    lines: Mapping[str, Line]


def lines(panels: Sequence[Panel], columns: int = 2) -> str:
    """Return panels of lines in a grid; each has its own legend."""
    parts = [
        f'<g transform="translate({at % columns * WIDTH} {at // columns * HEIGHT})">{_line_panel(panel)}</g>'
        for at, panel in enumerate(panels)
    ]
    return svg(columns * WIDTH, ceil(len(panels) / columns) * HEIGHT, parts)


def _line_panel(panel: Panel) -> str:
    found = [value for line in panel.lines.values() for value in line.values if value is not None]
    found += [end for line in panel.lines.values() for pair in line.ends if pair is not None for end in pair]
    if not found:
        return text(panel.title, LEFT, 14, weight="bold") + text("no results yet", WIDTH / 2, HEIGHT / 2, anchor="middle")
    marks = ticks(min(found), max(found))
    step = (WIDTH - LEFT - RIGHT) / max(1, len(panel.places))

    def x(place: int) -> float:
        return LEFT + (place + 0.5) * step

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (value - marks[0]) / (marks[-1] - marks[0]) * (HEIGHT - TOP - BOTTOM)

    parts = [text(panel.title, LEFT, 14, weight="bold"), text(panel.across, WIDTH / 2, HEIGHT - 8, anchor="middle")]
    for mark in marks:
        parts.append(rule(LEFT, y(mark), WIDTH - RIGHT, y(mark), GRID))
        parts.append(text(f"{mark:g}", LEFT - 4, y(mark) + 4, anchor="end"))
    parts += [text(place, x(at), HEIGHT - BOTTOM + 16, anchor="middle") for at, place in enumerate(panel.places)]
    for at, (name, line) in enumerate(panel.lines.items()):
        colour = COLOURS[at % len(COLOURS)]
        dots = [(x(place), y(value)) for place, value in enumerate(line.values) if value is not None]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in dots)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="{colour}"/>' for a, b in dots]
        for place, pair in enumerate(line.ends):
            if pair is not None:
                parts.append(rule(x(place), y(pair[0]), x(place), y(pair[1]), colour))
        parts.append(f'<rect x="{LEFT + 90 * at}" y="19" width="9" height="9" fill="{colour}"/>')
        parts.append(text(name, LEFT + 90 * at + 13, 27))
    return "".join(parts)


@dataclass(frozen=True, slots=True)
class Heat:
    """A table of values [rows][columns]; ``breaks`` names runs of columns."""

    title: str
    values: Sequence[Sequence[float]]
    rows: Sequence[str]
    breaks: Sequence[tuple[int, str]]


def heat_maps(maps: Sequence[Heat]) -> str:
    """Return heat maps side by side; dark is low, and every map has its own scale."""
    size = 6
    parts, left = [], 0.0
    for heat in maps:
        values = [value for row in heat.values for value in row]
        low, high = min(values), max(values)
        wide = max(3 * size * len(heat.values[0]), 150)
        cell = wide / len(heat.values[0])
        origin = left + 40
        parts.append(text(f"{heat.title} ({low:.2f} to {high:.2f})", origin, 14, weight="bold"))
        for r, row in enumerate(heat.values):
            for c, value in enumerate(row):
                colour = _shade((value - low) / (high - low) if high > low else 0.5)
                parts.append(
                    f'<rect x="{origin + c * cell:.1f}" y="{36 + r * size}" width="{cell:.1f}" height="{size}" fill="{colour}"/>'
                )
        bottom = 36 + size * len(heat.values)
        for r, name in enumerate(heat.rows):
            if name:
                parts.append(text(name, origin - 4, 36 + (r + 1) * size, anchor="end"))
        for column, name in heat.breaks:
            parts.append(rule(origin + column * cell, 32, origin + column * cell, bottom, INK))
            parts.append(text(name, origin + column * cell + 2, 30))
        left = origin + wide + 20
    return svg(int(left), 36 + size * max(len(heat.values) for heat in maps) + 14, parts)


def _shade(share: float) -> str:
    """Return a colour between a dark blue and a light yellow."""
    low, high = (13, 29, 82), (253, 231, 110)
    mixed = [round(a + (b - a) * share) for a, b in zip(low, high, strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


def scatter(title: str, points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return dots in the plane, one colour a name; axes mean nothing and are left out."""
    every = [point for found in points.values() for point in found]
    low_x, high_x = min(a for a, _ in every), max(a for a, _ in every)
    low_y, high_y = min(b for _, b in every), max(b for _, b in every)
    parts = [text(title, 12, 14, weight="bold")]
    for at, (name, found) in enumerate(points.items()):
        colour = COLOURS[at % len(COLOURS)]
        for a, b in found:
            x = 16 + (a - low_x) / max(high_x - low_x, 1e-9) * 330
            y = 30 + (b - low_y) / max(high_y - low_y, 1e-9) * 250
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}" fill-opacity="0.8"/>')
        parts.append(f'<rect x="366" y="{30 + 20 * at}" width="10" height="10" fill="{colour}"/>')
        parts.append(text(name, 381, 39 + 20 * at))
    return svg(480, 300, parts)


def ticks(low: float, high: float) -> list[float]:
    """Return about five round numbers that hold both ends between the first and the last."""
    if high <= low:
        low, high = low - 0.5, high + 0.5
    raw = (high - low) / 4
    base = 10 ** floor(log10(raw))
    step = next(base * factor for factor in (1, 2, 2.5, 5, 10) if base * factor >= raw * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(at * step, 10) for at in range(first, last + 1)]


def text(words: str, x: float, y: float, *, anchor: str = "start", weight: str = "normal") -> str:
    """Return a line of text."""
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="12" font-family="sans-serif" font-weight="{weight}" text-anchor="{anchor}" '
        f'fill="{INK}">{escape(words)}</text>'
    )


def rule(x1: float, y1: float, x2: float, y2: float, colour: str) -> str:
    """Return a thin line."""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"/>'


def svg(width: int, height: int, parts: Sequence[str]) -> str:
    """Return the picture on white."""
    background = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f"{background}\n{body}\n</svg>\n"
    )
