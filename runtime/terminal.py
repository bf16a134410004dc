"""Tables for people: where they are printed, how text from records gets there, how names share a cell, and which columns fit."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import fill

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from surescale.runtime.printable import printable

WIDTH_WITHOUT_TERMINAL = 160
NAMES_SHOWN = 2


class SafeConsole(Console):
    """A console that lets no control character through but its own colours and line breaks, and never cuts a table's cell."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the segments of anything printed, each with its control characters escaped; cells that are too long break."""
        if isinstance(renderable, Table):
            for column in renderable.columns:
                column.overflow = "fold"
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable(segment.text, keep="\n"), segment.style)


def console(width_without_terminal: int = WIDTH_WITHOUT_TERMINAL) -> Console:
    """Return a console on standard output that colours only marked-up text.

    It is as wide as the terminal. Where there is none (a file, a pipe, a test) it is as wide as COLUMNS says, or else as given.
    """
    found = SafeConsole(highlight=False)
    return found if found.is_terminal else SafeConsole(highlight=False, width=_asked_width() or width_without_terminal)


def _asked_width() -> int:
    columns = os.environ.get("COLUMNS", "")
    return int(columns) if columns.isascii() and columns.isdigit() and len(columns) < 5 else 0


def hanging(line: str, margin: int) -> str:
    """Return one line of text broken between words to the console's width; what follows begins ``margin`` columns in."""
    indent = " " * margin
    return fill(line, console().width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def plain(text: str, style: str = "") -> Text:
    """Return text of a record on one line: no markup, no line break, no control character."""
    return Text(printable(text), style=style)


def several(names: Sequence[str]) -> str:
    """Return the first names and how many more there are.

    >>> several(["map"]), several(["map", "join", "sink", "R1"])
    ('map', 'map, join and 2 more, each')
    """
    listed = ", ".join(names[:NAMES_SHOWN])
    return listed if len(names) <= NAMES_SHOWN else f"{listed} and {len(names) - NAMES_SHOWN} more, each"


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table that never cuts a cell: where the terminal is too narrow, whole columns are left out.

    Attributes:
        title: its head.
        cells: one per row.
        rank: columns of the highest rank are left out first; those of rank 0 never are, and break into lines if they must.
        right: whether its cells end at its right edge, as numbers do.
    """

    title: str
    cells: Sequence[str | Text]
    rank: int = 0
    right: bool = False

    @property
    def width(self) -> int:
        """Return how many columns of the terminal it takes, with the space around it."""
        return max(cell_len(str(cell)) for cell in (self.title, *self.cells)) + 2


def _least(column: Column, width: int) -> int:
    """Return the width that a column needs: one of rank 0 breaks into lines before it takes more than half of a table."""
    return column.width if column.rank else min(column.width, width // 2)


def middle_cut(text: str, width: int) -> str:
    """Return a text that fits a width: what is too long loses its middle.

    >>> middle_cut("Source: orders -> Calc[2]", 25), middle_cut("Source: orders -> Calc[2]", 14)
    ('Source: orders -> Calc[2]', 'Source:…alc[2]')
    """
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[-end:]}"


def that_fit(columns: Iterable[Column], width: int) -> tuple[list[Column], list[Column]]:
    """Return the columns of a table that fit a width, and those that are left out for it. Columns without content are neither."""
    left = [column for column in columns if any(str(cell) for cell in column.cells)]
    without: list[Column] = []
    while sum(_least(column, width) for column in left) > width and any(column.rank for column in left):
        without.append(max(reversed(left), key=lambda column: column.rank))
        left.remove(without[-1])
    return left, without


def fitting(columns: Iterable[Column], width: int) -> Table:
    """Return a table of the columns that fit a width. Columns without any content are left out, too."""
    left, _ = that_fit(columns, width)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in left:
        table.add_column(plain(column.title), justify="right" if column.right else "left", no_wrap=column.rank > 0)
    for cells in zip(*(column.cells for column in left), strict=True):
        table.add_row(*(cell if isinstance(cell, Text) else plain(cell) for cell in cells))
    return table
