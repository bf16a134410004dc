"""Runs the streaming query: tasks read task metrics, merge them, produce windows, save states; the driver says what counts.

Only this file knows ``readStream`` and ``writeStream``. The tasks of a batch work side by side, each on one partition
(``merging``). When all have had their windows acknowledged and their states saved, the driver writes the manifest that names
these. That is all that a restart needs: each query begins at the offsets of the newest manifest, and Spark's own checkpoint is
only scratch. After a kill before that, windows may be produced twice, with equal identities and bytes.
"""

import contextlib
import logging
import os
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from confluent_kafka import KafkaException

from surescale.contracts.topics import CLOCK, DEAD_LETTERS, SNAPSHOTS, TASK_METRICS, TopicNames
from surescale.runtime.backoff import Stopped
from surescale.runtime.beats import allowed, beat, pause
from surescale.runtime.health import HealthServer
from surescale.runtime.kafka import wait_for_topics
from surescale.runtime.kafka_rotation import PASSWORD, SecretFiles, fixed_secrets
from surescale.runtime.kafka_security import jvm_options
from surescale.runtime.tracing.setup import wanted_exporter
from surescale.runtime.watchdog import Watchdog
from surescale.spark_streaming.beginning import TopicOfMetrics, starting_offsets
from surescale.spark_streaming.checkpoint_lock import held
from surescale.spark_streaming.manifest import Manifest, Manifests
from surescale.spark_streaming.merging import STAGES, SUMMARY_SCHEMA, Merged, Work, merge, summary_of
from surescale.spark_streaming.metrics import JobMeter
from surescale.spark_streaming.minutes import MinuteRules
from surescale.spark_streaming.pipeline_clock import PipelineClock
from surescale.spark_streaming.places import Place, StoreAway, place_of
from surescale.spark_streaming.restarts import Restarts
from surescale.spark_streaming.session import start_session, warm_up
from surescale.spark_streaming.settings import SparkSettings
from surescale.spark_streaming.stages import source_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

WATCH_EVERY_S = 0.2
LOOK_EVERY_S = 5.0
START_MAY_TAKE_S = 600.0
"""On a busy machine, or where executors wait for room on a cluster."""
SPARK_MAY_TAKE_S = 600.0
"""For a batch, and for what it does between batches. While Kafka is away a task waits two minutes, and a cluster tries it four
times; then the query fails and starts again."""
JOBS_MOVE_FOR_MS = 600_000
"""After partitions were added, producers may know only the former ones for five minutes (``metadata.max.age.ms``)."""
_FETCHES = {"max.poll.records": 20_000, "max.partition.fetch.bytes": 8 * 2**20, "fetch.max.wait.ms": 10}
"""After every poll Spark's connector asks the broker twice for the topic's ends and throws away what was fetched beyond the poll.
With Kafka's 500 records a poll that takes longer than reading them. And where a poll reached the log's end, Kafka's client has
begun the next fetch by then, which the broker holds until something comes; a broker answers one request of a connection after the
other, so each batch stood still for Kafka's default of 500 ms. Nobody fetches between batches, so a short wait costs nothing."""


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
    """Duration of the last batch, from the start of ``foreachBatch``."""
    stage_ms: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*STAGES, "manifest", "spark"), 0.0))
    """Wall time of all batches, by stage. While tasks work side by side, it is shared out by what each stage took of theirs."""

    def add(self, done: Sequence[Merged], batch_s: float, manifest_s: float) -> None:
        """Count a batch."""
        self.batches += 1
        self.batch_ms = round(batch_s * 1000)
        tasks_ms = min(_at_work_ms(done), (batch_s - manifest_s) * 1000)  # executors may have other clocks
        all_ms = sum(sum(each.stage_ms.values()) for each in done)
        self.stage_ms["manifest"] += manifest_s * 1000
        self.stage_ms["spark"] += (batch_s - manifest_s) * 1000 - tasks_ms
        for each in done:
            self.samples += each.samples
            self.windows += each.windows
            self.late += each.late
            self.dead_letters += sum(each.refused.values())
            for stage, spent_ms in each.stage_ms.items():
                self.stage_ms[stage] += tasks_ms * spent_ms / all_ms


def _at_work_ms(done: Sequence[Merged]) -> float:
    """Return for how long at least one task was at work."""
    at_work_ms, until_ms = 0.0, 0.0
    for began_ms, ended_ms in sorted(each.worked_ms for each in done):
        at_work_ms += max(0.0, ended_ms - max(began_ms, until_ms))
        until_ms = max(until_ms, ended_ms)
    return at_work_ms


