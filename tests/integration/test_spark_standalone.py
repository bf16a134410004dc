"""The Spark job on a standalone master with two workers, each with folders of its own; one is lost, and another joins."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import KafkaForTests
from tests.support.object_store import BUCKET, object_store
from tests.support.spark_pipeline import SparkPipeline
from tests.support.standalone_cluster import StandaloneCluster, standalone_cluster
from tests.support.waiting import wait_until
from tests.unit.spark_streaming.pipeline import graph, marker, sample, spec

pytestmark = pytest.mark.integration

JOBS = tuple(f"sim/job-{number}" for number in range(8))
FIRST_MINUTE = 13_500_000
START_TIMEOUT_S = 240.0


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    """Variables of processes whose ``s3://`` is a server of this test's own."""
    with object_store() as variables:
        yield variables


@pytest.fixture
def cluster(store: dict[str, str], tmp_path: Path) -> Iterator[StandaloneCluster]:
    """Two workers."""
    with standalone_cluster(tmp_path, store, workers=2) as made:
        yield made


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
