"""The streaming query and its loop: read task metrics, parse on executors, merge, produce, save, let Spark commit.

The one place that knows ``readStream``, ``writeStream`` and checkpoints. One batch, in this order: collect, feed, produce, await
the acknowledgements, save the state, return; then Spark commits. A kill anywhere in between makes Spark replay the same offsets
under the same number on the state before: windows may be produced twice, with equal identities and equal bytes.
"""

import contextlib
import logging
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException

from contracts.errors import RecordRejected, SurescaleError
from contracts.topics import CLOCK, DEAD_LETTERS, SNAPSHOTS, TASK_METRICS, TopicNames
from runtime.backoff import Stopped
from runtime.health import HealthServer
from runtime.kafka import wait_for_topics
from spark_streaming.checkpoint_lock import held
from spark_streaming.collected import split
from spark_streaming.metrics import JobMeter
from spark_streaming.minutes import MinuteRules, Minutes, Refused
from spark_streaming.publisher import Publisher
from spark_streaming.road_clock import RoadClock
from spark_streaming.session import start_session, warm_up
from spark_streaming.settings import SparkSettings, checkpoint_folder, make_folder
from spark_streaming.stages import parsed
from spark_streaming.state_store import StateStore

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WATCH_EVERY_S = 0.2
RESTARTS_IN_VAIN_MAX = 10  # with their pauses more than a minute: a broker that elects leaders needs less
LONGEST_PAUSE_S = 30.0
STAGES = ("collect", "merge", "publish", "save")
_BROKER_AWAY = ("org.apache.kafka.common.errors", "java.util.concurrent.TimeoutException")


class BrokerRefuses(SurescaleError):
    """Kafka answers, and refuses the query's work again and again."""


@dataclass(slots=True)
class Counts:
    """What the process has done since it started; shown by the health endpoint."""

    batches: int = 0
    samples: int = 0
    windows: int = 0
    late: int = 0
    dead_letters: int = 0
    restarts: int = 0
    batch_ms: int = 0
    """Of the last batch, from the start of ``foreachBatch``."""
    stage_ms: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    """All batches together, by stage; Spark's own planning and commit come on top."""


class Assembler:
    """Takes one batch after the other; ``foreachBatch`` calls it in the driver."""

    def __init__(self, store: StateStore, publisher: Publisher, clock: RoadClock, counts: Counts, meter: JobMeter) -> None:
        self._store = store
        self._publisher = publisher
        self._clock = clock
        self._counts = counts
        self._meter = meter
        self._held: tuple[int, Minutes] | None = None
        self.failure: Exception | None = None

    def __call__(self, frame: "DataFrame", batch: int) -> None:
        """Assemble a batch, and keep what went wrong: Spark passes on only its text."""
        try:
            self._assemble(frame, batch)
        except Exception as error:
            self.failure = error
            raise

    def _assemble(self, frame: "DataFrame", batch: int) -> None:
        began_s = time.monotonic()
        minutes = self._take(batch - 1)
        with self._timed("collect"):
            table = frame.toArrow()
            records, unparsed = split(table)
        with self._timed("merge"):
            fed = minutes.feed(records, self._clock.at(records.append_ms))
        with self._timed("publish"):
            too_large = self._publisher.windows(fed.windows)
            self._publisher.dead_letters((*unparsed, *fed.refused))
            self._publisher.flush_or_raise()
        with self._timed("save"):
            self._store.save(batch, minutes)
        self._held = batch, minutes
        self._counts.batches += 1
        self._counts.samples += fed.samples
        refused: tuple[Refused | RecordRejected, ...] = (*unparsed, *fed.refused, *too_large)
        self._counts.windows += len(fed.windows) - len(too_large)
        self._counts.late += fed.late
        self._counts.dead_letters += len(refused)
        took_s = time.monotonic() - began_s
        self._counts.batch_ms = round(took_s * 1000)
        self._meter.on_batch(sum(table.column("records").to_pylist()), fed.windows, refused, took_s)

    @contextlib.contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began_s = time.monotonic()
        yield
        self._counts.stage_ms[stage] += (time.monotonic() - began_s) * 1000

    def _take(self, batch: int) -> Minutes:
        """Give the state after a batch away: from memory if it is the one held, else as it was saved.

        What is fed changes it, so that after a failure it must not be used again.
        """
        held, self._held = self._held, None
        if held is not None and held[0] == batch:
            return held[1]
        return self._store.load(batch)


def read_task_metrics(session: "SparkSession", settings: SparkSettings) -> "DataFrame":
    """Return the stream of raw records."""
    return (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .option("subscribe", TopicNames(settings.topic_prefix)(TASK_METRICS))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", settings.spark_batch_records_max)
        .option("failOnDataLoss", str(settings.spark_fail_on_data_loss).lower())
        .load()
    )


