"""Files that would block their reader, or fill its memory."""

import contextlib
import ctypes
import os
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.contracts import foreign_files
from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.foreign_files import BYTES_MAX, KEY_PARTS_MAX, contents, toml_in
from surescale.policies.package import PackageRejected, read_file
from surescale.services.state.access import Tokens


def test_a_file_and_what_comes_out_of_a_pipe_are_read(tmp_path: Path) -> None:
    """A shell makes a pipe of a command that prints a secret; it may take its time, and print in pieces."""
    (tmp_path / "file").write_bytes(b"a secret")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")

    def fill() -> None:
        with (tmp_path / "pipe").open("wb", buffering=0) as pipe:
            pipe.write(b"a ")
            pipe.write(b"secret")

    writer = threading.Thread(target=fill)
    writer.start()
    assert contents(tmp_path / "pipe") == b"a secret"
    writer.join()
    assert contents(tmp_path / "link") == b"a secret"


REFUSED = r"(?i)too large|says nothing|has no end within|too many levels|is a directory"


def drip(pipe: int, ended: threading.Event) -> None:
    """Write a byte now and then, for ever."""
    while not ended.wait(0.02):
        with contextlib.suppress(BlockingIOError):
            os.write(pipe, b"x")


@pytest.fixture
def hung_mount(tmp_path: Path) -> Iterator[None]:
    """A folder ``mount`` whose server never says a word: whoever touches what lies in it waits."""
    mount, libc = tmp_path / "mount", ctypes.CDLL(None)
    mount.mkdir()
    try:
        server = os.open("/dev/fuse", os.O_RDWR)
    except OSError:
        pytest.skip("needs /dev/fuse")
    options = f"fd={server},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}"
    if libc.mount(b"hung", os.fsencode(mount), b"fuse", 0, options.encode()):
        os.close(server)
        pytest.skip("may not mount")
    yield
    libc.umount2(os.fsencode(mount), 2)  # at once, whoever is in it
    os.close(server)


@pytest.fixture(params=["sparse", "zero", "pipe", "held", "drips", "hung", "loop", "folder"])
def odd(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file that has no end, says nothing, is larger than any memory, or is none."""
    monkeypatch.setattr(foreign_files, "SILENT_S", 0.2)
    monkeypatch.setattr(foreign_files, "WHOLE_S", 1.0)
    path, held, ended, writer = tmp_path / "odd", None, threading.Event(), None
    match request.param:
        case "sparse":
            with path.open("wb") as file:
                file.truncate(2**40)
        case "zero":
            path.symlink_to("/dev/zero")
        case "pipe":
            os.mkfifo(path)
        case "held":
            os.mkfifo(path)
            held = os.open(path, os.O_RDWR)  # a writer that says nothing
        case "drips":
            os.mkfifo(path)
            held = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            writer = threading.Thread(target=drip, args=(held, ended))
            writer.start()
        case "hung":
            request.getfixturevalue("hung_mount")
            path = tmp_path / "mount" / "odd"
        case "loop":
            path.symlink_to(path)
        case "folder":
            path.mkdir()
    yield path
    ended.set()
    if writer is not None:
        writer.join()
    if held is not None:
        os.close(held)


def test_no_file_blocks_its_reader_or_fills_its_memory(odd: Path) -> None:
    """The error has one line of reason."""
    with pytest.raises(OSError, match=REFUSED) as refused:
        contents(odd)
    assert "\n" not in reason_of(refused.value)


def test_neither_tokens_nor_packages_are_read_beyond_a_limit(odd: Path) -> None:
    """Each says which file it is."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_HTTP_TOKEN_FILE: .*odd cannot be read"):
        Tokens(str(odd))
    with pytest.raises(PackageRejected, match=r"/odd cannot be read: "):
        read_file(odd.parent, "odd")


def test_whoever_asks_a_silent_disk_again_and_again_has_one_thread_wait_for_it(
    hung_mount: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mount may be away for a day; other files are read meanwhile."""
    monkeypatch.setattr(foreign_files, "WHOLE_S", 0.2)
    before = threading.active_count()
    for _ in range(20):
        with pytest.raises(OSError, match="does not answer"):
            contents(tmp_path / "mount" / "secret")
    assert threading.active_count() <= before + 1
    (tmp_path / "other").write_bytes(b"x")
    assert contents(tmp_path / "other") == b"x"


DEEP = KEY_PARTS_MAX + 1


@pytest.mark.parametrize(
    "given",
    [
        ".".join(["a"] * 50_000) + " = 1",
        "[" + " . ".join(["a"] * 50_000) + "]",
        "[[" + ".".join(['"\u2028"'] * 50_000) + "]]",
        "x = {" + ".".join(["'a'"] * 50_000) + " = 1}",
        'x = [""" a"""", {' + ".".join(["a"] * 50_000) + " = 1}]",
        "x = [''' a''''', {" + ".".join(["a"] * 50_000) + " = 1}]",
        'x = """\n"\n"""\n' + ".".join(["a"] * 50_000) + " = 1",
        "x = '\\'\n" + ".".join(["a"] * 50_000) + " = 1",
        '# "\n' + ".".join(["a"] * DEEP) + " = 1",
    ],
)
def test_a_key_of_very_many_parts_is_refused_before_it_takes_minutes(given: str) -> None:
    """Wherever a key may stand, and whatever text or comment stands before it."""
    with pytest.raises(ValueError, match=r"^line \d+: a key has more than 64 parts with dots between"):
        toml_in(given)


@pytest.mark.parametrize(
    "given",
    [
        ".".join(["a"] * KEY_PARTS_MAX) + " = 1",
        "x = [" + "1.5, " * DEEP + "]",
        'x = "' + "." * DEEP + '"',
        'x = "\\"' + "." * DEEP + '"',
        "x = '\\' # \"" + "." * DEEP,
        'x = """' + "a.\n" * DEEP + '\\"""' + "." * DEEP + '"""""',
        "x = '''" + "." * DEEP + "''" + "." * DEEP + "'''",
        "# " + "." * DEEP,
    ],
)
def test_points_that_are_part_of_no_key_are_not_counted(given: str) -> None:
    """Texts and comments may have as many as they like."""
    assert toml_in(given) == tomllib.loads(given)


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    """One byte more is not."""
    (tmp_path / "file").write_bytes(bytes(BYTES_MAX))
    assert len(contents(tmp_path / "file")) == BYTES_MAX
    with pytest.raises(OSError, match="too large"):
        contents(tmp_path / "file", BYTES_MAX - 1)
