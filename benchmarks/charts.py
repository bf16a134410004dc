"""Charts as SVG text, drawn with matplotlib: bars, pairs of dots, lines, heat maps and scatter plots.

The same data give the same bytes: ids have a fixed salt, no date is written, and text stays text.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442", "#000000")
"""Okabe and Ito's palette, which colour-blind readers can tell apart."""
GREY = COLOURS[6]
_PIXELS_PER_INCH = 96
_METADATA: dict[str, Any] = {"Date": None, "Creator": None}
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "surescale",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#333333",
    "grid.color": "#dddddd",
    "legend.frameon": False,
}


class _Drawing:
    """A matplotlib figure to be written as SVG text."""

    def __init__(self, figure: Figure) -> None:
        self.figure = figure

    def svg(self) -> str:
        """Return the figure as SVG text."""
        buffer = io.StringIO()
        self.figure.savefig(buffer, format="svg", metadata=_METADATA)
        return "".join(f"{line.rstrip()}\n" for line in buffer.getvalue().splitlines())


@contextmanager
def _drawing(width: int, height: int) -> Iterator[_Drawing]:
    """Open a drawing of a size in pixels. All charts share one style, whatever a user's own matplotlib settings say."""
    with style.context(["default", _STYLE]):
        yield _Drawing(Figure(figsize=(width / _PIXELS_PER_INCH, height / _PIXELS_PER_INCH), layout="constrained"))


@dataclass(frozen=True, slots=True)
class BarPanel:
    """One chart of grouped bars: ``values[series][group]``; None leaves a gap."""

    title: str
    groups: Sequence[str]
    values: Mapping[str, Sequence[float | None]]


def bars(
    panels: Sequence[BarPanel], *, columns: int = 3, colours: Sequence[str] = COLOURS, width: int = 300, stacked: bool = False
) -> str:
    """Draw panels of grouped bars in a grid with one legend; all panels have the same series.

    ``stacked`` draws all bars of a group in one place. Use it where each group has a value in one series only.
    """
    rows = ceil(len(panels) / columns)
    with _drawing(columns * width, 200 * rows + 40) as drawn:
        for at, panel in enumerate(panels, start=1):
            _bar_panel(drawn.figure.add_subplot(rows, columns, at), panel, colours, stacked=stacked)
        handles, names = drawn.figure.axes[0].get_legend_handles_labels()
        drawn.figure.legend(handles, names, loc="outside upper left", ncols=len(names))
        return drawn.svg()


def _bar_panel(axes: Axes, panel: BarPanel, colours: Sequence[str], *, stacked: bool) -> None:
    bar = 0.8 if stacked else 0.8 / len(panel.values)
    for place, ((name, values), colour) in enumerate(zip(panel.values.items(), colours, strict=False)):
        shift = 0.0 if stacked else (place - (len(panel.values) - 1) / 2) * bar
        there = [(group + shift, value) for group, value in enumerate(values) if value is not None]
        axes.bar([x for x, _ in there], [value for _, value in there], bar, label=name, color=colour)
    axes.set_title(panel.title)
    axes.set_xticks(range(len(panel.groups)), panel.groups)


@dataclass(frozen=True, slots=True)
class Pair:
    """One row of a chart of dots: the claimed and the found value, as shares."""

    label: str
    claimed: float
    found: float


