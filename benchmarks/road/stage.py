"""The stage of one benchmark: a broker, a Redis and roles under a supervisor, with the processor time each has used."""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.error import HTTPError

from confluent_kafka import Producer

from benchmarks.report import BenchFailed
from contracts.settings import RoadSettings
from runtime.http import fetch_json, is_ok
from runtime.kafka import create_topics
from runtime.ports import LOOPBACK, free_port
from services.local_stack.broker import LocalBroker
from services.local_stack.errors import Say
from services.local_stack.local_server import LocalServer
from services.local_stack.redis_server import LocalRedis
from services.local_stack.roles import RoadPorts, road_roles, spark_environment
from services.local_stack.supervisor import Role, Supervisor

FLUSH_TIMEOUT_S = 120.0
# The kind of a process, by words of its command line; the first match counts.
_KINDS = (
    ("kafka.Kafka", "broker"),
    ("org.apache.spark.executor", "spark_executors"),
    ("org.apache.spark", "spark_jvm"),
    ("worker_daemon", "spark_workers"),
    ("services.cli spark", "spark_driver"),
    ("services.cli agent", "agent"),
    ("services.cli state-service", "projector"),
    ("services.cli monitor", "monitor"),
    ("services.cli engine", "engine"),
    ("services.cli rescaler", "rescaler"),
    ("redis-server", "redis"),
)


@dataclass(slots=True)
class Stage:
    """The processes of one benchmark, and where to reach them."""

    settings: RoadSettings
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
        roles = road_roles(self.settings, RoadPorts.free(), spark_env=spark, spark_arguments=arguments)
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

    def processor_s(self) -> dict[str, float]:
        """Return the processor seconds used so far, by kind of process; ``generator`` is this process."""
        import psutil

        this = psutil.Process()
        used = {"generator": _seconds(this)}
        for process in this.children(recursive=True):
            with contextlib.suppress(psutil.Error):
                words = " ".join(process.cmdline())
                kind = next((kind for word, kind in _KINDS if word in words), None)
                if kind is not None and "process_group.py" not in words:
                    used[kind] = used.get(kind, 0.0) + _seconds(process)
        return used

    def resident_mb(self, kind: str) -> float:
        """Return the resident memory of one kind of process."""
        import psutil

        total = 0
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                words = " ".join(process.cmdline())
                if "process_group.py" not in words and next((name for word, name in _KINDS if word in words), None) == kind:
                    total += process.memory_info().rss
        return round(total / 1e6, 1)


def cores_used(before: Mapping[str, float], after: Mapping[str, float], wall_s: float) -> dict[str, float]:
    """Return how many cores each kind of process kept busy between two readings."""
    shares = {kind: (after[kind] - before.get(kind, 0.0)) / wall_s for kind in after}
    return {kind: round(share, 2) for kind, share in sorted(shares.items(), key=lambda pair: -pair[1]) if share >= 0.005}


@contextlib.contextmanager
def stage(say: Say, *, with_redis: bool = False, **settings: Any) -> Iterator[Stage]:
    """Start a broker with the topics, and a Redis if asked for. Stop everything at the end."""
    logging.getLogger("surescale.librdkafka").addHandler(logging.NullHandler())  # it repeats itself while the broker starts
    with Supervisor(progress=say) as supervisor:
        broker = LocalBroker(supervisor.folder / "kafka", progress=say)
        servers: list[LocalServer] = [broker]
        found = RoadSettings(bootstrap=broker.bootstrap, **settings)
        if with_redis:
            redis = LocalRedis(supervisor.folder / "redis")
            servers.append(redis)
            found = replace(found, redis_url=redis.url)
        for server in servers:
            server.prepare()
            supervisor.start(Role(server.name, server.command(), ready=server.answers, stop_grace_s=server.stop_grace_s))
        create_topics(found)
        yield Stage(found, supervisor, say)


def flush(client: Producer) -> None:
    """Wait until the broker has acknowledged every record.

    Raises:
        BenchFailed: it has not within two minutes.
    """
    if client.flush(FLUSH_TIMEOUT_S):
        raise BenchFailed(f"the broker did not acknowledge all records within {FLUSH_TIMEOUT_S:g} s")


def _seconds(process: Any) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
