"""A Flink cluster as a source, over its REST API."""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

import msgspec

from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import cluster_of
from surescale.contracts.messages import ClusterTopology, Host, JobTopology
from surescale.contracts.modes import AMBIGUOUS_LABEL
from surescale.contracts.topology import check_cluster
from surescale.engines.flink.answers import TaskManager
from surescale.engines.flink.capabilities import capabilities_of
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.directory import JobDirectory
from surescale.engines.flink.errors import FlinkError
from surescale.engines.flink.identity import Identity
from surescale.engines.flink.job import ENGINE, FlinkEvents, FlinkJob
from surescale.engines.flink.memory import TaskManagerMemory
from surescale.engines.flink_operator.requirement import Operated, Requirement
from surescale.engines.kafka.offsets import TopicOffsets
from surescale.engines.ports.minutes import Clock, CollectedSource, WallClock
from surescale.engines.ports.source import SourceUnavailable, UnknownJob, become
from surescale.engines.registry import requirements_of
from surescale.engines.settings import SourceSettings
from surescale.runtime.kafka_clock import wall_ms

T = TypeVar("T")

HOSTS_KNOWN_FOR_S = 2.0  # all jobs end their minute at once, and each asks for the hosts
GONE_JOBS_MAX = 200  # jobs that have left and may come back under their name
_GIB = 2**30


class FlinkSource(CollectedSource[FlinkJob]):
    """The jobs of one cluster."""

    def __init__(self, settings: SourceSettings, clock: Callable[[threading.Event], Clock] = WallClock) -> None:
        """Connect to nothing yet.

        Args:
            settings: where the cluster is, what it is called, which jobs are watched, and which Kafka their sources read.
            clock: makes the clock of a collector; its waiting ends when the event is set.

        Raises:
            SettingsError: a certificate or a password cannot be used.
        """
        self._log = FlinkEvents(settings.cluster)
        super().__init__(clock, settings.look_spread_s, self._log)
        self._settings = settings
        self._client = FlinkClient(settings.engine_url, settings.access)
        self._memory = TaskManagerMemory(self._client)
        self._directory = JobDirectory(self._client, settings.cluster)
        self._requirements = requirements_of(settings)
        self._broker = TopicOffsets(settings.source_kafka())
        self._live: dict[str, Identity] = {}
        self._hosts_lock = threading.Lock()
        self._hosts: tuple[float, ClusterTopology] | None = None
        self._task_managers: frozenset[str] | None = None

    def jobs(self) -> list[str]:
        """Return the live jobs that are to be watched."""
        found = {each.job: each for each in self._ask(self._directory.live).values()}
        live: dict[str, Identity] = {
            job: each
            for job, each in found.items()
            if self._settings.watches(each.engine_name) or self._settings.watches(job.partition("/")[2])
            if self._settings.watches_labels(dict(each.labels))
        }
        with self._lock:
            self._live = live
            gone = [job for job in self._followed if job not in live]
            for job in gone[:-GONE_JOBS_MAX]:
                del self._followed[job]
        return sorted(live)

    def end_of(self, last: JobTopology) -> JobTopology | None:
        """Return the topology of a job of this cluster that has ended; no request is made."""
        if last.engine != ENGINE or cluster_of(last.job) != self._settings.cluster:
            return None
        state = self._directory.end_of(last.epoch)
        if state is not None:
            return become(last, state)
        known_as = self._plain_name_of(last)
        if not known_as:
            return None
        ended = become(last, "finished")
        told = f"known as {known_as} again: it is the only job of that name"
        self._log.add("job_stopped", f"renamed:{last.epoch}", ended.at_ms, job=last.job, detail=told)
        return ended

    def _plain_name_of(self, last: JobTopology) -> str:
        """Return the name by which a job's submission is known again after others of its name have gone; empty: it is not."""
        with self._lock:
            known_as = next((each.job for each in self._live.values() if each.flink_job == last.epoch), last.job)
        return known_as if AMBIGUOUS_LABEL in last.labels and known_as != last.job else ""

    def cluster_topology(self) -> ClusterTopology:
        """Return the TaskManagers with their slots, and what the cluster can do."""
        with self._hosts_lock:
            if self._hosts is None or time.monotonic() - self._hosts[0] > HOSTS_KNOWN_FOR_S:
                self._hosts = (time.monotonic(), self._ask(self._look_at_hosts))
            return self._hosts[1]

    def close(self) -> None:
        """Stop looking."""
        super().close()
        self._client.close()
        self._requirements.close()

    def _operated(self, job: str) -> Requirement | None:
        """Return what the operator's resource of a job asks for; None: there is none."""
        asked = self._requirements.required(job.partition("/")[2])
        return asked if isinstance(asked, Requirement) else None

    def _looks_at(self, job: str, clock: Clock) -> FlinkJob:
        return FlinkJob(job, self._find, self._client, self._broker, self._log, clock, self._operated, self._memory)

    def _check_known(self, job: str) -> None:
        if job not in self._live:
            raise UnknownJob(f"Flink has no live job {job!r}")

    def _find(self, job: str) -> Identity | None:
        return self._live.get(job)

    def _look_at_hosts(self) -> ClusterTopology:
        overview, configuration = self._client.overview(), self._client.configuration()
        hosts = tuple(sorted((_host(each) for each in self._client.task_managers()), key=lambda host: host.host))
        now_ms = wall_ms()
        capabilities = capabilities_of(overview, configuration)
        if capabilities.acts == "none" and isinstance(self._requirements, Operated) and self._requirements.upgrades:
            capabilities = msgspec.structs.replace(self._requirements.can, version=overview.flink_version)
        topology = ClusterTopology(cluster=self._settings.cluster, version=now_ms, at_ms=now_ms, hosts=hosts, engine=capabilities)
        try:
            check_cluster(topology)
        except RecordRejected as error:
            raise SourceUnavailable(f"{self._client.url}/taskmanagers gave an unexpected answer: {error}") from None
        self._note_hosts(frozenset(host.host for host in hosts), now_ms)
        before = self._hosts[1] if self._hosts is not None else None
        if before is not None and before == msgspec.structs.replace(topology, version=before.version, at_ms=before.at_ms):
            return before
        return topology

    def _note_hosts(self, names: frozenset[str], now_ms: int) -> None:
        before, self._task_managers = self._task_managers, names
        for name in sorted(names - before) if before is not None else ():
            self._log.add("host_joined", f"joined:{name}:{now_ms}", now_ms, host=name)
        for name in sorted(before - names) if before is not None else ():
            self._log.add("host_lost", f"lost:{name}:{now_ms}", now_ms, host=name)

    def _ask(self, question: Callable[[], T]) -> T:
        try:
            return question()
        except FlinkError as problem:
            raise SourceUnavailable(str(problem)) from None


def _host(manager: TaskManager) -> Host:
    resources, hardware = manager.total_resource, manager.hardware
    memory = manager.memory_configuration.total_process_memory or hardware.physical_memory
    return Host(
        host=manager.id,
        slots=manager.slots_number,
        free_slots=manager.free_slots,
        cpu_cores=max(resources.cpu_cores, 0.0) or float(max(hardware.cpu_cores, 1)),
        memory_gb=memory / _GIB if memory > 0 else 1.0,
    )
