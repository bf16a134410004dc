"""A stage for one benchmark: a broker, a Redis, roles of the road under a supervisor; and the processor time each has used."""

import contextlib
import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.error import HTTPError

from contracts.settings import RoadSettings
from runtime.kafka import create_topics
from services.stack.broker import LocalBroker
from services.stack.errors import Progress
from services.stack.local_road import fetch_json
from services.stack.ports import LOOPBACK, free_port
from services.stack.redis_server import LocalRedis
from services.stack.road import RoadPorts, road_roles, spark_environment
from services.stack.server import LocalServer
from services.stack.supervisor import Role, Supervisor, http_ok

# What a process is, by a word of its command line; the first that fits counts.
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
    """What runs, and where."""

    settings: RoadSettings
    supervisor: Supervisor
    say: Progress
    _health_ports: dict[str, int] = field(default_factory=dict)

    def start(self, role: str, *, called: str = "", spark_master: str = "local[2]", **environment: str) -> None:
        """Start one role of the road, ``called`` by its own name or another, and wait until it is ready."""
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
        self.supervisor.launch(replace(found, name=called or role, env=env, ready=lambda: http_ok(url)))

    def health(self, name: str) -> dict[str, Any]:
        """Return a role's health document, also while it is not ready; raises OSError while it does not answer at all."""
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
                if kind is not None and "child.py" not in words:
                    used[kind] = used.get(kind, 0.0) + _seconds(process)
        return used

    def resident_mb(self, kind: str) -> float:
        """Return the resident memory of one kind of process."""
        import psutil

        total = 0
        for process in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                words = " ".join(process.cmdline())
                if "child.py" not in words and next((name for word, name in _KINDS if word in words), None) == kind:
                    total += process.memory_info().rss
        return round(total / 1e6, 1)


def cores_used(before: Mapping[str, float], after: Mapping[str, float], wall_s: float) -> dict[str, float]:
    """Return how many cores each kind of process kept busy between two looks."""
    shares = {kind: (after[kind] - before.get(kind, 0.0)) / wall_s for kind in after}
    return {kind: round(share, 2) for kind, share in sorted(shares.items(), key=lambda pair: -pair[1]) if share >= 0.005}


@contextlib.contextmanager
def stage(say: Progress, *, with_redis: bool = False, **settings: Any) -> Iterator[Stage]:
    """Start a broker with the road's topics, and a Redis if asked for; take everything down at the end."""
    logging.getLogger("surescale.librdkafka").addHandler(logging.NullHandler())  # a broker that has just started says so often
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


def _seconds(process: Any) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)
