"""The roles of one pipeline as supervised processes: command, settings, readiness. Starts nothing."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.runtime.http import is_ok
from surescale.runtime.ports import LOOPBACK, free_ports
from surescale.services.local_stack.artifacts import MSK_IAM, SPARK_KAFKA, fetch
from surescale.services.local_stack.errors import Say
from surescale.services.local_stack.java import find_java
from surescale.services.local_stack.supervisor import Role

THREADS = {"OMP_NUM_THREADS": "1", "GLIBC_TUNABLES": "glibc.malloc.arena_max=2:glibc.malloc.tcache_count=0"}
"""As in the images. glibc keeps freed memory for each thread, up to 0.2 MB, and the monitor has a thread a job."""
READY_TIMEOUT_S = 600.0  # for one that hangs; one that ends is noticed at once, and Spark starts slowly on a busy machine


@dataclass(frozen=True, slots=True)
class PipelinePorts:
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
        """Return ports on which nothing listens; ``http`` fixes the one that people type."""
        engine, free_http, monitor, spark, agent, rescaler, state = free_ports(7)
        return cls(engine, http or free_http, monitor, spark, agent, rescaler, state)


def surescale(*arguments: str) -> list[str]:
    """Return the command line that runs a command of this installation, whatever folder it is started in (``-P``)."""
    return [sys.executable, "-P", "-m", "surescale.services.cli", *arguments]


def pipeline_roles(
    settings: PipelineSettings,
    ports: PipelinePorts,
    *,
    spark_env: Mapping[str, str],
    spark_arguments: Sequence[str],
    rescaler_arguments: Sequence[str] = (),
    one_process: bool = False,
) -> list[Role]:
    """Return Spark job, monitor, agent, rescaler and state service, in the best order to start them.

    Spark comes first because its session takes longest. In ``one_process`` the others share one process beside it, and
    ``rescaler_arguments`` are not used.
    """
    spark = _role("spark", settings, ports.spark, ["spark", *spark_arguments], env=spark_env, stop_grace_s=20.0)
    if one_process:
        return [spark, _shared_process(settings, ports)]
    return [
        spark,
        _role("monitor", settings, ports.monitor, ["monitor"]),
        _role("agent", settings, ports.agent, ["agent"]),
        _role("rescaler", settings, ports.rescaler, ["rescaler", *rescaler_arguments]),
        _role("state-service", settings, ports.state, ["state-service", "--port", str(ports.http)]),
    ]


def _shared_process(settings: PipelineSettings, ports: PipelinePorts) -> Role:
    health = {"monitor": ports.monitor, "agent": ports.agent, "rescaler": ports.rescaler, "state-service": ports.state}
    urls = [f"http://{LOOPBACK}:{port}/health" for port in health.values()]
    return Role(
        name="together",
        command=surescale("run", "together", *(f"{role}:{port}" for role, port in health.items())),
        env={**to_environment(settings), **THREADS, "SURESCALE_HTTP_PORT": str(ports.http)},
        ready=lambda: all(map(is_ok, urls)),
        ready_timeout_s=READY_TIMEOUT_S,
        stop_grace_s=10.0,
    )


def engine_role(settings: PipelineSettings, ports: PipelinePorts, arguments: Sequence[str]) -> Role:
    """Return the simulated engine."""
    return Role(
        name="engine",
        command=surescale("run", "engine", "--port", str(ports.engine), *arguments),
        env=to_environment(settings),
        ready=lambda: is_ok(f"http://{LOOPBACK}:{ports.engine}/health"),
        ready_timeout_s=READY_TIMEOUT_S,
    )


def _role(
    name: str,
    settings: PipelineSettings,
    port: int,
    arguments: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    stop_grace_s: float = 10.0,
) -> Role:
    url = f"http://{LOOPBACK}:{port}/health"
    return Role(
        name=name,
        command=surescale("run", *arguments),
        env={**to_environment(replace(settings, health_port=port)), **THREADS, **(env or {})},
        ready=lambda: is_ok(url),
        ready_timeout_s=READY_TIMEOUT_S,
        stop_grace_s=stop_grace_s,
    )


def spark_environment(progress: Say, *, iam: bool = False) -> dict[str, str]:
    """Return the environment in which the Spark job starts without downloading anything: Java and the connector's jars.

    ``iam``: also those of AWS MSK's IAM.

    Raises:
        StackError: there is no Java, or the jars could not be fetched.
    """
    java = find_java()
    jars = [jar for each in (SPARK_KAFKA, *(MSK_IAM,) * iam) for jar in fetch(each, java=java, progress=progress)]
    return {"JAVA_HOME": str(java.home), "SURESCALE_SPARK_JARS": ",".join(map(str, jars)), "SPARK_LOCAL_IP": LOOPBACK}
