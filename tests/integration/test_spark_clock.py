"""The pipeline's clock as the Spark job follows it, on a real broker; no Spark is needed for that."""

import logging
import threading

import numpy as np
import pytest

from surescale.contracts.messages import ClockSegment
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, TopicNames
from surescale.contracts.wire import encode
from surescale.runtime.backoff import Stopped
from surescale.runtime.kafka import create_topics, producer
from surescale.spark_streaming.pipeline_clock import PipelineClock
from tests.conftest import KafkaForTests

pytestmark = pytest.mark.integration

LOG = logging.getLogger("test")
LATER_MS = np.array([2**52])


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> PipelineSettings:
    """A pipeline with a clock of its own."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), pipeline_clock=True)
    create_topics(settings)
    return settings


def clock_of(pipeline: PipelineSettings, stop: threading.Event | None = None) -> PipelineClock:
    """Return the clock as the job builds it."""
    return PipelineClock(pipeline, stop=stop or threading.Event(), log=LOG)


def publish(pipeline: PipelineSettings, until_ms: int, name: str = "main") -> None:
    """Publish a segment that ends at a time."""
    send(pipeline, encode(ClockSegment(pipeline=name, sequence=0, e0_ms=0, w0_ms=0, speed=1.0, until_ms=until_ms)))


def send(pipeline: PipelineSettings, value: bytes) -> None:
    """Publish a value on the clock's topic."""
    client = producer(pipeline)
    client.produce(TopicNames(pipeline.topic_prefix)(CLOCK), value, b"main")
    assert client.flush(20) == 0


def test_a_segment_acknowledged_before_a_batch_is_seen_by_it(pipeline: PipelineSettings) -> None:
    """Each batch reads the clock to its end first."""
    clock = clock_of(pipeline)
    publish(pipeline, 60_000)
    assert clock.at(LATER_MS).tolist() == [60_000]
    publish(pipeline, 120_000)
    assert clock.at(LATER_MS).tolist() == [120_000]


def test_other_pipelines_and_bad_segments_are_left_out(pipeline: PipelineSettings, caplog: pytest.LogCaptureFixture) -> None:
    """A clock of another pipeline on the same topic, or a record that is no segment, changes nothing."""
    publish(pipeline, 60_000)
    publish(pipeline, 999_000, name="replay")
    send(pipeline, b'{"type":"clock/1"}')
    assert clock_of(pipeline).at(LATER_MS).tolist() == [60_000]
    assert "is not a segment (pipeline: object missing required field" in caplog.text


def test_records_wait_for_the_first_segment(pipeline: PipelineSettings) -> None:
    """Nothing can be judged without a clock, so the batch waits and says so."""
    clock = clock_of(pipeline)
    later = threading.Timer(0.5, publish, (pipeline, 60_000))
    later.start()
    assert clock.at(LATER_MS).tolist() == [60_000]
    later.join()


def test_waiting_ends_when_the_process_is_told_to_stop(pipeline: PipelineSettings) -> None:
    """The batch is not judged by a guess."""
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        clock_of(pipeline, stop).at(LATER_MS)


def test_a_pipeline_without_a_clock_asks_no_broker() -> None:
    """Live, the reference is the broker's append time; no connection is made."""
    clock = clock_of(PipelineSettings(bootstrap="127.0.0.1:1"))
    assert clock.at(np.array([5, 6])).tolist() == [5, 6]
