"""Files that are written whole or not at all."""

from pathlib import Path

import pytest

from contracts.errors import SettingsError
from runtime.whole_files import check_folder, write_whole


def test_a_file_is_replaced_and_its_folder_made(tmp_path: Path) -> None:
    """Nothing else is left in the folder."""
    path = tmp_path / "reports" / "a.json"
    write_whole(path, "old", option="--report")
    write_whole(path, "new", option="--report")
    assert [(each.name, each.read_text()) for each in path.parent.iterdir()] == [("a.json", "new")]


def test_a_write_that_fails_leaves_the_former_file(tmp_path: Path) -> None:
    """A text that cannot be written as UTF-8 harms nothing."""
    path = tmp_path / "a.json"
    write_whole(path, "old", option="--report")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "\udc80", option="--report")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.json", "old")]


def test_a_file_that_cannot_be_written_is_one_line_with_the_option(tmp_path: Path) -> None:
    """And not the operating system's number alone."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"^--report: .+/file/a\.json cannot be written \(.+\); name another file$"):
        write_whole(tmp_path / "file" / "a.json", "text", option="--report")


def test_a_folder_that_is_not_there_is_refused_before_the_work(tmp_path: Path) -> None:
    """A file in the folder that one is in needs none."""
    check_folder(Path("a.json"), option="--out")
    check_folder(tmp_path / "a.json", option="--out")
    with pytest.raises(SettingsError, match=r"^--out: folder .+/nowhere does not exist; create it first$"):
        check_folder(tmp_path / "nowhere" / "a.json", option="--out")
