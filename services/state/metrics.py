"""The state service's metrics: names and meanings. The figures come from the projector, the API, and the view of each job."""

from collections.abc import Iterable, Iterator

from surescale.contracts.rent import DAY_S, MINUTE_S
from surescale.runtime.metrics import SECONDS, Metric, Reading
from surescale.services.state.documents import JobOverview
from surescale.services.state.fleet_documents import ShadowSummary
from surescale.services.state.read.task_figures import TaskFigures
from surescale.services.state.read.words import WORDS, JobFigure

RECORDS_READ = Metric(
    "surescale_state_records_read_total", "counter", "Records taken into the view, by topic.", labels=("topic",)
)
UNREADABLE = Metric(
    "surescale_state_unreadable_records_total", "counter", "Records that do not parse and are left out of the view, by topic.",
    labels=("topic",),
)  # fmt: skip
REBUILDS = Metric("surescale_state_rebuilds_total", "counter", "Rebuilds of the view from Kafka.")
LAG = Metric("surescale_state_lag_records", "gauge", "Records on Kafka that the view does not contain yet.")
HELD_BACK = Metric(
    "surescale_state_held_back_seconds",
    "gauge",
    "How long records of any topic have waited behind a transaction that is still open; 0 while none wait.",
    "seconds",
)
STEP_DURATION = Metric(
    "surescale_state_step_duration_seconds",
    "histogram",
    "Time to write one batch of records to the view.",
    "seconds",
    buckets=SECONDS,
)
HTTP_REQUESTS = Metric(
    "surescale_state_http_requests_total", "counter", "Answers of the HTTP API, by route and status code.",
    labels=("route", "code"),
)  # fmt: skip
HTTP_DURATION = Metric(
    "surescale_state_http_request_duration_seconds",
    "histogram",
    "Time to answer a request of the HTTP API, by route.",
    "seconds",
    ("route",),
    SECONDS,
)
NOTIFICATIONS = Metric(
    "surescale_state_notifications_total",
    "counter",
    "Events for the webhook, by kind and what became of them: delivered, refused by it, or too old.",
    labels=("kind", "result"),
)
NOTIFY_ATTEMPTS = Metric(
    "surescale_state_notify_attempts_total",
    "counter",
    "Attempts to send the webhook an event, by its answer: 2xx, 3xx, 4xx, 5xx, or none.",
    labels=("answer",),
)
NOTIFY_FAILING = Metric(
    "surescale_state_notify_failing_seconds",
    "gauge",
    "For how long the webhook has taken no event, since the first attempt that failed; 0 once it takes one.",
    "seconds",
)