class Assembler:
    """Has each batch of one query merged, from a manifest on; ``foreachBatch`` calls it in the driver."""

    def __init__(
        self,
        settings: SparkSettings,
        manifests: Manifests,
        manifest: Manifest,
        clock: PipelineClock,
        counts: Counts,
        meter: JobMeter,
        watchdog: Watchdog,
        stop: threading.Event,
        log: logging.Logger,
    ) -> None:
        self._settings = settings
        self._manifests, self._manifest = manifests, manifest
        self._clock: PipelineClock | None = clock if settings.pipeline_clock else None
        self._counts = counts
        self._meter = meter
        self._watchdog = watchdog
        self._stop = stop
        self._log = log
        self._query = uuid.uuid4().hex
        self._topic = TopicOfMetrics(settings)
        self._must_reach: dict[int, int] = {}  # before partitions are merged one by one again
        self.failure: Exception | None = None
        self.is_at_work = False  # and watched as a loop of its own

    def __call__(self, frame: "DataFrame", _: int) -> None:
        """Assemble a batch, and keep any error: Spark passes on only its text. An error ends the query, and this with it.

        Of a batch that the process's own end interrupts nothing is said: no manifest names it, and Spark would print its stacks.
        """
        try:
            with self._watchdog.loop("the batch"):
                self.is_at_work = True
                self._assemble(frame)
        except Exception as error:
            self.failure = error
            if not self._stop.is_set():
                raise
        finally:
            self.is_at_work = False

    def _assemble(self, frame: "DataFrame") -> None:
        began_s, began_ns = time.monotonic(), time.time_ns()
        if self._clock is not None and not frame.isEmpty():
            self._clock.at(np.zeros(1, dtype=np.int64))  # waits for its first segment; from then on tasks read it themselves
            self._clock = None
        manifest = self._planned()
        together = tuple(range(max(manifest.partitions, manifest.partitions_before))) if manifest.together_until_ms else None
        work = Work(self._settings, self._query, manifest, together, began_ns)
        with allowed(SPARK_MAY_TAKE_S):
            records = frame.coalesce(1) if together else frame
            table = records.mapInArrow(partial(merge, work=work), SUMMARY_SCHEMA).toArrow()
        done = [summary_of(row) for row in table.column("summary").to_pylist()]
        saved_s = time.monotonic()
        if done:  # a query's first batch may be empty
            with allowed(SPARK_MAY_TAKE_S):
                self._manifests.save(manifest := _after(manifest, done))
        self._manifest = manifest
        now_s = time.monotonic()
        self._counts.add(done, now_s - began_s, now_s - saved_s)
        self._meter.on_batch(done, now_s - began_s)

    def _planned(self) -> Manifest:
        """Return the manifest to go on from, with the partitions that the topic has now.

        While jobs may still move between partitions, one task merges all: a job's records may lie in two of them. No record of
        this batch was produced by anybody who knew of more partitions than there are now.
        """
        manifest, now_ms = self._manifest, time.time_ns() // 1_000_000
        count, known = len(self._topic.partitions()), manifest.partitions
        if count != known:
            self._must_reach = {}
            until_ms = now_ms + JOBS_MOVE_FOR_MS if known else 0
            if known:
                self._log.warning("task-metrics has %d partitions now, %d before: jobs move for ten minutes", count, known)
            return msgspec.structs.replace(manifest, partitions=count, partitions_before=known, together_until_ms=until_ms)
        if not manifest.together_until_ms or now_ms < manifest.together_until_ms:
            return manifest
        self._must_reach = self._must_reach or {each: end for each, (_, end) in self._topic.bounds().items()}
        if any(manifest.offsets.get(each, 0) < end for each, end in self._must_reach.items()):
            return manifest
        return msgspec.structs.replace(manifest, together_until_ms=0)


def _after(manifest: Manifest, done: Sequence[Merged]) -> Manifest:
    """Return the manifest after a batch."""
    offsets, states = dict(manifest.offsets), dict(manifest.states)
    for each in done:
        offsets |= each.offsets
        states |= dict.fromkeys(each.partitions, each.state)
    return msgspec.structs.replace(manifest, batch=manifest.batch + 1, offsets=offsets, states=states)


