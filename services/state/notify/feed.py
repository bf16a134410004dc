"""The records that may make events, from where the webhook was last told. Kafka keeps that place, as offsets of a group."""

import time

from confluent_kafka import OFFSET_INVALID, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Message, TopicPartition

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.summaries import SUMMARY_HEADER
from surescale.contracts.topics import TopicNames, notify_group
from surescale.runtime.beats import beat
from surescale.runtime.kafka import (
    GROUP_REQUEST_TIMEOUT_S,
    METADATA_TIMEOUT_S,
    REQUEST_TIMEOUT_S,
    admin_client,
    batch,
    committed_offsets,
    consumer,
    missing_in_words,
)
from surescale.runtime.kafka_errors import is_end
from surescale.runtime.topic_records import headers_of
from surescale.services.state.notify.watch import LOOK_BACK, WATCHED, WATCHED_WHOLE, Watch
from surescale.services.state.write.projections import Record

BATCH_RECORDS = 200
BUFFER_KIB = 8 * 1024  # records wait here while the webhook is away; the rest waits in Kafka
PRIME_WITHIN_S = 120.0
COMMIT_EVERY_S = 5.0
COMMIT_ALL_EVERY_S = 3600.0
"""Kafka forgets the place in a partition that had no news for a week, unless the position is committed again."""

Place = tuple[str, int]
"""Bare topic and partition."""


