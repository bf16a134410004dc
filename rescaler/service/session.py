"""One membership in the rescaler's consumer group: on standby without the cluster's partition, active with it.

Whatever goes wrong ends the session. The next one starts from what is committed.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from surescale.contracts.partitioner import partition_of
from surescale.contracts.topics import DECISIONS, TopicNames
from surescale.rescaler.service.active import HOLD_BACK_S, ActiveRescaler
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.runtime.backoff import Throttle
from surescale.runtime.beats import beat
from surescale.runtime.kafka import REQUEST_TIMEOUT_S, StableOffsetLag, batch, consumer, partitions_of

POLL_S = 0.05
STANDBY_LOOK_S, SAY_STANDBY_S = 10.0, 300.0
BATCH_RECORDS = 1_000


def group_member(settings: RescalerSettings, stable_offset_lag: StableOffsetLag, log: logging.Logger) -> Consumer:
    """Return a client that can join the rescaler's group; ``stable_offset_lag`` watches what it may not read yet."""
    seldom = Throttle()

    def on_error(error: KafkaError) -> None:
        """The client recovers by itself; say so every few seconds."""
        if seldom.is_time():
            log.warning("waiting for Kafka at %s: %s", settings.bootstrap, error.str())

    return consumer(
        settings,
        settings.group,
        **{
            "session.timeout.ms": settings.session_ms,
            "heartbeat.interval.ms": max(1, settings.session_ms // 5),
            "partition.assignment.strategy": "range",
            "error_cb": on_error,
            **stable_offset_lag.options(),
        },
    )


def decisions_of(settings: RescalerSettings, member: Consumer) -> TopicPartition:
    """Return the partition with the decisions of the rescaler's cluster.

    Raises:
        KafkaException, TimeoutError: the topic does not exist or Kafka does not answer.
    """
    topic = TopicNames(settings.topic_prefix)(DECISIONS)
    return TopicPartition(topic, partition_of(settings.cluster, len(partitions_of(member, topic))))


class Session:
    """A member of the group from joining to leaving."""

    def __init__(
        self,
        cluster: str,
        member: Consumer,
        decisions: TopicPartition,
        activate: Callable[[], ActiveRescaler],
        status: Status,
        stop: threading.Event,
        log: logging.Logger,
    ) -> None:
        """Prepare to join.

        Args:
            cluster: whose jobs are rescaled.
            member: a client of the group that has not subscribed yet; the caller closes it.
            decisions: the partition whose owner is active.
            activate: returns the active rescaler; called whenever the partition is assigned.
            status: shows whether this process is active.
            stop: ends the session.
            log: for people.
        """
        self._cluster, self._member, self._decisions, self._activate = cluster, member, decisions, activate
        self._status, self._stop, self._log = status, stop, log
        self._assigned = False
        self._active: ActiveRescaler | None = None
        self._is_paused = False
        self._looked_s = time.monotonic()
        self._seldom = Throttle(SAY_STANDBY_S)

    def run(self) -> None:
        """Wait on standby, work while active, until the process has to stop.

        Raises:
            Lost, KafkaException, TimeoutError: start again from what is committed.
            Fenced: another process is active.
        """
        topics = [self._decisions.topic]
        self._member.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke)
        try:
            while not self._stop.is_set():
                records = self._poll()
                if self._assigned and self._active is None:
                    self._active = self._activated()
                elif self._active is not None and not self._assigned:
                    self._log.info("cluster %s was taken from this process", self._cluster)
                    self._deactivate()
                elif self._active is not None:
                    self._active.round(records)
                    self._keep_away(self._active.is_held)
                    self._looked_s = time.monotonic()
                else:
                    self._stand_by()
                self._status.state = "active" if self._active else "standby"
        finally:
            self._deactivate()

    def _keep_away(self, is_held: bool) -> None:
        """Leave decisions on Kafka while nobody answers them; they would fill the memory."""
        if is_held != self._is_paused:
            self._is_paused = is_held
            (self._member.pause if is_held else self._member.resume)([self._decisions])

    def _stand_by(self) -> None:
        """Say now and then why nothing is done. A topic that is gone ends the session, or its return would show minutes later.

        Raises:
            KafkaException: the topic is not there, or Kafka does not answer.
        """
        if time.monotonic() - self._looked_s < STANDBY_LOOK_S:
            return
        self._looked_s = time.monotonic()
        partitions_of(self._member, self._decisions.topic)
        if self._seldom.is_time():
            self._log.info("on standby: another process rescales cluster %s; this one goes on when that ends", self._cluster)

    def _poll(self) -> list[Message]:
        beat()
        records = batch(self._member, BATCH_RECORDS, POLL_S)
        for record in records:
            error = record.error()
            if error is not None and not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                raise KafkaException(error)
        return [record for record in records if record.error() is None]

    def _on_assign(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._assigned = any(partition.partition == self._decisions.partition for partition in partitions)

    def _on_revoke(self, _: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._assigned = False

    def _activated(self) -> ActiveRescaler:
        """Become the active rescaler, and continue from the committed offset."""
        active = self._activate()
        try:
            (committed,) = self._member.committed([self._decisions], REQUEST_TIMEOUT_S)
            # Other partitions hold other clusters' decisions: they stay assigned to this member and are not read.
            self._member.assign([committed])
            active.take(self._backlog(committed.offset))
        except BaseException:
            active.close()  # its actuator is at work already
            raise
        self._log.info("active for cluster %s, %s from offset %s", self._cluster, self._decisions.topic, committed.offset)
        return active

    def _backlog(self, from_offset: int) -> list[Message]:
        """Return the waiting decisions that arrive in time: overdue acts give way to them before timers fire."""
        oldest, end = self._member.get_watermark_offsets(self._decisions, REQUEST_TIMEOUT_S)
        reached, records, deadline_s = max(from_offset, oldest), list[Message](), time.monotonic() + HOLD_BACK_S
        while reached < end and self._assigned and not self._stop.is_set() and time.monotonic() < deadline_s:
            records += self._poll()
            reached = (records[-1].offset() or 0) + 1 if records else reached
        return records

    def _deactivate(self) -> None:
        if self._active is not None:
            self._active.close()
        self._active, self._is_paused = None, False
