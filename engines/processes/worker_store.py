"""What is asked of the workers on this machine and which of them live: one folder, read and written by several processes.

FOLDER/JOB/requirement.json        how many workers each task is to have, and which submission of the job that is
FOLDER/JOB/TASK/3.worker           worker 3: who it is (`engines.processes.launch`)
FOLDER/JOB/TASK/3.draining         it was asked to end, and when
FOLDER/JOB/TASK/3.failed           how it ended soon after its start, until it has run for a while
FOLDER/JOB/TASK/3.log              what it wrote

What is written there starts commands and sends signals, so the folder belongs to the user of the role alone.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from surescale.contracts.errors import UNREADABLE, SurescaleError, reason_of
from surescale.contracts.wire import decoder
from surescale.engines.groups.chains import Chain
from surescale.engines.processes.launch import born
from surescale.runtime.atomic_files import replace_atomically

_SETTING = "SURESCALE_WORKERS_FOLDER"
_FILE_MAX = 4096
_OWN = 0o600
_LOCK_AGAIN_S = 0.02
_LOCK_WITHIN_S = 5.0  # changes of what is asked for take milliseconds
_NO_FILE = frozenset({errno.ELOOP, errno.EISDIR, errno.ENXIO})  # a link, a folder, a socket
_WORKER_FILE = re.compile(r"(0|[1-9][0-9]{0,6})\.worker")


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
    born: int


class Failure(msgspec.Struct, frozen=True):
    """How a worker ended soon after its start. ``words`` are for people: how, and what it said last."""

    at_ms: int
    times: int
    words: str


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker that lives.

    Attributes:
        born: when its process started, as `engines.processes.launch.born`.
        draining_ms: when it was asked to end, None if it was not.
    """

    task: str
    index: int
    pid: int
    port: int
    started_ms: int
    born: int
    draining_ms: int | None

    @property
    def lives(self) -> bool:
        """Say whether its process id is still its own."""
        return self.pid > 1 and self.born > 0 and born(self.pid) == self.born


