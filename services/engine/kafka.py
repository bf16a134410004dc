"""The engine's Kafka side: publishes the clock, reads what became of decisions. Decides nothing."""

import logging
import threading
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from contracts.commands import EventRecord
from contracts.errors import RecordRejected
from contracts.messages import ClockSegment
from contracts.topics import CLOCK, RESCHEDULE_EVENTS, TopicNames
from contracts.wire import decode, encode
from runtime.backoff import Stopped, wait_for
from runtime.kafka import LogReader, producer, wait_for_topics
from services.engine.settings import EngineSettings

_POLL_S = 0.1
_FLUSH_S = 1.0
_SAY_EVERY_FLUSHES = 4
_log = logging.getLogger("surescale.engine")

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
        """
        assert self._producer is not None, "connect first"
        flushes, taken = 0, False

        def told(error: KafkaError | None, _: Message) -> None:
            nonlocal taken
            taken = error is None

        while not taken:
            # Again after some minutes without a broker: then the client gives a record up.
            self._producer.produce(self._topic, key=segment.road, value=encode(segment), on_delivery=told)
            while self._producer.flush(_FLUSH_S):
                flushes += 1
                if self._stop.is_set():
                    raise Stopped("Kafka")
                if flushes % _SAY_EVERY_FLUSHES == 0:
                    _log.warning("waiting for Kafka at %s to take the clock", self._settings.bootstrap)
            if not taken and self._stop.wait(_POLL_S):
                raise Stopped("Kafka")

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
