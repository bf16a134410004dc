"""What is asked of the workers on this machine and which of them live: one folder, read and written by several processes.

FOLDER/JOB/requirement.json        how many workers each task is to have, and which submission of the job that is
FOLDER/JOB/TASK/3.worker           worker 3: locked while it lives (`engines.processes.launch`)
FOLDER/JOB/TASK/3.draining         it was asked to end, and when
FOLDER/JOB/TASK/3.log              what it wrote
"""

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from contracts.errors import SurescaleError, reason_of
from engines.groups.chains import Chain
from runtime.atomic_files import replace_atomically

_SETTING = "SURESCALE_WORKERS_FOLDER"


class FolderUnavailable(SurescaleError):
    """The folder cannot be read or written now; names the setting."""


class Requirement(msgspec.Struct, frozen=True):
    """What is asked for. ``revision`` grows with every change, and ``epoch`` names one submission of the job."""

    epoch: str
    revision: int
    counts: dict[str, int]

    @property
    def id(self) -> str:
        """Return a name for it."""
        return f"{self.epoch}/{self.revision}"


class _Written(msgspec.Struct, frozen=True):
    pid: int
    port: int
    started_ms: int


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that lives. ``draining_ms``: when it was asked to end, None if it was not."""

    task: str
    index: int
    pid: int
    port: int
    started_ms: int
    draining_ms: int | None


class WorkerStore:
    """The workers of one cluster's jobs on this machine. Keeps nothing in memory."""

    def __init__(self, folder: Path, cluster: str) -> None:
        """``folder`` is made when something is written."""
        self._folder = folder / quote(cluster, safe="")

    # What is required

    def requirement(self, job: str) -> Requirement | None:
        """Return what is asked for of a job; None: it was never started here.

        Raises:
            FolderUnavailable: it cannot be read.
        """
        try:
            return msgspec.json.decode((self._of(job) / "requirement.json").read_bytes(), type=Requirement)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError) as error:
            raise self._away(error) from None

    def deploy(self, chain: Chain) -> Requirement:
        """Submit a job, or submit it again: a new epoch, with as many workers as its author wants.

        Raises:
            FolderUnavailable: it cannot be written.
        """
        counts = {task: group.workers.start for task, group in chain.groups.items() if group.workers is not None}
        with self._locked(chain.name):
            return self._write(chain.name, Requirement(uuid.uuid4().hex[:12], 1, counts))

    def change(self, job: str, expected: Requirement, counts: Mapping[str, int]) -> Requirement | None:
        """Ask for other numbers of workers, for the tasks named; None: somebody has changed the requirement meanwhile.

        Raises:
            FolderUnavailable: it cannot be written.
        """
        with self._locked(job):
            now = self.requirement(job)
            if now is None or now.id != expected.id:
                return None
            return self._write(job, Requirement(now.epoch, now.revision + 1, {**now.counts, **counts}))

    def stop(self, job: str) -> None:
        """Ask for no worker of a job at all.

        Raises:
            FolderUnavailable: it cannot be written.
        """
        with self._locked(job):
            now = self.requirement(job)
            if now is not None:
                self._write(job, Requirement(now.epoch, now.revision + 1, dict.fromkeys(now.counts, 0)))

    # Who lives

    def workers(self, job: str) -> list[Worker]:
        """Return the workers of a job that live, by task and index.

        Raises:
            FolderUnavailable: the folder cannot be read.
        """
        found = [self.worker(job, task, index) for task in self._names(self._of(job)) for index in self._indices(job, task)]
        return [worker for worker in found if worker is not None]

    def jobs(self) -> list[str]:
        """Return the jobs that were ever started here.

        Raises:
            FolderUnavailable: the folder cannot be read.
        """
        return self._names(self._folder)

    def worker(self, job: str, task: str, index: int) -> Worker | None:
        """Return one worker, None if it does not live. One that is just starting may show a process id of 0.

        Raises:
            FolderUnavailable: its file cannot be read.
        """
        path = self.file(job, task, index)
        try:
            with path.open("rb") as file:
                if _takes_lock(file.fileno()):
                    return None
                text = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._away(error) from None
        written = _Written(0, 0, 0)
        with contextlib.suppress(msgspec.MsgspecError):  # locked, and about to write
            written = msgspec.json.decode(text, type=_Written)
        return Worker(task, index, written.pid, written.port, written.started_ms, self._draining_ms(path))

    def file(self, job: str, task: str, index: int, suffix: str = "worker") -> Path:
        """Return one of the files of a worker."""
        return self._of(job) / quote(task, safe="") / f"{index}.{suffix}"

    def note_draining(self, job: str, worker: Worker, now_ms: int) -> None:
        """Remember that a worker was asked to end.

        Raises:
            FolderUnavailable: it cannot be written.
        """
        try:
            replace_atomically(self.file(job, worker.task, worker.index, "draining"), str(now_ms))
        except OSError as error:
            raise self._away(error) from None

    def forget_draining(self, job: str, task: str, index: int) -> None:
        """Forget that a worker was asked to end, once it has."""
        with contextlib.suppress(OSError):
            self.file(job, task, index, "draining").unlink(missing_ok=True)

    def is_alone(self) -> contextlib.AbstractContextManager[bool]:
        """Hold the right to tend the workers; False: another process has it."""
        return self._hold(self._folder / "tended", wait=False)

    # Files

    def _names(self, folder: Path) -> list[str]:
        try:
            return sorted(unquote(entry.name) for entry in os.scandir(folder) if entry.is_dir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._away(error) from None

    def _indices(self, job: str, task: str) -> list[int]:
        folder = self.file(job, task, 0).parent
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._away(error) from None
        return sorted(int(name.removesuffix(".worker")) for name in names if name.endswith(".worker"))

    def _draining_ms(self, path: Path) -> int | None:
        try:
            return int(path.with_suffix(".draining").read_text())
        except (OSError, ValueError):
            return None

    def _of(self, job: str) -> Path:
        return self._folder / quote(job, safe="")

    def _write(self, job: str, requirement: Requirement) -> Requirement:
        try:
            replace_atomically(self._of(job) / "requirement.json", msgspec.json.encode(requirement).decode())
        except OSError as error:
            raise self._away(error) from None
        return requirement

    @contextlib.contextmanager
    def _locked(self, job: str) -> Iterator[None]:
        with self._hold(self._of(job) / "lock", wait=True):
            yield

    @contextlib.contextmanager
    def _hold(self, path: Path, *, wait: bool) -> Iterator[bool]:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("a")
        except OSError as error:
            raise self._away(error) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            yield True

    def _away(self, error: Exception) -> FolderUnavailable:
        why = reason_of(error) if isinstance(error, OSError) else str(error)
        return FolderUnavailable(
            f"{_SETTING}: {self._folder} cannot be used ({why}); set a folder that this role may read and write"
        )


def _takes_lock(file: int) -> bool:
    """Return whether nobody holds the lock."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return True
