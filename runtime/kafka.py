"""Kafka clients with the road's settings. Every role gets its clients here, so that all hash keys and read transactions alike."""

import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from contracts.settings import RoadSettings
from contracts.topics import LIBRDKAFKA_CONSUMER, LIBRDKAFKA_PRODUCER, TOPICS, TopicNames
from runtime.backoff import wait_for

METADATA_TIMEOUT_S = 5.0
REQUEST_TIMEOUT_S = 10.0
CREATE_TIMEOUT_S = 60.0  # of all topics together, on a broker that answers

# Admin requests do not mark these as retriable.
_KNOWN_A_MOMENT_LATER = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)


def producer(settings: RoadSettings, **overrides: object) -> Producer:
    """Return an idempotent producer that partitions by murmur2."""
    return Producer(_quiet({"bootstrap.servers": settings.bootstrap, **LIBRDKAFKA_PRODUCER, **overrides}))


def consumer(settings: RoadSettings, group: str, **overrides: object) -> Consumer:
    """Return a read-committed consumer; ``group`` matters only to those that subscribe."""
    base = {"bootstrap.servers": settings.bootstrap, "group.id": group, **LIBRDKAFKA_CONSUMER}
    return Consumer(_quiet({**base, **overrides}))


def admin_client(settings: RoadSettings) -> AdminClient:
    """Return a client that asks for topics and offsets."""
    return AdminClient(_quiet({"bootstrap.servers": settings.bootstrap}))


def _quiet(config: Mapping[str, Any]) -> dict[str, Any]:
    # A broker that is away is said by wait_for, not by librdkafka's own stderr.
    return {"logger": logging.getLogger("surescale.librdkafka"), **config}


def wait_for_topics(settings: RoadSettings, names: Sequence[str], *, stop: threading.Event, log: logging.Logger) -> None:
    """Wait until the broker answers and every topic named (bare names) exists.

    Raises:
        runtime.backoff.Stopped: ``stop`` was set meanwhile.
    """
    full = TopicNames(settings.topic_prefix)
    admin = admin_client(settings)

    def attempt() -> None:
        present = admin.list_topics(timeout=3.0).topics
        missing = [full(name) for name in names if full(name) not in present]
        if missing:
            raise LookupError(f"topics missing: {', '.join(missing)} (create them with `surescale topics create`)")

    wait_for(f"Kafka at {settings.bootstrap}", attempt, expected=(KafkaException, LookupError), stop=stop, log=log)


def create_topics(settings: RoadSettings) -> list[str]:
    """Create every topic of the table that does not exist yet and return the new names, waiting until all are visible.

    Raises:
        KafkaException: the broker refused, or did not answer in time.
    """
    full = TopicNames(settings.topic_prefix)
    admin = admin_client(settings)
    wanted = [
        NewTopic(full(topic.name), num_partitions=topic.partitions, replication_factor=-1, config=topic.config())
        for topic in TOPICS.values()
    ]
    # Asked first: a broker that is away would be known only after all the time that creating may take.
    admin.list_topics(timeout=METADATA_TIMEOUT_S)
    created: list[str] = []
    asked = admin.create_topics(wanted, operation_timeout=REQUEST_TIMEOUT_S, request_timeout=CREATE_TIMEOUT_S)
    for name, future in asked.items():
        try:
            future.result()
            created.append(name)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
    return created


