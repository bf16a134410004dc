"""Reads files that others put there: settings, secrets, packages. None of them blocks its reader, or fills its memory."""

import errno
import os
import re
import select
import stat
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

BYTES_MAX = 16 * 2**20
SILENT_S = 5.0
WHOLE_S = 30.0
_PIECE_BYTES = 2**20
KEY_PARTS_MAX = 64
_BETWEEN_KEYS = frozenset("=,[]{}\n")
_TOML_TOKENS = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?|"(?:[^"\\\n]|\\.)*+"?'''
    r"""|'''(?:[^']|'(?!''))*+(?:'{3,5})?|'[^'\n]*+'?"""
    r"|#[^\n]*+|[.=,\[\]{}\n]",
    re.DOTALL,
)
"""Texts and comments as a whole, and the signs between keys and values. A text that has no end takes all that follows."""


def contents(path: str | Path, bytes_max: int = BYTES_MAX) -> bytes:
    """Return what a file holds; of a pipe, as a shell makes it of a command, what comes out of it.

    Raises:
        OSError: it cannot be read, holds more, is a pipe that falls silent for some seconds before its end, or is not read
            within half a minute.
    """
    given_up = threading.Event()
    try:
        return in_time(lambda: _whole(path, bytes_max, given_up), path)
    finally:
        given_up.set()


def in_time(look: Callable[[], T], *paths: str | Path) -> T:
    """Return what a look at files gives. A disk that no longer answers holds up whoever touches it, and no signal ends that.

    Args:
        look: touches the files.
        paths: their names. While a look at the same ones that was given up still waits for its disk, there is no other: whoever
            looks again and again would have ever more threads.

    Raises:
        OSError: it has given nothing within half a minute.
    """
    before = _given_up.get(paths)
    if before is not None and before.is_alive():
        raise OSError("what it lies on does not answer")
    found: list[T] = []
    failed: list[Exception] = []

    def run() -> None:
        try:
            found.append(look())
        except Exception as error:
            failed.append(error)

    looking = threading.Thread(target=run, name="a look at a file", daemon=True)
    looking.start()
    looking.join(WHOLE_S)
    if failed:
        raise failed[0]
    if not found:
        _given_up[paths] = looking
        raise OSError(f"it has no end within {WHOLE_S:g} s, or what it lies on does not answer")
    _given_up.pop(paths, None)
    return found[0]


_given_up: dict[tuple[str | Path, ...], threading.Thread] = {}


def _whole(path: str | Path, bytes_max: int, given_up: threading.Event) -> bytes:
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # else a pipe that nobody fills blocks already here
    try:
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and found.st_size > bytes_max:  # of a sparse one, the disk says nothing
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return _read(handle, bytes_max, given_up, is_pipe=not stat.S_ISREG(found.st_mode))
    finally:
        os.close(handle)


def text(path: str | Path) -> str:
    """Return what a file of text holds, without the mark that some editors put before it.

    Raises:
        OSError: as `contents`.
        ValueError: it is no UTF-8; names the line and the fix.
    """
    raw = contents(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is no UTF-8; save the file as UTF-8") from None


def toml(path: str | Path) -> dict[str, Any]:
    """Return what a file of TOML says.

    Raises:
        OSError: as `contents`.
        ValueError: it is none, or has a key of more parts than any that we read; names the line.
        RecursionError: it is nested too deep.
    """
    return toml_in(text(path))


def toml_in(given: str) -> dict[str, Any]:
    """Return what a text of TOML says, as `toml`."""
    if any(line.count(".") >= KEY_PARTS_MAX for line in given.split("\n")):
        _check_keys(given)
    return tomllib.loads(given)


def _check_keys(given: str) -> None:
    """Refuse a key of too many parts: the time that the library takes grows with the square of their number."""
    line, dots = 1, 0
    for token in _TOML_TOKENS.finditer(given):
        if token[0] == ".":
            dots += 1
        elif token[0] in _BETWEEN_KEYS:
            dots = 0
        if dots >= KEY_PARTS_MAX:
            raise ValueError(f"line {line}: a key has more than {KEY_PARTS_MAX} parts with dots between; no setting lies so deep")
        line += token[0].count("\n")


def is_plain(value: object) -> bool:
    """Say whether a value of a file is a number or a text: none of TOML's dates, and no number beyond what TOML has."""
    return isinstance(value, str | float) or (isinstance(value, int) and -(2**63) <= value < 2**63)


def _read(handle: int, bytes_max: int, given_up: threading.Event, *, is_pipe: bool) -> bytes:
    read, asked = bytearray(), select.poll()
    asked.register(handle, select.POLLIN)
    while not given_up.is_set():
        if is_pipe and not asked.poll(SILENT_S * 1_000):
            raise OSError(f"it is no file, and says nothing for {SILENT_S:g} s")
        piece = os.read(handle, _PIECE_BYTES)
        if not piece:
            return bytes(read)
        read += piece
        if len(read) > bytes_max:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    raise OSError("nobody waits for it")
