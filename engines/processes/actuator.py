"""Worker processes on this machine as an actuator sees them: a number of workers is asked for, and a reconciler makes it so.

What is asked for is a file with a number that grows (`engines.processes.worker_store`), written under a lock: compared and
changed in one step. A thread reconciles the workers, command or not: one that dies is started again. The workers outlive this
process, and whoever comes next finds them by their locks.
"""

import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.messages import GroupWorker, Host
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.actuator import ReconcilerThread, TendsChains
from surescale.engines.groups.chains import Chain
from surescale.engines.groups.workers import HINDRANCE_LETTERS_MAX
from surescale.engines.ports.actuator import (
    REQUIREMENT_CHANGED,
    EngineRefused,
    EngineUnavailable,
    JobStatus,
)
from surescale.engines.ports.requirement import Requirements, covers, in_words
from surescale.engines.ports.source import SourceUnavailable
from surescale.engines.processes import PROCESSES, ProcessesSettings
from surescale.engines.processes.reconcile import WorkerReconciler
from surescale.engines.processes.worker_store import FolderUnavailable, Requirement, Worker, WorkerStore
from surescale.engines.settings import ClusterSettings, SourceSettings
from surescale.runtime.printable import printable

_log = logging.getLogger("surescale.workers")


@dataclass(slots=True)
class ProcessesEngine(TendsChains[Requirement]):
    """``EngineApi`` on the workers of one cluster on this machine. Keeps nothing that is needed after a restart."""

    unscaled = "does not say how its workers are started; add workers.command"
    recreated = "the job was started again, as {epoch}"
    reconciler: WorkerReconciler
    cluster: str
    _reconciling: ReconcilerThread = field(init=False)

    def __post_init__(self) -> None:
        self._reconciling = ReconcilerThread(self.reconciler.reconcile, FolderUnavailable, _log)

    @classmethod
    def of(cls, settings: ClusterSettings, timeout_s: float) -> Self:
        """Return the one of a role's settings; nothing here is asked for long.

        Raises:
            SettingsError: the groups file cannot be used.
        """
        return cls(WorkerReconciler.of(settings), settings.cluster)

    # The port

    def capabilities(self) -> Capabilities:
        """Return what this machine can do."""
        return PROCESSES

    def look(self, job: str) -> JobStatus:
        """Return what is asked for, and the workers that are up. One that drains still runs."""
        with self._answers():
            chain = self._chain(job)
            required = self._required(chain)
            alive = self.reconciler.store.workers(chain.name)
            running = dict.fromkeys(required.counts, 0)
            for worker in alive:
                if worker.task in running and (worker.draining_ms is not None or self.reconciler.answers(chain, worker)):
                    running[worker.task] += 1
            short = any(running[task] < count for task, count in required.counts.items())
            return JobStatus(
                epoch=required.epoch,
                requirement_id=required.id,
                required=dict(required.counts),
                running=running,
                state="running" if any(running.values()) else "restarting",
                waiting_for="slots" if short and self._is_full() else "",
                hindrance=self.reconciler.failures(chain, required) if short else "",
            )

    # Inside

    def _chains(self) -> Mapping[str, Chain]:
        return self.reconciler.chains

    def _required(self, chain: Chain) -> Requirement:
        required = self.reconciler.store.requirement(chain.name)
        if required is None:
            raise EngineUnavailable(f"the workers of {chain.name} have not been started yet")
        return required

    def _ask(self, chain: Chain, required: Requirement, command: RescheduleCommand) -> None:
        if command.expected is not None and not covers(required.counts, command.expected.required):
            raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else asked for {in_words(required.counts)}")
        self._write(chain, required, command.targets)

    def _ask_back(self, chain: Chain, required: Requirement, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        if not covers(required.counts, command.targets):
            raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else asked for {in_words(required.counts)}")
        self._write(chain, required, put_back)

    def _write(self, chain: Chain, required: Requirement, counts: Mapping[str, int]) -> None:
        if self.reconciler.store.change(chain.name, required, counts) is None:
            raise EngineRefused(REQUIREMENT_CHANGED, "somebody else is changing what is asked for")

    @contextmanager
    def _answers(self) -> Iterator[None]:
        try:
            yield
        except FolderUnavailable as away:
            raise EngineUnavailable(str(away)) from None

    def _is_full(self) -> bool:
        store = self.reconciler.store
        return sum(len(store.workers(job)) for job in store.jobs()) >= self.reconciler.workers_max


class RequiredProcesses(Requirements):
    """The folder of the workers."""

    def __init__(self, settings: SourceSettings) -> None:
        super().__init__(PROCESSES)
        self._store = WorkerStore(Path(settings.part(ProcessesSettings).workers_folder), settings.cluster)
        self._most = settings.part(GroupsSettings).workers_max

    def look(self, job: str) -> Requirement | None:
        """Read the file."""
        return self._store.requirement(job)

    def failing(self, job: str, task: str) -> str:
        """Return how one fails, with what it said last."""
        required = self.required(job)
        found = self._store.failing(job, task, required.counts.get(task, 0)) if required is not None else ""
        return printable(found)[:HINDRANCE_LETTERS_MAX]

    def workers(self, job: str, task: str) -> tuple[GroupWorker, ...]:
        """Return those of the folder."""
        required = self.required(job)
        asked = required.counts.get(task, 0) if required is not None else 0
        try:
            alive = {worker.index: worker for worker in self._store.workers(job) if worker.task == task}
        except FolderUnavailable as away:
            raise SourceUnavailable(str(away)) from None
        return tuple(self._shown(job, task, index, alive.get(index)) for index in sorted(alive.keys() | set(range(asked))))

    def _shown(self, job: str, task: str, index: int, worker: Worker | None) -> GroupWorker:
        failure = self._store.failure(job, task, index)
        return GroupWorker(
            index=index,
            pid=worker.pid if worker is not None else None,
            started_ms=worker.started_ms if worker is not None else None,
            is_ending=worker is not None and worker.draining_ms is not None,
            failures=failure.times if failure is not None else 0,
            failure=printable(failure.words)[:HINDRANCE_LETTERS_MAX] if failure is not None else "",
            log=str(self._store.file(job, task, index, "log").absolute()),
        )

    def hosts(self) -> tuple[Host, ...]:
        """Return this machine."""
        try:
            running = sum(len(self._store.workers(job)) for job in self._store.jobs())
        except FolderUnavailable as away:
            raise SourceUnavailable(str(away)) from None
        return (Host(host=socket.gethostname(), slots=self._most, free_slots=max(0, self._most - running)),)