_JOB = ("streaming_job",)
JOB_UP = Metric("surescale_state_job_up", "gauge", "1 while the job runs, 0 while it is down.", labels=_JOB)
JOB_OVERLOADED = Metric(
    "surescale_state_job_overloaded",
    "gauge",
    "1 while a task of the job never rests, or has two minutes of its work waiting, else 0.",
    labels=_JOB,
)
JOB_AGE = Metric(
    "surescale_state_job_figures_age_seconds",
    "gauge",
    "How long ago the job's newest figures were taken, by whole minutes.",
    "seconds",
    _JOB,
)
JOB_STALE = Metric(
    "surescale_state_job_stale",
    "gauge",
    "1 while figures of the job, decisions on it or answers to these are due and do not come, else 0.",
    labels=_JOB,
)
JOB_RESTARTS = Metric(
    "surescale_state_job_restarts",
    "gauge",
    "Of the job's ten newest minutes, those in which it restarted at the size that it had.",
    labels=_JOB,
)
JOB_AT_LIMIT = Metric(
    "surescale_state_job_at_limit",
    "gauge",
    "1 while a limit keeps an overloaded task of the job from the size that its load needs, else 0.",
    labels=_JOB,
)
JOB_FALLBACK = Metric(
    "surescale_state_job_fallback",
    "gauge",
    "1 while a rule decides on the job because its policy failed, else 0.",
    labels=_JOB,
)
JOB_GENERATION = Metric(
    "surescale_state_job_generation",
    "gauge",
    "Generation of the job's last command carried out. Each rescale raises it.",
    labels=_JOB,
)
JOB_DRIFT = Metric(
    "surescale_state_job_feature_drift_ratio",
    "gauge",
    "Share of the features behind the job's latest decision that lie outside of the policy's training.",
    "ratio",
    _JOB,
)
JOB_DRIFT_USUAL = Metric(
    "surescale_state_job_feature_drift_usual_ratio",
    "gauge",
    "The share that 99 of 100 windows of that training stay below.",
    "ratio",
    _JOB,
)
JOB_COST = Metric(
    "surescale_state_job_cost_dollars_per_second",
    "gauge",
    "What the job costs now, at the prices that the monitor was given: its slots or workers, or the hosts that it is on.",
    "dollars_per_second",
    _JOB,
)
JOB_SAVED = Metric(
    "surescale_state_job_saved_dollars_per_second",
    "gauge",
    "What the job costs less than at the size that its author configured; negative: more.",
    "dollars_per_second",
    _JOB,
)
_UNITS = {"percent": "ratio", "duration": "seconds"}
FIGURES = {
    figure: Metric(figure.metric, "gauge", figure.help, _UNITS.get(figure.form, ""), _JOB)
    for figure in WORDS.figures
    if figure.metric
}
JOBS = (
    JOB_AGE,
    JOB_STALE,
    JOB_UP,
    JOB_OVERLOADED,
    JOB_RESTARTS,
    JOB_AT_LIMIT,
    JOB_FALLBACK,
    JOB_GENERATION,
    JOB_COST,
    JOB_SAVED,
    *FIGURES.values(),
    JOB_DRIFT,
    JOB_DRIFT_USUAL,
)
_TASK = ("streaming_job", "task")
TASK_PARALLELISM = Metric("surescale_state_task_parallelism", "gauge", "Subtasks of a task that run.", labels=_TASK)
TASK_DESIRED = Metric(
    "surescale_state_task_desired_parallelism",
    "gauge",
    "Subtasks to ask for by the job's latest decision, after all limits; where fewer members run than are asked for, no more go "
    "than members shall.",
    labels=_TASK,
)
TASK_TARGET = Metric(
    "surescale_state_task_target_records_per_second",
    "gauge",
    "Records a second that would come to the task if nothing before it were held back, by the latest decision.",
    labels=_TASK,
)
TASK_TRUE = Metric(
    "surescale_state_task_true_records_per_second",
    "gauge",
    "Records a second that the task would process at its present size if it never rested, by the latest decision.",
    labels=_TASK,
)
TASKS_LEFT_OUT = Metric(
    "surescale_state_tasks_left_out", "gauge", "Tasks without series of their own, since there are too many of them."
)
TASKS = (TASK_PARALLELISM, TASK_DESIRED, TASK_TARGET, TASK_TRUE, TASKS_LEFT_OUT)
_SHADOW = ("streaming_cluster", "policy", "sha256")
SHADOW_ANSWERED = Metric(
    "surescale_state_shadow_answered_ratio",
    "gauge",
    "Share of a shadow policy's windows that it answered, of those that the view keeps.",
    "ratio",
    _SHADOW,
)
SHADOW_AGREEMENT = Metric(
    "surescale_state_shadow_tasks_equal_ratio",
    "gauge",
    "Share of tasks to which a shadow policy gives the parallelism that was decided.",
    "ratio",
    _SHADOW,
)
SHADOW_DECISIONS_EQUAL = Metric(
    "surescale_state_shadow_decisions_equal_ratio",
    "gauge",
    "Share of a shadow policy's answers that equal the decision in every task.",
    "ratio",
    _SHADOW,
)
SHADOW_SUBTASKS = Metric(
    "surescale_state_shadow_subtasks_difference",
    "gauge",
    "Subtasks of a job that a shadow policy would have given it, less those decided; mean over its answers.",
    labels=_SHADOW,
)
SHADOW_COST = Metric(
    "surescale_state_shadow_cost_difference_dollars_per_second",
    "gauge",
    "What the subtasks of a shadow policy would cost more than those decided, at the mean price of a unit.",
    "dollars_per_second",
    _SHADOW,
)
SHADOW_UTILISATION = Metric(
    "surescale_state_shadow_utilisation_difference_ratio",
    "gauge",
    "Predicted utilisation of the busiest task under a shadow policy, less that under the decisions; mean.",
    "ratio",
    _SHADOW,
)
SHADOWS = (
    SHADOW_ANSWERED,
    SHADOW_AGREEMENT,
    SHADOW_DECISIONS_EQUAL,
    SHADOW_SUBTASKS,
    SHADOW_COST,
    SHADOW_UTILISATION,
)
SCALED_STREAMS = Metric(
    "surescale_state_scaled_streams",
    "gauge",
    "ScaledStreams, by whether their job has their settings: true, false, or unknown.",
    labels=("set",),
)
GONE = ("ended", "unknown")  # of these jobs nothing is known now

