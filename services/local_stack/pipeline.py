"""What every local pipeline has: a supervisor, Kafka, Redis, ports, and the HTTP API of the state service."""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Self

import msgspec

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.topics import JOB_SETTINGS
from surescale.engines.settings import ClusterSettings
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import create_topics
from surescale.runtime.ports import LOOPBACK
from surescale.runtime.topic_records import send_all
from surescale.services.local_stack.errors import Say
from surescale.services.local_stack.roles import PipelinePorts
from surescale.services.local_stack.servers import LocalBroker, LocalRedis, LocalServer
from surescale.services.local_stack.supervisor import Supervisor
from surescale.services.state.documents import JobOverview


class Pipeline(ABC):
    """Owns the supervisor: leaving the ``with`` block takes everything down."""

    settings: ClusterSettings

    def __init__(self, say: Say) -> None:
        self._say = say
        self._began_s = time.monotonic()
        self.supervisor = Supervisor(progress=say)
        self._ports = PipelinePorts.free()

    def __enter__(self) -> Self:
        self.supervisor.__enter__()
        try:
            self._redis = LocalRedis(self.supervisor.folder / "redis")  # says at once if there is no program; a broker downloads
            self._broker = LocalBroker(self.supervisor.folder / "kafka", progress=self._say)
            self.settings = self._make_ready()
        except BaseException:
            self.supervisor.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, *problem: Any) -> None:
        self.supervisor.__exit__(*problem)

    @abstractmethod
    def _make_ready(self) -> ClusterSettings:
        """Prepare what this pipeline has beside Kafka and Redis, and return the settings of the roles. Nothing runs yet."""

    @abstractmethod
    def start(self) -> None:
        """Bring up servers, jobs and roles, then start the load or the trace.

        Raises:
            StackError: a process ended or was not ready in time; the message has its last log lines.
        """

    @property
    def http_url(self) -> str:
        """The HTTP API of the state service."""
        return f"http://{LOOPBACK}:{self._ports.http}/"

    def gates(self) -> dict[str, str]:
        """Return the phase of each job's gate as the state service shows it, or nothing while it does not answer."""
        try:
            jobs = msgspec.convert(fetch_json(f"{self.http_url}jobs"), list[JobOverview])
        except OSError:
            return {}
        return {job.job: job.gate_phase for job in jobs if job.gate_phase}

    def _start_servers(self, *more: LocalServer) -> None:
        """Start Kafka, Redis and ``more`` side by side, and create the topics."""
        servers = (self._broker, self._redis, *more)
        for server in servers:
            server.prepare()
        self.supervisor.start_together([server.role() for server in servers])
        create_topics(self.settings)

    def _publish(self, limits: Iterable[JobSettings]) -> None:
        """Publish the settings of jobs."""
        send_all(self.settings, JOB_SETTINGS, [(each.job.encode(), each) for each in limits])
