"""Removes a temporary folder when its owner dies without doing so.

    python janitor.py FOLDER

Standard input is a pipe held by the owner. A byte means "I removed it myself"; end of file without one means the owner is gone.
"""

import shutil
import sys
import time
from pathlib import Path

PATIENCE_S = 30.0
_RETRY_S = 0.2


def remove(folder: Path, patience_s: float = PATIENCE_S) -> bool:
    """Remove the folder, retrying while dying processes still write into it; return whether it is gone."""
    deadline = time.monotonic() + patience_s
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        if folder.exists():
            time.sleep(_RETRY_S)
    return not folder.exists()


def main(folder: Path) -> int:
    """Wait for the byte or for the owner's end; return the exit code."""
    if sys.stdin.buffer.read(1):
        return 0
    time.sleep(_RETRY_S)  # the other processes notice the owner's end at the same moment
    return 0 if remove(folder) else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
