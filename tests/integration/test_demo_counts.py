"""The demo counts what went over the topics only when the last of it has arrived."""

import pytest

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import SNAPSHOTS, TopicNames
from surescale.contracts.windows import encode_window
from surescale.runtime.kafka import create_topics, producer
from surescale.services.local_stack.pipeline_figures import all_arrived
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, window_at

pytestmark = pytest.mark.integration


@pytest.fixture
def pipeline(kafka: KafkaForTests) -> PipelineSettings:
    """Settings of a pipeline of its own, with topics."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    return settings


def deliver(pipeline: PipelineSettings, minute: int) -> None:
    """Write a window and wait until Kafka has it."""
    client = producer(pipeline)
    client.produce(TopicNames(pipeline.topic_prefix)(SNAPSHOTS), encode_window(window_at(minute)), key=JOB.encode())
    assert client.flush(20) == 0


def test_all_has_arrived_when_no_window_is_missing_and_nothing_follows(pipeline: PipelineSettings) -> None:
    """Not while a window is missing, however long nothing comes; nor while more comes."""
    arrived = all_arrived(pipeline, windows=2)
    deliver(pipeline, 600)
    assert [arrived(), arrived()] == [False, False]
    deliver(pipeline, 601)
    assert [arrived(), arrived()] == [False, True]
    deliver(pipeline, 602)
    assert [arrived(), arrived()] == [False, True]
