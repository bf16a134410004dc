"""A replay through Spark where its client or its broker are at their limits; the rest needs a Kafka (integration)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import TASK_METRICS, TopicNames
from surescale.runtime.kafka_errors import readable_errors
from surescale.runtime.ports import free_port
from surescale.services.local_stack.replay_through_spark import END_MARK, RecordStream, own_topics
from surescale.services.tools.recording.format import RawRecord
from surescale.services.tools.recording.replay import Known
from tests.unit.services.tools.recording.windows import Held


class _FullQueue:
    """A client like librdkafka's: its queue takes this many records, and has room again once they are delivered."""

    def __init__(self, room: int) -> None:
        self._room, self._waiting = room, list[Callable[..., None]]()
        self.sent: list[bytes] = []

    def produce(self, _topic: str, value: bytes, *_where: object, on_delivery: Callable[..., None], **_: Any) -> None:
        if len(self._waiting) == self._room:
            raise BufferError("Local: Queue full")
        self.sent.append(value)
        self._waiting.append(on_delivery)

    def poll(self, _timeout_s: float) -> int:
        return 0

    def flush(self, _timeout_s: float) -> int:
        while self._waiting:
            self._waiting.pop()(None, _Delivered())
        return 0


class _Delivered:
    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


class _TwoPartitions:
    """A source with one record of a job in each of two partitions."""

    name = "the test"
    partitions: Mapping[str, int] = {TASK_METRICS: 2}

    def records(self, topics: Iterable[str]) -> Iterator[RawRecord]:
        """Yield the records of the topics."""
        if TASK_METRICS in topics:
            for partition, job in enumerate((b"sim/a", b"sim/b")):
                yield RawRecord(TASK_METRICS, partition, 0, 1, job, b"{}")


def test_marks_are_sent_although_the_clients_queue_is_full() -> None:
    """A recording is read faster than a broker takes it, so the queue is full when the last of its records was handed over."""
    queue: Any = _FullQueue(room=2)
    reader: Any = None  # nobody waits for answers here
    names, said = TopicNames("replay-"), list[str]()
    stream = RecordStream(queue, reader, names, span_minutes=10, wait=lambda _condition: None, say=said.append)
    stream.send(_TwoPartitions(), Known(), frozenset())
    assert queue.sent == [b"{}", b"{}", *[END_MARK] * 4]  # two marks for each partition


def test_a_broker_that_is_away_is_refused_before_topics_are_created() -> None:
    """Without a word about topics that could not be removed: none was created."""
    own, said = PipelineSettings(bootstrap=f"127.0.0.1:{free_port()}", topic_prefix="replay-x-"), list[str]()
    with pytest.raises(ConnectionError, match="does not answer"), readable_errors(own), own_topics(own, Held([]), said.append):
        pass
    assert said == []
