"""A Spark cluster of its own: a standalone master with workers, as processes of this machine."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pyspark

from surescale.runtime.ports import free_port
from tests.support.waiting import PATIENT_S

_SPARK_CLASS = Path(pyspark.__file__).parent / "bin/spark-class"
_DEPLOY = "org.apache.spark.deploy"
_HOSTS = ("127.0.0.1", "localhost")


class StandaloneCluster:
    """A master, and workers of one core that share nothing but the machine.

    For Spark they are on two hosts in turn: it starts no copy of a task on the host of the first attempt.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        """``variables``: of the workers, and of what they run."""
        self._folder, self._port = folder, free_port()
        self._environment = os.environ | dict(variables) | {"PYSPARK_PYTHON": sys.executable}
        self.workers: list[subprocess.Popen[bytes]] = []
        self._master = self._run(
            "master", _HOSTS[0], f"{_DEPLOY}.master.Master", "--port", str(self._port), "--webui-port", str(free_port())
        )

    @property
    def url(self) -> str:
        """Of the master."""
        return f"spark://127.0.0.1:{self._port}"

    def add_worker(self) -> None:
        """Start a worker, with a folder of its own."""
        name = f"worker-{len(self.workers)}"
        options = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name), "--webui-port", str(free_port()))
        host = _HOSTS[len(self.workers) % len(_HOSTS)]
        self.workers.append(self._run(name, host, f"{_DEPLOY}.worker.Worker", *options, self.url))

    def executors(self) -> list[psutil.Process]:
        """Return the executors that run, one a worker."""
        found = []
        for worker in self.workers:
            for each in psutil.Process(worker.pid).children() if worker.poll() is None else ():
                with contextlib.suppress(psutil.Error):  # one that has just ended
                    found += [each] * ("CoarseGrainedExecutorBackend" in " ".join(each.cmdline()))
        return found

    def lose(self, worker: int) -> None:
        """Kill a worker and all it runs, as a machine that is switched off."""
        process = psutil.Process(self.workers[worker].pid)
        for each in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(signal.SIGKILL)
        self.workers[worker].wait(PATIENT_S)

    def close(self) -> None:
        """Kill what runs."""
        for number, worker in enumerate(self.workers):
            if worker.poll() is None:
                self.lose(number)
        self._master.kill()
        self._master.wait(PATIENT_S)

    def _run(self, name: str, host: str, *words: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("wb") as log:
            command = [str(_SPARK_CLASS), words[0], "--host", host, *words[1:]]
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, start_new_session=True)


@contextlib.contextmanager
def standalone_cluster(folder: Path, variables: Mapping[str, str], *, workers: int) -> Iterator[StandaloneCluster]:
    """Yield a cluster with so many workers."""
    made = StandaloneCluster(folder, variables)
    try:
        for _ in range(workers):
            made.add_worker()
        yield made
    finally:
        made.close()
