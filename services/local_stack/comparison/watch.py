"""Watches one job from outside, as its users would: what waits, what comes out and when, how large it is.

Nothing here asks surescale. Backlog is the broker's end offset of the input less the records that have come out. An output record
carries the time of its input record, so lateness needs no clock but one.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any, ClassVar, Final

import msgspec
from confluent_kafka import Consumer, Message, TopicPartition

from surescale.services.local_stack.comparison.load import TOPIC
from surescale.services.local_stack.comparison.phases import Observation

_RECORDS_MAX: Final = 5_000
_READ_TIMEOUT_S: Final = 10.0


class WatchedFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How one job did.

    Attributes:
        backlog_record_seconds: the records that waited or were worked on, summed over the seconds.
        backlog_records_max: the most at any second.
        late: records that came out later after they came in than the watch allows.
        stillness_s: longest time between two looks in which no new record came out while some waited.
        sizes: subtasks or members of the tasks, whenever they changed.
        records_in, records_out: sent, and in the last topic.
        waiting: records that had come in and were not through when the job was stopped.
        missing: records that came in, did not come out, and do not wait.
        doubled: records that came out more than once.
    """

    backlog_record_seconds: int
    backlog_records_max: int
    late: int
    stillness_s: float
    sizes: list[str]
    records_in: int
    records_out: int
    waiting: int
    missing: int
    doubled: int


class JobWatch(ABC):
    """One job, looked at about once a second (``look``). Use it from one thread; ``close`` it.

    Attributes:
        backlog: records that wait or are worked on.
        sizes: running subtasks or members by task.
        size_minutes: all of them, summed over the time.
    """

    late_s: ClassVar[float]

    def __init__(self, bootstrap: str, topic_out: str) -> None:
        self.backlog = 0
        self.sizes: Mapping[str, int] = {}
        self._bootstrap, self._topic_out = bootstrap, topic_out
        self._came_out: set[int] = set()
        self._late = self._backlog_max = 0
        self._backlog_s = self._size_s = self._stillness_s = self._last_out_s = self._last_look_s = 0.0
        self._steps: list[str] = []
        self._looks: list[Observation] = []  # at the machine's monotonic time
        # What is not committed yet has come out too: when a checkpoint commits it is a setting of the job, not its speed.
        self._out = _reader(bootstrap, topic_out, "read_uncommitted")
        self._ends = Consumer(_settings(bootstrap, "read_uncommitted"))
        self._partitions_in = _partitions(self._ends, TOPIC)

    def close(self) -> None:
        """Disconnect."""
        self._out.close()
        self._ends.close()

    def look(self) -> None:
        """Take what has happened since the last look into the figures."""
        fresh = self._take_output()
        now_s = time.monotonic()
        self.backlog = self._records_in() - len(self._came_out)
        self._take_sizes()
        if self._last_look_s:
            passed_s = now_s - self._last_look_s
            self._backlog_s += self.backlog * passed_s
            self._size_s += sum(self.sizes.values()) * passed_s
        self._last_look_s = now_s
        self._looks.append(Observation(now_s, self.backlog, sum(self.sizes.values()), max(0, len(self._steps) - 1)))
        self._backlog_max = max(self._backlog_max, self.backlog)
        if fresh or self.backlog == 0 or not self._last_out_s:
            self._last_out_s = now_s
        self._stillness_s = max(self._stillness_s, now_s - self._last_out_s)

    def looks_since(self, began_s: float) -> list[Observation]:
        """Return the looks taken since a monotonic time, by the seconds that had passed since then."""
        return [replace(look, at_s=look.at_s - began_s) for look in self._looks if look.at_s >= began_s]

    @property
    def size_minutes(self) -> float:
        """Subtasks or members of all tasks, summed over the time."""
        return round(self._size_s / 60, 1)

    @abstractmethod
    def figures(self) -> WatchedFigures:
        """Read the whole output of a job that has been stopped, and return the figures."""

    @abstractmethod
    def _sizes_now(self) -> Mapping[str, int]:
        """Return the running subtasks or members by task; nothing while it is not known: the last ones stand."""

    def _figures(self, times: Counter[int], waiting: int) -> dict[str, Any]:
        """Return what `WatchedFigures` holds, given how often each number came out."""
        records_in = self._records_in()
        return {
            "backlog_record_seconds": round(self._backlog_s),
            "backlog_records_max": self._backlog_max,
            "late": self._late,
            "stillness_s": round(self._stillness_s, 1),
            "sizes": self._steps,
            "records_in": records_in,
            "records_out": times.total(),
            "waiting": waiting,
            "missing": records_in - waiting - len(times),
            "doubled": times.total() - len(times),
        }

    def _records_in(self) -> int:
        return sum(self._ends.get_watermark_offsets(each, timeout=_READ_TIMEOUT_S)[1] for each in self._partitions_in)

    def _take_output(self) -> bool:
        before, now_ms = len(self._came_out), time.time() * 1000
        while records := self._out.consume(_RECORDS_MAX, 0.0):
            for record in records:
                if record.error():
                    continue
                number = number_of(record)
                if number not in self._came_out:
                    self._came_out.add(number)
                    self._late += now_ms - record.timestamp()[1] > self.late_s * 1000
        return len(self._came_out) > before

    def _take_sizes(self) -> None:
        found = self._sizes_now()
        if found and found != self.sizes:
            self.sizes = found
            self._steps.append("-".join(map(str, found.values())))


def number_of(record: Message) -> int:
    """Return a record's number: all values begin ``KEY,NUMBER``."""
    return int((record.value() or b"").split(b",")[1])


def read_to_end(bootstrap: str, topic: str) -> Iterator[Message]:
    """Yield all committed records of a topic, those of a partition in order."""
    with closing(_reader(bootstrap, topic, "read_committed")) as reader:
        left = {each.partition for each in reader.assignment()}
        while left:
            record = reader.poll(_READ_TIMEOUT_S)
            if record is None:
                raise ConnectionError(f"Kafka did not deliver topic {topic} to its end")
            if record.error():
                left.discard(record.partition())
            else:
                yield record


def _reader(bootstrap: str, topic: str, isolation: str) -> Consumer:
    """Return a consumer at the beginning of a topic that says when it is at the end of a partition."""
    reader = Consumer(_settings(bootstrap, isolation) | {"enable.partition.eof": isolation == "read_committed"})
    reader.assign(_partitions(reader, topic))
    return reader


def _partitions(reader: Consumer, topic: str) -> list[TopicPartition]:
    known = reader.list_topics(topic, timeout=_READ_TIMEOUT_S).topics[topic].partitions
    return [TopicPartition(topic, each, 0) for each in known]


def _settings(bootstrap: str, isolation: str) -> dict[str, Any]:
    own = {"group.id": "watch", "enable.auto.commit": False, "isolation.level": isolation}
    return {"bootstrap.servers": bootstrap, "log_level": 0, "fetch.wait.max.ms": 100, **own}
