"""Saved state, one file a batch, in a subfolder of the Spark checkpoint: deleting the checkpoint deletes both.

State N is on disk before batch N counts as done, and Spark replays an unfinished batch with the same offsets and number, so state
N-1 and the replay give the same state N. Files are written beside their place, synced and renamed; the last three are kept.
"""

import contextlib
import os
import re
import tempfile
import zipfile
from pathlib import Path

import msgspec
import numpy as np

from spark_streaming.minutes import MinuteRules, Minutes
from spark_streaming.state import StateRefused, from_arrays, to_arrays

FOLDER = "windows"
KEPT = 3
_NAME = re.compile(r"state-(\d{12})\.npz")
_WAY_OUT = "restore it, or give the job another checkpoint folder (it will then read task-metrics from the beginning)"


class StateStore:
    """The state files of one checkpoint."""

    def __init__(self, checkpoint: Path, rules: MinuteRules) -> None:
        self._folder = checkpoint / FOLDER
        self._rules = rules
        self._folder.mkdir(parents=True, exist_ok=True)
        for left_by_a_kill in self._folder.glob(".state-*"):
            left_by_a_kill.unlink(missing_ok=True)

    def load(self, batch: int) -> Minutes:
        """Return the state after a batch; batch -1 is the empty beginning.

        Raises:
            StateRefused: the file is missing, corrupt, or was written by another version or under other settings.
        """
        if batch < 0:
            return Minutes(self._rules)
        path = self._path(batch)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return from_arrays(arrays, self._rules)
        except FileNotFoundError:
            raise StateRefused(f"{path}: the state of batch {batch} is missing; {_WAY_OUT}") from None
        except StateRefused as refused:
            raise StateRefused(f"{path}: {refused}; use the former settings, or give the job another checkpoint folder") from None
        except (OSError, EOFError, KeyError, IndexError, ValueError, zipfile.BadZipFile, msgspec.DecodeError) as error:
            raise StateRefused(f"{path}: the state of batch {batch} is corrupt ({error}); {_WAY_OUT}") from None

    def check(self) -> None:
        """Refuse at once what the first batch would have to refuse: a checkpoint whose last committed batch has no usable state.

        Raises:
            StateRefused: see ``load``.
        """
        commits = self._folder.parent / "commits"  # Spark's own: one file a batch, named by its number
        committed = [int(path.name) for path in commits.glob("*") if path.name.isdigit()]
        if committed:
            self.load(max(committed))

    def save(self, batch: int, minutes: Minutes) -> None:
        """Write the state after a batch, whole or not at all, and drop the ones before the last three."""
        descriptor, name = tempfile.mkstemp(prefix=".state-", dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                np.savez(file, **to_arrays(minutes))  # type: ignore[arg-type]  # numpy types the names as its own options
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._path(batch))
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise
        self._sync_folder()
        for old in self.batches():
            if old <= batch - KEPT:
                self._path(old).unlink(missing_ok=True)

    def batches(self) -> list[int]:
        """Return the numbers of the batches whose state is kept, ascending."""
        found = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        return sorted(int(match.group(1)) for match in found if match)

    def _path(self, batch: int) -> Path:
        return self._folder / f"state-{batch:012d}.npz"

    def _sync_folder(self) -> None:
        """Make the rename itself survive a power cut."""
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
