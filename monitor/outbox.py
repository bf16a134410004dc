"""Sends records to Kafka and waits until they are acknowledged."""

import logging
import threading

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from surescale.contracts.topics import TopicNames
from surescale.contracts.wire import encode
from surescale.runtime.backoff import Stopped
from surescale.runtime.beats import beat
from surescale.runtime.kafka_errors import refusal_of
from surescale.runtime.metrics import Tally
from surescale.runtime.tracing.context import Headers

SAY_EVERY_S = 5.0


class Outbox:
    """Sends through a shared producer and waits until its own records are acknowledged. For one thread.

    While the broker is away the producer keeps trying; nothing is dropped.
    """

    def __init__(
        self,
        producer: Producer,
        names: TopicNames,
        *,
        stop: threading.Event,
        log: logging.Logger,
        written: Tally | None = None,
    ) -> None:
        """``written`` counts acknowledged records by topic; outboxes may share it."""
        self.producer = producer
        self._written = written or Tally()
        self._names = names
        self._stop = stop
        self._log = log
        self._lock = threading.Lock()
        self._waiting = 0
        self._failed = ""

    def send(self, topic: str, key: str, message: msgspec.Struct | bytes, headers: Headers | None = None) -> None:
        """Hand over one message, or an unchanged document (bare topic name).

        Raises:
            DeliveryFailed: the producer rejects the record, for example as too large for a topic.
            runtime.backoff.Stopped: its queue is full, and the process was told to stop.
        """
        raw = message if isinstance(message, bytes) else encode(message)
        self._count_waiting(1)
        try:
            while not self._is_taken(topic, key, raw, headers or []):  # the producer's queue is full: let it send
                if self._stop.is_set():
                    raise Stopped("room among the records on their way to Kafka")
                beat()
                self.producer.poll(0.1)
        except (KafkaException, Stopped) as error:
            self._count_waiting(-1)  # no delivery report will come for it
            if isinstance(error, Stopped):
                raise
            raise DeliveryFailed(str(error)) from None

    def await_acknowledged(self) -> bool:
        """Wait until everything sent is acknowledged; return False when told to stop first.

        Raises:
            DeliveryFailed: the broker refused a record permanently; raised once.
        """
        waited_s = 0.0
        while self._waiting and not self._stop.is_set():
            beat()
            self.producer.flush(SAY_EVERY_S)
            waited_s += SAY_EVERY_S
            if self._waiting:
                self._log.warning("Kafka has not acknowledged %d records for %.0f s; still trying", self._waiting, waited_s)
        if self._failed:
            failed, self._failed = self._failed, ""
            raise DeliveryFailed(failed)
        return not self._waiting

    def _is_taken(self, topic: str, key: str, raw: bytes, headers: Headers) -> bool:
        try:
            self.producer.produce(self._names(topic), key=key, value=raw, headers=dict(headers), on_delivery=self._delivered)
        except BufferError:
            return False
        return True

    def _count_waiting(self, change: int) -> None:
        with self._lock:
            self._waiting += change

    def _delivered(self, error: KafkaError | None, record: Message) -> None:
        if error is None:
            self._written.add(self._names.bare(record.topic() or ""))
        with self._lock:
            self._waiting -= 1
            if error is not None:
                self._failed = self._failed or refusal_of(record.topic(), error)


class DeliveryFailed(Exception):
    """The broker refused a record permanently; the watcher restarts and sends the minute again."""
