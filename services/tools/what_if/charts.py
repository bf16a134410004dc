"""Charts of a report as SVG text, for a page that opens without a network. Colours come from the page's style sheet."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

WIDTH, HEIGHT = 900, 200
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 10, 24
_TICKS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One curve; ``most`` shades the band from the curve up to it. ``place`` picks its colour; -1: the recording itself."""

    label: str
    values: Sequence[float]
    place: int
    most: Sequence[float] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """One difference with its interval; ``error``: of the fitted world, None if unknown."""

    label: str
    mean: float
    low: float
    high: float
    error: float | None
    is_shown: bool


def lines(title: str, unit: str, curves: Sequence[Line], times: Sequence[str]) -> str:
    """Return curves over time; all have one value for each of ``times`` (ISO instants)."""
    top = _nice(max((max(max(each.values, default=0.0), max(each.most, default=0.0)) for each in curves), default=0.0))
    parts = [_axis(top, _LEFT, WIDTH - _RIGHT), _times(times)]
    for each in curves:
        if each.most:
            up = _points(each.most, top)
            down = list(reversed(_points(each.values, top)))
            parts.append(f'<polygon class="band c{each.place}" points="{" ".join((*up, *down))}"/>')
    for each in curves:
        kind = f"c{each.place}" if each.place >= 0 else "recorded"
        points = " ".join(_steps(each.values, top))
        parts.append(f'<polyline class="{kind}" points="{points}"><title>{escape(each.label)}</title></polyline>')
    keys = "".join(
        f'<li><span class="key {f"c{each.place}" if each.place >= 0 else "recorded"}"></span>{escape(each.label)}</li>'
        for each in curves
    )
    return (
        f"<figure><figcaption>{escape(title)} <small>{escape(unit)}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}, {escape(unit)}">{"".join(parts)}</svg>'
        f"<ul class=keys>{keys}</ul></figure>"
    )


def differences(title: str, unit: str, bars: Sequence[Bar]) -> str:
    """Return a row for each variant: its difference to the baseline with the interval, over the error of the fitted world."""
    reach = _nice(max((abs(value) for each in bars for value in (each.low, each.high, each.error or 0.0)), default=1.0))
    height, left, right = 30 * len(bars) + _BOTTOM + _TOP, 240, WIDTH - _RIGHT

    def across(value: float) -> float:
        return left + (value + reach) / (2 * reach) * (right - left)

    parts = []
    for at, each in enumerate(bars):
        y = _TOP + 30 * at + 15
        if each.error is not None and each.error > 0:
            x, wide = across(-each.error), across(each.error) - across(-each.error)
            parts.append(f'<rect class="error" x="{x:.1f}" y="{y - 12}" width="{wide:.1f}" height="24"/>')
        kind = "shown" if each.is_shown else "unshown"
        told = f"{each.label}: {each.mean:+.4g} {unit}, 95 % from {each.low:.4g} to {each.high:.4g}"
        parts.append(
            f'<g class="{kind}"><title>{escape(told)}</title><line x1="{across(each.low):.1f}" x2="{across(each.high):.1f}" '
            f'y1="{y}" y2="{y}"/><circle cx="{across(each.mean):.1f}" cy="{y}" r="5"/></g>'
            f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(_cut(each.label))}</text>'
        )
    base = height - _BOTTOM + 4
    zero = f'<line class="zero" x1="{across(0):.1f}" x2="{across(0):.1f}" y1="{_TOP}" y2="{base}"/>'
    ticks = "".join(
        f'<text class="tick" x="{across(value):.1f}" y="{height - 4}" text-anchor="{anchor}">{_number_in_words(value)}</text>'
        for value, anchor in ((-reach, "start"), (0.0, "middle"), (reach, "end"))
    )
    return (
        f"<figure><figcaption>{escape(title)} <small>{escape(unit)}</small></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}, differences">'
        f"{''.join(parts)}{zero}{ticks}</svg></figure>"
    )


def _points(values: Sequence[float], top: float) -> list[str]:
    last = max(1, len(values) - 1)
    return [f"{_LEFT + at / last * (WIDTH - _LEFT - _RIGHT):.1f},{_down(value, top):.1f}" for at, value in enumerate(values)]


def _steps(values: Sequence[float], top: float) -> list[str]:
    """Return the corners of a curve without the points in the middle of a level stretch."""
    points = _points(values, top)
    return [
        point
        for at, point in enumerate(points)
        if at in (0, len(points) - 1) or values[at] != values[at - 1] or values[at] != values[at + 1]
    ]


def _down(value: float, top: float) -> float:
    return _TOP + (1.0 - min(value / top, 1.0)) * (HEIGHT - _TOP - _BOTTOM)


def _axis(top: float, left: float, right: float) -> str:
    parts = []
    for at in range(_TICKS + 1):
        value = top * at / _TICKS
        y = _down(value, top)
        parts.append(f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{_number_in_words(value)}</text>')
    return "".join(parts)


def _times(times: Sequence[str]) -> str:
    if not times:
        return ""
    last = max(1, len(times) - 1)
    shown = sorted({round(at * last / 6) for at in range(7)} & set(range(len(times))))
    is_long = times[0][:10] != times[-1][:10]
    parts = []
    for at in shown:
        x = _LEFT + at / last * (WIDTH - _LEFT - _RIGHT)
        told = times[at][5:].replace("T", " ") if is_long else times[at][11:]
        anchor = "start" if at == 0 else "end" if at == last else "middle"
        parts.append(f'<text class="tick" x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{told}</text>')
    return "".join(parts)


def _nice(value: float) -> float:
    """Return a round number at or a little above a value."""
    if not value > 0:
        return 1.0
    scale = 10.0 ** floor(log10(value))
    return float(next(step * scale for step in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if step * scale >= value * (1 - 1e-9)))


def _number_in_words(value: float) -> str:
    size = abs(value)
    if size >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if size >= 1e4 else f"{value:g}"


def _cut(label: str) -> str:
    return label if len(label) <= 34 else f"{label[:33]}…"
