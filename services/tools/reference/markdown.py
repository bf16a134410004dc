"""Tables and headings of a page. Escapes characters that would end a cell."""

from collections.abc import Iterable, Sequence

NOTE = "Made from code by `make reference`; changes belong there.\n"


def page(title: str, *parts: str) -> str:
    """Return a whole page: title, note and parts, separated by empty lines."""
    return "\n".join([f"# {title}\n", NOTE, *parts]).rstrip("\n") + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    lines += [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """Return a text as inline code; empty for an empty text."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|").replace("\n", " ").strip()
