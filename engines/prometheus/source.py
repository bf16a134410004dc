"""The jobs of a file as a source, through Prometheus' HTTP API."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import ClusterTopology, JobTopology
from surescale.engines.groups.chains import Chain, chains_of
from surescale.engines.groups.workers import WorkerTopology
from surescale.engines.ports.event_log import EventLog
from surescale.engines.ports.minutes import Clock, CollectedSource, WallClock
from surescale.engines.ports.source import UnknownJob, become
from surescale.engines.prometheus import PrometheusSettings
from surescale.engines.prometheus.client import replicas_of
from surescale.engines.prometheus.job import PrometheusJob
from surescale.engines.prometheus.jobs import SETTING, WatchedJob, read_jobs
from surescale.engines.settings import SourceSettings


class PrometheusSource(CollectedSource[PrometheusJob]):
    """The jobs of the file that are to be watched."""

    def __init__(self, settings: SourceSettings, clock: Callable[[threading.Event], Clock] = WallClock) -> None:
        """Read the file; connect to nothing yet.

        Args:
            settings: where Prometheus is, which file names the jobs, and what the actuator is.
            clock: makes the clock of a collector; its waiting ends when the event is set.

        Raises:
            SettingsError: a file or a certificate cannot be used, or two files contradict each other.
        """
        super().__init__(clock, settings.look_spread_s, EventLog(settings.cluster))
        self._settings = settings
        own = settings.part(PrometheusSettings)
        jobs = read_jobs(Path(own.prometheus_file))
        self._jobs = {f"{settings.cluster}/{name}": job for name, job in jobs.items() if settings.watches(name)}
        self._replicas = replicas_of(own)
        _check_same_tasks(jobs, chains_of(settings))
        self._workers = WorkerTopology(settings)
        for name, watched in jobs.items():
            self._workers.requirements.check_tasks(name, watched.tasks)

    def jobs(self) -> list[str]:
        """Return the jobs of the file that are to be watched."""
        return sorted(self._jobs)

    def end_of(self, last: JobTopology) -> JobTopology | None:
        """Return the end of a job that the file no longer has: a renamed one must not seem silent for ever."""
        cluster, _, name = last.job.partition("/")
        is_ours = last.engine == self._settings.engine and cluster == self._settings.cluster and self._settings.watches(name)
        if not is_ours or last.job in self._jobs:
            return None
        ended = become(last, "finished")
        told = f"it left {SETTING}; its workers, if they run, are not touched"
        self._events.add("job_stopped", f"left:{last.job}:{last.version}", ended.at_ms, job=last.job, detail=told)
        return ended

    def cluster_topology(self) -> ClusterTopology:
        """Return what the actuator can do, and this machine with its room for workers if it starts them here."""
        return self._workers.topology()

    def close(self) -> None:
        """Stop looking."""
        super().close()
        self._workers.requirements.close()
        for replica in self._replicas:
            replica.close()

    def _looks_at(self, job: str, clock: Clock) -> PrometheusJob:
        return PrometheusJob(
            job,
            self._jobs[job],
            self._replicas,
            self._settings.engine,
            self._workers.requirements.required,
            self._workers.requirements.failing,
            self._events,
            clock,
        )

    def _check_known(self, job: str) -> None:
        if job not in self._jobs:
            raise UnknownJob(f"there is no job {job!r}: name it in {SETTING}")


def _check_same_tasks(jobs: Mapping[str, WatchedJob], chains: Mapping[str, Chain]) -> None:
    """Refuse a job that the two files describe with other tasks: what is asked for could not be held against what runs.

    Raises:
        SettingsError: names the task.
    """
    for name in sorted(jobs.keys() & chains.keys()):
        tasks, groups = jobs[name].tasks.keys(), chains[name].groups.keys()
        for task in sorted(tasks ^ groups):
            missing_in = SETTING if task in groups else "SURESCALE_GROUPS_FILE"
            raise SettingsError(f"{missing_in}: {name} has no task {task}, which the other file has; give both the same tasks")
