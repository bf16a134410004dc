"""Lets workers notice when the demo's process is gone, whatever ended it.

The owner holds a lock on a file from its first moment to its last. The kernel lets go of it even if the owner is killed outright,
which a folder that somebody has to remove does not survive.
"""

import fcntl
from pathlib import Path
from typing import IO


def hold(path: Path) -> IO[str]:
    """Make the file and hold its lock, until what is returned is closed or this process ends, however it ends.

    Raises:
        OSError: the file cannot be made, or somebody else holds it.
    """
    file = path.open("a")
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return file


def is_held(path: Path) -> bool:
    """Return whether somebody holds the lock; nobody does if there is no such file."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
