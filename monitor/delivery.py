"""How a monitor's records get to Kafka: many watchers share one producer, and each waits for its own records.

Of several monitors, the one that watches sends in transactions. Whoever begins with the same transactional id fences the others:
the broker refuses what they send from then on, however late they send it.
"""

import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from surescale.contracts.errors import SurescaleError
from surescale.contracts.topics import TopicNames
from surescale.contracts.wire import encode
from surescale.runtime.backoff import Stopped, Throttle
from surescale.runtime.beats import BEAT_EVERY_S, TurnLock, beat, beside, pause
from surescale.runtime.kafka_clock import KAFKA_CLOCK
from surescale.runtime.kafka_errors import refusal_of
from surescale.runtime.kafka_transactions import ATTEMPT_S, TransactionalCalls, TransactionLost
from surescale.runtime.metrics import Tally
from surescale.runtime.tracing.context import Headers

SAY_EVERY_S = 5.0
FULL_PAUSE_S = 0.05
LINGER_MS = 1  # a minute of a job is one burst, and its marker waits for it
COMMIT_AFTER_S = 0.02
"""A transaction stays open for so long after its first record, for those of other jobs."""
APART_FOR_S = 60.0
ENDS_WITHIN_S = 3.0
OnDelivery = Callable[[KafkaError | None, Message], None]


class Reports:
    """Takes the delivery reports of a producer in one thread, for all who send through it.

    Were each to wait in the client's own flush, every report would wake all of them, and nothing would be sent in batches.
    """

    def __init__(self, client: Producer, stop: threading.Event) -> None:
        """Begin; ``stop`` ends it."""
        self.client, self._stop = client, stop
        self._thread = beside(self._run, "the delivery reports", stop.is_set)
        self._thread.start()

    def produce(self, topic: str, key: str, on_delivery: OnDelivery, **record: Any) -> None:
        """Hand a record to the client; raises what the client does. ``on_delivery`` is called once it is there for readers."""
        self.client.produce(topic, key=key, on_delivery=partial(self._delivered, on_delivery), **record)

    def close(self) -> None:
        """Do nothing: what was handed over and is not acknowledged is given up."""

    def _run(self) -> None:
        while not self._stop.is_set():
            beat()
            self.client.poll(BEAT_EVERY_S)

    def _delivered(self, on_delivery: OnDelivery, error: KafkaError | None, record: Message) -> None:
        KAFKA_CLOCK.delivered(error, record)
        on_delivery(error, record)


