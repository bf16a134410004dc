"""Removes a temporary folder when its owner died without doing so itself.

    python janitor.py FOLDER

Standard input is a pipe held by the owner. A byte says "I removed it myself"; an end without one says the owner is gone.
"""

import shutil
import sys
import time
from pathlib import Path

PATIENCE_S = 30.0
_RETRY_S = 0.2


def remove(folder: Path, patience_s: float = PATIENCE_S) -> bool:
    """Remove the folder, again and again while processes that are just dying still write into it."""
    deadline = time.monotonic() + patience_s
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            time.sleep(_RETRY_S)
    return not folder.exists()


def main(folder: Path) -> int:
    """Wait for word or for the end of the owner; return the exit code."""
    if sys.stdin.buffer.read(1):
        return 0
    time.sleep(_RETRY_S)  # the other processes see the owner's end at this same moment
    return 0 if remove(folder) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
