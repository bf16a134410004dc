"""The roles of one road as supervised processes: which command, which settings, when ready. Starts nothing."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from contracts.settings import RoadSettings, to_environment
from services.stack.artifacts import fetch
from services.stack.errors import Progress
from services.stack.java import find_java
from services.stack.locked import SPARK_KAFKA
from services.stack.ports import LOOPBACK, free_ports
from services.stack.supervisor import Role, http_ok

READY_TIMEOUT_S = 180.0


@dataclass(frozen=True, slots=True)
class RoadPorts:
    """Loopback ports of the roles: health of each, and the two HTTP APIs."""

    engine: int
    http: int
    monitor: int
    spark: int
    agent: int
    rescaler: int
    state: int

    @classmethod
    def free(cls, http: int | None = None) -> Self:
        """Return ports on which nothing listens; ``http`` fixes the one that people will type."""
        engine, free_http, monitor, spark, agent, rescaler, state = free_ports(7)
        return cls(engine, http or free_http, monitor, spark, agent, rescaler, state)


def surescale(*arguments: str) -> list[str]:
    """Return the command line of a command of this very installation."""
    return [sys.executable, "-m", "services.cli", *arguments]


def road_roles(
    settings: RoadSettings,
    ports: RoadPorts,
    *,
    spark_env: Mapping[str, str],
    spark_arguments: Sequence[str],
    rescaler_arguments: Sequence[str] = (),
) -> list[Role]:
    """Return monitor, Spark job, agent, rescaler and state projector, in the order in which they are best started.

    Spark comes first: its session takes longest.
    """
    return [
        _role("spark", settings, ports.spark, ["spark", *spark_arguments], env=spark_env, stop_grace_s=20.0),
        _role("monitor", settings, ports.monitor, ["monitor"]),
        _role("agent", settings, ports.agent, ["agent"], env={"OMP_NUM_THREADS": "1"}),
        _role("rescaler", settings, ports.rescaler, ["rescaler", *rescaler_arguments]),
        _role("state-service", settings, ports.state, ["state-service", "--port", str(ports.http)]),
    ]


def engine_role(settings: RoadSettings, ports: RoadPorts, arguments: Sequence[str]) -> Role:
    """Return the simulated engine."""
    return Role(
        name="engine",
        command=surescale("engine", "--port", str(ports.engine), *arguments),
        env=to_environment(settings),
        ready=lambda: http_ok(f"http://{LOOPBACK}:{ports.engine}/health"),
        ready_timeout_s=READY_TIMEOUT_S,
    )


def _role(
    name: str,
    settings: RoadSettings,
    port: int,
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stop_grace_s: float = 10.0,
) -> Role:
    url = f"http://{LOOPBACK}:{port}/health"
    return Role(
        name=name,
        command=surescale(*arguments),
        env={**to_environment(replace(settings, health_port=port)), **(env or {})},
        ready=lambda: http_ok(url),
        ready_timeout_s=READY_TIMEOUT_S,
        stop_grace_s=stop_grace_s,
    )


def spark_environment(progress: Progress) -> dict[str, str]:
    """Return what the Spark job needs to start without downloading anything: its Java and its connector's jars.

    Raises:
        StackError: there is no Java, or the jars could not be fetched.
    """
    java = find_java()
    jars = fetch(SPARK_KAFKA, java=java, progress=progress)
    return {"JAVA_HOME": str(java.home), "SURESCALE_SPARK_JARS": ",".join(map(str, jars)), "SPARK_LOCAL_IP": LOOPBACK}
