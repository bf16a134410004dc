"""Locks a checkpoint for one process; the operating system releases the lock when its holder ends, however it ends.

It cannot stop a process on another machine if the shared disk does not support locks.
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
"""File in the checkpoint's folder that names the process using it."""


@contextlib.contextmanager
def held(checkpoint: Path, log: logging.Logger) -> Iterator[None]:
    """Hold a checkpoint's folder for this process alone; create it if it is missing.

    Raises:
        SettingsError: another process holds it, or it is not writable; names the setting and the fix.
    """
    make_folder(checkpoint)
    path = checkpoint / LOCK
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise SettingsError(
            f"SURESCALE_SPARK_CHECKPOINT: {path} cannot be written ({reason_of(error)}); "
            "set it, or --checkpoint, to a folder this user can write"
        ) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise SettingsError(
                f"SURESCALE_SPARK_CHECKPOINT: {checkpoint} is in use by {file.read().strip() or 'another process'}; "
                "stop it, or set another folder (there or with --checkpoint)"
            ) from None
        except OSError as error:
            log.warning("%s cannot be locked (%s): make sure that no other process uses it", checkpoint, reason_of(error))
        file.seek(0)
        file.truncate()
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield
