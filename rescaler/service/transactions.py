"""One transaction per round: what was consumed, what follows from it, and what is to be remembered, all or nothing."""

import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from contracts.errors import SurescaleError
from contracts.messages import DeadLetter
from contracts.topics import DEAD_LETTERS, RESCALER_STATE, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS, TopicNames
from contracts.wire import encode
from rescaler.control.controller import Effects
from rescaler.service.partitions import partition_of
from rescaler.service.settings import RescalerSettings
from runtime.kafka import partitions_of, producer

ATTEMPT_S = 10.0
PATIENCE_S = 120.0
PAUSE_S = 0.1  # a call may be refused at once, and be fine a moment later
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class Fenced(SurescaleError):
    """Another process has become the active rescaler of the cluster."""


class Lost(Exception):
    """A transaction was not committed; the memory must be read again before going on."""


class Transactions:
    """The transactional producer of the active rescaler; making one fences every other."""

    def __init__(self, settings: RescalerSettings, members: Consumer, stop: threading.Event) -> None:
        """Become the active one.

        Raises:
            Lost: the coordinator did not answer in time, or the process was told to stop.
        """
        self._cluster, self._stop, self._members = settings.cluster, stop, members
        self._names = TopicNames(settings.topic_prefix)
        self._state_partition = partition_of(settings.cluster, len(partitions_of(members, self._names(RESCALER_STATE))))
        self._producer: Producer = producer(settings, **{"transactional.id": settings.group, "transaction.timeout.ms": 60_000})
        self._persist(lambda: self._producer.init_transactions(ATTEMPT_S))

    def write(
        self, effects: Effects, letters: Sequence[tuple[bytes | None, DeadLetter]], consumed: Sequence[TopicPartition]
    ) -> None:
        """Commit a round.

        Raises:
            Fenced: another process is the active one now.
            Lost: nothing of it was committed, or it is not known whether it was.
        """
        self._persist(self._producer.begin_transaction)
        try:
            self._produce(effects, letters)
        except BufferError as error:
            raise self._given_up(str(error)) from None
        if consumed:
            group = self._members.consumer_group_metadata()
            self._persist(lambda: self._producer.send_offsets_to_transaction(list(consumed), group, ATTEMPT_S))
        self._persist(lambda: self._producer.commit_transaction(ATTEMPT_S))

    def _produce(self, effects: Effects, letters: Sequence[tuple[bytes | None, DeadLetter]]) -> None:
        names, cluster = self._names, self._cluster
        for balance in effects.balances:
            self._producer.produce(names(RESCHEDULE_EVENTS), key=cluster, value=encode(balance))
        for outcome in effects.outcomes:
            self._producer.produce(names(RESCHEDULE_EVENTS), key=cluster, value=encode(outcome))
        for command in effects.commands:
            self._producer.produce(names(RESCHEDULE_COMMANDS), key=cluster, value=encode(command))
        for changed in effects.records:
            value = None if changed.record is None else encode(changed.record)
            self._producer.produce(names(RESCALER_STATE), key=changed.key, value=value, partition=self._state_partition)
        for key, letter in letters:
            self._producer.produce(names(DEAD_LETTERS), key=key, value=encode(letter))

    def _persist(self, call: Callable[[], object]) -> None:
        """Repeat a call that may be repeated until it has come through."""
        patient_until = time.monotonic() + PATIENCE_S
        while True:
            try:
                call()
                return
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                if error.code() in _FENCED:
                    raise Fenced(f"another process is the rescaler of cluster {self._cluster!r} now") from None
                if error.fatal():
                    raise
                again = error.retriable() and not error.txn_requires_abort()
                if not again or self._stop.is_set() or time.monotonic() > patient_until:
                    raise self._given_up(error.str()) from None
                self._stop.wait(PAUSE_S)

    def _given_up(self, why: str) -> Lost:
        try:
            self._producer.abort_transaction(ATTEMPT_S)
        except KafkaException as problem:
            why = f"{why}; {problem.args[0].str()}"  # the broker aborts it when its time is up, or when it is fenced
        return Lost(why)