class FencedReports(Reports):
    """Sends in transactions, so that the broker refuses whatever is sent by a monitor that another one has taken over from.

    What watchers send within a moment is committed together, and counts as delivered then. One record that the broker refuses
    takes all of its transaction with it, and their watchers send them again. So for a while after that, each job has transactions
    of its own, and a job whose records are refused each time holds up no other one.
    """

    def __init__(self, client: Producer, who: str, stop: threading.Event) -> None:
        """Fence whoever had the client's transactional id, and begin.

        Raises:
            TransactionLost, KafkaException: Kafka did not let us; nothing is left open.
        """
        self._calls = TransactionalCalls(client, who, stop, patience_s=math.inf, abort_patience_s=math.inf)
        self._calls.persist(lambda: client.init_transactions(ATTEMPT_S))
        self._lock, self._is_open = TurnLock(), threading.Event()
        self._key, self._apart_until_s = "", 0.0
        self._told: list[tuple[OnDelivery, KafkaError | None, Message]] = []  # of the open transaction
        self.ended: SurescaleError | None = None
        """Why nothing can be sent any more."""
        super().__init__(client, stop)

    def produce(self, topic: str, key: str, on_delivery: OnDelivery, **record: Any) -> None:
        """Hand over a record; while a transaction is being committed, wait. Raises BufferError in another job's transaction."""
        with self._lock:
            if not self._is_open.is_set():
                self._begin()
                self._key = key
                self._is_open.set()
            elif key != self._key and time.monotonic() < self._apart_until_s:
                raise BufferError("the transaction of another job")
            super().produce(topic, key, on_delivery, **record)

    def close(self) -> None:
        """Wait a moment for the last transaction to end, if told to stop; else all has been acknowledged."""
        if self._stop.is_set():
            self._thread.join(ENDS_WITHIN_S)

    def _run(self) -> None:
        while not self._stop.is_set():
            beat()
            self.client.poll(0)
            if self._is_open.wait(BEAT_EVERY_S):
                self._stop.wait(COMMIT_AFTER_S)
                self._commit()
        if self._is_open.is_set() and self.ended is None:
            self._commit()

    def _begin(self) -> None:
        try:
            self._calls.begin()
        except KafkaException as error:  # it would be the same each time
            self._end(error)
            raise

    def _end(self, error: SurescaleError | KafkaException) -> None:
        if not self._stop.is_set():  # else it ends as it was told to
            gave_up = SurescaleError(f"the client of Kafka gave up: {error}")
            self.ended = error if isinstance(error, SurescaleError) else gave_up
            self._stop.set()

    def _commit(self) -> None:
        with self._lock:
            try:
                lost = self._lost()
            except (SurescaleError, KafkaException) as error:
                self._end(error)
                return
            told, self._told = self._told, []
            self._is_open.clear()
        for on_delivery, refused, record in told:
            on_delivery(refused or lost, record)

    def _lost(self) -> KafkaError | None:
        """Commit, and return why that failed, if it did, and the next transaction can begin."""
        try:
            self._calls.persist(lambda: self.client.commit_transaction(ATTEMPT_S))
        except TransactionLost as lost:
            if not lost.is_aborted:
                raise SurescaleError(f"a transaction could not be ended: {lost}") from None
            self._apart_until_s = time.monotonic() + APART_FOR_S
            return KafkaError(KafkaError._FAIL, f"sent together with what Kafka refused: {lost}")
        return None

    def _delivered(self, on_delivery: OnDelivery, error: KafkaError | None, record: Message) -> None:
        KAFKA_CLOCK.delivered(error, record)
        self._told.append((on_delivery, error, record))


class Outbox:
    """Sends through a shared producer and waits until its own records are acknowledged. For one thread.

    While the broker is away the producer keeps trying; nothing is dropped.
    """

    def __init__(
        self,
        reports: Reports,
        names: TopicNames,
        *,
        stop: threading.Event,
        log: logging.Logger,
        written: Tally | None = None,
    ) -> None:
        """``written`` counts acknowledged records by topic; outboxes may share it."""
        self.reports = reports
        self._written = written or Tally()
        self._names = names
        self._stop = stop
        self._log = log
        self._changed = threading.Condition()
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
                if pause(self._stop, FULL_PAUSE_S):
                    raise Stopped("room among the records on their way to Kafka")
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
        began_s, seldom = time.monotonic(), Throttle(SAY_EVERY_S)
        seldom.is_time()  # a line at once would be too early
        with self._changed:
            while self._waiting and not self._stop.is_set():
                beat()
                self._changed.wait(BEAT_EVERY_S)
                if self._waiting and seldom.is_time():
                    waited_s = time.monotonic() - began_s
                    self._log.warning("Kafka has not acknowledged %d records for %.0f s; still trying", self._waiting, waited_s)
            if self._failed:
                failed, self._failed = self._failed, ""
                raise DeliveryFailed(failed)
            return not self._waiting

    def _is_taken(self, topic: str, key: str, raw: bytes, headers: Headers) -> bool:
        try:
            self.reports.produce(self._names(topic), key, self._delivered, value=raw, headers=dict(headers))
        except BufferError:
            return False
        return True

    def _count_waiting(self, change: int) -> None:
        with self._changed:
            self._waiting += change

    def _delivered(self, error: KafkaError | None, record: Message) -> None:
        if error is None:
            self._written.add(self._names.bare(record.topic() or ""))
        with self._changed:
            self._waiting -= 1
            if error is not None:
                self._failed = self._failed or refusal_of(record.topic(), error)
            if not self._waiting:
                self._changed.notify_all()


class DeliveryFailed(Exception):
    """The broker refused a record permanently; the watcher restarts and sends the minute again."""
