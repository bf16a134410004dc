"""Saves state in a subfolder of the Spark checkpoint, so deleting the checkpoint deletes both.

State N is on disk before batch N counts as done, and Spark replays an unfinished batch with the same offsets and number, so state
N-1 and the replay give the same state N. Files are written under a temporary name, synced and renamed; the last three are kept.

Rows of closed minutes are by far the largest part and are written once: ``rows-N`` holds those that closed in batch N, and each
state lists the files with its rows. A file is deleted once all its rows have left their windows and no kept state lists it. If a
silent job keeps many files alive, all rows in use are merged into one new file now and then.
"""

import contextlib
import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np

from contracts.errors import reason_of
from spark_streaming.minutes import MinuteRules, Minutes
from spark_streaming.settings import make_folder
from spark_streaming.state import Arrays, StateRefused, from_arrays, row_files_of, rows_to_arrays, to_arrays

FOLDER = "windows"
KEPT = 3
ROW_FILES_MAX = 200
_NAME = re.compile(r"(state|rows)-(\d{12})\.npz")
_WAY_OUT = "restore it, or give the job another checkpoint folder (it then reads task-metrics from the beginning)"


class StateStore:
    """The state files of one checkpoint."""

    def __init__(self, checkpoint: Path, rules: MinuteRules) -> None:
        """Create the folder, and remove files a kill left half written.

        Raises:
            SettingsError: the folder cannot be created.
        """
        self._folder = checkpoint / FOLDER
        self._rules = rules
        self._row_files: dict[int, dict[str, int]] = {}  # newest end in each file, by job; of the last state
        self._closed_ms: dict[str, int] = {}  # of that state
        self._needed: dict[int, frozenset[int]] = {}  # row files by kept state
        make_folder(self._folder)
        for left_by_a_kill in self._folder.glob(".state-*"):
            left_by_a_kill.unlink(missing_ok=True)

    def load(self, batch: int) -> Minutes:
        """Return the state after a batch; batch -1 is the empty start. The next save continues from it.

        Raises:
            StateRefused: a file is missing, corrupt, or was written by another version or under other settings.
        """
        self._row_files, self._closed_ms = {}, {}
        # The files other kept states list are unknown, so keep all files until those states are gone.
        self._needed = {batch: frozenset(number for kind, number, _ in self._files() if kind == "rows")}
        if batch < 0:
            return Minutes(self._rules)
        path = self._path(batch)
        arrays = self._read(path, f"the state of batch {batch}")
        with _named(path, f"the state of batch {batch}"):
            names = row_files_of(arrays)
        rows = [self._read(self._path(name, "rows"), f"a part of the state of batch {batch}") for name in names]
        with _named(path, f"the state of batch {batch}"):
            minutes = from_arrays(arrays, rows, self._rules)
        ends = {name: job.closed_ms for name, job in minutes.jobs.items()}
        self._row_files, self._closed_ms = dict.fromkeys(names, ends), ends
        return minutes

    def check(self) -> None:
        """Fail early if the last committed batch of the checkpoint has no usable state.

        Raises:
            StateRefused: see ``load``.
        """
        commits = self._folder.parent / "commits"  # Spark's own: one file per batch, named by its number
        committed = [int(path.name) for path in commits.glob("*") if path.name.isdigit()]
        if committed:
            self.load(max(committed))

    def save(self, batch: int, minutes: Minutes) -> None:
        """Write the state after a batch atomically, and delete all but the last three.

        Raises:
            OSError: it cannot be written, say because the disk is full; one line that names the file and the fix.
        """
        self._save_rows(batch, minutes)
        self._write(self._path(batch), to_arrays(minutes, tuple(self._row_files)))
        self._sync_folder()
        self._needed[batch] = frozenset(self._row_files)
        self._needed = {kept: files for kept, files in self._needed.items() if kept > batch - KEPT}
        needed = frozenset[int]().union(*self._needed.values())
        for kind, number, path in self._files():
            if number <= batch - KEPT if kind == "state" else number not in needed:
                path.unlink(missing_ok=True)

    def _save_rows(self, batch: int, minutes: Minutes) -> None:
        """Write the new rows, and drop files whose rows no window needs any more."""
        self._row_files = {number: ends for number, ends in self._row_files.items() if not _has_left(minutes, ends)}
        if len(self._row_files) >= ROW_FILES_MAX:
            self._row_files, self._closed_ms = {}, {}
        arrays = rows_to_arrays(minutes, self._closed_ms)
        closed_ms = {name: job.closed_ms for name, job in minutes.jobs.items()}
        if len(arrays["rows"]):
            self._write(self._path(batch, "rows"), arrays)
            self._row_files[batch] = {name: end for name, end in closed_ms.items() if end != self._closed_ms.get(name)}
        self._closed_ms = closed_ms

    def _write(self, path: Path, arrays: Arrays) -> None:
        try:
            self._write_whole(path, arrays)
        except OSError as error:
            way_out = "free space or grant the right to write, and the job continues with this batch"
            raise OSError(f"{path}: the state cannot be written ({reason_of(error)}); {way_out}") from None

    def _write_whole(self, path: Path, arrays: Arrays) -> None:
        descriptor, name = tempfile.mkstemp(prefix=".state-", dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy types the names as its own options
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)
            raise

    def _read(self, path: Path, what: str) -> Arrays:
        with _named(path, what), np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}

    def batches(self) -> list[int]:
        """Return the numbers of the batches with kept states, ascending."""
        return sorted(number for kind, number, _ in self._files() if kind == "state")

    def _files(self) -> list[tuple[str, int, Path]]:
        found = ((_NAME.fullmatch(path.name), path) for path in self._folder.iterdir())
        return [(match.group(1), int(match.group(2)), path) for match, path in found if match]

    def _path(self, batch: int, kind: str = "state") -> Path:
        return self._folder / f"{kind}-{batch:012d}.npz"

    def _sync_folder(self) -> None:
        """Make the rename survive a power cut."""
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _has_left(minutes: Minutes, ends: Mapping[str, int]) -> bool:
    """Return whether no window of any job needs minutes up to these ends any more."""
    return all(name not in minutes.jobs or end_ms <= minutes.jobs[name].oldest_kept_ms() for name, end_ms in ends.items())


@contextlib.contextmanager
def _named(path: Path, what: str) -> Iterator[None]:
    """Name the unusable file and the fix."""
    try:
        yield
    except FileNotFoundError:
        raise StateRefused(f"{path}: {what} is missing; {_WAY_OUT}") from None
    except StateRefused as refused:
        raise StateRefused(f"{path}: {refused}; use the former settings, or give the job another checkpoint folder") from None
    except (OSError, EOFError, KeyError, IndexError, ValueError, zipfile.BadZipFile, msgspec.DecodeError) as error:
        raise StateRefused(f"{path}: {what} is corrupt ({error}); {_WAY_OUT}") from None
