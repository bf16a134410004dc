"""Finds in Kafka what a decision was made from: its own record, the window and the settings.

``read_newest_first`` and ``read_from`` read parts of one topic.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import UnionType
from typing import Any

from confluent_kafka import Message, TopicPartition

from surescale.contracts.decisions import Decision
from surescale.contracts.errors import RecordRejected, SurescaleError
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DECISIONS, JOB_SETTINGS, SNAPSHOTS, TopicNames
from surescale.contracts.windows import Window, decode_window
from surescale.runtime.kafka import REQUEST_TIMEOUT_S, batch, consumer, partitions_of
from surescale.runtime.kafka_errors import is_end, is_record
from surescale.runtime.topic_records import append_ms, parsed, value_of

CHUNK_OFFSETS = 500
STALLED_S = 20.0
_POLL_S = 0.25


class Log:
    """Reads one topic at a time, only as far as asked."""

    def __init__(self, settings: PipelineSettings, group: str) -> None:
        """Connect; ``group`` is one that the user may name. Nobody joins it."""
        self._client = consumer(settings, group, **{"enable.partition.eof": True, "fetch.wait.max.ms": 20})
        self._full = TopicNames(settings.topic_prefix)

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()

    def newest_first(self, topic: str) -> Iterator[list[Message]]:
        """Yield a topic's records in pieces, the newest of every partition first; each partition is in order within a piece."""
        full = self._full(topic)
        bounds = {
            partition: self._client.get_watermark_offsets(TopicPartition(full, partition), timeout=REQUEST_TIMEOUT_S)
            for partition in partitions_of(self._client, full)
        }
        ends = {partition: end for partition, (_, end) in bounds.items()}
        while any(ends[partition] > begin for partition, (begin, _) in bounds.items()):
            starts = {partition: max(begin, ends[partition] - CHUNK_OFFSETS) for partition, (begin, _) in bounds.items()}
            places = [TopicPartition(full, partition, at) for partition, at in starts.items() if at < ends[partition]]
            yield list(self._read(places, {place.partition: ends[place.partition] for place in places}))
            ends = starts

    def since(self, topic: str, from_append_ms: int) -> Iterator[Message]:
        """Yield a topic's records appended at or after a broker's time, up to its end."""
        full = self._full(topic)
        asked = [TopicPartition(full, partition, max(0, from_append_ms)) for partition in partitions_of(self._client, full)]
        found = self._client.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S)
        places = [place for place in found if place.offset >= 0]  # below 0: no record is that new
        yield from self._read(places, {})

    def _read(self, places: list[TopicPartition], ends: dict[int, int]) -> Iterator[Message]:
        """Yield records from these places on, each partition up to its entry in ``ends``, else to its end."""
        if not places:
            return
        open_ = {place.partition for place in places}
        self._client.assign(places)
        arrived_s = time.monotonic()
        while open_:
            messages = batch(self._client, CHUNK_OFFSETS, _POLL_S)
            if messages:
                arrived_s = time.monotonic()
            elif time.monotonic() - arrived_s > STALLED_S:
                raise TimeoutError(f"Kafka does not deliver {places[0].topic}")
            for message in messages:
                partition, offset = int(message.partition() or 0), int(message.offset() or 0)
                end = ends.get(partition)
                if is_record(message):
                    if end is None or offset < end:
                        yield message
                    if end is not None and offset >= end - 1:
                        open_.discard(partition)
                elif is_end(message):
                    open_.discard(partition)
        self._client.unassign()


class NotInKafka(SurescaleError):
    """Kafka holds nothing of that name, or no longer."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where everything around a decision or an act begins: its id and job; events count from an event time on.

    Its outcomes were appended at ``append_ms`` or later, its events at ``events_append_ms`` or later (broker's times).
    """

    act_id: str
    job: str
    events_from_ms: int
    append_ms: int
    events_append_ms: int


@dataclass(frozen=True, slots=True)
class Found:
    """One decision with its record on Kafka.

    ``decided_ms``: ends of the spans of its job's decisions that were read on the way to it, newest first.
    """

    decision: Decision
    raw: bytes
    append_ms: int
    decided_ms: tuple[int, ...] = ()

    @property
    def origin(self) -> Origin:
        """Return where to look for what became of it."""
        decision = self.decision
        return Origin(decision.decision_id, decision.job, decision.span_end_ms, self.append_ms, self.append_ms)


def find_decision_since(log: Log, decision_id: str, from_append_ms: int) -> Found:
    """Return the decision of this id that was appended at this time (broker's) or later.

    Raises:
        NotInKafka: Kafka no longer holds it.
    """
    for record in log.since(DECISIONS, from_append_ms):
        for decision in parsed([record], Decision):
            if decision.decision_id == decision_id:
                return Found(decision, value_of(record) or b"", append_ms(record))
    raise NotInKafka(f"the decision {decision_id} is no longer in Kafka")


def find_window(log: Log, found: Found) -> Window | None:
    """Return the window the decision was made on, None if Kafka no longer holds it.

    It was appended after the record that closed its last minute and before the decision.
    """
    decision = found.decision
    for record in log.since(SNAPSHOTS, decision.closed_append_ms or 0):
        if record.key() == decision.job.encode():
            try:
                window = decode_window(value_of(record) or b"")
            except RecordRejected:
                continue
            if window.id == decision.window_id:
                return window
        if append_ms(record) > found.append_ms and record.key() == decision.job.encode():
            return None
    return None


def find_settings(log: Log, found: Found) -> JobSettings | None:
    """Return the settings of the version that the decision names: the defaults for version 0, None if they are gone."""
    history = [
        (settings, append_ms(record)) for record in log.since(JOB_SETTINGS, 0) for settings in parsed([record], JobSettings)
    ]
    return settings_named(history, found.decision, found.append_ms)


def settings_named(history: Iterable[tuple[JobSettings, int]], decision: Decision, decided_ms: int) -> JobSettings | None:
    """Return the settings that a decision was made with, given all settings and their append times in the order of the topic.

    Two users who wrote at the same time may have used one version twice: the later record counts from its append on.
    """
    wanted = decision.job, decision.settings_version
    named = [(settings, at_ms) for settings, at_ms in history if (settings.job, settings.version) == wanted]
    if not named:
        return None if decision.settings_version else JobSettings(job=decision.job)
    known = [settings for settings, at_ms in named if at_ms <= decided_ms]
    return known[-1] if known else named[0][0]


def parsed_each(records: Iterable[Message], kind: type[Any] | UnionType) -> Iterator[Any]:
    """Yield the records that parse, one by one."""
    for record in records:
        yield from parsed([record], kind)
