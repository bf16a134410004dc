"""The stage of one benchmark: a broker, a Redis and roles under a supervisor."""

import contextlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.error import HTTPError

from confluent_kafka import Producer

from benchmarks.report import BenchFailed
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.http import fetch_json, is_ok
from surescale.runtime.kafka import create_topics
from surescale.runtime.ports import LOOPBACK, free_port
from surescale.services.local_stack.errors import Say
from surescale.services.local_stack.roles import PipelinePorts, pipeline_roles, spark_environment
from surescale.services.local_stack.servers import LocalBroker, LocalRedis, LocalServer
from surescale.services.local_stack.supervisor import Supervisor

FLUSH_TIMEOUT_S = 120.0


@dataclass(slots=True)
class Stage:
    """The processes of one benchmark, and where to reach them."""

    settings: PipelineSettings
    supervisor: Supervisor
    say: Say
    _health_ports: dict[str, int] = field(default_factory=dict)

    def start(self, role: str, *, called: str = "", spark_master: str = "local[2]", **environment: str) -> None:
        """Start one role, under its own name or the name ``called``, and wait until it is ready."""
        self.launch(role, called=called, spark_master=spark_master, **environment)
        self.supervisor.await_ready(called or role)

    def launch(self, role: str, *, called: str = "", spark_master: str = "local[2]", **environment: str) -> None:
        """Start one role without waiting for it."""
        spark = spark_environment(self.say) if role == "spark" else {}
        arguments = ["--master", spark_master, "--checkpoint", str(self.supervisor.folder / "checkpoint")]
        roles = pipeline_roles(self.settings, PipelinePorts.free(), spark_env=spark, spark_arguments=arguments)
        found = next(each for each in roles if each.name == role)
        port = self._health_ports[called or role] = free_port()
        url = f"http://{LOOPBACK}:{port}/health"
        env = {**found.env, "SURESCALE_HEALTH_PORT": str(port), **environment}
        self.supervisor.launch(replace(found, name=called or role, env=env, ready=lambda: is_ok(url)))

    def health(self, name: str) -> dict[str, Any]:
        """Return a role's health document, even while it is not ready.

        Raises:
            OSError: the role does not answer at all.
        """
        self.supervisor.check()
        try:
            found: dict[str, Any] = fetch_json(f"http://{LOOPBACK}:{self._health_ports[name]}/health")
        except HTTPError as not_ready:
            found = json.load(not_ready)
        return found


@contextlib.contextmanager
def stage(say: Say, *, with_redis: bool = False, **settings: Any) -> Iterator[Stage]:
    """Start a broker with the topics, and a Redis if asked for. Stop everything at the end."""
    logging.getLogger("surescale.librdkafka").addHandler(logging.NullHandler())  # it repeats itself while the broker starts
    with Supervisor(progress=say) as supervisor:
        broker = LocalBroker(supervisor.folder / "kafka", progress=say)
        servers: list[LocalServer] = [broker]
        found = PipelineSettings(bootstrap=broker.bootstrap, **settings)
        if with_redis:
            redis = LocalRedis(supervisor.folder / "redis")
            servers.append(redis)
            found = replace(found, redis_url=redis.url)
        for server in servers:
            server.prepare()
            supervisor.start(server.role())
        create_topics(found)
        yield Stage(found, supervisor, say)


def flush(client: Producer) -> None:
    """Wait until the broker has acknowledged every record.

    Raises:
        BenchFailed: it has not within two minutes.
    """
    if client.flush(FLUSH_TIMEOUT_S):
        raise BenchFailed(f"the broker did not acknowledge all records within {FLUSH_TIMEOUT_S:g} s")
