"""Tells a query where to begin: at the offsets that the state has come to, if Kafka still has what follows. The edge to Kafka."""

import time
from collections.abc import Mapping

import msgspec
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from surescale.contracts.topics import TASK_METRICS, TopicNames
from surescale.runtime.beats import beat
from surescale.runtime.kafka import REQUEST_TIMEOUT_S, admin_client, log_bounds
from surescale.spark_streaming.restarts import RecordsLost
from surescale.spark_streaming.settings import SparkSettings

EARLIEST = -2
"""Spark's number of a partition's oldest record."""
SETTLES_S = 10.0
"""For so long a broker that has just come back may tell an older end than before."""
_PAUSE_S = 0.2


def starting_offsets(settings: SparkSettings, reached: Mapping[int, int]) -> str:
    """Return the option ``startingOffsets`` of the query, for all partitions that the topic has now.

    Raises:
        KafkaException: the broker does not tell.
        RecordsLost: it no longer has what comes next, and the settings want the job to stop then.
    """
    topic = TopicOfMetrics(settings)
    until_s = time.monotonic() + SETTLES_S
    while True:
        bounds = topic.bounds()
        is_behind = any(bounds[each][1] < offset for each, offset in reached.items() if each in bounds)
        if not is_behind or time.monotonic() > until_s:
            break
        beat()
        time.sleep(_PAUSE_S)
    found = beginnings(bounds, reached, must_have_all=settings.spark_fail_on_data_loss)
    return msgspec.json.encode({topic.name: found}).decode()


class TopicOfMetrics:
    """Asks the broker about the topic ``task-metrics``; each question may end with ``KafkaException``."""

    def __init__(self, settings: SparkSettings) -> None:
        self.name = TopicNames(settings.topic_prefix)(TASK_METRICS)
        self._admin = admin_client(settings)

    def partitions(self) -> list[TopicPartition]:
        """Return its partitions."""
        known = self._admin.list_topics(self.name, timeout=REQUEST_TIMEOUT_S).topics[self.name]
        if known.error is not None:
            raise KafkaException(known.error)
        return [TopicPartition(self.name, partition) for partition in sorted(known.partitions)]

    def bounds(self) -> dict[int, tuple[int, int]]:
        """Return the oldest offset and the one after the last record, by partition."""
        found: dict[int, tuple[int, int]] = {}
        for (_, partition), told in log_bounds(self._admin, self.partitions(), REQUEST_TIMEOUT_S).items():
            if isinstance(told, KafkaError):
                raise KafkaException(told)
            found[partition] = told
        return found


def beginnings(bounds: Mapping[int, tuple[int, int]], reached: Mapping[int, int], *, must_have_all: bool) -> dict[int, int]:
    """Return the offset to begin with in each partition; a new partition is read from its oldest record.

    Args:
        bounds: the oldest offset and the one after the last record, by partition.
        reached: the offset of the next record, of the partitions that were read.
        must_have_all: else the job goes on with the oldest record that is there.

    Raises:
        RecordsLost: a partition no longer has the record that comes next.

    Examples:
        >>> beginnings({0: (0, 9), 1: (0, 0)}, {0: 7}, must_have_all=True)
        {0: 7, 1: -2}
    """
    for partition, offset in sorted(reached.items()):
        oldest, end = bounds.get(partition, (0, 0))
        if must_have_all and not oldest <= offset <= end:
            raise RecordsLost.at(f"partition {partition} holds offsets {oldest} to {end}, and {offset} comes next")
    return {
        partition: reached[partition] if oldest <= reached.get(partition, EARLIEST) <= end else EARLIEST
        for partition, (oldest, end) in sorted(bounds.items())
    }
