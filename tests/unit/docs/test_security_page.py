"""Each promise of docs/security.md names the tests that keep it, and they are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "security.md").read_text()
PROMISED = PAGE.split("## What is promised\n")[1].split("\n## ")[0]
ROWS = re.findall(r"^\| (?!promise |---)(.+?) \| (.+) \|$", PROMISED, re.MULTILINE)
_NAMED = re.compile(r"`(tests/[\w/.]+?)(?:::(\w+))?`")


def missing(named: str) -> list[str]:
    """Return the tests that a cell names and that are not there."""
    found = []
    for name, function in _NAMED.findall(named):
        path = ROOT / name
        files = sorted(path.rglob("test_*.py")) if path.is_dir() else [path] if path.is_file() else []
        functions = [each for file in files for each in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)]
        if not functions or (function and function not in functions):
            found.append(f"{name}::{function}" if function else name)
    return found


@pytest.mark.parametrize(("promise", "named"), ROWS, ids=[promise[:60] for promise, _ in ROWS])
def test_a_promise_names_tests_that_exist(promise: str, named: str) -> None:
    """By file, or by file and function; one that is renamed or gone leaves a promise that nobody keeps."""
    assert _NAMED.search(named), f"no test is named for: {promise}"
    assert missing(named) == []


def test_every_row_is_looked_at() -> None:
    """A row that the check could not read would go unnoticed."""
    assert len(ROWS) == PROMISED.count("\n| ") - 2 > 40


def test_a_test_that_is_gone_is_missed() -> None:
    """A function, a file and a folder."""
    here = "tests/unit/docs/test_security_page.py"
    assert missing(f"`{here}::test_a_test_that_is_gone_is_missed`") == []
    assert missing(f"`{here}::test_gone`, `tests/gone.py`, `tests/gone`") == [f"{here}::test_gone", "tests/gone.py", "tests/gone"]
