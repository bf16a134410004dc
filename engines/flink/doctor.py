"""Checks of a Flink cluster: its addresses, its slots, what may keep us from acting on it, and each of its jobs."""

from collections.abc import Iterator

from surescale.contracts.addresses import addresses_in
from surescale.contracts.plurals import counted
from surescale.engines.flink.answers import Overview
from surescale.engines.flink.capabilities import capabilities_of, is_reactive
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.directory import JobDirectory
from surescale.engines.flink.errors import FlinkError, FlinkUnavailable, NotAdaptive, NotFound
from surescale.engines.flink.identity import Identity
from surescale.engines.flink.requirements import refusal_of_cluster, refusal_of_job
from surescale.engines.ports.findings import Finding
from surescale.engines.settings import SourceSettings

TIMEOUT_S = 5.0
PACKS = "jobmanager.adaptive-scheduler.prefer-minimal-taskmanagers"
JOBS_SHOWN_MAX = 30  # each takes a handful of requests
LOOP_RESTARTS, LOOP_MS = 3, 600_000
"""A job that has failed so often within ten minutes restarts for ever."""


def flink(settings: SourceSettings) -> Iterator[Finding]:
    """Check the cluster, by the first of its addresses that answers, that every address answers, and its jobs."""
    problems: list[FlinkError] = []
    found: tuple[FlinkClient, Overview, dict[str, str]] | None = None
    clients = [FlinkClient(url, settings.access, timeout_s=TIMEOUT_S) for url in addresses_in(settings.engine_url)]
    try:
        for client in clients:
            try:
                overview, configuration = client.overview(), client.configuration()
                found = found or (client, overview, configuration)
            except FlinkError as problem:
                problems.append(problem)
        if found is None:
            yield from (Finding("problem", "engine", each.problem, each.remedy) for each in problems)
            return
        yield from _cluster(*found, problems)
        yield from _packing(found[2])
        yield from _jobs(settings, found[0], found[2])
    finally:
        for client in clients:
            client.close()


def _cluster(
    client: FlinkClient, overview: Overview, configuration: dict[str, str], problems: list[FlinkError]
) -> Iterator[Finding]:
    capabilities = capabilities_of(overview, configuration)
    known = f"Flink {overview.flink_version} at {client.url}, {overview.slots_available} of {overview.slots_total} slots free"
    if overview.slots_available or capabilities.grows_hosts:
        yield Finding("ok", "engine", known)
    else:
        yield Finding("warning", "engine", f"{known}, so no job can grow", "add TaskManagers before a job is to act")
    for each in problems:
        away = "start that JobManager, or take its address out of SURESCALE_ENGINE_URL"
        yield Finding("warning", "engine", each.problem, away if isinstance(each, FlinkUnavailable) else each.remedy)
    refused = refusal_of_cluster(configuration)
    if refused is not None:
        yield Finding("warning", "engine", refused.sentence, "leave the jobs to it, or switch it off")
    if capabilities.acts == "none":
        detail = "its jobs can be observed and advised about, not rescaled: it has no adaptive scheduler, or is in reactive mode"
        yield Finding(
            "warning", "engine", detail, "set jobmanager.scheduler: adaptive, and no scheduler-mode, in Flink's configuration"
        )


def _packing(configuration: dict[str, str]) -> Iterator[Finding]:
    """Say if the scheduler spreads slots: then a job that does without some frees no TaskManager, and no money."""
    mode = configuration.get("taskmanager.load-balance.mode", "").upper()
    if mode in ("SLOTS", "TASKS"):
        spread, remedy = f"taskmanager.load-balance.mode is {mode}", "set it to NONE"
    elif not mode and configuration.get("cluster.evenly-spread-out-slots", "").lower() == "true":
        spread, remedy = "cluster.evenly-spread-out-slots is true", "leave it out"
    elif configuration.get(PACKS, "").lower() == "false":
        spread, remedy = f"{PACKS} is false", "leave it out (Flink packs from 1.20.2 on)"
    else:
        return
    detail = f"{spread}: slots are spread over all TaskManagers, so freed slots empty no machine and save no money"
    yield Finding("warning", "engine", detail, f"{remedy} in Flink's configuration, unless machines are shared evenly on purpose")


def _jobs(settings: SourceSettings, client: FlinkClient, configuration: dict[str, str]) -> Iterator[Finding]:
    """Say of each job whether it could be rescaled now."""
    try:
        live = sorted(JobDirectory(client, settings.cluster).live().values(), key=lambda each: each.job)
    except FlinkError as problem:
        yield Finding("warning", "jobs", problem.problem, problem.remedy)
        return
    for each in live[:JOBS_SHOWN_MAX]:
        try:
            yield _job(each, client, configuration)
        except NotFound:
            continue  # it has ended since
        except FlinkError as problem:
            yield Finding("warning", each.job, problem.problem, problem.remedy)
    if len(live) > JOBS_SHOWN_MAX:
        yield Finding("ok", "jobs", f"{len(live) - JOBS_SHOWN_MAX} more are not looked at")


def _job(job: Identity, client: FlinkClient, configuration: dict[str, str]) -> Finding:
    detail = client.job(job.flink_job)
    if job.ambiguous:
        return _warning(job, job.ambiguous)
    failures = _failures_lately(client, job.flink_job, detail.now)
    if failures >= LOOP_RESTARTS:
        said = f"it failed {failures} times within ten minutes, and Flink restarts it each time"
        return Finding("warning", job.job, said, "see its exceptions in Flink's web page")
    config, checkpoints = client.checkpoint_config(job.flink_job), client.checkpoints(job.flink_job)
    refused = refusal_of_job(detail, config, checkpoints, is_reactive(configuration))
    if refused is not None:
        return _warning(job, f"it cannot be rescaled now ({refused.code}): {refused.sentence}")
    try:
        client.requirements(job.flink_job)
    except NotAdaptive as problem:
        return Finding("warning", job.job, f"it cannot be rescaled: {problem.reason}", problem.remedy)
    subtasks = sum(vertex.parallelism for vertex in detail.vertices)
    vertices = "1 vertex" if len(detail.vertices) == 1 else f"{len(detail.vertices)} vertices"
    return Finding("ok", job.job, f"runs with {counted(subtasks, 'subtask')} of {vertices}, and can be rescaled")


def _failures_lately(client: FlinkClient, flink_job: str, now_ms: int) -> int:
    try:
        entries = client.exceptions(flink_job).exception_history.entries
    except NotFound:
        return 0
    return sum(each.timestamp > now_ms - LOOP_MS for each in entries)


def _warning(job: Identity, sentence: str) -> Finding:
    """Return a finding of a sentence that ends with what to do."""
    said, _, remedy = sentence.rpartition("; ")
    return Finding("warning", job.job, said, remedy)
