"""The processes of ``surescale policy evaluate`` end with it, however it ends."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import psutil
import pytest

from benchmarks.archive import where
from tests.support.waiting import wait_until

POLICIES = ["--policy", "oracle", "--policy", "drs", "--policy", "flink"]
LONG = ["--job", where("j_1351665"), "--workload", "clarknet", *POLICIES, "--runs", "100", "--workers", "2"]


@pytest.fixture
def evaluation() -> Iterator[subprocess.Popen[str]]:
    """Start an evaluation of many minutes as a process of its own."""
    command = [sys.executable, "-m", "surescale.services.cli", "policy", "evaluate", *LONG]
    heeds = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs, such as this run, may ignore it
    started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=heeds)
    yield started
    with contextlib.suppress(ProcessLookupError):
        os.killpg(started.pid, signal.SIGKILL)
    started.communicate()


def workers(evaluation: subprocess.Popen[str]) -> list[psutil.Process]:
    """Return both worker processes, once they watch the command: until then Python starts them, and complains when cut off."""

    def found() -> list[psutil.Process]:
        children = psutil.Process(evaluation.pid).children()
        spawned = [child for child in children if "spawn_main" in " ".join(child.cmdline()) and child.num_threads() > 1]
        return spawned if len(spawned) == 2 else []

    return wait_until(found, what="two workers")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_workers_end_with_the_command(evaluation: subprocess.Popen[str], number: signal.Signals, code: int) -> None:
    """Told to stop or killed, it leaves nobody computing on, and nobody is waited for."""
    at_work = workers(evaluation)
    evaluation.send_signal(number)
    _, said = evaluation.communicate(timeout=60)
    assert evaluation.returncode == code
    assert "Traceback" not in said
    _, left = psutil.wait_procs(at_work, timeout=60)
    assert left == []


def test_a_worker_that_dies_is_one_clear_line(evaluation: subprocess.Popen[str]) -> None:
    """The others end too."""
    first, second = workers(evaluation)
    first.kill()
    _, said = evaluation.communicate(timeout=60)
    assert evaluation.returncode == 1
    assert said == "surescale: --workers: a worker process died, perhaps out of memory; try --workers 1\n"
    assert psutil.wait_procs([second], timeout=60)[1] == []
