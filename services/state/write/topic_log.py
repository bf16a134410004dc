"""Reads the view's topics from given offsets on: committed records only, and no consumer group."""

import time
from typing import Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.summaries import SUMMARY_HEADER
from surescale.contracts.topics import STATE_GROUP, TopicNames
from surescale.runtime.kafka import (
    METADATA_TIMEOUT_S,
    StableOffsetLag,
    admin_client,
    batch,
    committed_offsets,
    consumer,
    missing_in_words,
)
from surescale.runtime.kafka_clock import KAFKA_CLOCK
from surescale.runtime.kafka_errors import is_end
from surescale.runtime.topic_ids import topic_ids
from surescale.runtime.topic_records import headers_of
from surescale.services.state.write.projections import PROJECTED, Record
from surescale.services.state.write.view_store import Positions

BATCH_RECORDS = 1000
LOOK_FOR_PARTITIONS_EVERY_S = 60.0  # partitions are added seldom, and never by us
BUFFER_KIB = 32 * 1024
# A full buffer has room again as soon as a batch is read. By default librdkafka would recheck only once a second.
_LOOK_FOR_ROOM_MS = 10


class TopicLog:
    """The records of all topics that feed the view."""

    def __init__(self, settings: PipelineSettings, stable_offset_lag: StableOffsetLag) -> None:
        """Connect; ``stable_offset_lag`` watches what may not be read yet.

        Raises:
            KafkaException: a topic does not exist, or the broker does not answer.
        """
        self._names = TopicNames(settings.topic_prefix)
        self._bare = {self._names(name): name for name in PROJECTED}
        self._settings, self._stable_offset_lag = settings, stable_offset_lag
        self._client = self._new_client()
        try:
            self._partitions, self._ids = self._all_partitions(), self._topic_ids()
        except KafkaException:
            self._client.close()
            raise
        self._at_end: set[tuple[str, int]] = set()
        self._none_until_ms: int | None = None  # by the steady clock: the last look that found nothing, at the end of all
        self._looked_s = time.monotonic()  # for partitions

    def _new_client(self) -> Consumer:
        options = {
            "enable.partition.eof": True,
            "queued.max.messages.kbytes": BUFFER_KIB,
            "fetch.queue.backoff.ms": _LOOK_FOR_ROOM_MS,
        }
        return consumer(self._settings, STATE_GROUP, **options, **self._stable_offset_lag.options())

    @property
    def ids(self) -> dict[str, str]:
        """Return what tells each topic (bare name) from others that have, or had, its name."""
        return {self._bare[name]: f"{high}.{low}" for name, (high, low) in self._ids.items()}

    @property
    def at_end(self) -> bool:
        """Say whether everything committed has been read, as of the broker's last answers."""
        return len(self._at_end) == len(self._partitions)

    def has_changed(self, *, at_once: bool = False) -> bool:
        """Say whether topics have gained partitions, or were deleted and made again; asks the broker once in a while, or now.

        Raises:
            KafkaException: a topic is gone, or the broker does not answer.
        """
        if not at_once and time.monotonic() - self._looked_s < LOOK_FOR_PARTITIONS_EVERY_S:
            return False
        self._looked_s = time.monotonic()
        return self._all_partitions() != self._partitions or self._topic_ids() != self._ids

    def records_beyond(self, positions: Positions) -> int | None:
        """Return how many records lie beyond these offsets, as of the broker's last answers; None once closed."""
        try:
            return sum(self._ends_beyond(place, offset) for place, offset in positions.items() if place not in self._at_end)
        except (KafkaException, RuntimeError):
            return None

    def beginning(self) -> Positions:
        """Return the oldest offsets."""
        return self._offsets("beginning")

    def holds(self, positions: Positions) -> bool:
        """Say whether these offsets belong to this log: the same partitions, and none beyond the end."""
        ends = self._offsets("end")
        return positions.keys() == ends.keys() and all(positions[place] <= end for place, end in ends.items())

    def renew(self) -> None:
        """Read with a new client from the next ``go_to`` on.

        One that has read a topic which was deleted and made again may tell neither of its records nor of its end.
        """
        self._client.close()
        self._stable_offset_lag.forget()
        self._client = self._new_client()

    def go_to(self, positions: Positions) -> None:
        """Continue reading from these offsets."""
        self._at_end.clear()
        self._none_until_ms = None
        starts = [TopicPartition(self._names(name), part, offset) for (name, part), offset in positions.items()]
        self._client.assign(starts)

    def read(self, wait_s: float) -> list[Record]:
        """Return the records that have arrived, after waiting at most ``wait_s`` for the first one.

        Raises:
            KafkaException: the broker refused, or went away.
        """
        looks_ms, was_at_end = KAFKA_CLOCK.steady_ms(), self.at_end
        arrived = batch(self._client, BATCH_RECORDS, wait_s)
        records = [record for message in arrived if (record := self._record(message)) is not None]
        if records:
            # A record that a transaction held back for minutes is older than the last look.
            looked_ms = None if self._stable_offset_lag.seconds() else self._none_until_ms
            KAFKA_CLOCK.read(max(each.appended_ms for each in records), looked_ms)
            self._none_until_ms = None
        elif was_at_end:
            self._none_until_ms = looks_ms
        return records

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()

    def _all_partitions(self) -> list[tuple[str, int]]:
        known = self._client.list_topics(timeout=METADATA_TIMEOUT_S).topics
        missing = [self._names(name) for name in PROJECTED if self._names(name) not in known]
        if missing:
            what = missing_in_words(missing, self._settings)
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, what))
        return [(name, partition) for name in PROJECTED for partition in sorted(known[self._names(name)].partitions)]

    def _topic_ids(self) -> dict[str, tuple[int, int]]:
        """Return what tells a topic from another one that had its name before."""
        admin = admin_client(self._settings)  # kept in a variable: without one, its answers are given up
        return topic_ids(admin, [self._names(name) for name in PROJECTED])

    def _ends_beyond(self, place: tuple[str, int], offset: int) -> int:
        at = TopicPartition(self._names(place[0]), place[1])
        _, end = self._client.get_watermark_offsets(at, timeout=METADATA_TIMEOUT_S, cached=True)
        return max(end - offset, 0)

    def _record(self, message: Message) -> Record | None:
        """Return the record, or None for a notice; take note of partitions read to the end.

        Raises:
            KafkaException: the message is an error that will not pass.
        """
        error = message.error()
        if error is None or is_end(message):
            topic, partition = place = self._bare[message.topic() or ""], message.partition() or 0
            if error is not None:
                self._at_end.add(place)
                return None
            self._at_end.discard(place)
            key, value, appended_ms = message.key(), message.value(), message.timestamp()[1]
            summary = dict(headers_of(message)).get(SUMMARY_HEADER)
            return Record(topic, partition, message.offset() or 0, key, value, appended_ms, summary)
        if not error.retriable() and error.code() != KafkaError._TRANSPORT:
            raise KafkaException(error)
        return None

    def _offsets(self, at: Literal["beginning", "end"]) -> Positions:
        # A new client each time: one that outlives a broker keeps asking for leader epochs that no longer exist.
        admin = admin_client(self._settings)
        admin.list_topics(timeout=METADATA_TIMEOUT_S)
        found = committed_offsets(admin, [TopicPartition(self._names(name), part) for name, part in self._partitions], at)
        return {(self._names.bare(topic), part): offset for (topic, part), offset in found.items()}
