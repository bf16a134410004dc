"""Reads part of one topic: newest records first, or from a given append time."""

import time
from collections.abc import Iterator

from confluent_kafka import Message, TopicPartition

from contracts.settings import PipelineSettings
from contracts.topics import TopicNames
from runtime.kafka import REQUEST_TIMEOUT_S, batch, consumer, partitions_of
from runtime.kafka_errors import is_end, is_record

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
