"""The site of docs/ without its tools, which are not installed for tests: its pages, and what its hooks make of their links."""

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (it comes with kubernetes-validate)")

ROOT = Path(__file__).parents[3]
SITE = yaml.safe_load((ROOT / "mkdocs.yml").read_text())


def _hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", ROOT / "docs/site/hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


hooks = _hooks()


def pages(entries: list[Any]) -> Iterator[str]:
    """Yield every page of the navigation."""
    for entry in entries:
        for value in entry.values() if isinstance(entry, dict) else [entry]:
            if isinstance(value, str):
                yield value
            else:
                yield from pages(value)


def test_every_page_is_in_the_navigation_once() -> None:
    """A page that is added to docs/ gets a place there, in one of four groups."""
    found = sorted(pages(SITE["nav"]))
    made = [str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")]
    assert found == sorted([*made, *hooks.OUTSIDE.values()])
    assert [next(iter(group)) for group in SITE["nav"][1:]] == ["Tutorial", "How-to", "Reference", "Explanation"]


GROUP_MAX = 7


def test_no_how_to_stands_in_a_long_list() -> None:
    """Each in a group by what it is for, of no more than a reader sees at a glance."""
    (how_to,) = (group["How-to"] for group in SITE["nav"] if "How-to" in group)
    groups = {name: entries for group in how_to for name, entries in group.items()}
    assert [name for name, entries in groups.items() if not isinstance(entries, list) or len(entries) > GROUP_MAX] == []


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("README.md", "[a](docs/state.md#live), [b](docs/decisions/)", "[a](state.md#live), [b](decisions/README.md)"),
        ("README.md", "![c](docs/figures/x.png)", "![c](figures/x.png)"),
        ("README.md", "[d](docs/reference/)", "[d](reference/commands.md)"),
        ("docs/notebook/README.md", "[e](../policy.md), [f](../../README.md)", "[e](../policy.md), [f](../index.md)"),
        ("docs/engines.md", "[its\nport](../engines/ports/source.py) and [g](#here)", "its\nport and [g](#here)"),
        ("docs/engines.md", "[h](https://a.b/c), <http://d.e/>", "[h](https://a.b/c), <http://d.e/>"),
    ],
)
def test_links_lead_to_places_of_the_site(page: str, text: str, expected: str) -> None:
    """The README is the first page, a folder its own first page; a file that is no page loses the link and keeps the words."""
    assert hooks.for_site(text, page) == expected


def test_lists_get_the_empty_line_that_the_site_needs_and_code_none() -> None:
    """Code blocks stay as they are, links in them included."""
    text = "Two things:\n- one\n  and more\n- two\n\n```\nx\n- [y](docs/state.md)\n```\n1. first\n"
    spaced = "Two things:\n\n- one\n  and more\n- two\n\n```\nx\n- [y](docs/state.md)\n```\n1. first\n"
    assert hooks.for_site(text, "README.md") == spaced


@pytest.mark.parametrize(
    ("html", "loaded"),
    [
        ('<script src="https://unpkg.com/x"></script>', ["https://unpkg.com/x"]),
        ('<link rel="stylesheet" href=//fonts.example/css>', ["//fonts.example/css"]),
        ('<a href="https://example.org">', []),
        ('<script src="../assets/x.js"></script>', []),
    ],
)
def test_what_a_page_would_load_from_elsewhere_is_seen(html: str, loaded: list[str]) -> None:
    """A link that a reader follows is none of it."""
    assert hooks.LOADED.findall(html) == loaded


def test_the_lock_of_the_site_has_hashes_and_no_address() -> None:
    """And nothing of it is in the lock that everybody installs."""
    lock = (ROOT / "locks/docs.txt").read_text()
    names = [line for line in lock.splitlines() if not line.startswith((" ", "#"))]
    assert all("==" in name and name.endswith("\\") for name in names)
    assert "://" not in lock
    assert "mkdocs" not in (ROOT / "locks/runtime.txt").read_text()