class Feed:
    """Reads the watched topics. What lies before the marks only fills the memory."""

    def __init__(self, settings: PipelineSettings, *, keep_ms: int) -> None:
        """Connect, and find the marks; at the very first start they are at the end.

        Args:
            settings: of the pipeline.
            keep_ms: events older than that are no longer sent, so a partition without a mark starts there.

        Raises:
            KafkaException: a topic does not exist, a right is missing, or the broker does not answer.
        """
        self._full = TopicNames(settings.topic_prefix)
        self._bare = {self._full(name): name for name in WATCHED}
        self._group = notify_group(settings.topic_prefix)
        self._client = consumer(
            settings,
            self._group,
            **{"enable.partition.eof": True, "queued.max.messages.kbytes": BUFFER_KIB, "fetch.wait.max.ms": 100},
        )
        self._committed: dict[Place, int] = {}
        self._committed_s = self._committed_all_s = time.monotonic()
        try:
            self._admin = admin_client(settings)
            self._places = self._all_places(settings)
            self._beginnings, self._ends = self._offsets("beginning"), self._offsets("end")
            self._marks = self._find_marks(keep_ms)
        except KafkaException:
            self._client.close()
            raise
        self._committed |= self._marks
        self._told = dict(self._marks)

    def prime(self, watch: Watch) -> None:
        """Let ``watch`` see what lies before the marks, so that it knows how things stood there; then go to the marks.

        Raises:
            TimeoutError: it took too long.
            KafkaException: the broker refused, or went away.
        """
        starts = {place: self._start(place) for place in self._places}
        left = {place for place, start in starts.items() if start < self._marks[place]}
        self._client.assign([self._partition(place, starts[place]) for place in sorted(left)])
        deadline_s = time.monotonic() + PRIME_WITHIN_S
        while left:
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"Kafka did not deliver what lies before the marks within {PRIME_WITHIN_S:.0f} s")
            beat()
            for message in batch(self._client, BATCH_RECORDS, 0.5):
                place, offset = self._place(message), message.offset() or 0
                record = self._record(message)
                if record is None and not is_end(message):
                    continue
                if record is not None and offset < self._marks[place]:
                    watch.take(record)
                if is_end(message) or offset + 1 >= self._marks[place]:
                    left.discard(place)
        self._client.assign([self._partition(place, mark) for place, mark in self._marks.items()])

    def read(self, wait_s: float) -> list[Record]:
        """Return what has arrived, in the order in which the broker took it, after waiting for the first record.

        Raises:
            KafkaException: the broker refused, or went away.
        """
        found = [record for message in batch(self._client, BATCH_RECORDS, wait_s) if (record := self._record(message))]
        # Each partition keeps its own order: the broker's times never fall within one.
        return sorted(found, key=lambda record: (record.appended_ms, record.topic, record.partition, record.offset))

    def done(self, record: Record, *, at_once: bool) -> None:
        """Move the mark past a record; ``at_once`` or once in a while, it is committed to Kafka.

        Raises:
            KafkaException: the broker refused, or went away.
        """
        self._told[record.topic, record.partition] = record.offset + 1
        self.keep_marks(at_once=at_once)

    def keep_marks(self, *, at_once: bool = False) -> None:
        """Tell Kafka the marks that have moved, if it is time; once an hour all of them.

        Raises:
            KafkaException: the broker refused, or went away.
        """
        now_s = time.monotonic()
        if now_s - self._committed_all_s >= COMMIT_ALL_EVERY_S:
            self._commit(self._told)
            self._committed_all_s = now_s
        elif at_once or now_s - self._committed_s >= COMMIT_EVERY_S:
            self._commit({place: mark for place, mark in self._told.items() if self._committed[place] != mark})

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()

    def _commit(self, marks: dict[Place, int]) -> None:
        self._committed_s = time.monotonic()
        if marks:
            self._client.commit(offsets=[self._partition(place, mark) for place, mark in marks.items()], asynchronous=False)
            self._committed |= marks

    def _find_marks(self, keep_ms: int) -> dict[Place, int]:
        asked = [self._partition(place) for place in self._places]
        # Asked through the admin client: a consumer without the right only times out.
        query = [ConsumerGroupTopicPartitions(self._group, asked)]
        future = self._admin.list_consumer_group_offsets(query, request_timeout=GROUP_REQUEST_TIMEOUT_S)[self._group]
        try:
            found = future.result(REQUEST_TIMEOUT_S).topic_partitions
        except KafkaException as error:
            if error.args[0].code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise
            words = f"this user may not use group {self._group}: `surescale topics acls --notify` prints the right that it needs"
            raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED, words)) from None
        for each in found:
            if each.error is not None:
                raise KafkaException(each.error)
        known = {self._place(each): each.offset for each in found if each.offset is not None and each.offset >= 0}
        if not known:
            self._commit(self._ends)
            return dict(self._ends)
        # Beyond the end: another Kafka has come under the same address, and nothing of it was told yet.
        marks = {place: mark for place, mark in known.items() if mark <= self._ends[place]}
        marks = {place: max(mark, self._beginnings[place]) for place, mark in marks.items()}
        new = [place for place in self._places if place not in marks]
        return marks | (self._offsets_at(new, round(time.time() * 1000) - keep_ms) if new else {})

    def _offsets_at(self, places: list[Place], at_ms: int) -> dict[Place, int]:
        asked = [self._partition(place, at_ms) for place in places]
        found = {self._place(each): each.offset for each in self._client.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S)}
        return {place: offset if offset >= 0 else self._ends[place] for place, offset in found.items() if offset is not None}

    def _start(self, place: Place) -> int:
        topic, _ = place
        beginning = self._beginnings[place]
        return beginning if topic in WATCHED_WHOLE else max(beginning, self._marks[place] - LOOK_BACK[topic])

    def _all_places(self, settings: PipelineSettings) -> list[Place]:
        known = self._client.list_topics(timeout=METADATA_TIMEOUT_S).topics
        missing = [self._full(name) for name in WATCHED if self._full(name) not in known]
        if missing:
            raise KafkaException(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, missing_in_words(missing, settings)))
        return [(name, partition) for name in WATCHED for partition in sorted(known[self._full(name)].partitions)]

    def _offsets(self, at: str) -> dict[Place, int]:
        self._admin.list_topics(timeout=METADATA_TIMEOUT_S)
        asked = [self._partition(place) for place in self._places]
        found = committed_offsets(self._admin, asked, "beginning" if at == "beginning" else "end")
        return {(self._full.bare(topic), partition): offset for (topic, partition), offset in found.items()}

    def _partition(self, place: Place, offset: int = OFFSET_INVALID) -> TopicPartition:
        return TopicPartition(self._full(place[0]), place[1], offset)

    def _place(self, of: Message | TopicPartition) -> Place:
        if isinstance(of, TopicPartition):
            return self._bare[of.topic], of.partition
        return self._bare[of.topic() or ""], of.partition() or 0

    def _record(self, message: Message) -> Record | None:
        """Return the record, None for a notice.

        Raises:
            KafkaException: the message is an error that will not pass.
        """
        error = message.error()
        if error is None:
            (topic, partition), summary = self._place(message), dict(headers_of(message)).get(SUMMARY_HEADER)
            return Record(
                topic,
                partition,
                message.offset() or 0,
                message.key(),
                message.value(),
                message.timestamp()[1],
                summary,
            )
        if not is_end(message) and not error.retriable() and error.code() != KafkaError._TRANSPORT:
            raise KafkaException(error)
        return None
