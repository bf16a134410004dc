"""Reads files that others put there: settings, secrets, packages. None of them blocks its reader, or fills its memory."""

import errno
import os
import select
import stat
from pathlib import Path

BYTES_MAX = 16 * 2**20
SILENT_S = 5.0
_PIECE_BYTES = 2**20


def contents(path: str | Path, bytes_max: int = BYTES_MAX) -> bytes:
    """Return what a file holds; of a pipe, as a shell makes it of a command, what comes out of it.

    Raises:
        OSError: it cannot be read, holds more, or is a pipe that falls silent for some seconds before its end.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # else a pipe that nobody fills blocks already here
    try:
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and found.st_size > bytes_max:  # of a sparse one, the disk says nothing
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return _read(handle, bytes_max, is_pipe=not stat.S_ISREG(found.st_mode))
    finally:
        os.close(handle)


def _read(handle: int, bytes_max: int, *, is_pipe: bool) -> bytes:
    read, asked = bytearray(), select.poll()
    asked.register(handle, select.POLLIN)
    while True:
        if is_pipe and not asked.poll(SILENT_S * 1_000):
            raise OSError(f"it is no file, and says nothing for {SILENT_S:g} s")
        piece = os.read(handle, _PIECE_BYTES)
        if not piece:
            return bytes(read)
        read += piece
        if len(read) > bytes_max:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
