"""What others, leftovers and accidents do to workers' files and processes: nobody innocent is ended, and no worker is lost."""

import contextlib
import fcntl
import json
import logging
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.engines.processes.launch import born
from surescale.engines.processes.reconcile import WorkerReconciler
from surescale.engines.processes.worker_store import FolderUnavailable, WorkerStore
from tests.support.waiting import PATIENT_S, wait_until
from tests.support.worker_processes import CLUSTER, DEAF, chain_of, kill_all, reconciled, reconciler_of

JOB = "orders"
NOBODY = 65_534


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder whose workers are killed in the end."""
    yield tmp_path / "workers"
    kill_all(WorkerStore(tmp_path / "workers", CLUSTER))


def one(folder: Path, script: str = DEAF) -> tuple[WorkerReconciler, Path]:
    """Return what reconciles a job of one worker that lives, and that worker's file."""
    reconciler = reconciler_of(folder, chain_of({"parse": 1}, script=script))
    reconciled(reconciler, JOB, {"parse": 1})
    return reconciler, reconciler.store.file(JOB, "parse", 0)


def test_files_and_folders_are_for_their_user_alone(folder: Path) -> None:
    """Whoever could open a file could hold its lock, and whoever could write it could choose who is signalled."""
    one(folder)
    inside = list((folder / CLUSTER).rglob("*"))
    assert {path.stat().st_mode & 0o777 for path in inside if path.is_dir()} == {0o700}
    assert {path.stat().st_mode & 0o777 for path in inside if path.is_file()} == {0o600}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_take_a_workers_lock() -> None:
    """Not of a worker, and not of the folder, also where all folders above may be entered."""
    with tempfile.TemporaryDirectory() as above:
        folder = Path(above) / "workers"
        folder.mkdir(mode=0o755)
        Path(above).chmod(0o755)
        try:
            _, file = one(folder)
            for path in (file, folder / CLUSTER / "tended", folder / CLUSTER / JOB / "lock"):
                done = subprocess.run(
                    ["/bin/sh", "-c", f"exec 9<{path}"], user=NOBODY, check=False, capture_output=True, text=True
                )
                assert "denied" in done.stderr
        finally:
            kill_all(WorkerStore(folder, CLUSTER))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_somebody_else_is_refused(folder: Path) -> None:
    """Its owner could put anything into it."""
    folder.mkdir()
    os.chown(folder, NOBODY, NOBODY)
    with pytest.raises(FolderUnavailable, match=r"SURESCALE_WORKERS_FOLDER: .* owned by somebody else"):
        reconciler_of(folder, chain_of({"parse": 1})).reconcile()


def test_a_folder_that_others_may_write_is_refused(folder: Path) -> None:
    """And left as it is: it may be somebody's on purpose."""
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(FolderUnavailable, match="others may write into"):
        reconciler_of(folder, chain_of({"parse": 1})).reconcile()
    assert folder.stat().st_mode & 0o777 == 0o777