class WorkerStore:
    """The workers of one cluster's jobs on this machine. Keeps nothing in memory."""

    def __init__(self, folder: Path, cluster: str) -> None:
        """``folder`` is made when something is written."""
        self._root, self._folder = folder, folder / quote(cluster, safe="")

    # What is required

    def requirement(self, job: str) -> Requirement | None:
        """Return what is asked for of a job; None: it was never started here.

        Raises:
            FolderUnavailable: it cannot be read.
        """
        try:
            return decoder(Requirement).decode((self._of(job) / "requirement.json").read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, *UNREADABLE) as error:
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
        """Return one worker, None if it does not live.

        Raises:
            FolderUnavailable: its file cannot be read.
        """
        path = self.file(job, task, index)
        try:
            written = decoder(_Written).decode(_read(path))
        except (FileNotFoundError, *UNREADABLE):
            return None
        except OSError as error:
            if error.errno in _NO_FILE:  # the next start of this worker says so
                return None
            raise self._away(error) from None
        draining_ms = self._draining_ms(path)
        worker = Worker(task, index, written.pid, written.port, written.started_ms, written.born, draining_ms)
        return worker if worker.lives else None

    def give_up_lock(self, job: str, task: str, index: int) -> None:
        """Let the next start of a worker have a file of its own: a process that outlived the last one holds the lock on this one.

        Raises:
            FolderUnavailable: it cannot be removed.
        """
        try:
            self.file(job, task, index).unlink(missing_ok=True)
        except OSError as error:
            raise self._away(error) from None

    def failure(self, job: str, task: str, index: int) -> Failure | None:
        """Return how a worker ended soon after its start, None if it did not or has run for a while since."""
        try:
            return decoder(Failure).decode(_read(self.file(job, task, index, "failed")))
        except (OSError, *UNREADABLE):
            return None

    def failing(self, job: str, task: str, count: int) -> str:
        """Return how one of ``count`` workers of a task ended soon after its start, for people; empty if none did."""
        for index in range(count):
            failure = self.failure(job, task, index)
            if failure is not None:
                return f"worker {task} {index} failed to start, {failure.times} times in a row: it {failure.words}"
        return ""

    def note_failure(self, job: str, task: str, index: int, failure: Failure | None) -> None:
        """Remember how a worker ended soon after its start, or forget it (None).

        Raises:
            FolderUnavailable: it cannot be written.
        """
        path = self.file(job, task, index, "failed")
        try:
            if failure is None:
                path.unlink(missing_ok=True)
            else:
                replace_atomically(path, msgspec.json.encode(failure).decode(), mode=_OWN)
        except OSError as error:
            raise self._away(error) from None

    def file(self, job: str, task: str, index: int, suffix: str = "worker") -> Path:
        """Return one of the files of a worker."""
        return self._of(job) / quote(task, safe="") / f"{index}.{suffix}"

    def note_draining(self, job: str, worker: Worker, now_ms: int) -> None:
        """Remember that a worker was asked to end.

        Raises:
            FolderUnavailable: it cannot be written.
        """
        try:
            replace_atomically(self.file(job, worker.task, worker.index, "draining"), str(now_ms), mode=_OWN)
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
        return sorted(int(found[1]) for name in names if (found := _WORKER_FILE.fullmatch(name)))

    def _draining_ms(self, path: Path) -> int | None:
        try:
            return int(_read(path.with_suffix(".draining")))
        except (OSError, ValueError):
            return None

    def _of(self, job: str) -> Path:
        return self._folder / quote(job, safe="")

    def _write(self, job: str, requirement: Requirement) -> Requirement:
        try:
            replace_atomically(self._of(job) / "requirement.json", msgspec.json.encode(requirement).decode(), mode=_OWN)
        except OSError as error:
            raise self._away(error) from None
        return requirement

    @contextlib.contextmanager
    def _locked(self, job: str) -> Iterator[None]:
        with self._hold(self._of(job) / "lock", wait=True):
            yield

    @contextlib.contextmanager
    def _hold(self, path: Path, *, wait: bool) -> Iterator[bool]:
        until_s = time.monotonic() + _LOCK_WITHIN_S
        try:
            self.make(path.parent)
            file = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, _OWN)
        except OSError as error:
            raise self._away(error) from None
        try:
            while not _takes_lock(file):
                if not wait:
                    yield False
                    return
                if time.monotonic() > until_s:
                    raise self._away(TimeoutError(f"another process holds the lock on {path}: end it"))
                time.sleep(_LOCK_AGAIN_S)
            yield True
        finally:
            os.close(file)

    def make(self, folder: Path) -> None:
        """Make a folder of the store, for nobody else to enter.

        Raises:
            OSError: it cannot be made, or others own it or may write into it.
        """
        inside = [self._folder / each for each in reversed(folder.relative_to(self._folder).parents)]
        for own in (self._root, *inside, folder):
            with contextlib.suppress(FileExistsError):
                own.mkdir(mode=0o700, parents=own == self._root)
            found = own.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
                raise PermissionError(f"{own} is a link, a file, or owned by somebody else")
            if own == self._root and found.st_mode & 0o022:  # what is inside is made for us alone
                raise PermissionError(f"others may write into {own}")
            if own != self._root and found.st_mode & 0o077:
                own.chmod(0o700)

    def _away(self, error: Exception) -> FolderUnavailable:
        why = reason_of(error) if isinstance(error, OSError) else str(error)
        return FolderUnavailable(
            f"{_SETTING}: {self._folder} cannot be used ({why}); set a folder that this role may read and write"
        )


def _takes_lock(file: int) -> bool:
    """Take the lock; return whether nobody else holds it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(path: Path) -> bytes:
    """Return the beginning of a file that is no link.

    Raises:
        OSError: there is none, or it is a link.
    """
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return os.read(file, _FILE_MAX)
    finally:
        os.close(file)
