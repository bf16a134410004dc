"""How a role gets past a record: its group's position is moved, or what lies under a key is taken away. The edge to Kafka."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from surescale.contracts.errors import RecordRejected, SettingsError
from surescale.contracts.messages import DeadLetter, beginning_of, key_of_letter
from surescale.contracts.rescaler_state import MemoryKey
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import (
    DEAD_LETTERS,
    READER_GROUP,
    RESCALER_STATE,
    TopicNames,
    actuator_group,
    agent_group,
    rescaler_group,
)
from surescale.runtime.kafka import GROUP_REQUEST_TIMEOUT_S, admin_client, committed_offsets, consumer
from surescale.runtime.kafka_errors import is_end, is_record
from surescale.runtime.topic_records import key_of, read_topics, send_all, value_of

T = TypeVar("T")

READ_WITHIN_S = 30.0
ANSWER_WITHIN_S = 30.0
"""A broker under load needs several seconds for a question about a group."""
SKIPPED = "skipped"
"""The reason of a dead letter that an operator made."""


class GroupPosition:
    """The position of a role's consumer group in one partition."""

    def __init__(
        self, settings: PipelineSettings, role: str, topic: str, partition: int, *, answer_within_s: float = ANSWER_WITHIN_S
    ) -> None:
        prefix, cluster = settings.topic_prefix, settings.cluster
        rescaler = rescaler_group(prefix, cluster)
        self._settings, self._role = settings, role
        self._group = {"agent": agent_group(prefix), "rescaler": rescaler, "actuator": actuator_group(prefix, cluster)}[role]
        # The actuator is no member of its own group: it runs inside the rescaler.
        self._members = rescaler if role == "actuator" else self._group
        self._names = TopicNames(prefix)
        self._at = TopicPartition(self._names(topic), partition)
        self._admin, self._answer_within_s = admin_client(settings), answer_within_s

    def check(self, begin: int, offset: int) -> None:
        """Refuse while the role runs, stands elsewhere, or the records do not exist.

        Raises:
            SettingsError: says what to do.
            KafkaException: Kafka refuses.
            TimeoutError: it does not answer.
        """
        self._admin.list_topics(timeout=READ_WITHIN_S)
        (oldest,) = committed_offsets(self._admin, [self._at], "beginning").values()
        (end,) = committed_offsets(self._admin, [self._at], "end").values()
        if not oldest <= begin <= offset < end:
            raise SettingsError(f"OFFSET: {self._at.topic}[{self._at.partition}] holds offsets {oldest} to {end - 1}")
        running = _running(self._admin, self._members, self._answer_within_s)
        if running:
            raise SettingsError(f"--role: {running} processes of group {self._members} are running; stop them first")
        stands = max(self._committed(), oldest)
        if stands != begin:
            hint = f"to skip all from there on, add --from {stands}" if stands < begin else "that record is behind it already"
            raise SettingsError(f"OFFSET: the {self._role} stands at {stands}, not at {begin}; {hint}")

    def letters(self, begin: int, offset: int, message: str) -> list[tuple[bytes | None, DeadLetter]]:
        """Return a dead letter, with its key, for each record from ``begin`` to ``offset`` that can still be read.

        Raises:
            KafkaException: Kafka refuses.
        """
        return [_letter(self._at, at, key, value, message) for at, key, value in self._records(begin, offset)]

    def write(self, letters: Sequence[tuple[bytes | None, DeadLetter]]) -> None:
        """Write the dead letters before anything moves.

        Raises:
            ConnectionError: they were not acknowledged.
        """
        send_all(self._settings, DEAD_LETTERS, letters)

    def move(self, offset: int) -> None:
        """Let the group go on at an offset.

        Raises:
            KafkaException: Kafka refuses, as it does while a member is running.
            TimeoutError: no answer, so it is unknown whether the group was moved. Asked again, `check` refuses if it was.
        """
        wanted = [TopicPartition(self._at.topic, self._at.partition, offset)]
        asked = [ConsumerGroupTopicPartitions(self._group, wanted)]
        moved = self._admin.alter_consumer_group_offsets(asked, request_timeout=GROUP_REQUEST_TIMEOUT_S)[self._group]
        self._answer(moved, f"to move group {self._group}; ask again, nothing is skipped twice")

    def _committed(self) -> int:
        """Return where the group stands; a negative number if it has committed nothing.

        A position that an open transaction may still commit would overwrite the one that we set: it is waited for.
        """
        asked = [ConsumerGroupTopicPartitions(self._group, [self._at])]
        found = self._admin.list_consumer_group_offsets(asked, require_stable=True, request_timeout=GROUP_REQUEST_TIMEOUT_S)[
            self._group
        ]
        try:
            (position,) = self._answer(found, f"where group {self._group} stands").topic_partitions
            problem = position.error
        except KafkaException as error:
            problem = error.args[0]
        if problem is not None and problem.code() == KafkaError.UNSTABLE_OFFSET_COMMIT:
            raise SettingsError(
                f"--role: group {self._group} has a transaction that has not ended; ask again in a minute, Kafka ends it"
            )
        if problem is not None:
            raise KafkaException(problem)
        return int(position.offset)

    def _answer(self, future: Future[T], asked: str) -> T:
        return _answer(future, asked, self._answer_within_s)

    def _records(self, begin: int, offset: int) -> list[tuple[int, bytes | str | None, bytes | None]]:
        client = consumer(self._settings, READER_GROUP, **{"enable.partition.eof": True})
        found: list[tuple[int, bytes | str | None, bytes | None]] = []
        try:
            client.assign([TopicPartition(self._at.topic, self._at.partition, begin)])
            deadline_s = time.monotonic() + READ_WITHIN_S
            while time.monotonic() < deadline_s:
                message = client.poll(1.0)
                if message is None:
                    continue
                at = int(message.offset() or 0)
                if is_record(message) and at <= offset:
                    found.append((at, message.key(), value_of(message)))
                if at >= offset or is_end(message):
                    return found
        finally:
            client.close()
        raise TimeoutError(f"the record at {offset} was not delivered within {READ_WITHIN_S:.0f} s")