def read_task_metrics(session: "SparkSession", settings: SparkSettings, begin: str, *, with_headers: bool = False) -> "DataFrame":
    """Return the stream of raw records from the offsets ``begin`` on; reading their headers too costs something for each."""
    return (
        session.readStream.format("kafka")
        .options(**{f"kafka.{name}": value for name, value in jvm_options(settings).items()})
        .option("kafka.bootstrap.servers", settings.bootstrap)
        .options(**{f"kafka.{name}": str(value) for name, value in _FETCHES.items()})
        .option("kafka.isolation.level", "read_committed")  # of a monitor that was replaced, only what it finished counts
        .option("subscribe", TopicNames(settings.topic_prefix)(TASK_METRICS))
        .option("startingOffsets", begin)
        .option("maxOffsetsPerTrigger", settings.spark_batch_records_max)
        .option("failOnDataLoss", str(settings.spark_fail_on_data_loss).lower())
        .option("includeHeaders", str(with_headers).lower())
        .load()
    )


def start_query(
    session: "SparkSession",
    settings: SparkSettings,
    assembler: Assembler,
    scratch: Path,
    begin: str,
    *,
    with_headers: bool = False,
) -> "StreamingQuery":
    """Start a query at the offsets ``begin``; what Spark writes down for itself goes to a new folder in ``scratch``."""
    folder = scratch / "query"
    shutil.rmtree(folder, ignore_errors=True)
    return (
        source_columns(read_task_metrics(session, settings, begin, with_headers=with_headers), with_headers=with_headers)
        .writeStream.queryName("windows")
        .foreachBatch(assembler)
        .option("checkpointLocation", f"file://{folder}")  # a cluster's own settings may take paths for HDFS's
        .trigger(processingTime=f"{settings.spark_trigger_ms} milliseconds")
        .start()
    )


