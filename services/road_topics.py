"""A road's topics as commands use them: small ones read whole, one record written, and what Kafka says as one readable line."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import UnionType
from typing import Any, TypeVar, overload

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message

from contracts.clock import road_time_ms
from contracts.errors import RecordRejected
from contracts.messages import ClockSegment
from contracts.settings import RoadSettings
from contracts.topics import TopicNames
from contracts.wire import decode, encode
from runtime.kafka import REQUEST_TIMEOUT_S, LogReader, producer

T = TypeVar("T")

_AWAY = frozenset({KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE})


@contextmanager
def readable(settings: RoadSettings) -> Iterator[None]:
    """Turn what Kafka says into one line.

    Raises:
        ConnectionError: in place of KafkaException and TimeoutError.
    """
    try:
        yield
    except KafkaException as error:
        raise ConnectionError(f"Kafka at {settings.bootstrap} {_told(error)}") from None
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


def _value(record: Message) -> bytes | None:
    value = record.value()
    return value.encode() if isinstance(value, str) else value


def _told(error: KafkaException) -> str:
    said = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
    if said is None:
        return f"refused: {error}"
    if said.code() in _AWAY:
        return f"does not answer ({said.str()}); name another with --bootstrap or SURESCALE_BOOTSTRAP"
    if said.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
        return f"refused: {said.str()}; `surescale topics create` makes a road's topics, --prefix names another road"
    return f"refused: {said.str()}"
