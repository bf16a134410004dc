"""Reads files that others put there: settings, secrets, packages. None of them blocks its reader, or fills its memory."""

import errno
import os
import select
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

BYTES_MAX = 16 * 2**20
SILENT_S = 5.0
WHOLE_S = 30.0
_PIECE_BYTES = 2**20


def contents(path: str | Path, bytes_max: int = BYTES_MAX) -> bytes:
    """Return what a file holds; of a pipe, as a shell makes it of a command, what comes out of it.

    Raises:
        OSError: it cannot be read, holds more, is a pipe that falls silent for some seconds before its end, or is not read
            within half a minute.
    """
    given_up = threading.Event()
    try:
        return in_time(lambda: _whole(path, bytes_max, given_up))
    finally:
        given_up.set()


def in_time(look: Callable[[], T]) -> T:
    """Return what a look at a file gives. A disk that no longer answers holds up whoever touches it, and no signal ends that.

    Raises:
        OSError: it has given nothing within half a minute.
    """
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
        raise OSError(f"it has no end within {WHOLE_S:g} s, or what it lies on does not answer")
    return found[0]


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
