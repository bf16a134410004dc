"""Reads small topics whole and writes single records, as commands do that run once."""

import operator
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec
from confluent_kafka import KafkaError, Message

from surescale.contracts.clock import pipeline_time_ms
from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import ClockSegment
from surescale.contracts.record_keys import decode_under
from surescale.contracts.rescaler_state import RescalerRecord, memory_of
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import TopicNames
from surescale.contracts.wire import encode
from surescale.runtime.kafka import REQUEST_TIMEOUT_S, LogReader, producer
from surescale.runtime.kafka_clock import KAFKA_CLOCK, wall_ms
from surescale.runtime.kafka_errors import readable_errors

T = TypeVar("T")
_HEADERS = operator.methodcaller("headers")
PARTITION_UA = -1
"""The client chooses the partition."""


def read_topics(settings: PipelineSettings, names: Sequence[str]) -> dict[str, list[Message]]:
    """Return all records of small topics (bare names) by topic, in order within each partition.

    Raises:
        ConnectionError: Kafka does not answer or refuses.
    """
    bare = TopicNames(settings.topic_prefix).bare
    found: dict[str, list[Message]] = {name: [] for name in names}
    with readable_errors(settings), closing(LogReader(settings, names)) as reader:
        for record in reader.read_to_end():
            found[bare(str(record.topic()))].append(record)
            KAFKA_CLOCK.read(append_ms(record))
    return found


def send(settings: PipelineSettings, topic: str, key: str, message: msgspec.Struct) -> None:
    """Write one record to a topic (bare name) and return once Kafka has acknowledged it.

    Raises:
        ConnectionError: it was not acknowledged.
    """
    send_all(settings, topic, [(key.encode(), message)])


def send_all(
    settings: PipelineSettings,
    topic: str,
    records: Iterable[tuple[bytes | None, msgspec.Struct | None]],
    *,
    partition: int = PARTITION_UA,
) -> None:
    """Write records with their keys to a topic (bare name) and return once Kafka has acknowledged all of them.

    None takes away what is under the key. Without ``partition``, the key chooses it.

    Raises:
        ConnectionError: one of them was not acknowledged.
    """
    refused: list[KafkaError] = []
    with readable_errors(settings):
        # A fatal error, as of a user who may write nowhere, would be raised amid the callbacks; the records tell of it too.
        client = producer(settings, error_cb=lambda _: None)
        full = TopicNames(settings.topic_prefix)(topic)

        def acknowledged(error: KafkaError | None, record: Message) -> None:
            KAFKA_CLOCK.delivered(error, record)
            if error is not None:
                refused.append(error)

        for key, message in records:
            value = None if message is None else encode(message)
            client.produce(full, value, key=key, partition=partition, on_delivery=acknowledged)
        left = client.flush(REQUEST_TIMEOUT_S)
    if left or refused:
        why = f": {_in_words(refused[0])}" if refused else ""
        raise ConnectionError(f"Kafka at {settings.bootstrap} did not acknowledge what was written to {topic}{why}")


def _in_words(error: KafkaError) -> str:
    if error.code() in (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED):
        return f"{error.str()}; `surescale topics acls` prints the rights that are needed"
    return error.str()


@overload
def parsed(records: Iterable[Message], kind: type[T]) -> list[T]: ...


@overload
def parsed(records: Iterable[Message], kind: UnionType) -> list[Any]: ...


def parsed(records: Iterable[Message], kind: type[T] | UnionType) -> list[Any]:
    """Return the records that parse as one kind of message and lie under their own key. The roles skip the others, too."""
    found = []
    for record in records:
        with suppress(RecordRejected):
            found.append(decode_under(key_of(record), value_of(record), kind))
    return found


def memories(records: Iterable[Message]) -> list[RescalerRecord]:
    """Return the records of ``rescaler-state`` that are memory of a rescaler. It passes the others, too."""
    found = []
    for record in records:
        with suppress(RecordRejected):
            found.append(memory_of(key_of(record), value_of(record)))
    return found


def key_of(record: Message) -> bytes | None:
    """Return the key of a record."""
    key = record.key()
    return key.encode() if isinstance(key, str) else key


def headers_of(record: Message) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record; none where a name is no text, which anybody may have written.

    The client then gives a list with a hole, and an error with it. Python's own call of a method stops looking for an error once
    it is called often, and whoever takes the hole crashes the process; so does a second look at the same record.
    """
    try:
        found = _HEADERS(record) or []
    except (SystemError, UnicodeDecodeError):
        record.set_headers([])
        return []
    pairs = found.items() if isinstance(found, dict) else found
    return [(name, value.encode() if isinstance(value, str) else value) for name, value in pairs]


def append_ms(record: Message) -> int:
    """Return the broker's time of a record."""
    return int(record.timestamp()[1])


def value_of(record: Message) -> bytes | None:
    """Return the value of a record, None for a tombstone."""
    value = record.value()
    return value.encode() if isinstance(value, str) else value


def pipeline_now_ms(settings: PipelineSettings, records: Sequence[Message]) -> int:
    """Return the pipeline's time now, given the records of ``clock``; the wall clock if the pipeline has no segment."""
    own = [segment for segment in parsed(records, ClockSegment) if segment.pipeline == settings.pipeline]
    return pipeline_time_ms(own[-1] if own else None, wall_ms())
