"""The rescaler's metrics: what they are called and what they mean. The figures are those of `rescaler.service.status`."""

from runtime.metrics import SECONDS, Metric

ACTIVE = Metric(
    "surescale_rescaler_active", "gauge", "1 for the process that works for its cluster, 0 for one that waits.",
    labels=("cluster",),
)  # fmt: skip
RECORDS_READ = Metric("surescale_rescaler_records_read_total", "counter", "Records handled, by topic.", labels=("topic",))
RECORDS_WRITTEN = Metric(
    "surescale_rescaler_records_written_total", "counter", "Records committed or acknowledged, by topic.", labels=("topic",)
)
OUTCOMES = Metric(
    "surescale_rescaler_outcomes_total", "counter", "Outcomes of decisions, by status and reason; an act may have many pending.",
    labels=("status", "reason"),
)  # fmt: skip
COMMANDS = Metric(
    "surescale_rescaler_commands_total", "counter", "Commands, by what they ask for and the gate's reason; advice is one too.",
    labels=("action", "gate_reason"),
)  # fmt: skip
PROGRESS = Metric(
    "surescale_rescaler_progress_total", "counter", "Reports of the actuator on commands, by status.", labels=("status",)
)
DUPLICATES = Metric("surescale_rescaler_duplicates_total", "counter", "Decisions that had been answered before.")
DEAD_LETTERS = Metric("surescale_rescaler_dead_letters_total", "counter", "Decisions refused, by reason.", labels=("reason",))
REJECTED = Metric("surescale_rescaler_rejected_records_total", "counter", "Records of other topics that do not parse.")
SESSIONS_LOST = Metric(
    "surescale_rescaler_sessions_lost_total", "counter", "Times that the process began anew from what was committed."
)
IN_FLIGHT = Metric(
    "surescale_rescaler_commands_in_flight", "gauge", "Commands whose end is not known yet, by their last report.",
    labels=("status",),
)  # fmt: skip
LEARNERS = Metric("surescale_rescaler_learners", "gauge", "Units that restore state ahead of a commit, as last reported.")
LEARNER_LAG = Metric(
    "surescale_rescaler_learner_lag_bytes", "gauge", "State that these have still to restore, as last reported.", "bytes"
)
JOBS = Metric(
    "surescale_rescaler_jobs", "gauge", "Jobs that a decision has come for, by the phase of their gate.", labels=("phase",)
)
RENT = Metric(
    "surescale_rescaler_rent_dollars_per_second",
    "gauge",
    "Rent of the hosts that a job has subtasks on, as it runs now; a host that jobs share counts for each.",
    "dollars_per_second",
    ("streaming_job",),
)
CLUSTER_RENT = Metric(
    "surescale_rescaler_cluster_rent_dollars_per_second",
    "gauge",
    "Rent of all hosts that any job has subtasks on, each counted once.",
    "dollars_per_second",
    ("cluster",),
)
TRANSACTION_DURATION = Metric(
    "surescale_rescaler_transaction_duration_seconds",
    "histogram",
    "Time to commit what a round decided.",
    "seconds",
    buckets=SECONDS,
)
OUTCOME_DELAY = Metric(
    "surescale_rescaler_outcome_delay_seconds",
    "histogram",
    "From the append of a decision until its first outcome is committed.",
    "seconds",
    buckets=SECONDS,
)
APPLY_DURATION = Metric(
    "surescale_rescaler_apply_duration_seconds",
    "histogram",
    "Event time from a command's effect to its end: of a commit while the job stood still, of a prepare while it ran on.",
    "seconds",
    ("action",),
    (1.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)

METRICS = (
    ACTIVE,
    RECORDS_READ,
    RECORDS_WRITTEN,
    OUTCOMES,
    COMMANDS,
    PROGRESS,
    DUPLICATES,
    DEAD_LETTERS,
    REJECTED,
    SESSIONS_LOST,
    IN_FLIGHT,
    LEARNERS,
    LEARNER_LAG,
    JOBS,
    RENT,
    CLUSTER_RENT,
    TRANSACTION_DURATION,
    OUTCOME_DELAY,
    APPLY_DURATION,
)
