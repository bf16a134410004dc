"""Keeps the view up to date with Kafka. The view itself holds the offsets it covers, so the projector keeps no state.

A view that vanished (flushed, or Redis restarted) or that belongs to another Kafka is rebuilt.
"""

import contextlib
import logging
import math
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import redis
from confluent_kafka import KafkaError, KafkaException

from surescale.contracts.errors import RecordRejected
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.kafka import StableOffsetLag
from surescale.runtime.kafka_clock import wall_ms
from surescale.runtime.kafka_errors import readable_errors
from surescale.runtime.metrics import RoleMetrics, Tally
from surescale.services.state import metrics
from surescale.services.state.write.operations import AddUp, Operation, condensed
from surescale.services.state.write.projections import Record, project
from surescale.services.state.write.topic_log import BATCH_RECORDS, TopicLog
from surescale.services.state.write.view_store import Positions, ViewStore

BEHIND_RECORDS_MAX = 2 * BATCH_RECORDS
"""A view that lacks more has fallen behind; a steady stream of records keeps a batch on its way and another being read."""
TAKE_BACK_EVERY_S = 300.0
KEPT_EVERY_S = 10.0
"""How often the view says that it is up to date."""
_STEP_WAIT_S = 0.1
_ELECTING = {KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_LEADER_EPOCH}


class ViewOfOthers(redis.RedisError):
    """The keys of the view hold that of other topics."""

    def __init__(self) -> None:
        super().__init__(
            "its keys hold the view of other topics: these were made again, or another pipeline writes there; give each its own "
            "database in SURESCALE_REDIS_URL, or its own SURESCALE_TOPIC_PREFIX"
        )


@dataclass(frozen=True, slots=True)
class _Write:
    """A batch being written to the view. ``done`` says whether the view took it, or another writer was first."""

    records: Counter[str]  # how many, by topic
    after: Positions
    began_s: float
    done: Future[bool]


