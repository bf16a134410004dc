"""A replay through Spark where its client or its broker are at their limits; the rest needs a Kafka (integration)."""

import time
from collections.abc import Callable
from typing import Any

import pytest

from contracts.settings import RoadSettings
from contracts.topics import TASK_METRICS, TopicNames
from services.recording.through_spark import END_MARK, _own_topics, _Stream, _Watch
from services.road_topics import readable
from services.stack.ports import free_port
from tests.unit.services.recording_windows import Held


class _FullQueue:
    """A client like librdkafka's: its queue takes so many records, and has room again once they are delivered."""

    def __init__(self, room: int) -> None:
        self._room, self._waiting = room, list[Callable[..., None]]()
        self.sent: list[bytes] = []

    def produce(
        self, _topic: str, value: bytes, *_where: object, on_delivery: Callable[..., None] | None = None, **_: Any
    ) -> None:
        if len(self._waiting) == self._room:
            raise BufferError("Local: Queue full")
        self.sent.append(value)
        self._waiting.append(on_delivery or (lambda *_: None))

    def flush(self, _timeout_s: float) -> int:
        while self._waiting:
            self._waiting.pop()(None, _Delivered())
        return 0


class _Delivered:
    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 0


class _Waiting:
    def wait(self, _condition: Callable[[], bool]) -> None:
        """Somebody else's answers are no matter here."""


def test_marks_are_sent_although_the_clients_queue_is_full() -> None:
    """A recording is read faster than a broker takes it, so the queue is full when the last of its records was handed over."""
    stream = _Stream.__new__(_Stream)
    queue: Any = _FullQueue(room=2)
    stream._full, stream._producer, stream._supervisor = TopicNames("replay-"), queue, _Waiting()  # type: ignore[assignment]
    stream._watch, stream._failed, stream._unsettled = _Watch(10), None, {0: {"sim/a"}, 1: {"sim/b"}}
    for _ in range(2):
        queue.produce(TASK_METRICS, b"{}")
    stream._settle()
    assert queue.sent == [b"{}", b"{}", END_MARK, END_MARK]


def test_a_broker_that_is_away_is_said_at_once() -> None:
    """In seconds, and without a word about topics that stay: none was made."""
    own, said = RoadSettings(bootstrap=f"127.0.0.1:{free_port()}", topic_prefix="replay-x-"), list[str]()
    began_s = time.monotonic()
    with pytest.raises(ConnectionError, match="does not answer"), readable(own), _own_topics(own, Held([]), said.append):
        pass
    assert time.monotonic() - began_s < 30
    assert said == []
