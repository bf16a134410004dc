"""The Spark job on a standalone master with two workers, each with folders of its own; one is lost, and another joins."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from surescale.runtime.ports import free_port
from tests.conftest import KafkaForTests
from tests.support.object_store import BUCKET, object_store
from tests.support.spark_pipeline import SparkPipeline
from tests.support.waiting import PATIENT_S, wait_until
from tests.unit.spark_streaming.pipeline import graph, marker, sample, spec

pytestmark = pytest.mark.integration

JOBS = tuple(f"sim/job-{number}" for number in range(8))
FIRST_MINUTE = 13_500_000
START_TIMEOUT_S = 240.0
_SPARK_CLASS = Path(pyspark.__file__).parent / "bin/spark-class"
_DEPLOY = "org.apache.spark.deploy"


class StandaloneCluster:
    """A master, and workers of one core that share nothing but the machine."""

    def __init__(self, folder: Path, store: dict[str, str]) -> None:
        self._folder, self._port = folder, free_port()
        self._environment = os.environ | store | {"PYSPARK_PYTHON": sys.executable}
        self.workers: list[subprocess.Popen[bytes]] = []
        self._master = self._run(
            "master", f"{_DEPLOY}.master.Master", "--port", str(self._port), "--webui-port", str(free_port())
        )

    @property
    def url(self) -> str:
        """Of the master."""
        return f"spark://127.0.0.1:{self._port}"

    def add_worker(self) -> None:
        """Start a worker, with a folder of its own."""
        name = f"worker-{len(self.workers)}"
        options = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name), "--webui-port", str(free_port()))
        self.workers.append(self._run(name, f"{_DEPLOY}.worker.Worker", *options, self.url))

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

    def _run(self, name: str, *words: str) -> "subprocess.Popen[bytes]":
        with (self._folder / f"{name}.log").open("wb") as log:
            command = [str(_SPARK_CLASS), words[0], "--host", "127.0.0.1", *words[1:]]
            return subprocess.Popen(command, env=self._environment, stdout=log, stderr=log, start_new_session=True)


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    """Variables of processes whose ``s3://`` is a server of this test's own."""
    with object_store() as variables:
        yield variables


@pytest.fixture
def cluster(store: dict[str, str], tmp_path: Path) -> Iterator[StandaloneCluster]:
    """Two workers."""
    made = StandaloneCluster(tmp_path, store)
    made.add_worker()
    made.add_worker()
    yield made
    made.close()


@pytest.mark.nightly("a Spark cluster for two minutes; test_spark_executors loses an executor too")
def test_a_worker_is_lost_and_another_one_joins(
    cluster: StandaloneCluster, store: dict[str, str], kafka: KafkaForTests, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Every window comes, with the bytes computed in one go: what the lost worker had merged is in the store."""
    pipeline = SparkPipeline(kafka, tmp_path_factory.mktemp("spark"))

    def send(first: int, last: int) -> None:
        for minute in range(first, last + 1):
            end_ms = (FIRST_MINUTE + minute) * 60_000
            for job in JOBS:
                pipeline.send(
                    sample(end_ms, 90 * minute, job=job, task="map"), marker(FIRST_MINUTE + minute, graph(spec("map"), job=job))
                )

    try:
        pipeline.start(
            SURESCALE_SPARK_MASTER=cluster.url,
            SURESCALE_SPARK_CHECKPOINT=f"s3://{BUCKET}/standalone",
            SPARK_LOCAL_IP="127.0.0.1",
        )
        send(1, 4)
        wait_until(lambda: pipeline.has_windows(4 * len(JOBS)), START_TIMEOUT_S, "the first windows")
        wait_until(lambda: len(cluster.executors()) == 2, what="an executor of each worker")
        cluster.lose(0)
        send(5, 8)
        wait_until(lambda: pipeline.has_windows(8 * len(JOBS)), START_TIMEOUT_S, "the windows after a loss")
        cluster.add_worker()
        wait_until(lambda: len(cluster.executors()) == 2, what="an executor of the worker that joined")
        send(9, 10)
        wait_until(lambda: pipeline.has_windows(10 * len(JOBS)), START_TIMEOUT_S, "the windows after a worker joined")
        assert {identity: set(values) for identity, values in pipeline.windows().items()} == {
            identity: {value} for identity, value in pipeline.expected().items()
        }
    finally:
        pipeline.close()
