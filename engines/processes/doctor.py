"""Checks of the worker processes on this machine: those that crash at their start are named, with what they said last.

So are those that nobody looks after any more, since their job has left the file or has another name there.
"""

from collections.abc import Iterator
from pathlib import Path

from surescale.contracts.plurals import counted
from surescale.engines.groups.chains import chains_of
from surescale.engines.ports.findings import Finding
from surescale.engines.processes import ProcessesSettings
from surescale.engines.processes.reconcile import folder_of_commands, missing_programs
from surescale.engines.processes.worker_store import FolderUnavailable, WorkerStore
from surescale.engines.settings import SourceSettings

_SUBJECT = "workers"


def processes(settings: SourceSettings) -> Iterator[Finding]:
    """Compare the workers that live with those that are asked for, job by job."""
    store = WorkerStore(Path(settings.part(ProcessesSettings).workers_folder), settings.cluster)
    folder = folder_of_commands(settings)
    try:
        chains = chains_of(settings)
        for name, chain in chains.items():
            missing = [
                Finding("problem", _SUBJECT, why, "install it, or name another") for why in missing_programs(chain, folder)
            ]
            yield from missing or [_job(store, name)]
        for name in store.jobs():
            if name not in chains and store.workers(name):
                yield _left(name, len(store.workers(name)))
    except FolderUnavailable as away:
        yield Finding("problem", _SUBJECT, str(away), "run doctor as the rescaler's user, on its machine")


def _job(store: WorkerStore, name: str) -> Finding:
    required = store.requirement(name)
    if required is None:
        return Finding("warning", _SUBJECT, f"{name}: none was started yet", "start the rescaler, which starts them")
    for task, count in required.counts.items():
        failing = store.failing(name, task, count)
        if failing:
            log = store.file(name, task, 0, "log").parent
            return Finding("problem", _SUBJECT, f"{name}: {failing}", f"fix it; it is tried again. Its whole output is in {log}")
    live = sum(each.task in required.counts for each in store.workers(name))
    detail = f"{name}: {live} live, {sum(required.counts.values())} are asked for"
    return Finding("ok", _SUBJECT, detail)


def _left(name: str, workers: int) -> Finding:
    detail = f"{name}: {counted(workers, 'worker')} of a job that the groups file does not have; nobody sizes or restarts them"
    return Finding("warning", _SUBJECT, detail, f"`surescale workers stop {name}` ends them once they have finished")
