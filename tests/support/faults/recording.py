"""Records of a pipeline's topics as they lie on Kafka. Shares no code with the product."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from surescale.contracts.topics import RECORD_BYTES_MAX

READ = (
    "task-metrics",
    "snapshots",
    "job-topology",
    "decisions",
    "reschedule-commands",
    "reschedule-events",
    "dead-letters",
)
_SILENT_S = 30.0


@dataclass(frozen=True, slots=True)
class Record:
    """One committed record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


class Topics(Protocol):
    """Something that has the records of topics, in order within each partition."""

    def records(self, topic: str) -> Iterator[Record]:
        """Yield a topic's records from the beginning to the end."""


@dataclass(slots=True)
class Recording:
    """Topics held in memory."""

    topics: dict[str, list[Record]] = field(default_factory=dict)

    @classmethod
    def of(cls, topics: Topics) -> "Recording":
        """Return a copy of topics."""
        return cls({name: list(topics.records(name)) for name in READ})

    def records(self, topic: str) -> Iterator[Record]:
        """Yield a topic's records."""
        return iter(self.topics[topic])


@dataclass(frozen=True, slots=True)
class LiveTopics:
    """Topics at a broker. Each call reads them again, so that a long run need not fit into memory."""

    bootstrap: str

    def records(self, topic: str) -> Iterator[Record]:
        """Yield a topic's committed records, partition by partition, up to the ends found at the beginning of the call.

        Raises:
            KafkaException: the topic does not exist or the broker does not answer.
        """
        client = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "faults-checker",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.message.max.bytes": RECORD_BYTES_MAX,
            }
        )
        try:
            known = client.list_topics(topic, timeout=20).topics[topic]
            if known.error is not None:
                raise KafkaException(known.error)
            for partition in sorted(known.partitions):
                yield from _partition(client, topic, partition)
        finally:
            client.close()


def _partition(client: Consumer, topic: str, partition: int) -> Iterator[Record]:
    client.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    while True:
        for message in _batch(client):
            error = message.error()
            if error is None:
                yield Record(int(message.partition() or 0), int(message.offset() or 0), message.key(), message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return
            else:
                raise KafkaException(error)


def _batch(client: Consumer) -> list[Message]:
    first = client.poll(_SILENT_S)
    if first is None:
        raise TimeoutError(f"the broker delivered nothing for {_SILENT_S:g} s")
    return [first, *client.consume(2_000, timeout=0)]
