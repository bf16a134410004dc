"""Saves and loads the state of some partitions, in files that no other attempt of the task uses.

Rows of closed minutes are by far the largest part and are written once, in a file of rows; each state names the files with its
own. A file leaves the state once all its rows have left their windows. If a silent job keeps many files alive, all rows in use
are merged into one new file now and then.
"""

import io
import uuid
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

import numpy as np
import zstandard

from surescale.contracts.errors import reason_of
from surescale.spark_streaming.manifest import NO_ROOM, NOT_SHARED, Manifest, SavedState, named
from surescale.spark_streaming.minutes import Minutes
from surescale.spark_streaming.places import Place, StoreAway
from surescale.spark_streaming.state import Arrays, Rows, from_arrays, rows_of, rows_to_arrays, to_arrays

ROW_FILES_MAX = 200


@dataclass(slots=True)
class Memory:
    """The minutes of some partitions, and what the store holds of them.

    Attributes:
        minutes: of all their jobs.
        rows: the newest end in each file of rows, by job.
        closed_ms: the end of each job's last saved row.
    """

    minutes: Minutes
    rows: dict[str, Mapping[str, int]] = field(default_factory=dict)
    closed_ms: dict[str, int] = field(default_factory=dict)


class StateFiles:
    """The state files of one checkpoint. Keeps rows that it has read or written: a file of rows never changes."""

    def __init__(self, folder: Place) -> None:
        self._folder = folder
        self._rows: dict[str, Rows] = {}

    def load(self, manifest: Manifest, partitions: Container[int]) -> Memory:
        """Return the memory of the jobs of some partitions.

        Raises:
            StateRefused: a file is missing, corrupt, or was written by another version.
        """
        found = Memory(Minutes(manifest.rules))
        for state in {each.head: each for partition, each in manifest.states.items() if partition in partitions}.values():
            what = f"the state of batch {manifest.batch}"
            with named(f"{self._folder}/{state.head}", what):
                arrays = self._read(state.head)
            parts = {name: self._rows_in(name, f"a part of {what}") for name in state.rows}
            with named(f"{self._folder}/{state.head}", what):
                minutes = from_arrays(arrays, parts.values(), manifest.rules)
            if state.is_shared:
                _keep_own(minutes, manifest, {each for each in manifest.sharing(state) if each in partitions})
            found.minutes.jobs |= minutes.jobs
            found.minutes.left |= minutes.left
            found.rows |= {name: rows.ends for name, rows in parts.items()}
        found.closed_ms = {name: job.closed_ms for name, job in found.minutes.jobs.items()}
        return found

    def save(self, memory: Memory, batch: int, partition: int, *, is_shared: bool = False) -> SavedState:
        """Write the state after a batch, in new files.

        Args:
            memory: what to save.
            batch: its number.
            partition: one that the memory is of.
            is_shared: it is of others too.

        Raises:
            OSError: it cannot be written, say because the disk is full; one line that names the file and the fix.
        """
        at = f"{batch:012d}-{partition:05d}-{uuid.uuid4().hex[:12]}"
        minutes = memory.minutes
        memory.rows = {name: ends for name, ends in memory.rows.items() if not _has_left(minutes, ends)}
        if len(memory.rows) >= ROW_FILES_MAX:
            memory.rows, memory.closed_ms = {}, {}
        arrays = rows_to_arrays(minutes, memory.closed_ms)
        memory.closed_ms = {name: job.closed_ms for name, job in minutes.jobs.items()}
        if len(arrays["rows"]):
            name = f"rows-{at}.npz.zst"
            self._write(name, arrays)
            self._rows[name] = rows_of(arrays)
            memory.rows[name] = self._rows[name].ends
            for job, end_ms, rows in self._rows[name].blocks:  # one copy of them in memory
                minutes.jobs[job].history.rows[end_ms] = rows
        head = f"state-{at}.npz.zst"
        self._write(head, to_arrays(minutes))
        return SavedState(head, tuple(memory.rows), is_shared)

    def forget_others(self, manifest: Manifest) -> None:
        """Forget rows that do not count any more."""
        needed = manifest.files()
        self._rows = {name: rows for name, rows in self._rows.items() if name in needed}

    def _rows_in(self, name: str, what: str) -> Rows:
        if name not in self._rows:
            with named(f"{self._folder}/{name}", what):
                self._rows[name] = rows_of(self._read(name))
        return self._rows[name]

    def _write(self, name: str, arrays: Arrays) -> None:
        content = io.BytesIO()
        np.savez(content, **arrays)  # type: ignore[arg-type]  # numpy types the names as its own options
        packed = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(content.getbuffer())
        try:
            self._folder.write(name, packed)
        except StoreAway:
            raise
        except FileNotFoundError:
            raise OSError(f"{self._folder}: {NOT_SHARED}") from None
        except OSError as error:
            raise OSError(f"{self._folder}/{name}: the state cannot be written ({reason_of(error)}); {NO_ROOM}") from None

    def _read(self, name: str) -> Arrays:
        with np.load(io.BytesIO(zstandard.decompress(self._folder.read(name))), allow_pickle=False) as arrays:
            return {each: arrays[each] for each in arrays.files}


def _keep_own(minutes: Minutes, manifest: Manifest, partitions: Container[int]) -> None:
    """Keep the jobs that are at home in some partitions, of a state that others share."""
    for job in minutes.jobs.values():
        job.partition = manifest.home_of(job)
    minutes.jobs = {name: job for name, job in minutes.jobs.items() if job.partition in partitions}
    minutes.left = {name: end for name, end in minutes.left.items() if manifest.home(name, manifest.partitions) in partitions}


def _has_left(minutes: Minutes, ends: Mapping[str, int]) -> bool:
    """Return whether no window of any job needs minutes up to these ends any more."""
    return all(name not in minutes.jobs or end_ms <= minutes.jobs[name].oldest_kept_ms() for name, end_ms in ends.items())
