"""Saves state in a subfolder of the checkpoint, with the offsets up to which it has Kafka's records.

So one file says how far the job has come, and there is nothing else to agree with it: Spark begins each query anew, at the
offsets of the newest state. After a kill the records since then are read again. A job's windows depend only on its own records,
so they come out with the same bytes, however the batches fall this time. The last three states are kept.

Rows of closed minutes are by far the largest part and are written once: ``rows-N`` holds those that closed in batch N, and each
state lists the files with its rows. A file is deleted once all its rows have left their windows and no kept state lists it. If a
silent job keeps many files alive, all rows in use are merged into one new file now and then.
"""

import contextlib
import io
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import zstandard

from surescale.contracts.errors import reason_of
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from surescale.spark_streaming.places import Place
from surescale.spark_streaming.state import (
    Arrays,
    StateRefused,
    from_arrays,
    head_of,
    rows_to_arrays,
    to_arrays,
)

FOLDER = "windows"
KEPT = 3
ROW_FILES_MAX = 200
FIRST = -1
"""Number of the state before the first batch: empty."""
_NAME = re.compile(r"(state|rows)-(\d{12})\.npz(?:\.zst)?")  # without .zst those of an older build
_WAY_OUT = "restore it, or give the job another checkpoint folder (it then reads task-metrics from the beginning)"
_DAMAGED = (EOFError, KeyError, IndexError, ValueError, zipfile.BadZipFile, zstandard.ZstdError, msgspec.DecodeError)
_BACK = "remove it, and the job goes on from the state before it"


@dataclass(frozen=True, slots=True)
class Saved:
    """The state after a batch.

    Attributes:
        batch: its number.
        minutes: the state; whoever loads it owns it.
        offsets: of the next record of each partition, as far as it has records of them.
    """

    batch: int
    minutes: Minutes
    offsets: dict[int, int]


