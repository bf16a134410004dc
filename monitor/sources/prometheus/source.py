"""The jobs of a file as a source, through Prometheus' HTTP API."""

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from contracts.errors import SettingsError
from contracts.messages import ClusterTopology, EngineEvent, HourlyLoad, JobTopology
from engines.groups.chains import Chain, read_chains
from engines.prometheus.connect import replicas_of
from engines.prometheus.jobs import SETTING, WatchedJob, read_jobs
from monitor.event_log import EventLog
from monitor.minutes import Clock, MinuteCollectors, WallClock
from monitor.settings import MonitorSettings
from monitor.sources.base import FinishedMinute, UnknownJob
from monitor.sources.prometheus.job import PrometheusJob
from monitor.sources.workers import WorkerTopology


class PrometheusSource:
    """The jobs of the file that are to be watched. Thread-safe. Each job has a collector, which looks at it every minute."""

    def __init__(self, settings: MonitorSettings, clock: Callable[[threading.Event], Clock] = WallClock) -> None:
        """Read the file; connect to nothing yet.

        Args:
            settings: where Prometheus is, which file names the jobs, and what the actuator is.
            clock: makes the clock of a collector; its waiting ends when the event is set.

        Raises:
            SettingsError: a file or a certificate cannot be used, or two files contradict each other.
        """
        self._settings, self._clock = settings, clock
        jobs = read_jobs(Path(settings.prometheus_file))
        self._jobs = {f"{settings.cluster}/{name}": job for name, job in jobs.items() if settings.watches(name)}
        self._replicas = replicas_of(settings)
        chains = read_chains(Path(settings.groups_file)) if settings.groups_file else {}
        _check_same_tasks(jobs, chains)
        self._workers = WorkerTopology(settings, chains)
        for name, watched in jobs.items():
            self._workers.check_tasks(name, watched.tasks)
        self._events = EventLog(settings.cluster)
        self._collectors = MinuteCollectors(lambda job: self.follow(job).look, clock)
        self._lock = threading.Lock()
        self._followed: dict[str, PrometheusJob] = {}

    @property
    def is_finite(self) -> bool:
        """Return False: the jobs have no end."""
        return False

    def jobs(self) -> list[str]:
        """Return the jobs of the file that are to be watched."""
        return sorted(self._jobs)

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return the minutes that are kept; waits half a second for one."""
        return self._collectors.minutes(job, after_ms)

    def end_of(self, last: JobTopology) -> JobTopology | None:
        """Return nothing: series that have gone may come back."""
        return None

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return nothing: policies measure for themselves."""
        self._check_known(job)
        return ()

    def cluster_topology(self) -> ClusterTopology:
        """Return what the actuator can do, and this machine with its room for workers if it starts them here."""
        topology = self._workers.topology()
        return replace(topology, engine=replace(topology.engine, engine=self._settings.engine))

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
                    self._workers.required,
                    self._events,
                    self._clock(threading.Event()),
                )
            return self._followed[job]

    def close(self) -> None:
        """Stop looking."""
        self._collectors.close()
        self._workers.close()
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
