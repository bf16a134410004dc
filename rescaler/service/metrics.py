"""The rescaler's metrics: names and meanings. `rescaler.service.status` has the figures."""

from surescale.runtime.metrics import SECONDS, Metric, metrics_in

ACTIVE = Metric(
    "surescale_rescaler_active", "gauge", "1 for the process that is active for its cluster, 0 for one on standby.",
    labels=("streaming_cluster",),
)  # fmt: skip
RECORDS_READ = Metric("surescale_rescaler_records_read_total", "counter", "Records handled, by topic.", labels=("topic",))
RECORDS_WRITTEN = Metric(
    "surescale_rescaler_records_written_total", "counter", "Records committed or acknowledged, by topic.", labels=("topic",)
)
OUTCOMES = Metric(
    "surescale_rescaler_outcomes_total", "counter", "Outcomes of decisions, by status and reason; an act may be pending often.",
    labels=("status", "reason"),
)  # fmt: skip
COMMANDS = Metric(
    "surescale_rescaler_commands_total", "counter", "Commands, by action and the gate's reason; advice counts too.",
    labels=("action", "gate_reason"),
)  # fmt: skip
PROGRESS = Metric(
    "surescale_rescaler_progress_total", "counter", "Reports of the actuator on commands, by status.", labels=("status",)
)
DUPLICATES = Metric("surescale_rescaler_duplicates_total", "counter", "Decisions that had been answered before.")
DEAD_LETTERS = Metric("surescale_rescaler_dead_letters_total", "counter", "Decisions refused, by reason.", labels=("reason",))
REJECTED = Metric("surescale_rescaler_rejected_records_total", "counter", "Records of other topics that do not parse.")
UNKNOWN_COMMANDS = Metric(
    "surescale_rescaler_unknown_commands_total", "counter", "Commands refused because this rescaler did not make them."
)
SESSIONS_LOST = Metric("surescale_rescaler_sessions_lost_total", "counter", "Times the process restarted from committed state.")
HELD_BACK = Metric(
    "surescale_rescaler_held_back_seconds",
    "gauge",
    "How long decisions have waited behind a transaction that is still open; 0 while none wait.",
    "seconds",
)
IN_FLIGHT = Metric(
    "surescale_rescaler_commands_in_flight", "gauge", "Commands whose end is not known yet, by their latest report.",
    labels=("status",),
)  # fmt: skip
LEARNERS = Metric("surescale_rescaler_learners", "gauge", "Units that restore state ahead of a commit, as last reported.")
LEARNER_LAG = Metric(
    "surescale_rescaler_learner_lag_bytes", "gauge", "State that these units have yet to restore, as last reported.", "bytes"
)
JOBS = Metric("surescale_rescaler_jobs", "gauge", "Jobs that have had a decision, by the phase of their gate.", labels=("phase",))
RENT = Metric(
    "surescale_rescaler_rent_dollars_per_second",
    "gauge",
    "Rent of the hosts a job has subtasks on now; a shared host counts for each of its jobs.",
    "dollars_per_second",
    ("streaming_job",),
)
CLUSTER_RENT = Metric(
    "surescale_rescaler_cluster_rent_dollars_per_second",
    "gauge",
    "Rent of all hosts with subtasks of any job, each counted once.",
    "dollars_per_second",
    ("streaming_cluster",),
)
TRANSACTION_DURATION = Metric(
    "surescale_rescaler_transaction_duration_seconds",
    "histogram",
    "Time to commit one round.",
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
    "Event time from a command's effect to its end: for a commit the job was down, for a prepare it kept running.",
    "seconds",
    ("action",),
    (1.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0),
)

METRICS = metrics_in(globals())
