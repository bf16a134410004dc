"""One process at a time on a checkpoint: a lock that the operating system frees when its holder ends, however it ends.

What it does not do: hold off a process on another machine where the disk between them knows no locks.
"""

import contextlib
import fcntl
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from contracts.errors import SettingsError, reason_of
from spark_streaming.settings import make_folder

LOCK = "lock"
"""File in the checkpoint's folder that says who works on it."""


@contextlib.contextmanager
def held(checkpoint: Path, log: logging.Logger) -> Iterator[None]:
    """Hold a checkpoint's folder for this process alone; it is made if it is not there.

    Raises:
        SettingsError: another process holds it, or no file can be made there; names the setting and the fix.
    """
    make_folder(checkpoint)
    path = checkpoint / LOCK
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"SURESCALE_SPARK_CHECKPOINT: {path} cannot be written ({reason_of(error)}); "
            "name a folder that this user can write (with it or with --checkpoint)"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise SettingsError(
                f"SURESCALE_SPARK_CHECKPOINT: {checkpoint} is in use: {file.read().strip() or 'another process'} works there; "
                "end it, or name another folder (with it or with --checkpoint)"
            ) from None
        except OSError as error:
            log.warning("%s cannot be locked (%s): see to it that no other process works there", checkpoint, reason_of(error))
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
