r"""Every pattern of the product ends where its text ends: in Python, ``$`` also matches before a last line break."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(link.resolve() for link in (ROOT / "src" / "surescale").iterdir() if link.is_symlink())
IN_PROSE = frozenset({"runtime/kafka_errors.py", "runtime/logs.py"})
"""They look for words within lines of other programs, where ``$`` is one of several ends."""
_ASKS = frozenset({"compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"})
_MAY_HOLD_ONE = re.compile(rf"""\bre\.({"|".join(sorted(_ASKS))})\(|\bpattern=|["']\^""")
"""What is in the text of each module with a pattern: parsing all of them takes long."""
_HARMLESS = re.compile(
    r"""\\.                                  # escaped
    | \[\^?\]?(?:\\.|[^\]\\])*\]             # one of a class
    | \$\(\?!\\n\)                           # followed by no line break
    | \(\?!(?:\\.|[^()\\]|\((?:\\.|[^()\\])*\))*\)  # of what must not be there: it refuses more
    """,
    re.DOTALL | re.VERBOSE,
)


@cache
def patterns(path: Path) -> tuple[str, ...]:
    """Return the patterns in a module: what ``re`` is asked for, what a field must match, and constants that begin like one."""
    found: list[str] = []
    source = path.read_text()
    for node in ast.walk(ast.parse(source)) if _MAY_HOLD_ONE.search(source) else ():
        given: list[ast.expr] = []
        if isinstance(node, ast.Call):
            given += [each.value for each in node.keywords if each.arg == "pattern"]
            if ast.unparse(node.func).removeprefix("re.") in _ASKS and ast.unparse(node.func).startswith("re."):
                given += node.args[:1]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("^"):
            given.append(node)
        for each in given:
            parts = each.values if isinstance(each, ast.JoinedStr) else [each]
            found.append("".join(part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)))
    return tuple(found)


def ends_loosely(pattern: str) -> bool:
    """Say whether a ``$`` of a pattern also matches before a line break."""
    return "$" in _HARMLESS.sub("", pattern)


MODULES = [path for room in ROOMS for path in sorted(room.rglob("*.py")) if "node_modules" not in path.parts]


def test_no_pattern_lets_a_line_break_through_at_its_end() -> None:
    """A name, an id or a label that ends with one would be another in a log, a file name or a label of a metric."""
    loose = [
        f"{path.relative_to(ROOT)}: {pattern}"
        for path in MODULES
        if str(path.relative_to(ROOT)) not in IN_PROSE
        for pattern in patterns(path)
        if ends_loosely(pattern)
    ]
    assert loose == []


@pytest.mark.parametrize(
    ("pattern", "is_loose"),
    [
        ("^[a-z]+$", True),
        ("^a$|^b$", True),
        (r"^[a-z]+$(?!\n)", False),
        (r"[a-z]+\Z", False),
        (r"\$\.x", False),
        ("[$-~]", False),
    ],
)
def test_a_loose_end_is_recognised(pattern: str, is_loose: bool) -> None:
    """Also in the middle; an escaped sign, and one of a class, is none."""
    assert ends_loosely(pattern) is is_loose


def test_the_patterns_are_found() -> None:
    """Some dozens, with those of fields."""
    found = [pattern for path in MODULES for pattern in patterns(path)]
    assert len(found) > 60
    assert any("24:00" in pattern for pattern in found)
