"""Files that are written whole or not at all."""

import os
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.runtime.atomic_files import check_folder, write_atomically


def test_a_file_is_replaced_and_its_folder_made(tmp_path: Path) -> None:
    """Nothing else is left in the folder."""
    path = tmp_path / "reports" / "a.json"
    write_atomically(path, "old", option="--out")
    write_atomically(path, "new", option="--out")
    assert [(each.name, each.read_text()) for each in path.parent.iterdir()] == [("a.json", "new")]


def test_a_write_that_fails_leaves_the_former_file(tmp_path: Path) -> None:
    """A text that cannot be written as UTF-8 harms nothing."""
    path = tmp_path / "a.json"
    write_atomically(path, "old", option="--out")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\udc80", option="--out")
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.json", "old")]


def test_a_file_that_cannot_be_written_is_one_line_with_the_option(tmp_path: Path) -> None:
    """And not the operating system's number alone."""
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match=r"^--out: .+/file/a\.json cannot be written \(.+\); name another file$"):
        write_atomically(tmp_path / "file" / "a.json", "text", option="--out")


def test_a_folder_that_is_not_there_is_refused_before_the_work(tmp_path: Path) -> None:
    """A file in the folder that one is in needs none."""
    check_folder(Path("a.json"), option="--out")
    check_folder(tmp_path / "a.json", option="--out")
    with pytest.raises(SettingsError, match=r"^--out: folder .+/nowhere does not exist; create it first$"):
        check_folder(tmp_path / "nowhere" / "a.json", option="--out")


def test_a_name_that_is_too_long_is_refused_before_the_work(tmp_path: Path) -> None:
    """Also one that only the temporary file beside it makes too long; nothing is left behind."""
    for length in (250, 300):
        with pytest.raises(SettingsError, match=r"^--out: .+ cannot be written \(file name too long\); name another file$"):
            check_folder(tmp_path / ("r" * length), option="--out")
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_plain_file_is_never_replaced(tmp_path: Path) -> None:
    """A folder, a pipe or a device keeps its place, and that is said before the work."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for place in (tmp_path, pipe, Path(os.devnull)):
        for refuse in (
            lambda path: check_folder(path, option="--out"),
            lambda path: write_atomically(path, "text", option="--out"),
        ):
            with pytest.raises(SettingsError, match=r"^--out: .+ is not a regular file; name another one$"):
                refuse(place)
    assert pipe.is_fifo()


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    """Whoever linked the report to another place finds it there."""
    (tmp_path / "place").mkdir()
    link = tmp_path / "a.json"
    link.symlink_to(tmp_path / "place" / "b.json")
    write_atomically(link, "text", option="--out")
    assert link.is_symlink()
    assert (tmp_path / "place" / "b.json").read_text() == "text"
