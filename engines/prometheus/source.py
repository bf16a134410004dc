"""The jobs of a file as a source, through Prometheus' HTTP API."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import ClusterTopology, EngineEvent, HourlyLoad
from surescale.engines.groups.chains import Chain, chains_of
from surescale.engines.groups.workers import WorkerTopology
from surescale.engines.ports.event_log import EventLog
from surescale.engines.ports.minutes import Clock, MinuteCollectors, WallClock
from surescale.engines.ports.source import FinishedMinute, Source, UnknownJob
from surescale.engines.prometheus import PrometheusSettings
from surescale.engines.prometheus.client import replicas_of
from surescale.engines.prometheus.job import PrometheusJob
from surescale.engines.prometheus.jobs import SETTING, WatchedJob, read_jobs
from surescale.engines.settings import SourceSettings


class PrometheusSource(Source):
    """The jobs of the file that are to be watched. Thread-safe. Each job has a collector, which looks at it every minute."""

    def __init__(self, settings: SourceSettings, clock: Callable[[threading.Event], Clock] = WallClock) -> None:
        """Read the file; connect to nothing yet.

        Args:
            settings: where Prometheus is, which file names the jobs, and what the actuator is.
            clock: makes the clock of a collector; its waiting ends when the event is set.

        Raises:
            SettingsError: a file or a certificate cannot be used, or two files contradict each other.
        """
        self._settings, self._clock = settings, clock
        own = settings.part(PrometheusSettings)
        jobs = read_jobs(Path(own.prometheus_file))
        self._jobs = {f"{settings.cluster}/{name}": job for name, job in jobs.items() if settings.watches(name)}
        self._replicas = replicas_of(own)
        _check_same_tasks(jobs, chains_of(settings))
        self._workers = WorkerTopology(settings)
        for name, watched in jobs.items():
            self._workers.requirements.check_tasks(name, watched.tasks)
        self._events = EventLog(settings.cluster)
        self._collectors = MinuteCollectors(lambda job: self.follow(job).look, clock, settings.look_spread_s)
        self._lock = threading.Lock()
        self._followed: dict[str, PrometheusJob] = {}

    def jobs(self) -> list[str]:
        """Return the jobs of the file that are to be watched."""
        return sorted(self._jobs)

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return the minutes that are kept; waits half a second for one."""
        return self._collectors.minutes(job, after_ms)

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return nothing: policies measure for themselves."""
        self._check_known(job)
        return ()

    def cluster_topology(self) -> ClusterTopology:
        """Return what the actuator can do, and this machine with its room for workers if it starts them here."""
        return self._workers.topology()

    def events(self, after_id: str) -> list[EngineEvent]:
        """Return what happened after an event, as far as the looks have shown."""
        return self._events.after(after_id)

    def follow(self, job: str) -> PrometheusJob:
        """Return what looks at a job; its collector looks in one thread.

        Raises:
            UnknownJob: there is no such job.
        """
        self._check_known(job)
        with self._lock:
            if job not in self._followed:
                self._followed[job] = PrometheusJob(
                    job,
                    self._jobs[job],
                    self._replicas,
                    self._settings.engine,
                    self._workers.requirements.required,
                    self._workers.requirements.failing,
                    self._events,
                    self._clock(threading.Event()),
                )
            return self._followed[job]

    def close(self) -> None:
        """Stop looking."""
        self._collectors.close()
        self._workers.requirements.close()
        for replica in self._replicas:
            replica.close()

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
