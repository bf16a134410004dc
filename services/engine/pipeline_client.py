"""The engine's Kafka side: publishes the clock and reads the outcomes of decisions. Decides nothing.

A segment of the clock counts only once the broker has it.
"""

import logging
import threading
from collections.abc import Callable
from typing import Protocol, cast

from confluent_kafka import KafkaError, KafkaException, Message

from surescale.contracts.commands import EventRecord
from surescale.contracts.errors import RecordRejected, SurescaleError
from surescale.contracts.messages import ClockSegment
from surescale.contracts.topics import CLOCK, RESCHEDULE_EVENTS, TopicNames
from surescale.contracts.wire import decode, encode
from surescale.runtime.backoff import Stopped, Throttle, wait_for
from surescale.runtime.kafka import LogReader, producer, wait_for_topics
from surescale.services.engine.settings import EngineSettings

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
        while error := self._refusal(segment.pipeline, raw):
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


_POLL_S = 0.1
_log = logging.getLogger("surescale.engine")

OnRecords = Callable[[list[EventRecord]], None]


class PipelineClient:
    """The topics that the engine writes and reads. Call ``connect`` first, then ``publish``, and ``follow`` in a thread."""

    def __init__(self, settings: EngineSettings, stop: threading.Event) -> None:
        self._settings = settings
        self._stop = stop
        self._clock: ClockPublisher | None = None
        self._reader: LogReader | None = None

    def connect(self) -> None:
        """Wait for the broker and its topics, and start to read after everything that is there now.

        Raises:
            Stopped: the process was told to stop while waiting.
        """
        wait_for_topics(self._settings, [CLOCK, RESCHEDULE_EVENTS], stop=self._stop, log=_log)
        self._clock = ClockPublisher(producer(self._settings), self._settings, self._stop)
        self._reader = wait_for(
            f"Kafka at {self._settings.bootstrap}",
            lambda: LogReader(self._settings, [RESCHEDULE_EVENTS], last=0),
            expected=(KafkaException,),  # a leader is being elected, or a topic is not yet known everywhere
            stop=self._stop,
            log=_log,
        )

    def publish(self, segment: ClockSegment) -> None:
        """Write a segment and return once the broker has it.

        Raises:
            Stopped: the process was told to stop while the broker was away.
            ClockRefused: the broker answers, and will never accept it.
        """
        assert self._clock is not None, "connect first"
        self._clock.publish(segment)

    def follow(self, on_records: OnRecords) -> None:
        """Pass on outcomes and progress of this cluster, batch by batch, until told to stop."""
        assert self._reader is not None, "connect first"
        while not self._stop.is_set():
            try:
                records = self._reader.poll(_POLL_S)
            except KafkaException as problem:
                _log.warning("Kafka: %s", problem)
                self._stop.wait(1.0)
                continue
            found = [event for event in map(self._event, records) if event is not None]
            if found:
                on_records(found)
        self._reader.close()

    def _event(self, record: Message) -> EventRecord | None:
        try:
            event: EventRecord = decode(record.value(), EventRecord)
        except RecordRejected as problem:
            _log.warning("a record of %s is not an event: %s", RESCHEDULE_EVENTS, problem)
            return None
        return event if event.cluster == self._settings.cluster else None
