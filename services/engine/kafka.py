"""The engine's Kafka side: publishes the clock, reads what became of decisions. Decides nothing."""

import logging
import threading
from collections.abc import Callable
from typing import cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from contracts.commands import EventRecord
from contracts.errors import RecordRejected, SurescaleError
from contracts.messages import ClockSegment
from contracts.topics import CLOCK, RESCHEDULE_EVENTS, TopicNames
from contracts.wire import decode, encode
from runtime.backoff import Seldom, Stopped, wait_for
from runtime.kafka import LogReader, producer, wait_for_topics
from services.engine.settings import EngineSettings

_POLL_S = 0.1
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
"""Refusals that the same record gets each time."""
_log = logging.getLogger("surescale.engine")


class ClockRefused(SurescaleError):
    """Kafka will never take the clock's segment as it is."""


OnRecords = Callable[[list[EventRecord]], None]


class RoadSide:
    """The topics that the engine writes and reads. ``connect`` first; then ``publish``, and ``follow`` in a thread."""

    def __init__(self, settings: EngineSettings, stop: threading.Event) -> None:
        self._settings = settings
        self._stop = stop
        self._topic = TopicNames(settings.topic_prefix)(CLOCK)
        self._producer: Producer | None = None
        self._reader: LogReader | None = None

    def connect(self) -> None:
        """Wait for the broker and its topics, and begin to read behind everything that is there now.

        Raises:
            Stopped: the process was told to stop meanwhile.
        """
        wait_for_topics(self._settings, [CLOCK, RESCHEDULE_EVENTS], stop=self._stop, log=_log)
        self._producer = producer(self._settings)
        self._reader = wait_for(
            f"Kafka at {self._settings.bootstrap}",
            lambda: LogReader(self._settings, [RESCHEDULE_EVENTS], last=0),
            expected=(KafkaException,),  # a leader that is being elected, a topic not yet known everywhere
            stop=self._stop,
            log=_log,
        )

    def publish(self, segment: ClockSegment) -> None:
        """Write a segment and return when the broker has it.

        Raises:
            Stopped: the process was told to stop while the broker was away.
            ClockRefused: the broker is there, and will never take it.
        """
        raw, seldom = encode(segment), Seldom()
        while error := self._refusal(segment.road, raw):
            if error.fatal() or error.code() in _FOR_GOOD:
                raise ClockRefused(f"{self._topic}: Kafka does not take the road's clock, and never will: {error.str()}")
            # Again after some minutes without a broker: then the client gives a record up.
            if seldom.is_time():
                _log.warning("the clock's segment was not taken, sending it again: %s", error.str())
            if self._stop.wait(_POLL_S):
                raise Stopped("Kafka")

    def _refusal(self, key: str, raw: bytes) -> KafkaError | None:
        """Send one record and wait for its fate; None: the broker has it."""
        assert self._producer is not None, "connect first"
        flushes, refusals = 0, list[KafkaError | None]()
        try:
            self._producer.produce(self._topic, key=key, value=raw, on_delivery=lambda error, _: refusals.append(error))
        except KafkaException as refused:  # by the client itself
            return cast(KafkaError, refused.args[0])
        while self._producer.flush(_FLUSH_S):
            flushes += 1
            if self._stop.is_set():
                raise Stopped("Kafka")
            if flushes % _SAY_EVERY_FLUSHES == 0:
                _log.warning("waiting for Kafka at %s to take the clock", self._settings.bootstrap)
        (fate,) = refusals
        return fate

    def follow(self, on_records: OnRecords) -> None:
        """Hand on outcomes and progress of this cluster, batch by batch, until told to stop."""
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
            _log.warning("a record of %s is no event: %s", RESCHEDULE_EVENTS, problem)
            return None
        return event if event.cluster == self._settings.cluster else None
