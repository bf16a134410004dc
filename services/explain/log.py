"""The topics of a road as commands read them: the newest first, or from an append time on, never more than was asked for.

Also the one place where commands write, and turn what Kafka says into one readable line.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from contracts.clock import road_time_ms
from contracts.errors import RecordRejected
from contracts.messages import ClockSegment
from contracts.settings import RoadSettings, from_environment
from contracts.topics import TopicNames
from contracts.wire import decode, encode
from runtime.kafka import REQUEST_TIMEOUT_S, LogReader, consumer, partitions_of, producer

T = TypeVar("T")

CHUNK_OFFSETS = 500
STALLED_S = 20.0
_POLL_S = 0.25


def road_settings(bootstrap: str | None, prefix: str | None, **more: object) -> RoadSettings:
    """Return the road's settings for a command; a broker that is away is said once, by the error."""
    logging.getLogger("surescale.librdkafka").setLevel(logging.CRITICAL)
    return from_environment(RoadSettings, bootstrap=bootstrap, topic_prefix=prefix, **more)


@contextmanager
def readable(settings: RoadSettings) -> Iterator[None]:
    """Turn what Kafka says into one line.

    Raises:
        ConnectionError: in place of KafkaException and TimeoutError.
    """
    try:
        yield
    except KafkaException as error:
        said = error.args[0].str() if error.args and isinstance(error.args[0], KafkaError) else str(error)
        raise ConnectionError(f"Kafka at {settings.bootstrap}: {said}") from None
    except TimeoutError as error:
        raise ConnectionError(f"Kafka at {settings.bootstrap}: {error}") from None


def everything(settings: RoadSettings, names: Sequence[str]) -> dict[str, list[Message]]:
    """Return all records of small topics (bare names) by topic, in order within each partition."""
    bare = TopicNames(settings.topic_prefix).bare
    found: dict[str, list[Message]] = {name: [] for name in names}
    with readable(settings):
        reader = LogReader(settings, names)
        try:
            for record in reader.read_to_end():
                found[bare(str(record.topic()))].append(record)
        finally:
            reader.close()
    return found


def road_now_ms(settings: RoadSettings, records: Sequence[Message]) -> int:
    """Return the road's time now by the records of ``clock``; the wall clock where the road has no segment."""
    own = [segment for segment in parsed(records, ClockSegment) if segment.road == settings.road]
    return road_time_ms(own[-1] if own else None, int(time.time() * 1000))


def send(settings: RoadSettings, topic: str, key: str, message: msgspec.Struct) -> None:
    """Write one record and return when Kafka has it.

    Raises:
        ConnectionError: it was not acknowledged.
    """
    refused: list[KafkaError] = []
    with readable(settings):
        client = producer(settings)
        full = TopicNames(settings.topic_prefix)(topic)

        def acknowledged(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                refused.append(error)

        client.produce(full, encode(message), key=key.encode(), on_delivery=acknowledged)
        left = client.flush(REQUEST_TIMEOUT_S)
    if left or refused:
        raise ConnectionError(f"Kafka at {settings.bootstrap} did not acknowledge the record for {topic}")


@overload
def parsed(records: Iterable[Message], kind: type[T]) -> list[T]: ...


@overload
def parsed(records: Iterable[Message], kind: UnionType) -> list[Any]: ...


def parsed(records: Iterable[Message], kind: type[T] | UnionType) -> list[Any]:
    """Return the records that parse as one kind of message; others were refused by their readers as well."""
    found = []
    for record in records:
        with suppress(RecordRejected):
            found.append(decode(_value(record), kind))
    return found


def append_ms(record: Message) -> int:
    """Return the broker's time of a record."""
    return int(record.timestamp()[1])


class Log:
    """Reads single topics, as much of them as is asked for."""

    def __init__(self, settings: RoadSettings) -> None:
        self._client = consumer(settings, "surescale-explain", **{"enable.partition.eof": True, "fetch.wait.max.ms": 20})
        self._full = TopicNames(settings.topic_prefix)

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()

    def newest_first(self, topic: str) -> Iterator[list[Message]]:
        """Yield a topic's records in pieces, each in order within its partition, the newest piece of every partition first."""
        full = self._full(topic)
        bounds = {
            partition: self._client.get_watermark_offsets(TopicPartition(full, partition), timeout=REQUEST_TIMEOUT_S)
            for partition in partitions_of(self._client, full)
        }
        ends = {partition: end for partition, (_, end) in bounds.items()}
        while any(ends[partition] > begin for partition, (begin, _) in bounds.items()):
            starts = {partition: max(begin, ends[partition] - CHUNK_OFFSETS) for partition, (begin, _) in bounds.items()}
            places = [TopicPartition(full, partition, at) for partition, at in starts.items() if at < ends[partition]]
            yield list(self._read(places, {place.partition: ends[place.partition] for place in places}))
            ends = starts

    def since(self, topic: str, from_append_ms: int) -> Iterator[Message]:
        """Yield a topic's records that were appended at or after a broker's time, up to its end."""
        full = self._full(topic)
        asked = [TopicPartition(full, partition, max(0, from_append_ms)) for partition in partitions_of(self._client, full)]
        found = self._client.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S)
        places = [place for place in found if place.offset >= 0]  # below 0: nothing that new
        yield from self._read(places, {})

    def _read(self, places: list[TopicPartition], ends: dict[int, int]) -> Iterator[Message]:
        """Yield records from these places, each partition up to ``ends`` or its end."""
        if not places:
            return
        open_ = {place.partition for place in places}
        self._client.assign(places)
        arrived_s = time.monotonic()
        while open_:
            batch = _consume(self._client)
            if batch:
                arrived_s = time.monotonic()
            elif time.monotonic() - arrived_s > STALLED_S:
                raise TimeoutError(f"{places[0].topic} is not delivered")
            for record in batch:
                partition, offset = int(record.partition() or 0), int(record.offset() or 0)
                end = ends.get(partition)
                error = record.error()
                if error is None:
                    if end is None or offset < end:
                        yield record
                    if end is not None and offset >= end - 1:
                        open_.discard(partition)
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_.discard(partition)
                elif not error.retriable():
                    raise KafkaException(error)
        self._client.unassign()


def _consume(client: Consumer) -> list[Message]:
    first = client.poll(_POLL_S)  # consume itself would wait for a full batch
    return [] if first is None else [first, *client.consume(num_messages=CHUNK_OFFSETS - 1, timeout=0)]


def _value(record: Message) -> bytes | None:
    value = record.value()
    return value.encode() if isinstance(value, str) else value