class StateStore:
    """The state files of one checkpoint.

    Args:
        checkpoint: where they lie.
        rules: of the minutes.
        check: made before each state is saved; raises if another process works on the checkpoint.
    """

    def __init__(self, checkpoint: Place, rules: MinuteRules, check: Callable[[], None] = lambda: None) -> None:
        """Create the folder, and remove files a kill left half written.

        Raises:
            SettingsError: the folder cannot be created.
        """
        self._checkpoint, self._folder = checkpoint, checkpoint / FOLDER
        self._rules = rules
        self._check = check
        self._files: dict[tuple[str, int], str] = {}  # names by kind and number
        self._row_files: dict[int, dict[str, int]] = {}  # newest end in each file, by job; of the last state
        self._closed_ms: dict[str, int] = {}  # of that state
        self._needed: dict[int, frozenset[int]] = {}  # row files by kept state
        self._folder.make()

    def load(self) -> Saved:
        """Return the newest state, the empty one if there is none. The next save continues from it.

        Raises:
            StateRefused: a file is missing, corrupt, or was written by another version or under other settings.
        """
        found = (_NAME.fullmatch(name) for name in self._folder.names())
        self._files = {(match.group(1), int(match.group(2))): match.group() for match in found if match}
        batch = max(self.batches(), default=FIRST)
        self._row_files, self._closed_ms = {}, {}
        # The files other kept states list are unknown, so keep all files until those states are gone.
        self._needed = {batch: frozenset(number for kind, number in self._files if kind == "rows")}
        if batch == FIRST:
            # A kill within the first batch leaves its rows alone. Commits are Spark's, of a build that left the offsets to it.
            if self._files.keys() - {("rows", 0)} or (self._checkpoint / "commits").names():
                raise StateRefused(f"{self._folder}/state-*: the state is missing; {_WAY_OUT}")
            return Saved(FIRST, Minutes(self._rules), {})
        name, what = self._files["state", batch], f"the state of batch {batch}"
        way_out = f"{_WAY_OUT}; or {_BACK}" if len(self.batches()) > 1 else _WAY_OUT
        arrays = self._read(name, what, way_out)
        with self._named(name, what, way_out):
            head = head_of(arrays)
        names = [self._files.get(("rows", number), _name("rows", number)) for number in head.row_files]
        rows = [self._read(each, f"a part of {what}", _WAY_OUT) for each in names]
        with self._named(name, what, way_out):
            minutes = from_arrays(head, arrays, rows, self._rules)
        ends = {name: job.closed_ms for name, job in minutes.jobs.items()}
        self._row_files, self._closed_ms = dict.fromkeys(head.row_files, ends), ends
        return Saved(batch, minutes, self._offsets_of_spark(batch) if head.offsets is None else head.offsets)

    def save(self, saved: Saved) -> None:
        """Write the state after a batch, and delete all but the last three.

        Raises:
            OSError: it cannot be written, say because the disk is full; one line that names the file and the fix.
            SurescaleError: another process works on the checkpoint.
        """
        self._check()
        self._save_rows(saved.batch, saved.minutes)
        self._write(saved.batch, "state", to_arrays(saved.minutes, tuple(self._row_files), saved.offsets))
        self._needed[saved.batch] = frozenset(self._row_files)
        self._needed = {kept: files for kept, files in self._needed.items() if kept > saved.batch - KEPT}
        needed = frozenset[int]().union(*self._needed.values())
        for kind, number in sorted(self._files):
            if number <= saved.batch - KEPT if kind == "state" else number not in needed:
                self._folder.remove(self._files.pop((kind, number)))

    def batches(self) -> list[int]:
        """Return the numbers of the batches with kept states, ascending."""
        return sorted(number for kind, number in self._files if kind == "state")

    def _save_rows(self, batch: int, minutes: Minutes) -> None:
        """Write the new rows, and drop files whose rows no window needs any more."""
        self._row_files = {number: ends for number, ends in self._row_files.items() if not _has_left(minutes, ends)}
        if len(self._row_files) >= ROW_FILES_MAX:
            self._row_files, self._closed_ms = {}, {}
        arrays = rows_to_arrays(minutes, self._closed_ms)
        closed_ms = {name: job.closed_ms for name, job in minutes.jobs.items()}
        if len(arrays["rows"]):
            self._write(batch, "rows", arrays)
            self._row_files[batch] = {name: end for name, end in closed_ms.items() if end != self._closed_ms.get(name)}
        self._closed_ms = closed_ms

    def _write(self, batch: int, kind: str, arrays: Arrays) -> None:
        content, name = io.BytesIO(), _name(kind, batch)
        np.savez(content, **arrays)  # type: ignore[arg-type]  # numpy types the names as its own options
        packed = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(content.getbuffer())
        try:
            self._folder.write(name, packed)
        except OSError as error:
            way_out = "free space or grant the right to write, and the job continues with this batch"
            raise OSError(f"{self._folder}/{name}: the state cannot be written ({reason_of(error)}); {way_out}") from None
        self._files[kind, batch] = name

    def _read(self, name: str, what: str, way_out: str) -> Arrays:
        with self._named(name, what, way_out):
            content = self._folder.read(name)
            if name.endswith(".zst"):
                content = zstandard.decompress(content)
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                return {each: arrays[each] for each in arrays.files}

    def _offsets_of_spark(self, batch: int) -> dict[int, int]:
        """Return the offsets that Spark wrote down for a batch, where the state of an older build leaves them to it."""
        folder, what = self._checkpoint / "offsets", f"the list of offsets of batch {batch}"
        with self._named(str(batch), what, _WAY_OUT, folder):
            (by_topic,) = msgspec.json.decode(folder.read(str(batch)).splitlines()[-1], type=dict[str, dict[int, int]]).values()
        return by_topic

    @contextlib.contextmanager
    def _named(self, name: str, what: str, way_out: str, folder: Place | None = None) -> Iterator[None]:
        """Name the unusable file and the fix."""
        path = f"{folder or self._folder}/{name}"
        try:
            yield
        except FileNotFoundError:
            raise StateRefused(f"{path}: {what} is missing; {way_out}") from None
        except StateRefused as refused:
            raise StateRefused(f"{path}: {refused}; use the former settings, or give the job another checkpoint folder") from None
        except (*_DAMAGED, OSError) as error:
            raise StateRefused(f"{path}: {what} is corrupt ({error}); {way_out}") from None


def _name(kind: str, batch: int) -> str:
    return f"{kind}-{batch:012d}.npz.zst"


def _has_left(minutes: Minutes, ends: Mapping[str, int]) -> bool:
    """Return whether no window of any job needs minutes up to these ends any more."""
    return all(name not in minutes.jobs or end_ms <= minutes.jobs[name].oldest_kept_ms() for name, end_ms in ends.items())
