"""Sees to it that one process works on a checkpoint.

In a local folder the operating system holds a lock, and releases it when its holder ends, however it ends: a second process ends
at once. A store has no locks: there the process that came last works on, and the one before it ends at its next batch.
"""

import contextlib
import fcntl
import logging
import os
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

from surescale.contracts.errors import SettingsError, SurescaleError, reason_of
from surescale.spark_streaming.places import SETTING, Place

LOCK = "lock"
"""File in the checkpoint's folder that names the process using it."""


class TakenOver(SurescaleError):
    """Another process works on the checkpoint now."""


@contextlib.contextmanager
def held(checkpoint: Place, log: logging.Logger) -> Iterator[Callable[[], None]]:
    """Hold a checkpoint's folder for this process alone; create it if it is missing.

    Yields:
        a check to make before each batch is saved; it raises ``TakenOver``.

    Raises:
        SettingsError: another process holds it, or it is not writable; names the setting and the fix.
    """
    checkpoint.make()
    me = f"process {os.getpid()} on {socket.gethostname()}"
    if checkpoint.local is None:
        yield _taken(checkpoint, f"{me}\n{uuid.uuid4()}")
    else:
        with _locked(checkpoint.local, me, log):
            yield lambda: None


def _taken(checkpoint: Place, mine: str) -> Callable[[], None]:
    """Put this process's name on a checkpoint in a store; return the check that it is still there."""

    def check() -> None:
        found = checkpoint.read(LOCK).decode()
        if found != mine:
            by = found.partition("\n")[0] or "another process"
            raise TakenOver(f"{checkpoint} was taken over by {by}: this process ends; run one per checkpoint ({SETTING})")

    try:
        checkpoint.write(LOCK, mine.encode())
    except OSError as error:
        raise _not_writable(f"{checkpoint}/{LOCK}", error) from None
    return check


@contextlib.contextmanager
def _locked(folder: Path, me: str, log: logging.Logger) -> Iterator[None]:
    path = folder / LOCK
    try:
        file = path.open("a+", encoding="utf-8")
    except OSError as error:
        raise _not_writable(path, error) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise SettingsError(
                f"{SETTING}: {folder} is in use by {file.read().strip() or 'another process'}; "
                "stop it, or set another folder (there or with --checkpoint)"
            ) from None
        except OSError as error:
            log.warning("%s cannot be locked (%s): make sure that no other process uses it", folder, reason_of(error))
        file.seek(0)
        file.truncate()
        file.write(f"{me}\n")
        file.flush()
        yield


def _not_writable(path: object, error: OSError) -> SettingsError:
    return SettingsError(
        f"{SETTING}: {path} cannot be written ({reason_of(error)}); set it, or --checkpoint, to a folder this user can write"
    )
