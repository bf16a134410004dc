"""Worker processes, started, found again and drained for real."""

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.engines.processes import launch
from surescale.engines.processes.worker_store import FolderUnavailable, WorkerStore
from tests.support.waiting import wait_until
from tests.support.worker_processes import BROKEN, CLUSTER, DEAF, chain_of, kill_all, reconciled, reconciler_of

JOB = "orders"


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose workers are killed in the end."""
    yield tmp_path
    kill_all(WorkerStore(tmp_path, CLUSTER))


def test_a_job_begins_with_the_workers_that_its_author_wants(folder: Path) -> None:
    """Each has an index of its own and is the process it says."""
    workers = reconciled(reconciler_of(folder, chain_of({"parse": 1, "count": 2})), JOB, {"parse": 1, "count": 2})
    assert [(worker.task, worker.index) for worker in workers] == [("count", 0), ("count", 1), ("parse", 0)]
    assert len({worker.pid for worker in workers}) == 3
    wait_until(  # each is a copy of its launcher at first
        lambda: all("time.sleep" in Path(f"/proc/{worker.pid}/cmdline").read_text() for worker in workers), what="their commands"
    )


def test_a_successor_finds_the_workers_and_starts_none_again(folder: Path) -> None:
    """A rescaler that was killed leaves its workers running."""
    chain = chain_of({"parse": 2})
    before = reconciled(reconciler_of(folder, chain), JOB, {"parse": 2})
    successor = reconciler_of(folder, chain)
    for _ in range(3):
        successor.reconcile()
    assert successor.store.workers(JOB) == before


def test_the_highest_workers_are_drained_and_the_others_run_on(folder: Path) -> None:
    """They get SIGTERM and time; the others are the same processes as before."""
    reconciler = reconciler_of(folder, chain_of({"parse": 3}))
    before = reconciled(reconciler, JOB, {"parse": 3})
    required = reconciler.store.requirement(JOB)
    assert required is not None
    assert reconciler.store.change(JOB, required, {"parse": 1})
    after = reconciled(reconciler, JOB, {"parse": 1})
    assert after == before[:1]


def test_a_worker_that_does_not_end_in_time_is_killed(folder: Path) -> None:
    """Also one that was asked to end by a predecessor."""
    chain = chain_of({"parse": 1}, script=DEAF, drain_s=0.5)
    reconciler = reconciler_of(folder, chain)
    (worker,) = reconciled(reconciler, JOB, {"parse": 1})
    log = reconciler.store.file(JOB, "parse", 0, "log")
    wait_until(lambda: log.read_text() == "up\n", what="the worker to be deaf")
    reconciler.store.stop(JOB)
    reconciler.reconcile()
    successor = reconciler_of(folder, chain)
    assert [each.draining_ms is not None for each in successor.store.workers(JOB)] == [True]
    reconciled(successor, JOB, {"parse": 0})
    wait_until(lambda: reconciler.reconcile() or not Path(f"/proc/{worker.pid}").exists(), what="no zombie")


def test_a_worker_that_dies_is_started_again(folder: Path) -> None:
    """In the same place."""
    reconciler = reconciler_of(folder, chain_of({"parse": 2}))
    before = reconciled(reconciler, JOB, {"parse": 2})
    os.kill(before[0].pid, signal.SIGKILL)
    wait_until(lambda: len(reconciler.store.workers(JOB)) == 1, what="its end")
    after = reconciled(reconciler, JOB, {"parse": 2})
    assert [worker.index for worker in after] == [0, 1]
    assert after[0].pid != before[0].pid
    assert after[1] == before[1]


def test_a_worker_that_fails_at_once_is_started_less_and_less_often(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """And the log says how it ended and what it said last."""
    reconciler = reconciler_of(folder, chain_of({"parse": 1}, script=BROKEN))
    with caplog.at_level(logging.WARNING, "surescale.workers"):
        wait_until(lambda: [reconciler.reconcile(), len(caplog.records) >= 2][1], what="two failures")
    texts = [record.getMessage() for record in caplog.records]
    assert all("exit code 3" in text and text.endswith("Its last output: no such topic") for text in texts[:2])
    assert "restarting it in 0.5 s" in texts[0]
    assert "restarting it in 1.0 s" in texts[1]


def test_a_clock_that_is_set_back_keeps_no_worker_waiting(folder: Path) -> None:
    """A worker has failed and waits for its next start; that is not a day away."""
    reconciler = reconciler_of(folder, chain_of({"parse": 1}, script=BROKEN))
    now_ms = reconciler.now_ms
    wait_until(lambda: [reconciler.reconcile(), any(each.failures for each in reconciler._past.values())][1], what="a failure")
    (past,) = reconciler._past.values()
    reconciler.now_ms = lambda: now_ms() - 86_400_000
    reconciler.reconcile()
    assert past.process is not None, "it was started again"


def test_two_starts_of_one_worker_are_one_worker(folder: Path) -> None:
    """A predecessor was killed right after it had started the worker, before that took its lock."""
    reconciler = reconciler_of(folder, chain_of({"parse": 1}))
    (worker,) = reconciled(reconciler, JOB, {"parse": 1})
    file = reconciler.store.file(JOB, "parse", 0)
    second = subprocess.run([sys.executable, "-I", "-S", launch.__file__, str(file), "1", "true"], check=False, timeout=20)
    assert second.returncode == launch.RUNS_ALREADY
    assert reconciler.store.workers(JOB) == [worker]


def test_no_more_workers_run_than_the_machine_holds(folder: Path) -> None:
    """All jobs together."""
    chains = (chain_of({"parse": 2}, name="a"), chain_of({"parse": 5}, name="b"))
    reconciler = reconciler_of(folder, *chains, workers_max=3)
    reconciled(reconciler, "a", {"parse": 2})
    reconciled(reconciler, "b", {"parse": 1})
    for _ in range(3):
        reconciler.reconcile()
    assert [len(reconciler.store.workers(job)) for job in ("a", "b")] == [2, 1]


def test_only_one_process_tends_at_a_time(folder: Path) -> None:
    """A rescaler on standby leaves the workers alone."""
    reconciler, other = (reconciler_of(folder, chain_of({"parse": 1})) for _ in range(2))
    with reconciler.store.is_alone() as alone:
        assert alone
        other.reconcile()
        assert other.store.workers(JOB) == []
        assert other.store.requirement(JOB) is None


def test_workers_that_left_the_file_are_named_and_run_on(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A slip in a file must not stop what works."""
    (worker,) = reconciled(reconciler_of(folder, chain_of({"parse": 1})), JOB, {"parse": 1})
    successor = reconciler_of(folder, chain_of({"count": 1}))
    with caplog.at_level(logging.WARNING, "surescale.workers"):
        reconciled(successor, JOB, {"parse": 1, "count": 1})
    assert worker in successor.store.workers(JOB)
    assert f"{JOB}/parse 0 (pid {worker.pid})" in caplog.text


def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """With the setting."""
    (tmp_path / CLUSTER).write_text("")
    with pytest.raises(FolderUnavailable, match=r"SURESCALE_WORKERS_FOLDER: .* cannot be used \(.+\)"):
        reconciler_of(tmp_path, chain_of({"parse": 1})).reconcile()
