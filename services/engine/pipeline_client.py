"""The engine's Kafka side: publishes the clock and reads the outcomes of decisions. Decides nothing."""

import logging
import threading
from collections.abc import Callable

from confluent_kafka import KafkaException, Message

from contracts.commands import EventRecord
from contracts.errors import RecordRejected
from contracts.messages import ClockSegment
from contracts.topics import CLOCK, RESCHEDULE_EVENTS
from contracts.wire import decode
from runtime.backoff import wait_for
from runtime.kafka import LogReader, producer, wait_for_topics
from services.engine.clock_publisher import ClockPublisher
from services.engine.settings import EngineSettings

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
