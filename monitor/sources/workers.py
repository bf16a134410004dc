"""What keeps the workers of consumer groups, for sources: what it is asked for, what it can do, the room that it has."""

import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contracts.messages import ClusterTopology, Host
from engines.compose.capabilities import COMPOSE
from engines.compose.client import ComposeClient
from engines.compose.errors import ComposeError
from engines.compose.requirement import requirement_of as compose_requirement_of
from engines.flink_operator.capabilities import OPERATED
from engines.flink_operator.resource import check_vertices
from engines.groups.chains import Chain, check_scaled_whole
from engines.groups.requirement import Required
from engines.kubernetes.capabilities import KUBERNETES
from engines.kubernetes.connect import client_of
from engines.kubernetes.errors import KubernetesError, NotFound
from engines.kubernetes.requirement import requirement_of
from engines.processes.capabilities import PROCESSES, WATCHED
from engines.processes.worker_store import FolderUnavailable, WorkerStore
from monitor.settings import MonitorSettings
from monitor.sources.base import HELD, SourceUnavailable
from monitor.sources.operated import Operated

MEMBERS_LOOKS = 3
"""A worker counts as several members after so many looks in a row: one that died is a member for a minute."""
ASKED_MS = 3_600_000
"""What was asked for within this time may still drain."""
_CAPABILITIES = {"processes": PROCESSES, "compose": COMPOSE, "kubernetes": KUBERNETES}


@dataclass(slots=True)
class MembersEach:
    """Follows one task whose size is decided in members and asked for in workers, which must be one and the same.

    A worker may hold several members (threads, a listener's concurrency), and others may run members of their own. Then a size
    that was decided would be multiplied without a word.
    """

    _asked: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=1_000))
    _looks: int = MEMBERS_LOOKS - 1  # at the first look nobody knows better, and nothing may be asked for before

    def look(self, members: int, workers: int | None, now_ms: int) -> str:
        """Return why no other size can be asked for and what to do, in one line; empty if it can.

        Args:
            members: that run.
            workers: that are asked for, None if nobody is asked.
            now_ms: the time.
        """
        if not workers:
            return ""
        self._asked.append((now_ms, workers))
        while self._asked[0][0] < now_ms - ASKED_MS:
            self._asked.popleft()
        most = max(count for _, count in self._asked)
        self._looks = min(self._looks + 1, MEMBERS_LOOKS) if members >= 2 * most else 0
        if self._looks < MEMBERS_LOOKS:
            return ""
        each = f", {members // workers} in each" if members % workers == 0 else ""
        return (
            f"{members} members run where {workers} worker(s) are asked for{each}: sizes count members and are asked for in "
            "workers; run one member in each (one thread, a concurrency of 1), and none that is no worker's"
        )


class WorkerTopology:
    """The workers of every chain of the groups file, if there is an actuator. Thread-safe."""

    def __init__(self, settings: MonitorSettings, chains: Mapping[str, Chain]) -> None:
        """Ask nothing yet.

        Args:
            settings: what the actuator is, and where.
            chains: jobs of the groups file by name.

        Raises:
            SettingsError: the actuator cannot be used with these settings or chains.
        """
        self._settings, self._chains = settings, chains
        self._store = WorkerStore(Path(settings.workers_folder), settings.cluster) if settings.workers_folder else None
        is_operated = settings.engine == "flink"
        self._operated = Operated(settings) if settings.actuator_kind == "kubernetes" and is_operated else None
        self._kubernetes = client_of(settings) if settings.actuator_kind == "kubernetes" and not is_operated else None
        self._compose = ComposeClient(settings.compose_url) if settings.actuator_kind == "compose" else None
        if self._kubernetes is not None:
            check_scaled_whole(chains, "kubernetes")
        if self._compose is not None:
            check_scaled_whole(chains, "compose")
        self._lock = threading.Lock()
        self._version: tuple[tuple[Host, ...], int] = ((), 0)

    def check_tasks(self, name: str, tasks: Iterable[str]) -> None:
        """Refuse tasks that the Flink operator could not be told.

        Raises:
            SettingsError: names the task.
        """
        if self._operated is not None:
            check_vertices(self._operated.jobs, name, tasks)

    def required(self, name: str) -> Required | None:
        """Return what the workers of a job are asked to be, None if nobody keeps them.

        Raises:
            SourceUnavailable: it is unknown now.
        """
        if self._operated is not None:
            return self._operated.required(name)
        try:
            if self._kubernetes is not None:
                return requirement_of(self._kubernetes, self._chains[name]) if name in self._chains else None
            if self._compose is not None:
                return compose_requirement_of(self._compose, self._chains[name]) if name in self._chains else None
            return self._store.requirement(name) if self._store is not None else None
        except NotFound as problem:
            raise SourceUnavailable(f"{name}: {problem}; create it, or correct SURESCALE_GROUPS_FILE; {HELD}") from None
        except (KubernetesError, ComposeError, FolderUnavailable) as problem:
            raise SourceUnavailable(f"{name}: {problem}; {HELD}") from None

    def topology(self) -> ClusterTopology:
        """Return this machine with its room for workers, if they are processes here, and what the actuator can do.

        Raises:
            SourceUnavailable: the room is unknown now.
        """
        hosts: tuple[Host, ...] = ()
        if self._store is not None:
            try:
                running = sum(len(self._store.workers(job)) for job in self._store.jobs())
            except FolderUnavailable as away:
                raise SourceUnavailable(str(away)) from None
            most = self._settings.workers_max
            hosts = (Host(host=socket.gethostname(), slots=most, free_slots=max(0, most - running)),)
        with self._lock:
            if self._version[0] != hosts or not self._version[1]:
                self._version = (hosts, time.time_ns() // 1_000_000)
            version = self._version[1]
        engine = _CAPABILITIES.get(self._settings.actuator_kind, WATCHED) if self._operated is None else OPERATED
        return ClusterTopology(cluster=self._settings.cluster, version=version, at_ms=version, hosts=hosts, engine=engine)

    def close(self) -> None:
        """Close what is kept open."""
        for client in (self._kubernetes, self._compose, self._operated):
            if client is not None:
                client.close()
