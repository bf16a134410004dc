"""Consumer groups of one Kafka cluster as a source, through Kafka's Admin API."""

import threading
from collections.abc import Callable
from pathlib import Path

from contracts.messages import ClusterTopology, EngineEvent, HourlyLoad, JobTopology
from contracts.topics import own_groups
from engines.groups.broker import GroupReader, GroupsUnavailable
from engines.groups.chains import Chain, read_chains, single
from engines.kafka.offsets import TopicOffsets
from monitor.event_log import EventLog
from monitor.minutes import Clock, MinuteCollectors, WallClock
from monitor.settings import MonitorSettings
from monitor.sources.base import FinishedMinute, SourceUnavailable, UnknownJob
from monitor.sources.consumer_group.job import ChainJob
from monitor.sources.workers import WorkerTopology


class ConsumerGroupSource:
    """The jobs of the groups file; without one, every group that has members. Thread-safe. Each job has a collector."""

    def __init__(
        self, settings: MonitorSettings, clock: Callable[[threading.Event], Clock] = WallClock, speed: float = 1.0
    ) -> None:
        """Read the groups file; connect to nothing yet.

        Args:
            settings: which Kafka, which jobs, and what the actuator is.
            clock: makes the clock of a collector; its waiting ends when the event is set.
            speed: milliseconds of that clock in one of the wall's.

        Raises:
            SettingsError: the file or the credentials cannot be used.
        """
        self._settings, self._clock, self._speed = settings, clock, speed
        self._groups, self._broker = GroupReader(settings.source_kafka()), TopicOffsets(settings.source_kafka())
        self._chains = read_chains(Path(settings.groups_file)) if settings.groups_file else None
        self._workers = WorkerTopology(settings, self._chains or {})
        self._own = own_groups(settings.topic_prefix, settings.cluster)
        self._events = EventLog(settings.cluster)
        self._lock = threading.Lock()
        self._live: dict[str, Chain] = {}
        self._collectors = MinuteCollectors(lambda job: self.follow(job).look, clock)
        self._followed: dict[str, ChainJob] = {}

    @property
    def is_finite(self) -> bool:
        """Return False: a cluster has no end."""
        return False

    def jobs(self) -> list[str]:
        """Return the jobs that are to be watched."""
        chains = self._chains
        if chains is None:
            try:
                found = [single(group) for group in self._groups.names() if group not in self._own]
            except GroupsUnavailable as problem:
                raise SourceUnavailable(str(problem)) from None
            chains = {chain.name: chain for chain in found}
        live = {f"{self._settings.cluster}/{name}": chain for name, chain in chains.items() if self._settings.watches(name)}
        with self._lock:
            self._live = live
        return sorted(live)

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return the minutes that are kept; waits half a second for one."""
        return self._collectors.minutes(job, after_ms)

    def end_of(self, last: JobTopology) -> JobTopology | None:
        """Return nothing: a group without members may have some again."""
        return None

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return nothing: offsets have no past."""
        self._chain(job)
        return ()

    def cluster_topology(self) -> ClusterTopology:
        """Return this machine with its room for workers, if there is an actuator, and what that can do."""
        return self._workers.topology()

    def events(self, after_id: str) -> list[EngineEvent]:
        """Return what happened after an event, as far as the looks have shown."""
        return self._events.after(after_id)

    def follow(self, job: str) -> ChainJob:
        """Return what looks at a job; its collector looks in one thread.

        Raises:
            UnknownJob: there is no such job.
        """
        chain = self._chain(job)
        with self._lock:
            if job not in self._followed:
                clock = self._clock(threading.Event())
                self._followed[job] = ChainJob(
                    job, chain, self._groups, self._broker, self._workers.required, self._events, clock, self._speed
                )
            return self._followed[job]

    def close(self) -> None:
        """Stop looking."""
        self._collectors.close()
        self._workers.close()

    def _chain(self, job: str) -> Chain:
        with self._lock:
            chain = self._live.get(job)
        if chain is None:
            raise UnknownJob(f"there is no job {job!r}: name it in SURESCALE_GROUPS_FILE, or start its consumers")
        return chain
