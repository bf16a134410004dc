"""The hand-written pages: one width, links that lead somewhere, and only files that exist."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WIDTH = 100
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "simulation/data/README.md")),
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if "reference" not in path.parts),
]
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def prose(page: Path) -> Iterator[tuple[int, str]]:
    """Yield the numbered lines that are neither code nor written by a command."""
    is_code = is_made = False
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        if re.match("<!-- (paper|bench)[a-z-]*: begin", line):
            is_made = True
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not (is_code or is_made or line.startswith("    ")):
            yield number, line
        if re.match("<!-- (paper|bench)[a-z-]*: end", line):
            is_made = False


def anchors(page: Path) -> set[str]:
    """Return the anchors that a page's headings make, as GitHub names them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def is_breakable(line: str) -> bool:
    """Say whether a line could be wrapped: a table row cannot, nor a line of one word."""
    return not line.startswith("|") and " " in re.sub("`[^`]*`", "x", line).strip()


@pages
def test_prose_wraps_at_one_width(page: Path) -> None:
    """No line of prose is wider than 100 columns."""
    assert [number for number, line in prose(page) if len(line) > WIDTH and is_breakable(line)] == []


def test_the_readme_stays_short() -> None:
    """What does not fit goes to docs/, with a link."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pages
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file that is there and, with an anchor, a heading of that page."""
    lost = []
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)\s]*))?\)", page.read_text(encoding="utf-8")):
        linked = (page.parent / target).resolve() if target else page
        if not linked.exists() or (anchor and anchor not in anchors(linked)):
            lost.append(f"{target}#{anchor}")
    assert lost == []


@cache
def python_files() -> list[Path]:
    """Return every Python file of the repository by its path in it."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    return [path.relative_to(ROOT) for folder in folders for path in folder.rglob("*.py")]


@pages
def test_files_that_are_named_exist(page: Path) -> None:
    """A Python file or folder that a page names in code font is in the repository, by its path or the end of it."""
    named = re.findall(r"`((?:[\w*-]+/)*[\w*-]+\.py)`", "\n".join(line for _, line in prose(page)))
    assert [name for name in named if not any(path.match(name) for path in python_files())] == []
