"""The engine's jobs, and what the doctor says of them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from surescale.contracts.errors import SurescaleError, reason_of
from surescale.contracts.plurals import counted
from surescale.engines.ports.findings import Finding
from surescale.engines.settings import ClusterSettings
from surescale.runtime.atomic_files import replace_atomically
from tiny_engine import TinySettings


class Away(SurescaleError):
    """The folder cannot be used now."""


class Task(msgspec.Struct, frozen=True):
    """Subtasks that are required and that run, and records read since the attempt began."""

    required: int
    running: int
    records: int = 0


class Job(msgspec.Struct, frozen=True):
    """One job. ``submission`` and ``revision`` name what is required, ``attempt`` what runs."""

    submission: int
    revision: int
    attempt: int
    tasks: dict[str, Task]

    @property
    def requirement_id(self) -> str:
        """Return the name of what is required."""
        return f"{self.submission}/{self.revision}"

    @property
    def required(self) -> dict[str, int]:
        """Return what is required, by task."""
        return {name: task.required for name, task in self.tasks.items()}

    def requiring(self, counts: Mapping[str, int]) -> "Job":
        """Return it with another requirement."""
        tasks = {name: Task(counts.get(name, task.required), task.running, task.records) for name, task in self.tasks.items()}
        return msgspec.structs.replace(self, revision=self.revision + 1, tasks=tasks)


@dataclass(frozen=True, slots=True)
class Jobs:
    """The jobs of one folder."""

    folder: Path
    cluster: str

    @classmethod
    def of(cls, settings: ClusterSettings) -> "Jobs":
        """Return those of a role's settings."""
        return cls(Path(settings.part(TinySettings).tiny_folder), settings.cluster)

    def ids(self) -> list[str]:
        """Return the ids of all jobs, sorted.

        Raises:
            Away: the folder is not there.
        """
        if not self.folder.is_dir():
            raise Away(f"SURESCALE_TINY_FOLDER: {self.folder} is no folder; create it, or name another")
        return sorted(f"{self.cluster}/{file.stem}" for file in self.folder.glob("*.json"))

    def read(self, job: str) -> Job | None:
        """Return a job; None: there is no such job.

        Raises:
            Away: the folder is not there, or the file cannot be read.
        """
        if job not in self.ids():
            return None
        try:
            return msgspec.json.decode(self._file(job).read_bytes(), type=Job)
        except (OSError, msgspec.MsgspecError) as error:
            raise Away(f"{self._file(job)} cannot be read ({reason_of(error)})") from None

    def write(self, job: str, content: Job) -> None:
        """Replace a job."""
        replace_atomically(self._file(job), msgspec.json.encode(content).decode())

    def _file(self, job: str) -> Path:
        return self.folder / f"{job.partition('/')[2]}.json"


def checks(settings: ClusterSettings) -> Iterator[Finding]:
    """Check that the folder is there."""
    jobs = Jobs.of(settings)
    try:
        yield Finding("ok", "engine", f"tiny, {counted(len(jobs.ids()), 'job')} in {jobs.folder}")
    except Away as away:
        yield Finding("problem", "engine", str(away), "docs/engines.md says what an engine needs")