def test_a_job_that_is_a_link_is_refused_and_the_others_are_tended(folder: Path, tmp_path: Path) -> None:
    """A fault of one job costs no other job its workers."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (folder / CLUSTER).mkdir(parents=True, mode=0o700)
    (folder / CLUSTER / "a").symlink_to(elsewhere)
    reconciler = reconciler_of(folder, chain_of({"parse": 1}, name="a"), chain_of({"parse": 1}, name="b"))
    with pytest.raises(FolderUnavailable, match="is a link"):
        reconciler.reconcile()
    wait_until(lambda: len(reconciler.store.workers("b")) == 1, what="the worker of the other job")
    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize(("place", "is_file"), [("a", True), ("a/parse/0.worker", False)])
def test_a_job_whose_places_are_of_another_kind_costs_the_others_nothing(folder: Path, place: str, is_file: bool) -> None:
    """Neither their workers nor what is shown of them: a file is in place of its folder, or a folder in place of a file."""
    path = folder / CLUSTER / place
    path.parent.mkdir(parents=True, mode=0o700)
    path.touch() if is_file else path.mkdir()
    reconciler = reconciler_of(folder, chain_of({"parse": 1}, name="a"), chain_of({"parse": 1}, name="b"))
    for _ in range(2):
        with contextlib.suppress(FolderUnavailable):
            reconciler.reconcile()
    wait_until(lambda: len(reconciler.store.workers("b")) == 1, what="the worker of the other job")
    assert [job for job in reconciler.store.jobs() for _ in reconciler.store.workers(job)] == ["b"]


def test_links_in_the_place_of_a_workers_files_are_not_followed(folder: Path, tmp_path: Path) -> None:
    """What they point to stays as it was."""
    precious = tmp_path / "precious"
    precious.write_text("untouched")
    place = folder / CLUSTER / JOB / "parse"
    place.mkdir(parents=True, mode=0o700)
    for name in ("0.worker", "0.log"):
        (place / name).symlink_to(precious)
    reconciler = reconciler_of(folder, chain_of({"parse": 1}))
    with pytest.raises(FolderUnavailable, match="cannot start a worker"):
        reconciler.reconcile()
    assert precious.read_text() == "untouched"


@pytest.mark.parametrize("name", [f"{JOB}/parse/0.log", "tended", f"{JOB}/lock"])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(folder: Path, name: str) -> None:
    """To open one that nobody reads, or writes, lasts for ever, and nobody would tend any worker."""
    place = folder / CLUSTER / name
    place.parent.mkdir(parents=True, mode=0o700)
    os.mkfifo(place, 0o600)
    store, ended = WorkerStore(folder, CLUSTER), threading.Event()

    def look() -> None:
        with contextlib.suppress(FolderUnavailable):
            if name.endswith("log"):
                reconciler_of(folder, chain_of({"parse": 1})).reconcile()
            with store.is_alone() if name == "tended" else store._locked(JOB):
                pass
        ended.set()

    threading.Thread(target=look, daemon=True).start()
    assert ended.wait(PATIENT_S)


def test_a_worker_whose_child_keeps_its_lock_is_dead_and_started_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The child is left alone, and the lock is said to be held."""
    keeps = "import os, subprocess, sys; subprocess.Popen(['sleep', '30'], close_fds=False, start_new_session=True); os._exit(3)"
    reconciler = reconciler_of(folder, chain_of({"parse": 1}, script=keeps))
    with caplog.at_level(logging.WARNING, "surescale.workers"):
        wait_until(lambda: [reconciler.reconcile(), "holds its lock still" in caplog.text][1], 30, "the word on its lock")
        exits = caplog.text.count("exit code 3")
        wait_until(lambda: [reconciler.reconcile(), caplog.text.count("exit code 3") > exits][1], 30, "another start")
    assert reconciler.store.workers(JOB) == []


def test_a_process_id_that_went_to_somebody_else_is_never_signalled(folder: Path) -> None:
    """Not even while a child of the worker that had it holds the lock."""
    reconciler, file = one(folder)
    (worker,) = reconciler.store.workers(JOB)
    os.killpg(worker.pid, signal.SIGKILL)
    innocent = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        written = {"pid": innocent.pid, "port": 1, "started_ms": 0, "born": born(innocent.pid) + 1}
        file.write_text(json.dumps(written))
        with file.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            reconciler.store.stop(JOB)
            for _ in range(3):
                reconciler.reconcile()
            assert reconciler.store.workers(JOB) == []
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


@pytest.mark.parametrize("pid", [-1, 0, 1, 2**40])
def test_a_process_id_that_no_worker_has_is_no_worker(folder: Path, pid: int) -> None:
    """-1 would be everybody."""
    place = folder / CLUSTER / JOB / "parse"
    place.mkdir(parents=True, mode=0o700)
    (place / "0.worker").write_text(json.dumps({"pid": pid, "port": 1, "started_ms": 0, "born": 1}))
    assert WorkerStore(folder, CLUSTER).workers(JOB) == []


