"""Which of several monitors of a cluster watches it: the one that owns the one partition of the topic ``clock`` in their group.

The group only chooses who takes over, and when. What keeps the one before from publishing is its transactional id, which the new
one takes before it reads how far the jobs have come (`monitor.delivery`). So whoever merely loses touch with Kafka goes on with
all that it knows, unless another one has begun meanwhile.
"""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.contracts.topics import CLOCK, TopicNames, monitor_group
from surescale.engines.settings import ClusterSettings
from surescale.monitor.delivery import LINGER_MS, FencedReports
from surescale.monitor.progress import own_name
from surescale.runtime.backoff import Stopped, Throttle, wait_for
from surescale.runtime.beats import beat, beside, pause
from surescale.runtime.kafka import consumer, creation, partitions_of, producer
from surescale.runtime.kafka_transactions import TRANSACTION_MS, Fenced

SESSION_MS = 15_000
"""Wall time after which Kafka gives a silent monitor's partition to another one."""
POLL_S, ANSWER_S = 0.2, 2.0
SAY_AFTER_S, SAY_STANDBY_S = 5.0, 300.0
ENDS_WITHIN_S = 3.0
T = TypeVar("T")


def fenced(settings: ClusterSettings, stop: threading.Event) -> FencedReports:
    """Return what sends the records of the cluster's one monitor; whoever was that before can send nothing any more.

    Raises:
        TransactionLost, KafkaException: Kafka did not let us.
    """
    id_ = monitor_group(settings.topic_prefix, settings.cluster)
    transactional = {"transactional.id": id_, "transaction.timeout.ms": TRANSACTION_MS}
    return FencedReports(producer(settings, **{"linger.ms": LINGER_MS}, **transactional), _who(settings), stop)


class Lease:
    """A membership in the group of a cluster's monitors."""

    def __init__(self, settings: ClusterSettings, stop: threading.Event, log: logging.Logger) -> None:
        """Join.

        Args:
            settings: of the cluster.
            stop: ends all waiting; set when another monitor watches the cluster in place of this one.
            log: for people.

        Raises:
            SettingsError: the topic has several partitions, so several monitors would each own one.
            runtime.backoff.Stopped: told to stop before Kafka answered.
        """
        self._settings, self._stop, self._log = settings, stop, log
        self._seldom, self._standby = Throttle(), Throttle(SAY_STANDBY_S)
        self._is_member = self._is_ours = self._has_begun = self._is_away = False
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.ended: SurescaleError | None = None
        """Set once another monitor has taken over."""
        self._member = consumer(
            settings,
            monitor_group(settings.topic_prefix, settings.cluster),
            **{
                "client.id": own_name(),
                "session.timeout.ms": SESSION_MS,
                "heartbeat.interval.ms": SESSION_MS // 5,
                "partition.assignment.strategy": "cooperative-sticky",  # who joins takes nothing from the one that watches
                "error_cb": self._say,
            },
        )
        topic = TopicNames(settings.topic_prefix)(CLOCK)
        count = len(self._answered(lambda: partitions_of(self._member, topic)))
        if count != 1:
            self._member.close()
            raise SettingsError(
                f"SURESCALE_LEADER_ELECT: topic {topic} has {count} partitions and must have one, or each monitor owns one; "
                f"delete it, and let {creation(settings)} create it"
            )
        self._join()

    @property
    def stands_by(self) -> bool:
        """Say whether this monitor would take over: Kafka knows of it, and it is in touch with Kafka."""
        return self._is_member and not (self._has_begun or self._is_away)

    def wait(self) -> None:
        """Stand by until this monitor is the one to watch, and keep the lease from then on.

        Raises:
            runtime.backoff.Stopped: told to stop first.
        """
        began_s = time.monotonic()
        while not self._is_ours:
            if self._stop.is_set():
                raise Stopped("the lease")
            self._poll()
            if self._is_away and not self._is_ours:
                self._give_way()
            is_standby = not self._is_ours and time.monotonic() - began_s > SAY_AFTER_S
            if is_standby and self._standby.is_time():
                self._log.info("on standby: this monitor goes on when no other one watches cluster %s", self._settings.cluster)
        self._has_begun = True
        self._log.info("this monitor watches cluster %s", self._settings.cluster)
        self._thread = beside(self._keep, "the lease", self._over.is_set)
        self._thread.start()

    def close(self) -> None:
        """Let another one take over at once."""
        self._over.set()
        if self._thread is not None:
            self._thread.join(ENDS_WITHIN_S)
        self._member.close()

    def _join(self) -> None:
        topics = [TopicNames(self._settings.topic_prefix)(CLOCK)]
        self._member.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_lost, on_lost=self._on_lost)

    def _give_way(self) -> None:
        """Kafka was away, and has forgotten its members: let the one that watched come back first, with what it has kept."""
        self._is_member = False
        self._member.unsubscribe()
        self._answered(lambda: self._member.list_topics(timeout=ANSWER_S))
        if pause(self._stop, SESSION_MS / 1000):
            raise Stopped("the lease")
        self._is_away = False
        self._join()

    def _answered(self, question: Callable[[], T]) -> T:
        kafka = f"Kafka at {self._settings.bootstrap}"
        return wait_for(kafka, question, expected=(KafkaException,), stop=self._stop, log=self._log)

    def _keep(self) -> None:
        while not self._over.is_set():
            self._poll()

    def _poll(self) -> None:
        beat()
        message = self._member.poll(POLL_S)
        if message is not None and (error := message.error()) is not None:
            self._say(error)

    def _say(self, error: KafkaError) -> None:
        """The client recovers by itself; say so every few seconds."""
        self._is_away = self._is_away or error.code() == KafkaError._ALL_BROKERS_DOWN
        if self._seldom.is_time():
            self._log.warning("waiting for Kafka at %s: %s", self._settings.bootstrap, error.str())

    def _on_assign(self, member: Consumer, partitions: list[TopicPartition]) -> None:
        self._is_member = True
        member.incremental_assign(partitions)
        member.pause(partitions)  # owned, and not read
        self._is_ours = self._is_ours or bool(partitions)
        if self._has_begun and not self._is_ours:
            self.ended = Fenced(f"another process is {_who(self._settings)} now")
            self._stop.set()

    def _on_lost(self, member: Consumer, partitions: Sequence[TopicPartition]) -> None:
        self._is_ours = False
        if self._has_begun and not self._over.is_set():
            self._log.warning("out of touch with Kafka: this monitor goes on, unless another one takes over meanwhile")


def _who(settings: ClusterSettings) -> str:
    return f"the monitor of cluster {settings.cluster!r}"
