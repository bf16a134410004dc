"""One transaction per round: consumed offsets, effects and memory are written together or not at all.

The rescaler's memory has one key per record, but belongs in its cluster's partition: it is written there by number, by Kafka's
murmur2 partitioner.
"""

import queue
import threading
from collections.abc import Sequence
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from surescale.contracts.messages import DeadLetter
from surescale.contracts.partitioner import partition_of
from surescale.contracts.rescaler_state import MemoryKey
from surescale.contracts.topics import DEAD_LETTERS, RESCALER_STATE, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS, TopicNames
from surescale.contracts.wire import encode
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.traces import Traces
from surescale.runtime.kafka import partitions_of, producer
from surescale.runtime.kafka_clock import KAFKA_CLOCK, KafkaClock
from surescale.runtime.kafka_transactions import ATTEMPT_S, TRANSACTION_MS, TransactionalCalls, TransactionLost
from surescale.runtime.threads import background

HANGS_AFTER_S = 15.0


class ActuatorPosition(NamedTuple):
    """How far an actuator has come."""

    at: TopicPartition
    """The first command whose end has not been reported, or one past the last command read."""
    group: object
    """Of the actuators, as the client describes it."""


class Transactions:
    """The transactional producer of the active rescaler; creating one fences all others."""

    clock: KafkaClock = KAFKA_CLOCK
    """Kafka's, as each write shows it."""

    def __init__(self, settings: RescalerSettings, members: Consumer, stop: threading.Event) -> None:
        """Become the active rescaler.

        Raises:
            TransactionLost: the coordinator did not answer in time, or the process has to stop.
        """
        self._cluster, self._members = settings.cluster, members
        self._names = TopicNames(settings.topic_prefix)
        self._carried_out_to: int | None = None
        self._state_partition = partition_of(settings.cluster, len(partitions_of(members, self._names(RESCALER_STATE))))
        transactional = {"transactional.id": settings.group, "transaction.timeout.ms": TRANSACTION_MS}
        self._producer: Producer = producer(settings, **transactional, on_delivery=self.clock.delivered)
        calls = TransactionalCalls(self._producer, f"the rescaler of cluster {settings.cluster!r}", stop)
        self._begin, self._persist, self._given_up = calls.begin, calls.persist, calls.given_up
        self._persist(lambda: self._producer.init_transactions(ATTEMPT_S))

    def write(
        self,
        effects: Effects,
        letters: Sequence[tuple[bytes | None, DeadLetter]],
        consumed: Sequence[TopicPartition],
        carried_out: ActuatorPosition | None,
        traces: Traces,
    ) -> None:
        """Commit a round, and how far the actuator has come; the reports up to there are among the effects.

        Raises:
            Fenced: another process is active now.
            TransactionLost: nothing was committed, or it is unknown whether it was.
        """
        self._persist(self._begin)
        try:
            self._produce(effects, letters, traces)
        except BufferError as error:
            raise self._given_up(str(error)) from None
        if consumed:
            group = self._members.consumer_group_metadata()
            self._persist(lambda: self._send_offsets(list(consumed), group))
        if carried_out is not None and carried_out.at.offset != self._carried_out_to:
            at, actuators = carried_out
            self._persist(lambda: self._send_offsets([at], actuators))
            self._carried_out_to = at.offset  # if this is not committed, the session ends
        self._persist(lambda: self._producer.commit_transaction(ATTEMPT_S))

    def see_time(self) -> None:
        """Take away the answer to a decision that nobody made: when Kafka does so tells its time.

        Raises:
            Fenced, TransactionLost: as ``write``.
        """
        key = str(MemoryKey(cluster=self._cluster, kind="request", id=f"{self._cluster}/clock@0/time"))
        self._persist(self._begin)
        self._producer.produce(self._names(RESCALER_STATE), key=key, value=None, partition=self._state_partition)
        self._persist(lambda: self._producer.commit_transaction(ATTEMPT_S))

    def _produce(self, effects: Effects, letters: Sequence[tuple[bytes | None, DeadLetter]], traces: Traces) -> None:
        names, cluster, trace = self._names, self._cluster, traces.headers_of
        for progress in effects.progress:
            self._producer.produce(names(RESCHEDULE_EVENTS), key=cluster, value=encode(progress), headers=dict(trace(progress)))
        for balance in effects.balances:
            self._producer.produce(names(RESCHEDULE_EVENTS), key=cluster, value=encode(balance))
        for drift in effects.drifts:
            self._producer.produce(names(RESCHEDULE_EVENTS), key=cluster, value=encode(drift))
        for outcome in effects.outcomes:
            self._producer.produce(names(RESCHEDULE_EVENTS), key=cluster, value=encode(outcome), headers=dict(trace(outcome)))
        for command in effects.commands:
            self._producer.produce(names(RESCHEDULE_COMMANDS), key=cluster, value=encode(command), headers=dict(trace(command)))
        for changed in effects.records:
            value = None if changed.record is None else encode(changed.record)
            topic, at = names(RESCALER_STATE), self._state_partition
            self._producer.produce(topic, key=changed.key, value=value, partition=at, headers=dict(trace(changed)))
        for key, letter in letters:
            self._producer.produce(names(DEAD_LETTERS), key=key, value=encode(letter))

    def _send_offsets(self, offsets: list[TopicPartition], group: object) -> None:
        """Put offsets into the transaction, in a thread that is left behind if it hangs.

        After a lost connection librdkafka may ignore the timeout and wait until the next connection is lost, perhaps forever
        (confluentinc/librdkafka#5456). The next session has a producer of its own, which fences this one.
        """
        answer = queue.SimpleQueue[KafkaError | str | None]()

        def send() -> None:
            try:
                self._producer.send_offsets_to_transaction(offsets, group, ATTEMPT_S)
            except KafkaException as problem:
                answer.put(problem.args[0])  # not the exception: it refers to this frame, and would keep the producer open
            except Exception as problem:  # of a producer that was closed meanwhile
                answer.put(str(problem))
            else:
                answer.put(None)

        background(send, "send-offsets").start()
        try:
            error = answer.get(timeout=HANGS_AFTER_S)
        except queue.Empty:
            raise TransactionLost(f"Kafka's client did not send offsets within {HANGS_AFTER_S:g} s") from None
        if isinstance(error, str):
            raise TransactionLost(f"Kafka's client did not send offsets: {error}")
        if error is not None:
            raise KafkaException(error)
