"""Markdown of reports: tables, and parts of a page that a command keeps up to date."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from surescale.contracts.errors import SurescaleError, reason_of


class PageRejected(SurescaleError):
    """A page cannot be updated: it cannot be read, or it lacks the markers of a part."""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def read_page(page: Path, parts: Iterable[str]) -> str:
    """Return the text of a page that has the markers of some parts.

    Raises:
        PageRejected: the page cannot be read, or lacks the markers of a part.
    """
    try:
        content = page.read_text(encoding="utf-8")
    except OSError as error:
        raise PageRejected(f"--page: cannot read {page} ({reason_of(error)})") from None
    for name in parts:
        begin, end = _markers(name)
        if end not in content.partition(begin)[2]:
            raise PageRejected(f"--page: {page} needs the lines {begin} and {end}")
    return content


def with_part(content: str, name: str, text: str) -> str:
    """Return a page whose part between the markers of ``name`` is replaced by ``text``."""
    begin, end = _markers(name)
    before, _, rest = content.partition(begin)
    after = rest.partition(end)[2]
    return f"{before}{begin}\n\n{text.rstrip()}\n\n{end}{after}"


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
