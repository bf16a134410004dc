"""Files that are written whole or not at all."""

from pathlib import Path

import pytest

from services.whole_files import write_whole


def test_a_file_is_replaced_and_its_folder_made(tmp_path: Path) -> None:
    """Nothing else is left in the folder."""
    path = tmp_path / "reports" / "a.json"
    write_whole(path, "old")
    write_whole(path, "new")
    assert [(each.name, each.read_text()) for each in path.parent.iterdir()] == [("a.json", "new")]


def test_a_write_that_fails_leaves_the_former_file(tmp_path: Path) -> None:
    """A text that cannot be written as UTF-8 harms nothing."""
    path = tmp_path / "a.json"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\udc80")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.json", "old")]
