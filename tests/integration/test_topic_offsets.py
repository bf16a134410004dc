"""The ends of a job's topics, asked of a real broker."""

import pytest
from confluent_kafka.admin import NewPartitions, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.settings import PipelineSettings
from surescale.engines.kafka.offsets import TopicOffsets
from surescale.runtime.kafka import admin_client, producer
from tests.conftest import KafkaForTests
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def test_partitions_that_are_added_count_from_then_on(kafka: KafkaForTests) -> None:
    """A monitor runs for months, and topics grow meanwhile."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap)
    topic, admin, broker = f"{kafka.topic_prefix()}orders", admin_client(settings), TopicOffsets(settings)
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(30)
    wait_until(lambda: topic in broker.topics(), what="the topic")
    assert broker.ends([topic]) == {(topic, 0): 0}
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
    client = producer(settings)
    wait_until(lambda: len(client.list_topics(topic).topics[topic].partitions) > 1, what="the new partition")
    client.produce(topic, b"one", partition=1)
    assert client.flush(20) == 0
    assert broker.ends([topic]) == {(topic, 0): 0, (topic, 1): 1}
