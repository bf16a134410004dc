"""The simulated engine's metrics: names and meanings. The figures come from the cluster and the clock."""

from collections import Counter
from collections.abc import Iterator

from surescale.runtime.metrics import Metric, Reading, metrics_in
from surescale.services.engine.clock_driver import ClockDriver

MINUTES = Metric("surescale_engine_minutes_total", "counter", "Minutes of the trace that have passed.")
PIPELINE_TIME = Metric(
    "surescale_engine_pipeline_time_seconds", "gauge", "Time of the pipeline's clock, as Unix time.", "seconds"
)
WAITING = Metric("surescale_engine_awaited_answers", "gauge", "Answers that the clock waits for at its stop; 0 while it moves.")
MISSES = Metric("surescale_engine_missed_answers_total", "counter", "Answers that did not arrive within the wall limit.")
HOSTS = Metric("surescale_engine_hosts", "gauge", "Hosts of the cluster that are alive.")
JOBS = Metric("surescale_engine_jobs", "gauge", "Jobs by state.", labels=("state",))
PARALLELISM = Metric("surescale_engine_parallelism", "gauge", "Subtasks of a job's scalable tasks.", labels=("streaming_job",))
GENERATION = Metric(
    "surescale_engine_generation", "gauge", "Desired generation that a job runs with. Each rescale raises it.",
    labels=("streaming_job",),
)  # fmt: skip

METRICS = metrics_in(globals())


def readings(driver: ClockDriver) -> Iterator[Reading]:
    """Yield the figures of the cluster and its clock. Call it in the clock's own thread."""
    now_ms = driver.now_ms()
    cluster = driver.cluster
    yield Reading(MINUTES, cluster.minutes_done)
    yield Reading(PIPELINE_TIME, now_ms / 1000)
    yield Reading(WAITING, len(driver.waiting_for()))
    yield Reading(MISSES, driver.misses)
    yield Reading(HOSTS, len(cluster.topology().hosts))
    states = Counter(job.state_at(now_ms) for job in cluster.jobs.values())
    yield from (Reading(JOBS, states[state], (state,)) for state in ("running", "restarting", "waiting"))
    for name, job in cluster.jobs.items():
        subtasks = sum(spec.parallelism for spec in job.topology.tasks if spec.scalable and not job.is_waiting)
        yield Reading(PARALLELISM, subtasks, (name,))
        yield Reading(GENERATION, job.topology.generation, (name,))