NOTIFY = (NOTIFICATIONS, NOTIFY_ATTEMPTS, NOTIFY_FAILING)
METRICS = (
    *(RECORDS_READ, UNREADABLE, REBUILDS, LAG, HELD_BACK, STEP_DURATION, HTTP_REQUESTS, HTTP_DURATION),
    *NOTIFY,
    SCALED_STREAMS,
    *JOBS,
    *TASKS,
    *SHADOWS,
)


def of_jobs(jobs: Iterable[JobOverview]) -> Iterator[Reading]:
    """Yield the figures of each job; none that is unknown, and of one without new figures only that it has none."""
    for job in jobs:
        if job.status != "ended" and job.age_minutes is not None:
            yield Reading(JOB_AGE, 60.0 * job.age_minutes, (job.job,))
            yield Reading(JOB_STALE, float(job.stale is not None), (job.job,))
        if job.status in GONE:
            continue
        figures: dict[Metric, float | None] = {
            JOB_UP: job.status != "down",
            JOB_OVERLOADED: job.overloaded_tasks and 1,
            JOB_RESTARTS: job.restarts,
            JOB_AT_LIMIT: job.is_at_limit,
            JOB_FALLBACK: job.fallback_reason is not None,
            JOB_GENERATION: job.applied_generation,
            JOB_COST: _a_second(job.rent_per_day),
            JOB_SAVED: _a_second(job.saved_per_day),
            **{metric: _in_unit(figure, getattr(job, figure.field)) for figure, metric in FIGURES.items()},
            JOB_DRIFT: job.feature_drift,
            JOB_DRIFT_USUAL: job.feature_drift_usual,
        }
        yield from (Reading(metric, float(value), (job.job,)) for metric, value in figures.items() if value is not None)


def _a_second(dollars_per_day: float | None) -> float | None:
    return None if dollars_per_day is None else dollars_per_day / DAY_S


def _in_unit(figure: JobFigure, value: float | None) -> float | None:
    if value is not None and figure.form == "duration":
        return value / 1000.0
    return value / MINUTE_S if value is not None and figure.field.endswith("_per_minute") else value


def of_tasks(tasks: Iterable[TaskFigures], left_out: int) -> Iterator[Reading]:
    """Yield the figures of each task; none that is unknown."""
    yield Reading(TASKS_LEFT_OUT, left_out)
    for each in tasks:
        figures: dict[Metric, float | None] = {
            TASK_PARALLELISM: each.parallelism,
            TASK_DESIRED: each.desired,
            TASK_TARGET: None if each.target_rate is None else each.target_rate / MINUTE_S,
            TASK_TRUE: None if each.true_rate is None else each.true_rate / MINUTE_S,
        }
        labels = (each.job, each.task)
        yield from (Reading(metric, float(value), labels) for metric, value in figures.items() if value is not None)


def of_shadows(shadows: Iterable[ShadowSummary]) -> Iterator[Reading]:
    """Yield the figures of each shadow policy; none that is unknown."""
    for each in shadows:
        asked = each.answered + each.failed + each.late + each.skipped
        busier = None
        if each.utilisation is not None and each.served_utilisation is not None:
            busier = each.utilisation - each.served_utilisation
        figures: dict[Metric, float | None] = {
            SHADOW_ANSWERED: each.answered / asked,
            SHADOW_AGREEMENT: each.tasks_equal,
            SHADOW_DECISIONS_EQUAL: each.decisions_equal,
            SHADOW_SUBTASKS: each.subtasks_difference,
            SHADOW_COST: None if each.dollars_per_day is None else each.dollars_per_day / DAY_S,
            SHADOW_UTILISATION: busier,
        }
        labels = (each.cluster, each.policy, each.sha256[:12])
        yield from (Reading(metric, float(value), labels) for metric, value in figures.items() if value is not None)
