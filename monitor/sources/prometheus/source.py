"""The jobs of a file as a source, through Prometheus' HTTP API."""

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from contracts.capabilities import Capabilities
from contracts.messages import ClusterTopology, EngineEvent, Host, HourlyLoad, JobTopology
from engines.access import Access
from engines.processes.capabilities import PROCESSES
from engines.processes.workforce import FolderAway, Requirement, Workforce
from engines.prometheus.client import PrometheusClient
from engines.prometheus.jobs import SETTING, read_jobs
from monitor.event_log import EventLog
from monitor.minutes import Clock, Keepers, WallClock
from monitor.settings import MonitorSettings
from monitor.sources.base import FinishedMinute, SourceAway, UnknownJob
from monitor.sources.prometheus.job import PrometheusJob

_SETTINGS = "SURESCALE_PROMETHEUS"


class PrometheusSource:
    """The jobs of the file that are to be watched. Thread-safe. Each job has a keeper, which looks at it every minute."""

    def __init__(self, settings: MonitorSettings, clock: Callable[[threading.Event], Clock] = WallClock) -> None:
        """Read the file; connect to nothing yet.

        Args:
            settings: where Prometheus is, which file names the jobs, and what the actuator is.
            clock: makes the clock of a keeper; its waiting ends when the event is set.

        Raises:
            SettingsError: the file or a certificate cannot be used.
        """
        self._settings, self._clock = settings, clock
        jobs = read_jobs(Path(settings.prometheus_file))
        self._jobs = {f"{settings.cluster}/{name}": job for name, job in jobs.items() if settings.watches(name)}
        access = Access(
            settings.prometheus_token_file,
            settings.prometheus_ca_file,
            settings.prometheus_certificate_file,
            settings.prometheus_key_file,
            settings=_SETTINGS,
        )
        self._replicas = [PrometheusClient(url, access) for url in settings.prometheus_urls()]
        self._workforce = Workforce(Path(settings.workers_folder), settings.cluster) if settings.workers_folder else None
        self._events = EventLog(settings.cluster)
        self._keepers = Keepers(lambda job: self.follow(job).look, clock)
        self._lock = threading.Lock()
        self._followed: dict[str, PrometheusJob] = {}
        self._version: tuple[tuple[Host, ...], int] = ((), 0)

    @property
    def is_finite(self) -> bool:
        """Return False: the jobs have no end."""
        return False

    def jobs(self) -> list[str]:
        """Return the jobs of the file that are to be watched."""
        return sorted(self._jobs)

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return the minutes that are kept; waits half a second for one."""
        return self._keepers.minutes(job, after_ms)

    def end_of(self, last: JobTopology) -> JobTopology | None:
        """Return nothing: series that have gone may come back."""
        return None

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return nothing: policies measure for themselves."""
        self._check_known(job)
        return ()

    def cluster_topology(self) -> ClusterTopology:
        """Return what the actuator can do, and this machine with its room for workers if it starts them here."""
        hosts: tuple[Host, ...] = ()
        engine = Capabilities(engine=self._settings.engine)
        if self._workforce is not None:
            engine = PROCESSES
            try:
                running = sum(len(self._workforce.workers(job)) for job in self._workforce.jobs())
            except FolderAway as away:
                raise SourceAway(str(away)) from None
            most = self._settings.workers_max
            hosts = (Host(host=socket.gethostname(), slots=most, free_slots=max(0, most - running)),)
        with self._lock:
            if self._version[0] != hosts or not self._version[1]:
                self._version = (hosts, time.time_ns() // 1_000_000)
            version = self._version[1]
        return ClusterTopology(cluster=self._settings.cluster, version=version, at_ms=version, hosts=hosts, engine=engine)

    def events(self, after_id: str) -> list[EngineEvent]:
        """Return what happened after an event, as far as the looks have shown."""
        return self._events.after(after_id)

    def follow(self, job: str) -> PrometheusJob:
        """Return what looks at a job; its keeper looks in one thread.

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
                    self._requirement,
                    self._events,
                    self._clock(threading.Event()),
                )
            return self._followed[job]

    def close(self) -> None:
        """Stop looking."""
        self._keepers.close()
        for replica in self._replicas:
            replica.close()

    def _check_known(self, job: str) -> None:
        if job not in self._jobs:
            raise UnknownJob(f"there is no job {job!r}: name it in {SETTING}")

    def _requirement(self, name: str) -> Requirement | None:
        return self._workforce.requirement(name) if self._workforce is not None else None
