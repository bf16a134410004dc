"""Single topics as much of them as is asked for: the newest records first, or from an append time on."""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from contracts.settings import RoadSettings
from contracts.topics import TopicNames
from runtime.kafka import REQUEST_TIMEOUT_S, consumer, partitions_of

CHUNK_OFFSETS = 500
STALLED_S = 20.0
_POLL_S = 0.25


class Log:
    """Reads single topics, as much of them as is asked for."""

    def __init__(self, settings: RoadSettings) -> None:
        self._client = consumer(settings, "surescale-explain", **{"enable.partition.eof": True, "fetch.wait.max.ms": 20})
        self._full = TopicNames(settings.topic_prefix)

    def close(self) -> None:
        """Leave the broker."""
        self._client.close()

    def newest_first(self, topic: str) -> Iterator[list[Message]]:
        """Yield a topic's records in pieces, each in order within its partition, the newest piece of every partition first."""
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
        """Yield a topic's records that were appended at or after a broker's time, up to its end."""
        full = self._full(topic)
        asked = [TopicPartition(full, partition, max(0, from_append_ms)) for partition in partitions_of(self._client, full)]
        found = self._client.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S)
        places = [place for place in found if place.offset >= 0]  # below 0: nothing that new
        yield from self._read(places, {})

    def _read(self, places: list[TopicPartition], ends: dict[int, int]) -> Iterator[Message]:
        """Yield records from these places, each partition up to ``ends`` or its end."""
        if not places:
            return
        open_ = {place.partition for place in places}
        self._client.assign(places)
        arrived_s = time.monotonic()
        while open_:
            batch = _consume(self._client)
            if batch:
                arrived_s = time.monotonic()
            elif time.monotonic() - arrived_s > STALLED_S:
                raise TimeoutError(f"{places[0].topic} is not delivered")
            for record in batch:
                partition, offset = int(record.partition() or 0), int(record.offset() or 0)
                end = ends.get(partition)
                error = record.error()
                if error is None:
                    if end is None or offset < end:
                        yield record
                    if end is not None and offset >= end - 1:
                        open_.discard(partition)
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_.discard(partition)
                elif not error.retriable():
                    raise KafkaException(error)
        self._client.unassign()


def _consume(client: Consumer) -> list[Message]:
    first = client.poll(_POLL_S)  # consume itself would wait for a full batch
    return [] if first is None else [first, *client.consume(num_messages=CHUNK_OFFSETS - 1, timeout=0)]
