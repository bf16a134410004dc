"""Names and meanings of the monitor's metrics; the monitor itself does the counting."""

from surescale.runtime.metrics import SECONDS, Metric, metrics_in

RECORDS_WRITTEN = Metric(
    "surescale_monitor_records_written_total", "counter", "Records that Kafka has acknowledged, by topic.", labels=("topic",)
)
MINUTES = Metric("surescale_monitor_minutes_total", "counter", "Minutes of jobs handed on with their end-of-minute marker.")
MINUTES_MISSING = Metric(
    "surescale_monitor_minutes_missing_total",
    "counter",
    "Minutes between two of a job that have no figures, because engine or monitor were away, by job.",
    labels=("streaming_job",),
)
SAMPLES = Metric("surescale_monitor_samples_total", "counter", "Samples of subtasks handed on.")
MALFORMED = Metric(
    "surescale_monitor_malformed_records_total", "counter", "Documents of the source that are no samples, handed on as they are."
)
SOURCE_ERRORS = Metric(
    "surescale_monitor_source_errors_total",
    "counter",
    "Calls that the source of figures did not answer, by job.",
    labels=("streaming_job",),
)
WATCHER_FAULTS = Metric(
    "surescale_monitor_watcher_faults_total",
    "counter",
    "Unexpected faults while watching a job, by job; the log names them, and the job is tried again after a pause.",
    labels=("streaming_job",),
)
ACTIVE = Metric(
    "surescale_monitor_active", "gauge", "1 for the process that watches its cluster, 0 for one on standby.",
    labels=("streaming_cluster",),
)  # fmt: skip
JOBS = Metric("surescale_monitor_jobs", "gauge", "Jobs that are watched.")
LAST_MINUTE = Metric(
    "surescale_monitor_last_minute_timestamp_seconds",
    "gauge",
    "Event time at which the last minute ended whose marker is acknowledged, by job.",
    "seconds",
    ("streaming_job",),
)
MARKER_DELAY = Metric(
    "surescale_monitor_marker_delay_seconds",
    "histogram",
    "From the wall time at which the pipeline's clock reached the end of a minute until its marker was sent.",
    "seconds",
    buckets=SECONDS,
)

METRICS = metrics_in(globals())
