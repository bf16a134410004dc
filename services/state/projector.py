"""Keeps the view in step with Kafka. Where it stands is written in the view itself, so it remembers nothing.

A view that vanished (flushed, Redis restarted) or that belongs to another Kafka is begun anew.
"""

import logging
import time
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException

from contracts.errors import RecordRejected
from contracts.settings import RoadSettings
from runtime.metrics import RoleMetrics, Tally
from services.state import metrics
from services.state.operations import AddMember, AddUp, Operation
from services.state.project import Record, project
from services.state.topic_log import TopicLog
from services.state.view_store import Positions, ViewStore

_STEP_WAIT_S = 0.1
_ELECTING = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE}


class Projector:
    """One writer of the view. Others may write the same view: whoever comes second goes on from where the first one was."""

    def __init__(
        self, settings: RoadSettings, store: ViewStore, log: logging.Logger, measured: RoleMetrics | None = None
    ) -> None:
        """``measured`` takes the time of each step."""
        self._settings, self._store, self._log, self._measured = settings, store, log, measured
        self._topics: TopicLog | None = None
        self._at: Positions | None = None
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
        """Say whether the view shows everything that Kafka had at the last step."""
        return self._at is not None and self._topics is not None and self._topics.at_end

    def step(self, wait_s: float) -> int:
        """Take what has arrived into the view and return how many records that were.

        Raises:
            KafkaException, redis.RedisError: one of the two is away; call again.
        """
        try:
            return self._step(wait_s)
        except BaseException:
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
        """Leave the broker."""
        if self._topics is not None:
            self._topics.close()
            self._topics = None

    def _step(self, wait_s: float) -> int:
        if self._topics is None:
            self._topics = TopicLog(self._settings)
        if self._at is None:
            self._at = self._where_to_go_on(self._topics)
            return 0
        records = self._read(self._topics, wait_s)
        if not records:
            if self._store.positions() != self._at:
                self._at = None
            return 0
        began_s = time.monotonic()
        after = self._at | {(record.topic, record.partition): record.offset + 1 for record in records}
        if not self._store.write(self._operations(records), after, self._at):
            self._at = None
            return 0
        self._at = after
        for record in records:
            self.taken.add(record.topic)
        if self._measured is not None:
            self._measured.observe(metrics.STEP_DURATION, time.monotonic() - began_s)
        return len(records)

    def _read(self, topics: TopicLog, wait_s: float) -> list[Record]:
        try:
            return topics.read(wait_s)
        except KafkaException:
            self.close()
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
        added: set[Operation] = set()  # nearly every record names its job and cluster: once a batch is enough
        for record in records:
            try:
                for operation in project(record):
                    if isinstance(operation, AddMember):
                        if operation in added:
                            continue
                        added.add(operation)
                    operations.append(operation)
            except RecordRejected as error:
                operations.append(AddUp(f"unreadable.{record.topic}"))
                self.unreadable.add(record.topic)
                self._log.warning("%s[%d]@%d is not shown: %s", record.topic, record.partition, record.offset, error)
        return operations