class Projector:
    """One writer of the view. Others may write the same view: whichever comes second continues where the first one stopped.

    While Redis writes one batch, the projector fetches and projects the next, which is written only once the view has reached
    its start. So at most one batch is under way, and a batch that fails leaves no gap.
    """

    def __init__(
        self, settings: PipelineSettings, store: ViewStore, log: logging.Logger, measured: RoleMetrics | None = None
    ) -> None:
        """``measured`` takes the time of each step."""
        self._settings, self._store, self._log, self._measured = settings, store, log, measured
        self._topics: TopicLog | None = None
        self.stable_offset_lag = StableOffsetLag()
        self._at: Positions | None = None
        self._writing: _Write | None = None
        self._caught_up = False  # stored, because other threads ask in the middle of a step
        self._was_caught_up = False  # since it last connected
        self._is_outdated = False  # it has records of a topic that is gone
        self._taken_back_s: float | None = None  # when it was last of other topics
        self._kept_s = -math.inf  # when the view last said that it is up to date
        self._begun: Positions | None = None  # where a rebuild began that has not been counted
        self._writer = ThreadPoolExecutor(1, "view-writer")
        self.taken, self.unreadable = Tally(), Tally()
        self.rebuilds = 0

    @property
    def records(self) -> int:
        """Return how many records were written to the view."""
        return self.taken.total()

    @property
    def lag(self) -> int | None:
        """Return how many records the view is behind Kafka, as of the broker's last answers; None while that is unknown."""
        topics, at = self._topics, self._at
        return None if topics is None or at is None else topics.records_beyond(at)

    @property
    def caught_up(self) -> bool:
        """Say whether, at the end of the last step, the view contained everything that the broker had announced."""
        return self._caught_up

    @property
    def is_current(self) -> bool:
        """Say whether the view has contained everything since it was connected, and lacks only what has just arrived."""
        lag = self.lag
        return self._was_caught_up and lag is not None and lag <= BEHIND_RECORDS_MAX

    def step(self, wait_s: float) -> int:
        """Start writing the records that have arrived; return how many records the previous step wrote.

        Raises:
            KafkaException, redis.RedisError: one of the two is away; call again.
        """
        try:
            taken = self._step(wait_s)
            self._caught_up = self._at is not None and self._writing is None and self._topics is not None and self._topics.at_end
            self._was_caught_up = self._caught_up or (self._was_caught_up and self._at is not None)
            if self.is_current and time.monotonic() - self._kept_s >= KEPT_EVERY_S:
                self._store.keep(wall_ms())
                self._kept_s = time.monotonic()
            return taken
        except BaseException:
            self._caught_up = self._was_caught_up = False
            with contextlib.suppress(redis.RedisError):
                self._settle()
            self._at = None  # only the view knows whether the last write went through
            raise

    def catch_up(self, timeout_s: float) -> int:
        """Step until the view contains everything that was on Kafka at the call, and return how many records that took.

        Raises:
            TimeoutError: it took too long.
            KafkaException, redis.RedisError: one of the two is away.
        """
        deadline_s, records = time.monotonic() + timeout_s, self._settle()
        self._at = None  # reading starts over, for the ends seen so far may be older than what was just written
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
                raise TimeoutError(f"the view was not rebuilt within {timeout_s:.0f} s; run it again to continue")

    def close(self) -> None:
        """Let the current write end, and leave the broker."""
        self._writer.shutdown()
        self._leave()

    def _leave(self) -> None:
        if self._topics is not None:
            self._topics.close()
            self._topics = None
            self.stable_offset_lag.forget()

    def _step(self, wait_s: float) -> int:
        if self._topics is None:
            self._topics = TopicLog(self._settings, self.stable_offset_lag)
            self._store.topics = self._topics.ids
        if self._at is None:
            self._at = self._where_to_go_on(self._topics)
            return 0
        idle = self._writing is None
        if idle and self._topics.has_changed():
            self._log.info("there are new partitions, or topics that were made again: the view is rebuilt with all of them")
            self._leave()
            self._at, self._is_outdated = None, True
            return 0
        records = self._read(self._topics, wait_s if idle else 0.0)
        operations = self._operations(records)
        taken = self._settle()
        if self._at is not None and records:
            self._hand_over(records, operations, self._at)
        elif idle and (self._store.positions() != self._at or self._store.made_of() != self._topics.ids):
            self._at = None
        return taken

    def _hand_over(self, records: Sequence[Record], operations: Sequence[Operation], at: Positions) -> None:
        after = at | {(record.topic, record.partition): record.offset + 1 for record in records}
        done = self._writer.submit(self._store.write, operations, after, at)
        self._writing = _Write(Counter(record.topic for record in records), after, time.monotonic(), done)

    def _settle(self) -> int:
        """Wait for the current write, if there is one; return how many records it wrote to the view."""
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
        made_of = self._store.made_of()
        if stored is not None and made_of not in ({}, topics.ids) and not self._is_outdated:
            if topics.has_changed(at_once=True):
                self._leave()
                return None
            self._take_back()
        if stored is None or made_of != topics.ids or self._is_outdated or not topics.holds(stored):
            topics.renew()
            self._begun = topics.beginning()
            if not self._store.begin(self._begun, stored):
                self._begun = None
                return None
            stored = self._begun
        if self._begun is not None:  # also if the answer to that was lost
            self._kept_s = -math.inf  # an empty view says nothing
            if stored == self._begun:
                self.rebuilds += 1
                self._is_outdated = False
                self._log.info("the view is rebuilt from %d partitions", len(stored))
            self._begun = None
        topics.go_to(stored)
        return stored

    def _take_back(self) -> None:
        """Say that the view is of other topics before it is begun anew; seldom, for their pipeline may take it back as well.

        Raises:
            ViewOfOthers: it was, a moment ago.
        """
        if self._taken_back_s is not None and time.monotonic() - self._taken_back_s < TAKE_BACK_EVERY_S:
            raise ViewOfOthers
        self._taken_back_s = time.monotonic()
        self._log.warning("the view is begun anew: %s", ViewOfOthers())

    def _operations(self, records: Iterable[Record]) -> list[Operation]:
        """Return what the records change in the view; one that cannot be projected is counted and left out."""
        operations: list[Operation] = []
        for record in records:
            where = f"{record.topic}[{record.partition}]@{record.offset}"
            try:
                operations += project(record)
                continue
            except RecordRejected as error:
                self._log.warning("%s is left out of the view: %s", where, error)
            except Exception:  # a mistake of ours must not stop the view at this record for good
                self._log.exception("%s is left out of the view: it cannot be projected", where)
            operations.append(AddUp(f"unreadable.{record.topic}"))
            self.unreadable.add(record.topic)
        return condensed(operations)


TIMEOUT_S = 300.0


def rebuild(settings: PipelineSettings, client: redis.Redis) -> str:
    """Flush the view, build it again, and return what was done in words.

    A projector that runs at the same time helps: whichever is first writes.

    Raises:
        TimeoutError: it took longer than ``TIMEOUT_S``.
    """
    store = ViewStore(client, settings.topic_prefix)
    begun = Projector(settings, store, logging.getLogger("surescale.state"))
    with contextlib.closing(begun) as projector, readable_errors(settings):
        projector.catch_up(TIMEOUT_S)  # fails before anything is flushed if Kafka is away
        flushed = store.flush()
        projector.catch_up(TIMEOUT_S)
    return f"rebuilt from Kafka: {flushed} keys flushed, {len(list(store.own_keys()))} keys now"
