"""The Spark job's metrics: names, meanings, and how to read them from the driver's counts."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from surescale.contracts.topics import DEAD_LETTERS as DEAD_LETTERS_TOPIC
from surescale.contracts.topics import SNAPSHOTS, TASK_METRICS
from surescale.runtime.metrics import SECONDS, Metric, Reading, RoleMetrics, Tally
from surescale.spark_streaming.merging import Merged

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

    from surescale.spark_streaming.streaming_job import Counts

RECORDS_READ = Metric("surescale_spark_records_read_total", "counter", "Records read from Kafka, by topic.", labels=("topic",))
RECORDS_WRITTEN = Metric(
    "surescale_spark_records_written_total", "counter", "Records that Kafka has acknowledged, by topic.", labels=("topic",)
)
SAMPLES = Metric("surescale_spark_samples_total", "counter", "Samples taken into minutes.")
LATE = Metric("surescale_spark_late_samples_total", "counter", "Samples whose minute had closed; not counted elsewhere.")
DEAD_LETTERS = Metric("surescale_spark_dead_letters_total", "counter", "Records refused, by reason.", labels=("reason",))
RESTARTS = Metric(
    "surescale_spark_query_restarts_total",
    "counter",
    "Times the query restarted: Kafka went away, or a Python worker was killed.",
)
LAG = Metric("surescale_spark_lag_records", "gauge", "Records in Kafka the last batch had not read yet.")
STAGE_SECONDS = Metric(
    "surescale_spark_stage_seconds_total",
    "counter",
    "Wall time of batches, by stage: `manifest` in the driver, `spark` before and after the tasks, the others in the tasks.",
    "seconds",
    ("stage",),
)
BATCH_DURATION = Metric(
    "surescale_spark_batch_duration_seconds",
    "histogram",
    "Time from the start of a batch in the driver until its windows are acknowledged and its state is saved.",
    "seconds",
    buckets=SECONDS,
)
BATCH_RECORDS = Metric(
    "surescale_spark_batch_records",
    "histogram",
    "Records of a batch.",
    buckets=(0.0, 10.0, 100.0, 1_000.0, 10_000.0, 30_000.0, 60_000.0),
)
WINDOW_DELAY = Metric(
    "surescale_spark_window_delay_seconds",
    "histogram",
    "From the append of the record that closed a minute until the window that ends with it is acknowledged.",
    "seconds",
    buckets=SECONDS,
)

METRICS = (
    RECORDS_READ,
    RECORDS_WRITTEN,
    SAMPLES,
    LATE,
    DEAD_LETTERS,
    RESTARTS,
    LAG,
    STAGE_SECONDS,
    BATCH_DURATION,
    BATCH_RECORDS,
    WINDOW_DELAY,
)


class JobMeter:
    """Measures batches; reads everything else from the job's counts and query on request."""

    def __init__(self, counts: "Counts", query: "Callable[[], StreamingQuery | None]") -> None:
        self._counts, self._query = counts, query
        self._refused = Tally()
        self._records = 0
        self.metrics = RoleMetrics("spark", METRICS, self._readings)

    def on_batch(self, done: Sequence[Merged], duration_s: float) -> None:
        """Record a finished batch: windows acknowledged, state saved."""
        now_s = time.time()
        records = sum(each.records for each in done)
        self._records += records
        self.metrics.observe(BATCH_RECORDS, records)
        self.metrics.observe(BATCH_DURATION, duration_s)
        for each in done:
            for reason, count in each.refused.items():
                self._refused.add(reason, by=count)
            for closed_ms in each.closed_append_ms:
                self.metrics.observe(WINDOW_DELAY, now_s - closed_ms / 1000)

    def _readings(self) -> Iterator[Reading]:
        counts, query = self._counts, self._query()
        yield Reading(RECORDS_READ, self._records, (TASK_METRICS,))
        yield Reading(RECORDS_WRITTEN, counts.windows, (SNAPSHOTS,))
        yield Reading(RECORDS_WRITTEN, counts.dead_letters, (DEAD_LETTERS_TOPIC,))
        yield Reading(SAMPLES, counts.samples)
        yield Reading(LATE, counts.late)
        yield Reading(RESTARTS, counts.restarts)
        yield from self._refused.readings(DEAD_LETTERS)
        for stage, spent_ms in sorted(counts.stage_ms.items()):
            yield Reading(STAGE_SECONDS, spent_ms / 1000, (stage,))
        progress = query.lastProgress if query is not None else None
        if progress is not None:
            yield Reading(LAG, lag_of(progress["sources"]))


def lag_of(sources: Sequence[Mapping[str, str]]) -> int:
    """Return how many records Kafka had beyond those read, from the sources in Spark's progress report."""
    lag = 0
    for source in sources:
        read, latest = (json.loads(source[name] or "null") or {} for name in ("endOffset", "latestOffset"))
        for topic, partitions in latest.items():
            lag += sum(end - read.get(topic, {}).get(partition, end) for partition, end in partitions.items())
    return max(lag, 0)
