"""The actuator beside the active rescaler: a thread that reads commands, has them carried out, and reports.

At least once: after a restart it begins again with every command whose end was not committed, and each step is idempotent.
"""

import logging
import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from contracts.commands import Progress, RescheduleCommand
from contracts.errors import RecordRejected
from contracts.topics import RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS, TopicNames
from contracts.wire import decode, encode
from rescaler.actuators.base import EngineApi
from rescaler.actuators.carrying_out import CarryingOut
from rescaler.service.partitions import partition_of
from rescaler.service.settings import RescalerSettings
from rescaler.service.status import Status
from runtime.backoff import Seldom, Stopped
from runtime.kafka import REQUEST_TIMEOUT_S, consumer, partitions_of, producer

POLL_S = 0.05
STOP_WITHIN_S = 10.0


class ActuatorThread:
    """Carries out the commands of one cluster, at most one per job at a time."""

    def __init__(
        self, settings: RescalerSettings, engine: EngineApi, now_ms: Callable[[], int | None], status: Status, log: logging.Logger
    ) -> None:
        """Connect; nothing is read before `start`.

        Raises:
            KafkaException: Kafka does not answer.
        """
        self._cluster, self._engine, self._now_ms, self._status, self._log = settings.cluster, engine, now_ms, status, log
        names = TopicNames(settings.topic_prefix)
        self._events = names(RESCHEDULE_EVENTS)
        self._producer = producer(settings)
        self._consumer = consumer(settings, f"{settings.group}-actuator")
        topic = names(RESCHEDULE_COMMANDS)
        at = TopicPartition(topic, partition_of(settings.cluster, len(partitions_of(self._consumer, topic))))
        (self._from,) = self._consumer.committed([at], REQUEST_TIMEOUT_S)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="actuator", daemon=True)
        self._failed: BaseException | None = None
        self._open: dict[str, tuple[int, CarryingOut]] = {}
        """Per job the offset of its command, and how far that is."""
        self._read_to: int | None = None
        self._committed: int | None = None
        self._undelivered: KafkaError | None = None
        self._seldom = Seldom()

    def start(self) -> None:
        """Begin with the first command whose end was not committed."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what is on its way is taken up again by whoever is next."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(STOP_WITHIN_S)
        self._consumer.close()

    def check(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            self._consumer.assign([self._from])
            while not self._stop.is_set():
                self._round()
        except Stopped:
            pass
        except BaseException as error:
            self._failed = error

    def _round(self) -> None:
        record = self._consumer.poll(POLL_S)
        now_ms = self._now_ms()
        if record is not None:
            self._take(record, now_ms or 0)
        wall_ms = time.time_ns() // 1_000_000
        if now_ms is not None:
            for job in sorted(self._open):
                work = self._open[job][1]
                self._report(work.step(self._engine, now_ms=now_ms, wall_ms=wall_ms))
                if work.away and self._seldom.is_time():
                    self._log.warning("waiting for the engine: %s", work.away)
                if work.ended:
                    del self._open[job]
        self._commit()

    def _take(self, record: Message, now_ms: int) -> None:
        error, offset = record.error(), record.offset()
        if error is not None:
            if not error.retriable():
                raise KafkaException(error)
            return
        assert offset is not None
        self._read_to = offset + 1
        self._status.count_read(RESCHEDULE_COMMANDS)
        try:
            command = decode(record.value(), RescheduleCommand)
        except RecordRejected as problem:
            self._status.count("rejected")
            self._log.warning("%s@%s ignored: %s", record.topic(), offset, problem)
            return
        if command.advice or command.cluster != self._cluster:
            return
        before = self._open.get(command.job)
        if before is not None:
            self._report([before[1].superseded(now_ms)])
        self._open[command.job] = (offset, CarryingOut(command))

    def _report(self, reports: list[Progress]) -> None:
        """Write down what happened, before its command counts as ended.

        Raises:
            KafkaException: a report was refused for good; whoever begins again reports it anew.
            Stopped: told to stop before Kafka took it.
        """
        for progress in reports:
            self._producer.produce(self._events, key=self._cluster, value=encode(progress), on_delivery=self._delivered)
            self._status.count_progress(progress)
            if progress.status == "failed":
                fields = {"job": progress.job, "command_id": progress.command_id}
                self._log.warning("failed: %s %s", progress.code, progress.detail, extra=fields)
        while reports and self._producer.flush(1.0):
            if self._stop.is_set():
                raise Stopped("Kafka to take progress")
            self._log.warning("waiting for Kafka to take progress")
        if self._undelivered is not None:
            raise KafkaException(self._undelivered)

    def _delivered(self, error: KafkaError | None, _record: Message) -> None:
        self._undelivered = self._undelivered or error

    def _commit(self) -> None:
        if self._read_to is None:
            return
        unfinished = [offset for offset, _ in self._open.values()]
        position = min([*unfinished, self._read_to])
        if position != self._committed:
            at = TopicPartition(self._from.topic, self._from.partition, position)
            self._consumer.commit(offsets=[at], asynchronous=True)
            self._committed = position