def test_a_worker_that_closes_foreign_descriptors_is_one_worker_for_every_successor(folder: Path) -> None:
    """Its lock is lost, but not who it is."""
    closes = "import os, time; os.closerange(3, 50); print('up', flush=True); time.sleep(600)"
    reconciler, file = one(folder, closes)
    log = reconciler.store.file(JOB, "parse", 0, "log")
    wait_until(lambda: log.read_text() == "up\n", what="the worker to have closed them")
    with file.open() as free:
        fcntl.flock(free, fcntl.LOCK_EX | fcntl.LOCK_NB)  # nobody holds it
    before = reconciler.store.workers(JOB)
    for _ in range(3):
        successor = reconciler_of(folder, chain_of({"parse": 1}, script=closes))
        assert reconciled(successor, JOB, {"parse": 1}) == before


def test_a_stray_file_is_no_worker(folder: Path) -> None:
    """Whatever its name."""
    reconciler, file = one(folder)
    for name in ("notes.worker", "-1.worker", "99999999999999999999.worker", "00.worker"):
        (file.parent / name).touch()
    reconciler.reconcile()
    assert [worker.index for worker in reconciler.store.workers(JOB)] == [0]


def test_a_worker_that_ends_by_a_signal_without_a_name_is_started_again(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Real-time signals have numbers only."""
    reconciler = reconciler_of(folder, chain_of({"parse": 1}, script="import os; os.kill(os.getpid(), 40)"))
    with caplog.at_level(logging.WARNING, "surescale.workers"):
        wait_until(lambda: [reconciler.reconcile(), caplog.text.count("signal 40") >= 2][1], what="two ends")


def test_a_lock_that_is_never_given_back_is_one_line_and_no_standstill(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of what is required waits for some seconds at most."""
    monkeypatch.setattr("surescale.engines.processes.worker_store._LOCK_WITHIN_S", 0.2)
    reconciler, _ = one(folder)
    required = reconciler.store.requirement(JOB)
    assert required is not None
    with (folder / CLUSTER / JOB / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(FolderUnavailable, match=r"another process holds the lock on .*lock: end it"):
            reconciler.store.change(JOB, required, {"parse": 2})


def test_a_worker_does_not_inherit_the_settings_of_the_role(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They may hold passwords; everything else is there."""
    monkeypatch.setenv("SURESCALE_REDIS_URL", "redis://:secret@host")
    monkeypatch.setenv("SHOP", "open")
    shows = "import os, time; print(sorted({*os.environ} & {'SURESCALE_REDIS_URL', 'SHOP'}), flush=True); time.sleep(600)"
    reconciler, _ = one(folder, shows)
    log = reconciler.store.file(JOB, "parse", 0, "log")
    wait_until(lambda: log.read_text() == "['SHOP']\n", what="its environment")


def test_how_a_worker_failed_to_start_is_remembered_until_it_has_run_for_a_while(folder: Path) -> None:
    """By a successor too, so that everybody can be told."""
    broken = "print('no such topic', flush=True); raise SystemExit(3)"
    chain = chain_of({"parse": 1}, script=broken)
    reconciler = reconciler_of(folder, chain)
    wait_until(lambda: [reconciler.reconcile(), reconciler.store.failure(JOB, "parse", 0)][1], what="its failure")
    required = reconciler.store.requirement(JOB)
    assert required is not None
    words = reconciler_of(folder, chain).failures(chain, required)
    assert "worker parse 0 failed to start" in words
    assert "exit code 3; its last output: no such topic" in words
    later = reconciler_of(folder, chain_of({"parse": 1}))
    reconciled(later, JOB, {"parse": 1})
    later.now_ms = lambda: time.time_ns() // 1_000_000 + 60_000
    later.reconcile()
    assert later.failures(chain, required) == ""
