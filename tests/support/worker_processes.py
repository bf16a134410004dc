"""Worker processes for tests: a chain whose workers do nothing, and what reconciles them."""

import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from surescale.engines.groups.chains import Chain, Group, Workers
from surescale.engines.processes.reconcile import WorkerReconciler
from surescale.engines.processes.worker_store import Worker, WorkerStore
from tests.support.waiting import wait_until

CLUSTER = "real"
OBEDIENT = (
    "import os, signal, time; signal.signal(signal.SIGTERM, lambda *_: os._exit(0)); print('up', flush=True); time.sleep(600)"
)
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
BROKEN = "print('no such topic', flush=True); raise SystemExit(3)"


def chain_of(start: Mapping[str, int], *, name: str = "orders", script: str = OBEDIENT, drain_s: float = 5.0) -> Chain:
    """Return a chain with this many workers of each task, each a Python program."""
    command = (sys.executable, "-I", "-S", "-c", script.replace("{", "{{").replace("}", "}}"))
    return Chain(name, {task: Group(workers=Workers(command, start=count, drain_s=drain_s)) for task, count in start.items()})


def reconciler_of(folder: Path, *chains: Chain, workers_max: int = 50) -> WorkerReconciler:
    """Return what reconciles these chains."""
    return WorkerReconciler(WorkerStore(folder, CLUSTER), {chain.name: chain for chain in chains}, folder, workers_max)


def reconciled(reconciler: WorkerReconciler, job: str, wanted: Mapping[str, int], *, timeout_s: float = 30.0) -> list[Worker]:
    """Tend until exactly this many workers of each task live; return them."""

    def alive() -> list[Worker]:
        reconciler.reconcile()
        found = reconciler.store.workers(job)
        counts = {task: sum(worker.task == task for worker in found) for task in wanted}
        return found if counts == wanted else []

    if not any(wanted.values()):
        wait_until(lambda: [reconciler.reconcile(), not reconciler.store.workers(job)][1], timeout_s, f"no worker of {job}")
        return []
    return wait_until(alive, timeout_s, f"workers {dict(wanted)} of {job}")


def kill_all(store: WorkerStore) -> None:
    """Kill every worker of a folder, at the end of a test."""
    for job in store.jobs():
        for worker in store.workers(job):
            os.killpg(worker.pid, signal.SIGKILL)