class Job:
    """The role: waits for Kafka, runs the query, and starts it again after Kafka or the store went away and came back.

    Args:
        settings: of the pipeline and of this job.
        stop: set to end the role.
        log: where the role reports.
        open_clock: waits for the topics, then opens the pipeline's clock.
    """

    def __init__(
        self,
        settings: SparkSettings,
        *,
        stop: threading.Event,
        log: logging.Logger,
        open_clock: Callable[..., PipelineClock] | None = None,
    ) -> None:
        self._settings = settings
        self._stop = stop
        self._log = log
        self._open_clock = open_clock or open_clock_when_ready
        self._counts = Counts()
        self._restarts = Restarts(settings.spark_checkpoint, partial(pause, stop), log)
        self._watchdog = Watchdog("spark", settings.hung_after_s, log)
        self._query: StreamingQuery | None = None
        self._has_triggered = False
        self._seen_batches, self._looked_s = 0, 0.0
        self._meter = JobMeter(self._counts, lambda: self._query)
        self._is_traced = wanted_exporter(os.environ) is not None

    def run(self) -> None:
        """Run until told to stop.

        Raises:
            SurescaleError: the settings or the saved state can't be used, or Kafka keeps refusing the query's work.
        """
        checkpoint = place_of(self._settings.spark_checkpoint)
        if checkpoint.local is not None:  # tasks run in folders of their own
            self._settings = replace(self._settings, spark_checkpoint=str(checkpoint.local))
        with held(checkpoint, self._log) as check:
            self._work(checkpoint, check)
        self._log.info("stopped: %s", asdict(self._counts))

    def _work(self, checkpoint: Place, check: Callable[[], None]) -> None:
        rules = MinuteRules(
            self._settings.window_minutes,
            self._settings.allowed_lateness_ms,
            self._settings.ahead_of_clock_ms_max,
            self._settings.forget_job_after_ms,
        )
        manifests = Manifests(checkpoint, rules, check)
        manifests.load()  # what cannot be used ends the process before Spark starts
        health = HealthServer(self._settings, self.report, self._watchdog, self._meter.metrics)
        with self._watchdog, health, self._watchdog.loop("the main loop"), _scratch(checkpoint) as scratch:
            with allowed(START_MAY_TAKE_S):
                session = start_session(self._settings, scratch)
            try:
                self._log.info("Spark %s at %s", session.version, self._settings.spark_master)
                with allowed(START_MAY_TAKE_S):
                    warm_up(session)
                self.run_queries(session, manifests, scratch)
            except Stopped:
                pass
            finally:
                session.stop()

    def report(self) -> Mapping[str, Any]:
        """Return the health: ready once the query has finished its first trigger. After it a JVM that hangs delays no answer."""
        query = self._query
        if query is not None and not self._has_triggered:
            self._has_triggered = _has_triggered(query)
        return {"role": "spark", "ready": query is not None and self._has_triggered, **asdict(self._counts)}

    def run_queries(self, session: "SparkSession", manifests: Manifests, scratch: Path) -> None:
        """Run one query after another until told to stop; a new one starts only after Kafka or the store went away.

        Raises:
            SurescaleError: Kafka keeps refusing the query's work, or the store does.
            Exception: whatever else ended a query.
        """
        while not self._stop.is_set():
            try:
                with allowed(START_MAY_TAKE_S):  # a store that hangs is tried for a minute or two at each request
                    manifest = manifests.load()
                clock = self._open_clock(self._settings, stop=self._stop, log=self._log)
                with contextlib.closing(clock):
                    begin = starting_offsets(self._settings, manifest.offsets)
                    meters = (self._counts, self._meter, self._watchdog, self._stop, self._log)
                    self._run_query(session, Assembler(self._settings, manifests, manifest, clock, *meters), scratch, begin)
            except (KafkaException, StoreAway) as away:  # it answered a moment ago
                self._restart(away, made_progress=False)

    def _run_query(self, session: "SparkSession", assembler: Assembler, scratch: Path, begin: str) -> None:
        batches_before = self._counts.batches
        secrets = SecretFiles(self._settings, (*PASSWORD, *fixed_secrets(self._settings)))
        query = start_query(session, self._settings, assembler, scratch, begin, with_headers=self._is_traced)
        self._query = query
        self._log.info("query started, checkpoint %s", self._settings.spark_checkpoint)
        try:
            with self._watchdog.apart("Spark", more_s=SPARK_MAY_TAKE_S) as spark:
                while query.isActive and not self._stop.wait(WATCH_EVERY_S) and not self._has_new_secrets(query, secrets):
                    beat()
                    if assembler.is_at_work or self._turns(query):
                        spark.beat()
            if query.isActive:
                if self._stop.is_set():
                    session.sparkContext.setLogLevel("OFF")  # of the tasks that it ends on the way, Spark prints stacks
                query.stop()
            elif not self._stop.is_set():
                error = assembler.failure or query.exception() or RuntimeError("the query ended by itself")
                self._restart(error, made_progress=self._counts.batches > batches_before or _has_triggered(query))
        finally:
            self._query, self._has_triggered = None, False

    def _turns(self, query: "StreamingQuery") -> bool:
        """Say whether Spark has gone on to another batch since the last call, or waits for records."""
        before, self._seen_batches = self._seen_batches, self._counts.batches
        if self._seen_batches != before:
            return True
        if time.monotonic() - self._looked_s < LOOK_EVERY_S:
            return False
        self._looked_s = time.monotonic()
        return not query.status["isTriggerActive"]

    def _has_new_secrets(self, query: "StreamingQuery", secrets: SecretFiles) -> bool:
        """Return whether to start another query, whose clients read the secrets of Kafka again; never within a batch."""
        changed = ", ".join(secrets.changed())
        if not changed or query.status["isTriggerActive"]:
            return False
        self._log.info("%s changed: a new query reads it", changed)
        return True

    def _restart(self, error: Exception, *, made_progress: bool) -> None:
        self._restarts.after(error, made_progress=made_progress)
        self._counts.restarts = self._restarts.count


def open_clock_when_ready(settings: SparkSettings, *, stop: threading.Event, log: logging.Logger) -> PipelineClock:
    """Wait for the topics the query needs, then open the pipeline's clock.

    Raises:
        KafkaException: Kafka went away again after it had answered.
        runtime.backoff.Stopped: the process was told to stop.
    """
    topics = [TASK_METRICS, SNAPSHOTS, DEAD_LETTERS, *([CLOCK] if settings.pipeline_clock else [])]
    wait_for_topics(settings, topics, stop=stop, log=log)
    return PipelineClock(settings, stop=stop, log=log)


@contextlib.contextmanager
def _scratch(checkpoint: Place) -> Iterator[Path]:
    """Yield a folder for Spark's temporary files, inside a local checkpoint's; the next start removes what a kill left there."""
    if checkpoint.local is None:
        with tempfile.TemporaryDirectory(prefix="surescale-spark-", ignore_cleanup_errors=True) as name:
            yield Path(name)
        return
    folder = checkpoint.local / "scratch"
    shutil.rmtree(folder, ignore_errors=True)
    (checkpoint / "scratch").make()  # it may be a link to a faster disk, which stays
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _has_triggered(query: "StreamingQuery") -> bool:
    return query.lastProgress is not None or query.status["message"].startswith("Waiting for")