class KeptMemory:
    """What lies under one key of ``rescaler-state``."""

    def __init__(self, settings: PipelineSettings, key: MemoryKey) -> None:
        self._settings, self._key = settings, key
        self._group = rescaler_group(settings.topic_prefix, key.cluster)

    def forget(self, message: str) -> None:
        """Write a dead letter of it, then a record without a value in its place.

        Raises:
            SettingsError: a rescaler of the cluster is running, or nothing is under the key.
            ConnectionError: Kafka does not answer or refuses, so it may still be there.
        """
        running = _running(admin_client(self._settings), self._group, ANSWER_WITHIN_S)
        if running:
            raise SettingsError(f"KEY: {running} processes of group {self._group} are running; stop them first")
        key, found = str(self._key).encode(), dict[int, Message]()
        for record in read_topics(self._settings, [RESCALER_STATE])[RESCALER_STATE]:
            if key_of(record) == key:
                found[record.partition() or 0] = record
        there = {partition: value for partition, record in found.items() if (value := value_of(record)) is not None}
        if not there:
            raise SettingsError(f"KEY: nothing is remembered under {self._key}")
        names = TopicNames(self._settings.topic_prefix)
        for partition, value in sorted(there.items()):
            at = TopicPartition(names(RESCALER_STATE), partition)
            letter = _letter(at, found[partition].offset() or 0, key, value, message)
            send_all(self._settings, DEAD_LETTERS, [letter])
            send_all(self._settings, RESCALER_STATE, [(key, None)], partition=partition)


def _running(admin: AdminClient, group: str, within_s: float) -> int:
    asked = admin.describe_consumer_groups([group], request_timeout=GROUP_REQUEST_TIMEOUT_S)
    try:
        return len(_answer(asked[group], f"to describe group {group}", within_s).members)
    except KafkaException as error:
        if error.args[0].code() == KafkaError.GROUP_ID_NOT_FOUND:
            return 0
        raise


def _answer(future: Future[T], asked: str, within_s: float) -> T:
    """Return an answer. We stop waiting before librdkafka does, which would end the process (`GROUP_REQUEST_TIMEOUT_S`)."""
    try:
        return future.result(within_s)
    except FutureTimeout:
        raise TimeoutError(f"no answer within {within_s:g} s when asked {asked}") from None


def _letter(
    of: TopicPartition, at: int, key: bytes | str | None, value: bytes | None, message: str
) -> tuple[bytes | None, DeadLetter]:
    """Return the dead letter of a record that an operator skips, with its key."""
    letter = DeadLetter(
        topic=of.topic,
        partition=of.partition,
        offset=at,
        reason=SKIPPED,
        field="",
        message=message[: RecordRejected.CHARACTERS_MAX],
        refused_by="operator",
        payload=beginning_of(value).decode("utf-8", "replace"),
    )
    return key_of_letter(key.encode() if isinstance(key, str) else key), letter
