"""The Spark job with its checkpoint in an object store: what a lost machine had is there for the next one."""

import signal
from collections.abc import Iterator

import pytest

from tests.conftest import KafkaForTests
from tests.support.object_store import BUCKET, object_store
from tests.support.spark_pipeline import SparkPipeline
from tests.support.waiting import PATIENT_S, wait_until
from tests.unit.spark_streaming.pipeline import graph, marker, sample, spec

pytestmark = pytest.mark.integration

FIRST_MINUTE = 13_500_000
START_TIMEOUT_S = 180.0


@pytest.fixture
def store() -> Iterator[dict[str, str]]:
    """Variables of a process whose ``s3://`` is a server of this test's own."""
    with object_store() as variables:
        yield variables


def test_another_machine_goes_on_where_the_lost_one_was(
    kafka: KafkaForTests, store: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Killed with all it ran; the next process has nothing but the URL. Every window comes, with the bytes computed in one go."""
    pipeline = SparkPipeline(kafka, tmp_path_factory.mktemp("spark"))
    topology = graph(spec("map", parallelism=2), job="sim/a")
    try:
        for run in range(2):
            for minute in range(4 * run + 1, 4 * run + 5):
                end_ms = (FIRST_MINUTE + minute) * 60_000
                rows = [sample(end_ms, 90 * minute + each, job="sim/a", task="map", subtask=each) for each in range(2)]
                pipeline.send(*rows, marker(FIRST_MINUTE + minute, topology))
            pipeline.start(**store, SURESCALE_SPARK_CHECKPOINT=f"s3://{BUCKET}/checkpoint")
            wait_until(lambda wanted=4 * run + 4: pipeline.has_windows(wanted), START_TIMEOUT_S, "the windows")  # type: ignore[misc]
            assert not pipeline.checkpoint.exists()
            pipeline.signal_all(signal.SIGKILL)
            pipeline.process.wait(PATIENT_S)
        assert {identity: set(values) for identity, values in pipeline.windows().items()} == {
            identity: {value} for identity, value in pipeline.expected().items()
        }
    finally:
        pipeline.close()