def start_query(session: "SparkSession", settings: SparkSettings, assembler: Assembler) -> "StreamingQuery":
    """Start the query; it goes on where its checkpoint ends."""
    return (
        parsed(read_task_metrics(session, settings))
        .writeStream.queryName("windows")
        .foreachBatch(assembler)
        .option("checkpointLocation", str(checkpoint_folder(settings)))
        .trigger(processingTime=f"{settings.spark_trigger_ms} milliseconds")
        .start()
    )


class Job:
    """The role: waits for Kafka, runs the query, starts it again when the broker went away and returned."""

    def __init__(self, settings: SparkSettings, *, stop: threading.Event, log: logging.Logger) -> None:
        self._settings = settings
        self._stop = stop
        self._log = log
        self._counts = Counts()
        self._query: StreamingQuery | None = None
        self._has_triggered = False
        self._in_vain = 0  # restarts since something got done
        self._batches_before = 0  # of the query that runs
        self._meter = JobMeter(self._counts, lambda: self._query)

    def run(self) -> None:
        """Run until told to stop.

        Raises:
            SurescaleError: settings or saved state cannot be used, or Kafka refuses the query's work for good.
        """
        with held(checkpoint_folder(self._settings), self._log):
            self._work()
        self._log.info("stopped: %s", asdict(self._counts))

    def _work(self) -> None:
        rules = MinuteRules(
            self._settings.window_minutes,
            self._settings.allowed_lateness_ms,
            self._settings.ahead_of_clock_ms_max,
            self._settings.forget_job_after_ms,
        )
        store = StateStore(checkpoint_folder(self._settings), rules)
        store.check()
        health = HealthServer(self._settings, self.report, self._meter.metrics)
        with health, _scratch(self._settings) as scratch:
            session = start_session(self._settings, scratch)
            try:
                self._log.info("Spark %s at %s", session.version, self._settings.spark_master)
                warm_up(session)
                while not self._stop.is_set():
                    self._run_query(session, store)
            except Stopped:
                pass
            finally:
                session.stop()

    def report(self) -> Mapping[str, Any]:
        """Return the health: ready once the query has finished its first trigger."""
        query = self._query
        if query is not None and not self._has_triggered:
            self._has_triggered = _has_triggered(query)
        return {"role": "spark", "ready": query is not None and self._has_triggered, **asdict(self._counts)}

    def _run_query(self, session: "SparkSession", store: StateStore) -> None:
        topics = [TASK_METRICS, SNAPSHOTS, DEAD_LETTERS, *([CLOCK] if self._settings.road_clock else [])]
        wait_for_topics(self._settings, topics, stop=self._stop, log=self._log)
        try:
            clock = RoadClock(self._settings, stop=self._stop, log=self._log)
        except KafkaException as away:  # it answered a moment ago
            self._begin_again(away)
            return
        assembler = Assembler(store, Publisher(self._settings, stop=self._stop), clock, self._counts, self._meter)
        self._batches_before = self._counts.batches
        query = start_query(session, self._settings, assembler)
        self._query = query
        self._log.info("query started, checkpoint %s", checkpoint_folder(self._settings))
        try:
            while query.isActive and not self._stop.wait(WATCH_EVERY_S):
                pass
            if query.isActive:
                query.stop()
            elif not self._stop.is_set():
                self._raise_unless_away(query, assembler.failure)
        finally:
            self._query, self._has_triggered = None, False
            clock.close()

    def _raise_unless_away(self, query: "StreamingQuery", failure: Exception | None) -> None:
        """A broker that went away is waited for; every other end of the query ends the process."""
        why = failure or query.exception() or RuntimeError("the query ended by itself")
        # An executor that cannot fetch a batch fails it inside ours, and the reason stands in Spark's text.
        if not (isinstance(why, KafkaException | TimeoutError) or _says_away(str(why))):
            raise why
        if self._counts.batches > self._batches_before or _has_triggered(query):
            self._in_vain = 0
        self._begin_again(why)

    def _begin_again(self, why: Exception) -> None:
        """Pause, longer each time that nothing got done in between; after too many times it is no passing trouble."""
        said = next(iter(str(why).splitlines()), type(why).__name__)
        if self._in_vain >= RESTARTS_IN_VAIN_MAX:
            raise BrokerRefuses(f"the query was started again {self._in_vain} times and got nothing done: {said}") from why
        self._counts.restarts += 1
        self._log.warning("the query lost the broker and starts again: %s", said)
        self._stop.wait(min(WATCH_EVERY_S * 2**self._in_vain, LONGEST_PAUSE_S))
        self._in_vain += 1


@contextlib.contextmanager
def _scratch(settings: SparkSettings) -> Iterator[Path]:
    """A folder for Spark's temporary files in the checkpoint's; what a kill left of it goes with the next start."""
    folder = checkpoint_folder(settings) / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    make_folder(folder)  # it may be a link to a faster disk, which stays
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _says_away(text: str) -> bool:
    return any(word in text for word in _BROKER_AWAY)


def _has_triggered(query: "StreamingQuery") -> bool:
    return query.lastProgress is not None or query.status["message"].startswith("Waiting for")
