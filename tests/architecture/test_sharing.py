"""The paths by which test files are shared out among processes name files: one that was renamed would lose its turn unnoticed."""

from pathlib import Path

import pytest

from tests.support.sharing import NAMED, turn

ROOT = Path(__file__).parents[2]
FILES = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "tests").rglob("test_*.py"))]


@pytest.mark.parametrize("named", sorted(NAMED))
def test_a_path_that_is_named_is_there(named: str) -> None:
    """A file, a folder, or how the names of some files begin."""
    assert [path for path in FILES if path.startswith(named)] != []


def test_a_long_file_has_its_turn_before_others() -> None:
    """In the order in which they are named; all others come last, together."""
    paths = ("tests/integration/test_hung_roles.py", "tests/e2e/test_up.py", "tests/x/test_y.py")
    turns = [turn(f"{path}::test") for path in paths]
    assert turns == sorted(set(turns))
