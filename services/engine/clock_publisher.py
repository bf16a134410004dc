"""Publishes the segments of the pipeline's clock on Kafka, one at a time. A segment counts only once the broker has it."""

import logging
import threading
from collections.abc import Callable
from typing import Protocol, cast

from confluent_kafka import KafkaError, KafkaException

from contracts.errors import SurescaleError
from contracts.messages import ClockSegment
from contracts.topics import CLOCK, TopicNames
from contracts.wire import encode
from runtime.backoff import Stopped, Throttle
from services.engine.settings import EngineSettings

_AGAIN_AFTER_S = 0.1
_FLUSH_S = 1.0
_SAY_EVERY_FLUSHES = 4
_FOR_GOOD = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
"""Errors that the same record would get every time."""
_log = logging.getLogger("surescale.engine")


class ClockRefused(SurescaleError):
    """Kafka will never accept the clock's segment as it is."""


class RecordProducer(Protocol):
    """The two methods of a Kafka producer that publishing needs."""

    def produce(self, topic: str, *, key: str, value: bytes, on_delivery: Callable[[KafkaError | None, object], None]) -> None:
        """Send a record; ``on_delivery`` gets its error, or None."""

    def flush(self, timeout: float) -> int:
        """Wait for records that are being sent; return how many still are."""


class ClockPublisher:
    """Writes segments to the topic ``clock``."""

    def __init__(self, client: RecordProducer, settings: EngineSettings, stop: threading.Event) -> None:
        self._client, self._settings, self._stop = client, settings, stop
        self._topic = TopicNames(settings.topic_prefix)(CLOCK)

    def publish(self, segment: ClockSegment) -> None:
        """Write a segment and return once the broker has it.

        Raises:
            Stopped: the process was told to stop while the broker was away.
            ClockRefused: the broker answers, and will never accept it.
        """
        raw, seldom = encode(segment), Throttle()
        while error := self._refusal(segment.road, raw):
            if error.fatal() or error.code() in _FOR_GOOD:
                raise ClockRefused(f"{self._topic}: Kafka refuses the pipeline's clock and always will: {error.str()}")
            # After some minutes without a broker the client gives up on a record, so send it again.
            if seldom.is_time():
                _log.warning("Kafka did not take the clock's segment, sending it again: %s", error.str())
            if self._stop.wait(_AGAIN_AFTER_S):
                raise Stopped("Kafka")

    def _refusal(self, key: str, raw: bytes) -> KafkaError | None:
        """Send one record and return the error it met; None: the broker has it."""
        flushes, refusals = 0, list[KafkaError | None]()
        try:
            self._client.produce(self._topic, key=key, value=raw, on_delivery=lambda error, _: refusals.append(error))
        except KafkaException as refused:  # refused by the client itself
            return cast(KafkaError, refused.args[0])
        while self._client.flush(_FLUSH_S):
            flushes += 1
            if self._stop.is_set():
                raise Stopped("Kafka")
            if flushes % _SAY_EVERY_FLUSHES == 0:
                _log.warning("waiting for Kafka at %s to accept the clock", self._settings.bootstrap)
        (fate,) = refusals
        return fate
