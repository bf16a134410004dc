"""The demo counts what went over the topics only when the last of it has arrived."""

import pytest

from contracts.settings import RoadSettings
from contracts.topics import SNAPSHOTS, TopicNames
from contracts.windows import encode_window
from runtime.kafka import create_topics, producer
from services.local_stack.road_figures import all_arrived
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, window_at

pytestmark = pytest.mark.integration


@pytest.fixture
def road(kafka: KafkaForTests) -> RoadSettings:
    """Settings of a pipeline of its own, with topics."""
    settings = RoadSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    return settings


def deliver(road: RoadSettings, minute: int) -> None:
    """Write a window and wait until Kafka has it."""
    client = producer(road)
    client.produce(TopicNames(road.topic_prefix)(SNAPSHOTS), encode_window(window_at(minute)), key=JOB.encode())
    assert client.flush(20) == 0


def test_all_has_arrived_when_no_window_is_missing_and_nothing_follows(road: RoadSettings) -> None:
    """Not while a window is missing, however long nothing comes; nor while more comes."""
    arrived = all_arrived(road, windows=2)
    deliver(road, 600)
    assert [arrived(), arrived()] == [False, False]
    deliver(road, 601)
    assert [arrived(), arrived()] == [False, True]
    deliver(road, 602)
    assert [arrived(), arrived()] == [False, True]
