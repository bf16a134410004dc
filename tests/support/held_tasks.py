"""The Spark job with tasks that wait before they save, where a test wants them to: ``python -m tests.support.held_tasks``.

A task that finds a file ``hold`` renames it to ``held-PID``, with the id of its own process, and waits until that is removed.
Its windows are acknowledged then, and its state is not saved. Any other attempt finds no ``hold`` and goes on.
"""

import os
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from surescale.spark_streaming import streaming_job
from surescale.spark_streaming.manifest import SavedState
from surescale.spark_streaming.merging import Work, merge
from surescale.spark_streaming.state_files import StateFiles
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]

HOLDS = "SURESCALE_TEST_HOLDS"
JOBS_MOVE_FOR_MS = "SURESCALE_TEST_JOBS_MOVE_FOR_MS"


class Holds:
    """The test's side: a folder in which it says what to wait for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()

    def variables(self, jobs_move_for_ms: int = streaming_job.JOBS_MOVE_FOR_MS) -> dict[str, str]:
        """Return what the job must be started with; ``jobs_move_for_ms``: see there."""
        root = Path(__file__).parents[2]
        return {
            HOLDS: str(self._folder),
            JOBS_MOVE_FOR_MS: str(jobs_move_for_ms),
            "PYTHONPATH": f"{os.environ['PYTHONPATH']}:{root}",
        }

    def next_task(self) -> None:
        """Hold the next task that comes to save."""
        (self._folder / "hold").touch()

    def held(self) -> int:
        """Wait for a task that is held, and return the id of its process."""
        path = wait_until(lambda: next(self._folder.glob("held-*"), None), 120, "a task that is held")
        return int(path.name.removeprefix("held-"))

    def let_go(self, pid: int) -> str:
        """Let a held task go on, wait until it has saved its state, and return the file's name."""
        (self._folder / f"held-{pid}").unlink()
        saved = self._folder / f"saved-{pid}"
        return wait_until(lambda: saved.exists() and saved.read_text(), 60, "the state of the task that was held")


def _merge_held(batches: "Iterable[pa.RecordBatch]", work: Work, folder: str) -> "Iterator[pa.RecordBatch]":
    save = StateFiles.save

    def save_later(files: StateFiles, *given: Any, **more: Any) -> SavedState:
        held = Path(folder) / f"held-{os.getpid()}"
        try:
            (held.parent / "hold").rename(held)
        except FileNotFoundError:
            return save(files, *given, **more)
        while held.exists():
            time.sleep(0.02)
        saved = save(files, *given, **more)
        (held.parent / f"saved-{os.getpid()}").write_text(saved.head)
        return saved

    with mock.patch.object(StateFiles, "save", save_later):
        yield from merge(batches, work)


def main() -> None:
    """Run the role's command."""
    from surescale.spark_streaming.command import command

    streaming_job.merge = partial(_merge_held, folder=os.environ[HOLDS])  # type: ignore[attr-defined]
    streaming_job.JOBS_MOVE_FOR_MS = int(os.environ[JOBS_MOVE_FOR_MS])
    command([])


if __name__ == "__main__":
    main()
