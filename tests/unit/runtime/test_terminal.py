"""Text from records on a person's terminal: shown, never obeyed."""

import io
import re

import pytest
from rich.table import Table
from rich.text import Text

from surescale.runtime.printable import printable
from surescale.runtime.terminal import SafeConsole, plain

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07",  # clears the screen, sets the window's title
    "a\x9b31mb",  # the same in one byte
    "a\rb\x08\x7f\x00",
    "a\u202eb\u2066c",  # turns the direction of writing
    "alice\n   2  approved by security",
    "a\u2028b\x85c\x0b\x0cd",
)


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_what_a_terminal_would_obey_is_escaped(text: str) -> None:
    """Everything is still there to be read."""
    shown = printable(text)
    assert shown.isprintable()
    assert shown.encode("latin-1", "backslashreplace").decode("unicode_escape") == text


@pytest.mark.parametrize("text", ["sim/clicks", "in[/x]", "Größe 東京 ✓", ""])
def test_ordinary_text_stays(text: str) -> None:
    """Letters of any language, brackets and signs."""
    assert printable(text) == text


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_control_character_passes_the_console(text: str, is_terminal: bool) -> None:
    """However it is printed: in a cell, in a title, as a line, in colours."""
    table = Table("name", title=Text(text))
    table.add_row(Text(text, style="bold"))
    table.add_row(text)
    grid = Table.grid()
    grid.add_row(plain(text))
    written = io.StringIO()
    console = SafeConsole(file=written, force_terminal=is_terminal, color_system=None, width=200)
    console.print(table, grid, Text(text), text, sep="\n")
    assert {each for each in written.getvalue() if not each.isprintable()} <= {"\n"} | ({"\x1b"} if is_terminal else set())
    assert "\x1b[2J" not in written.getvalue()
    assert "\x1b]" not in written.getvalue()


def test_a_line_break_in_a_record_makes_no_line() -> None:
    """Else a name could end its own line and make up the next."""
    assert plain("alice\nbob").plain == "alice\\nbob"


def test_a_table_that_is_too_wide_loses_nothing() -> None:
    """Its cells break into lines; an ellipsis would hide the end of a name or of a figure."""
    table = Table("task", "records")
    table.add_row("J14_1_2_4_7_8_10_11_13", "13,532")
    written = io.StringIO()
    SafeConsole(file=written, width=20).print(table)
    assert "…" not in written.getvalue()
    assert "".join(re.findall(r"[\w,]+", written.getvalue())).count("_") == 8
