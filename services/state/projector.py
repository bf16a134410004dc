"""Keeps the view in step with Kafka. Where it stands is written in the view itself, so it remembers nothing.

A view that vanished (flushed, Redis restarted) or that belongs to another Kafka is begun anew.
"""

import contextlib
import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import redis
from confluent_kafka import KafkaError, KafkaException

from contracts.errors import RecordRejected
from contracts.settings import RoadSettings
from runtime.metrics import RoleMetrics, Tally
from services.state import metrics
from services.state.operations import AddUp, Operation, condensed
from services.state.project import Record, project
from services.state.topic_log import TopicLog
from services.state.view_store import Positions, ViewStore

_STEP_WAIT_S = 0.1
_ELECTING = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_LEADER_EPOCH}


@dataclass(frozen=True, slots=True)
class _Write:
    """A batch on its way into the view. ``done`` says whether the view took it, or was moved by another writer meanwhile."""

    records: Counter[str]  # how many, by topic
    after: Positions
    began_s: float
    done: Future[bool]


class Projector:
    """One writer of the view. Others may write the same view: whoever comes second goes on from where the first one was.

    While Redis takes one batch in, the next one is fetched and taken apart. It is handed over only when the view stands where it
    begins, so at most one batch is under way, and one that failed takes nothing behind it along.
    """

    def __init__(
        self, settings: RoadSettings, store: ViewStore, log: logging.Logger, measured: RoleMetrics | None = None
    ) -> None:
        """``measured`` takes the time of each step."""
        self._settings, self._store, self._log, self._measured = settings, store, log, measured
        self._topics: TopicLog | None = None
        self._at: Positions | None = None
        self._writing: _Write | None = None
        self._caught_up = False  # kept, because others ask in the middle of a step
        self._writer = ThreadPoolExecutor(1, "view-writer")
        self.taken, self.unreadable = Tally(), Tally()
        self.rebuilds = 0

    @property
    def records(self) -> int:
        """Return how many records were taken into the view."""
        return self.taken.total()

    @property
    def lag(self) -> int | None:
        """Return how many records Kafka has beyond the view, as far as the broker has told; None while that is not known."""
        topics, at = self._topics, self._at
        return None if topics is None or at is None else topics.records_beyond(at)

    @property
    def caught_up(self) -> bool:
        """Say whether the view showed everything that Kafka had at the end of the last step."""
        return self._caught_up

    def step(self, wait_s: float) -> int:
        """Begin to take what has arrived into the view; return how many records of the step before it has taken.

        Raises:
            KafkaException, redis.RedisError: one of the two is away; call again.
        """
        try:
            taken = self._step(wait_s)
            self._caught_up = self._at is not None and self._writing is None and self._topics is not None and self._topics.at_end
            return taken
        except BaseException:
            self._caught_up = False
            with contextlib.suppress(redis.RedisError):
                self._settle()
            self._at = None  # whether the last write went through is known to the view alone
            raise

    def catch_up(self, timeout_s: float) -> int:
        """Step until the view shows everything that Kafka has, and return how many records that were.

        Raises:
            TimeoutError: it did not get there in time.
            KafkaException, redis.RedisError: one of the two is away.
        """
        deadline_s, records = time.monotonic() + timeout_s, 0
        while True:
            try:
                records += self.step(_STEP_WAIT_S)
            except KafkaException as error:
                # A partition that was just created has no leader for a moment.
                if error.args[0].code() not in _ELECTING:
                    raise
                time.sleep(_STEP_WAIT_S)
            if self.caught_up:
                return records
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the view was not rebuilt within {timeout_s:.0f} s; call it again to go on")

    def close(self) -> None:
        """Let the write under way end, and leave the broker."""
        self._writer.shutdown()
        self._leave()

    def _leave(self) -> None:
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    def _step(self, wait_s: float) -> int:
        if self._topics is None:
            self._topics = TopicLog(self._settings)
        if self._at is None:
            self._at = self._where_to_go_on(self._topics)
            return 0
        idle = self._writing is None
        if idle and self._topics.has_grown():
            self._log.info("there are new partitions: reading begins again with all of them")
            self._leave()
            self._at = None
            return 0
        records = self._read(self._topics, wait_s if idle else 0.0)
        operations = self._operations(records)
        taken = self._settle()
        if self._at is not None and records:
            self._hand_over(records, operations, self._at)
        elif idle and self._store.positions() != self._at:
            self._at = None
        return taken

    def _hand_over(self, records: Sequence[Record], operations: Sequence[Operation], at: Positions) -> None:
        after = at | {(record.topic, record.partition): record.offset + 1 for record in records}
        done = self._writer.submit(self._store.write, operations, after, at)
        self._writing = _Write(Counter(record.topic for record in records), after, time.monotonic(), done)

    def _settle(self) -> int:
        """Wait for the write under way, if there is one; return how many records it took into the view."""
        writing, self._writing = self._writing, None
        if writing is None:
            return 0
        if not writing.done.result():
            self._at = None
            return 0
        self._at = writing.after
        for topic, count in writing.records.items():
            self.taken.add(topic, by=count)
        if self._measured is not None:
            self._measured.observe(metrics.STEP_DURATION, time.monotonic() - writing.began_s)
        return writing.records.total()

    def _read(self, topics: TopicLog, wait_s: float) -> list[Record]:
        try:
            return topics.read(wait_s)
        except KafkaException:
            self._leave()
            raise

    def _where_to_go_on(self, topics: TopicLog) -> Positions | None:
        stored = self._store.positions()
        if stored is None or not topics.holds(stored):
            beginning = topics.beginning()
            if not self._store.begin(beginning, stored):
                return None
            self.rebuilds += 1
            self._log.info("the view is built anew from %d partitions", len(beginning))
            stored = beginning
        topics.go_to(stored)
        return stored

    def _operations(self, records: Iterable[Record]) -> list[Operation]:
        operations: list[Operation] = []
        for record in records:
            try:
                operations += project(record)
            except RecordRejected as error:
                operations.append(AddUp(f"unreadable.{record.topic}"))
                self.unreadable.add(record.topic)
                self._log.warning("%s[%d]@%d is not shown: %s", record.topic, record.partition, record.offset, error)
        return condensed(operations)