def pairs(title: str, rows: Sequence[Pair]) -> str:
    """Draw rows of two joined dots: a ring for the claimed value, a full dot for the found one."""
    with _drawing(800, 70 + 18 * len(rows)) as drawn:
        axes = drawn.figure.add_subplot()
        places = range(len(rows))
        claimed, found = [row.claimed for row in rows], [row.found for row in rows]
        axes.hlines(places, claimed, found, color=GREY, linewidth=1)
        axes.plot(claimed, places, "o", markersize=6, markerfacecolor="white", markeredgecolor=COLOURS[5], markeredgewidth=1.5)
        axes.plot(found, places, "o", markersize=6, color=COLOURS[0])
        axes.set_title(title)
        axes.set_yticks(places, [row.label for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.xaxis.tick_top()
        axes.xaxis.set_major_formatter(lambda share, _: f"{share * 100:+.0f} %" if abs(share) > 1e-9 else "0 %")
        for spine in axes.spines.values():
            spine.set_visible(False)
        return drawn.svg()


def growth(title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw lines with dots; both axes begin at 0."""
    with _drawing(560, 320) as drawn:
        axes = drawn.figure.add_subplot()
        for (name, points), colour in zip(series.items(), COLOURS, strict=False):
            axes.plot([x for x, _ in points], [y for _, y in points], "o-", markersize=4, color=colour, label=name)
        axes.set_title(title)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend()
        return drawn.svg()


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its values at the panel's places, and the ends of their error bars."""

    values: Sequence[float | None]
    ends: Sequence[tuple[float, float] | None] = field(default=())


@dataclass(frozen=True, slots=True)
class LinePanel:
    """One chart of lines over named places."""

    title: str
    across: str
    places: Sequence[str]
    lines: Mapping[str, Line]


def lines(panels: Sequence[LinePanel], columns: int = 2) -> str:
    """Draw panels of lines in a grid; each has its own legend."""
    rows = ceil(len(panels) / columns)
    with _drawing(columns * 340, rows * 240) as drawn:
        for at, panel in enumerate(panels, start=1):
            _line_panel(drawn.figure.add_subplot(rows, columns, at), panel)
        return drawn.svg()


def _line_panel(axes: Axes, panel: LinePanel) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.across)
    axes.set_xticks(range(len(panel.places)), panel.places)
    for (name, line), colour in zip(panel.lines.items(), COLOURS, strict=False):
        points = [(place, value) for place, value in enumerate(line.values) if value is not None]
        if points:
            axes.plot(
                [place for place, _ in points], [value for _, value in points], "o-", markersize=4, color=colour, label=name
            )
        bounds = [(place, *pair) for place, pair in enumerate(line.ends) if pair is not None]
        if bounds:
            axes.vlines(*zip(*bounds, strict=True), color=colour, linewidth=1)
    if axes.has_data():
        axes.legend()
    else:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.text(0.5, 0.5, "no results yet", ha="center", transform=axes.transAxes)


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A table of values [rows][columns]; ``breaks`` names runs of columns by the first column of each."""

    title: str
    values: Sequence[Sequence[float]]
    rows: Sequence[str]
    breaks: Sequence[tuple[int, str]]


def heat_maps(maps: Sequence[HeatMap]) -> str:
    """Draw heat maps side by side. Dark is low, and every map has its own scale."""
    with _drawing(340 * len(maps), 460) as drawn:
        for at, heat in enumerate(maps, start=1):
            axes = drawn.figure.add_subplot(1, len(maps), at)
            values = [value for row in heat.values for value in row]
            axes.pcolormesh(heat.values, cmap="cividis")
            axes.invert_yaxis()
            axes.grid(visible=False)
            axes.set_title(f"{heat.title} ({min(values):.2f} to {max(values):.2f})")
            axes.set_yticks([place + 0.5 for place, name in enumerate(heat.rows) if name], [name for name in heat.rows if name])
            axes.vlines([column for column, _ in heat.breaks], 0, len(heat.values), color="white", linewidth=1)
            axes.set_xticks([column for column, _ in heat.breaks], [name for _, name in heat.breaks], ha="left")
        return drawn.svg()


def scatter(title: str, points: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Draw dots in the plane, a colour for each name. Axes mean nothing here and are left out."""
    with _drawing(480, 300) as drawn:
        axes = drawn.figure.add_subplot()
        for at, found in enumerate(points.values()):
            axes.scatter([x for x, _ in found], [y for _, y in found], s=30, alpha=0.8, color=COLOURS[at % len(COLOURS)])
        handles = [Line2D([], [], marker="o", linestyle="", color=COLOURS[at % len(COLOURS)]) for at in range(len(points))]
        axes.set_title(title)
        axes.set_axis_off()
        drawn.figure.legend(handles, list(points), loc="outside right upper")
        return drawn.svg()
