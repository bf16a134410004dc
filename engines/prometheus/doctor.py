"""Checks of Prometheus as a source: it answers, keeps the time, and each expression gives what its figure needs."""

import time
from collections.abc import Iterator
from pathlib import Path

from surescale.contracts.errors import SettingsError
from surescale.contracts.plurals import counted
from surescale.engines.ports.findings import Finding, in_words
from surescale.engines.prometheus import PrometheusSettings
from surescale.engines.prometheus.client import PrometheusClient, PrometheusUnavailable, QueryRefused, replicas_of
from surescale.engines.prometheus.jobs import SETTING, WatchedJob, read_jobs
from surescale.engines.prometheus.mappings import FigureName
from surescale.engines.prometheus.readings import Key, Reading, read
from surescale.engines.settings import SourceSettings

_SUBJECT = "prometheus"
_REMEDY = "docs/prometheus.md says what is needed"
_UNKNOWN = "the figure stays unknown; correct its query, or leave it out"


def figures(settings: SourceSettings) -> Iterator[Finding]:
    """Check every replica, and with the first that answers every figure of every job of the file."""
    try:
        own = settings.part(PrometheusSettings)
        jobs, replicas = read_jobs(Path(own.prometheus_file)), replicas_of(own)
    except SettingsError as error:
        yield Finding("problem", _SUBJECT, str(error), _REMEDY)
        return
    fresh_ms = min(job.fresh_ms for job in jobs.values())
    answering = None
    try:
        for replica in replicas:
            finding = _replica(replica, fresh_ms)
            yield finding
            if finding.verdict == "ok":
                answering = answering or replica
        if answering is not None:
            for job in jobs.values():
                yield from _job(answering, job)
    finally:
        for replica in replicas:
            replica.close()


def _replica(prometheus: PrometheusClient, fresh_ms: int) -> Finding:
    try:
        ahead_ms = prometheus.now_ms() - _now_ms()
    except (PrometheusUnavailable, QueryRefused) as problem:
        return Finding("problem", _SUBJECT, str(problem), _REMEDY)
    if abs(ahead_ms) > fresh_ms:
        where = "ahead of" if ahead_ms > 0 else "behind"
        detail = f"the clock of {prometheus.url} is {in_words(abs(ahead_ms) / 1000)} {where} this machine's"
        return Finding("problem", _SUBJECT, detail, "let both follow one time server (NTP)")
    return Finding("ok", _SUBJECT, f"{prometheus.url} answers")


def _job(prometheus: PrometheusClient, job: WatchedJob) -> Iterator[Finding]:
    """Check the figures of a job: each is one series for each task that has it, and is fresh."""
    at_ms, is_well, ages_ms = _now_ms(), True, [0]
    for name, figure in job.figures.items():
        where = f"{job.name}.figures.{name}"
        try:
            readings = read(job, name, prometheus.dated(figure.query, at_ms), at_ms).readings
        except QueryRefused as refused:
            finding: Finding | None = Finding("problem", _SUBJECT, f"{where}: {refused}", f"correct it in {SETTING}")
        except PrometheusUnavailable as away:
            yield Finding("problem", _SUBJECT, f"{where}: {away}", _REMEDY)
            return
        else:
            finding = _figure(where, job, name, readings, at_ms)
            ages_ms += [at_ms - reading.at_ms for reading in readings.values()]
        if finding is not None:
            is_well = False
            yield finding
    if is_well:
        age = in_words(max(ages_ms) / 1000)
        yield Finding(
            "ok",
            _SUBJECT,
            f"{job.name}: {counted(len(job.figures), 'figure')} of {counted(len(job.tasks), 'task')}, the oldest from {age} ago",
        )


def _figure(where: str, job: WatchedJob, name: FigureName, readings: dict[Key, Reading], at_ms: int) -> Finding | None:
    """Return what is wrong with the answer to one expression; None: nothing."""
    expected = _tasks_with(job, name)
    missing = [task for task in expected if all(key.task != task for key in readings)]
    # Nothing is said of a job without its records; any other figure may be unknown.
    is_must = name in ("records_in", "records_out", "parallelism")
    if missing:
        detail = f"{where}: no series of {', '.join(f'{task} ({job.series_of(task)!r})' for task in missing)}"
        if is_must:
            return Finding(
                "problem", _SUBJECT, detail, f"start it, or correct its query, select or the task's series in {SETTING}"
            )
        return Finding("warning", _SUBJECT, detail, _UNKNOWN)
    old_ms = [at_ms - reading.at_ms for reading in readings.values() if at_ms - reading.at_ms > job.fresh_ms]
    if old_ms:
        detail = f"{where}: last scraped {in_words(max(old_ms) / 1000)} ago"
        return Finding(
            "problem" if is_must else "warning", _SUBJECT, detail, f"let it be scraped every minute, or raise {job.name}.fresh_s"
        )
    if any(reading.value is None for reading in readings.values()):
        return Finding("warning", _SUBJECT, f"{where}: a value that is negative, infinite or no number", _UNKNOWN)
    return None


def _tasks_with(job: WatchedJob, name: FigureName) -> list[str]:
    """Return the tasks that need series of a figure."""
    named = {task for tasks in job.tasks_by_name(job.figures[name]).values() for task in tasks}
    if name == "records_out":
        named = {task for task in named if not job.is_last(task)}
    if name == "arrived":
        named = {task for task in named if not job.upstream(task)}
    return [task for task in job.tasks if task in named]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