class LogReader:
    """Reads topics from their beginning, by plain assignment, always up to an end: what was committed when the call began.

    Used for views (settings, topologies, clock) and wherever "everything acknowledged before now" must have been seen.
    """

    def __init__(self, settings: RoadSettings, names: Sequence[str], *, last: int | None = None) -> None:
        """Take every partition of the topics (bare names), from the beginning or only its ``last`` offsets (0: what comes next).

        Raises:
            KafkaException: a topic does not exist or the broker does not answer.
        """
        full = TopicNames(settings.topic_prefix)
        self._admin = admin_client(settings)
        # A broker holds a fetch back until there is data; the end behind a transaction marker must be told at once.
        self._client = consumer(settings, "surescale-reader", **{"enable.partition.eof": True, "fetch.wait.max.ms": 20})
        # Asked of the admin client, which so learns the leaders.
        self._partitions = _partitions(self._admin, [full(name) for name in names])
        self._reached: dict[tuple[str, int], int] = {}
        beginnings = committed_offsets(self._admin, self._partitions, "beginning")
        starts = beginnings
        if last is not None:
            starts = {key: max(beginnings[key], end - last) for key, end in self._ends().items()}
        self.began_at_beginning = starts == beginnings
        self._client.assign([TopicPartition(topic, partition, at) for (topic, partition), at in starts.items()])
        self._reached.update(starts)

    def read_to_end(self, timeout_s: float = 30.0) -> list[Message]:
        """Return the records between the last call and the end of what is committed now, in order within each partition.

        Raises:
            TimeoutError: the end was not reached in time.
            KafkaException: the broker refused.
        """
        ends = self._ends()
        deadline = time.monotonic() + timeout_s
        records: list[Message] = []
        while any(self._reached[key] < end for key, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Kafka did not deliver up to the end of {sorted({topic for topic, _ in ends})}")
            records += self._consume()
        return records

    def poll(self, timeout_s: float) -> list[Message]:
        """Return what has arrived, waiting at most ``timeout_s`` for the first record."""
        return self._consume(timeout_s)

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()

    def _ends(self) -> dict[tuple[str, int], int]:
        return committed_offsets(self._admin, self._partitions, "end")

    def _consume(self, timeout_s: float = 0.05) -> list[Message]:
        records = []
        first = self._client.poll(timeout_s)
        for record in [] if first is None else [first, *self._client.consume(num_messages=2000, timeout=0)]:
            key = (str(record.topic()), int(record.partition() or 0))
            error = record.error()
            if error is None:
                records.append(record)
                self._reached[key] = int(record.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # The end lies behind transaction markers, which are never delivered as records.
                self._reached[key] = max(self._reached[key], int(record.offset() or 0))
            elif not error.retriable():
                raise KafkaException(error)
        return records


def committed_offsets(
    admin: AdminClient, partitions: Iterable[TopicPartition], at: Literal["beginning", "end"]
) -> dict[tuple[str, int], int]:
    """Return each partition's oldest offset, or the one behind what is committed, by topic (full name) and number.

    An admin client that does not know the leaders yet (``list_topics``) may wait three seconds before it asks for offsets.

    Raises:
        KafkaException: a partition does not exist, or the broker does not answer.
    """
    spec: OffsetSpec = OffsetSpec.earliest() if at == "beginning" else OffsetSpec.latest()
    asked: dict[TopicPartition, OffsetSpec] = dict.fromkeys(partitions, spec)
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while True:
        futures = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=REQUEST_TIMEOUT_S)
        try:
            return {(found.topic, found.partition): future.result().offset for found, future in futures.items()}
        except KafkaException as error:
            # A partition that was just created, or whose leader just moved, is known to the broker a moment later.
            if error.args[0].code() not in _KNOWN_A_MOMENT_LATER or time.monotonic() > deadline:
                raise
            admin.list_topics(timeout=REQUEST_TIMEOUT_S)  # learn who leads now
            time.sleep(0.05)


def partitions_of(client: Consumer, topic: str) -> list[int]:
    """Return the partition numbers of a topic (full name).

    Raises:
        KafkaException: the topic does not exist or the broker does not answer.
    """
    return sorted(partition.partition for partition in _partitions(client, [topic]))


def _partitions(client: Consumer | AdminClient, topics: Sequence[str]) -> list[TopicPartition]:
    # One request for all: asking topic by topic costs a quarter of a second each.
    known = client.list_topics(timeout=REQUEST_TIMEOUT_S).topics
    for topic in topics:
        if topic not in known:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"there is no topic {topic}"))
        if known[topic].error is not None:
            raise KafkaException(known[topic].error)
    return [TopicPartition(topic, partition) for topic in topics for partition in sorted(known[topic].partitions)]
