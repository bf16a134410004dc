"""Headers of records are read in one place, which knows that their names may be no text."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = sorted(link.resolve() for link in (ROOT / "src" / "surescale").iterdir() if link.is_symlink())
GUARD = "runtime/topic_records.py"
"""The client gives a list with a hole for a name that is no text; a role that takes it crashes (``headers_of``)."""
_OURS = frozenset({"span", "context", "_context", "_access"})
"""What has headers to send, and reads none: a place in a trace, and what a request shows to be let in."""
_BY_NAME = frozenset({"methodcaller", "attrgetter", "getattr"})


def reads_headers(source: str) -> bool:
    """Say whether a module asks anything but what it sends for ``headers()``, or hands on the name of that method."""
    if "headers" not in source:
        return False  # parsing takes long
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        *of, asked = ast.unparse(node.func).split(".")
        names = {each.value for each in node.args if isinstance(each, ast.Constant)}
        if (asked == "headers" and of and of[-1] not in _OURS) or (asked in _BY_NAME and "headers" in names):
            return True
    return False


def test_headers_of_a_record_are_read_in_one_guarded_place() -> None:
    """Everything else asks that place."""
    found = {
        path.relative_to(ROOT).as_posix() for room in ROOMS for path in room.rglob("*.py") if reads_headers(path.read_text())
    }
    assert found == {GUARD}


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("record.headers()", True),
        ("dict(message.headers() or [])", True),
        ("operator.methodcaller('headers')(record)", True),
        ("getattr(record, 'headers')()", True),
        ("span.headers()", False),
        ("self._access.headers()", False),
        ("request.headers", False),
    ],
)
def test_a_look_at_a_records_headers_is_recognised(source: str, reads: bool) -> None:
    """What only has headers to send is none."""
    assert reads_headers(source) is reads
