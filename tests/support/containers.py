"""Kafka, Redis and the whole pipeline in containers, for machines on which a container engine really runs them.

The images of Kafka and Redis are the official ones unless KAFKA_IMAGE or REDIS_IMAGE name others; those of the roles are
built by compose/build.sh.
"""

import contextlib
import os
import shutil
import subprocess
import tarfile
import time
import uuid
from dataclasses import dataclass
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any, Self

# The fixtures stop what they start, and the library's own cleaner is one more image that may be out of reach.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # read when the library is imported

import docker
from docker.errors import NotFound
from testcontainers.community.redis import RedisContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from surescale.contracts.settings import PipelineSettings
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import create_topics
from surescale.services.local_stack.servers import SETTINGS
from tests.support.waiting import wait_until

KAFKA_IMAGE = os.environ.get("KAFKA_IMAGE", "apache/kafka:4.2.1")
REDIS_IMAGE = os.environ.get("REDIS_IMAGE", "redis:7")
PROMETHEUS_IMAGE = os.environ.get("PROMETHEUS_IMAGE", "prom/prometheus:v3.5.0")
_ENGINE_TIMEOUT_S = 15.0
_IMAGE_TIMEOUT_S = 300.0
_START_TIMEOUT_S = 120
_CLIENTS_PORT = 9092
_ROLES_PORT = 19_092
_START_SCRIPT = "/tmp/start.sh"
_ROOT = Path(__file__).parents[2]
_ENGINE_PORT = 8090
_HTTP_PORT = 8070
_BUILD_TIMEOUT_S = 1_200.0
_HEALTHY_TIMEOUT_S = 240.0
_STOP_WITHIN_S = 30


def why_not() -> str | None:
    """Return why containers cannot be used here, None if they can.

    Only a container that ran is proof: an engine that may not make namespaces still answers questions about itself.
    SURESCALE_NO_CONTAINERS says that somebody tried already, and what they found.
    """
    if os.environ.get("SURESCALE_NO_CONTAINERS"):
        return os.environ["SURESCALE_NO_CONTAINERS"]
    docker = shutil.which("docker")
    if docker is None:
        return "no docker command"
    problem = _run([docker, "info", "--format", "{{.ServerVersion}}"], _ENGINE_TIMEOUT_S)
    for image in (REDIS_IMAGE, KAFKA_IMAGE):
        problem = problem or _run([docker, "run", "--rm", "--entrypoint", "true", image], _IMAGE_TIMEOUT_S)
    return problem


def why_no_compose() -> str | None:
    """Return why the Compose file cannot be tried here, None if it can."""
    if os.environ.get("SURESCALE_TEST_STACK") == "local":
        return "SURESCALE_TEST_STACK=local"
    problem = why_not()
    if problem is None and _run(["docker", "compose", "version"], _ENGINE_TIMEOUT_S) and not shutil.which("docker-compose"):
        problem = "neither 'docker compose' nor docker-compose is installed"
    if problem is None and _run(["docker", "image", "inspect", PROMETHEUS_IMAGE], _ENGINE_TIMEOUT_S):
        problem = _run(["docker", "pull", "--quiet", PROMETHEUS_IMAGE], _IMAGE_TIMEOUT_S)
    return problem


class KafkaInContainer(DockerContainer):
    """One KRaft broker of the official image; clients reach it through a published port, which it must advertise.

    Containers of its network reach it as ``kafka:19092`` when it has that alias.
    """

    def __init__(self) -> None:
        super().__init__(KAFKA_IMAGE)
        self.with_exposed_ports(_CLIENTS_PORT)
        settings = {
            **SETTINGS,
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join(
                (
                    f"CLIENTS://0.0.0.0:{_CLIENTS_PORT}",
                    f"ROLES://0.0.0.0:{_ROLES_PORT}",
                    "INTERNAL://localhost:9093",
                    "CONTROLLER://localhost:9094",
                )
            ),
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,ROLES:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": "1@localhost:9094",
        }
        for key, value in settings.items():
            self.with_env("KAFKA_" + key.upper().replace(".", "_"), value)
        # The published port is known only when the container runs, so the broker waits for its start script.
        self.with_command(["sh", "-c", f"while [ ! -f {_START_SCRIPT} ]; do sleep 0.1; done; exec sh {_START_SCRIPT}"])

    @property
    def bootstrap(self) -> str:
        """The address to give to clients."""
        return f"{self.get_container_host_ip()}:{self.get_exposed_port(_CLIENTS_PORT)}"

    def start(self) -> "KafkaInContainer":
        """Start the container, tell the broker its address, wait until it serves."""
        super().start()
        advertised = f"CLIENTS://{self.bootstrap},ROLES://kafka:{_ROLES_PORT},INTERNAL://localhost:9093"
        script = f"export KAFKA_ADVERTISED_LISTENERS={advertised}\nexec /etc/kafka/docker/run\n"
        self.get_wrapped_container().put_archive("/", _archive(_START_SCRIPT, script))
        started = LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(_START_TIMEOUT_S)
        started.wait_until_ready(self)
        return self


def role_image(role: str) -> str:
    """Return the name of a role's image."""
    registry, tag = os.environ.get("SURESCALE_REGISTRY", "surescale"), os.environ.get("SURESCALE_TAG", version("surescale"))
    return f"{registry}/{role}:{tag}"


def build_missing_images(roles: tuple[str, ...]) -> None:
    """Build the images of roles that the engine does not have, as a user does.

    Raises:
        RuntimeError: the build failed; the message is what it said.
    """
    missing = [role for role in roles if _run(["docker", "image", "inspect", role_image(role)], _ENGINE_TIMEOUT_S) is not None]
    if not missing:
        return
    command = [str(_ROOT / "compose/build.sh"), *missing]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_BUILD_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a container ended after SIGTERM."""

    exit_code: int
    took_s: float


class RoleInContainer(DockerContainer):
    """A role's image, confined as in compose.yaml: read-only, no capabilities, limited memory."""

    def __init__(self, role: str, network: Network, *, name: str = "", memory: str = "768m") -> None:
        super().__init__(role_image(role))
        self.role = role
        self.with_network(network).with_network_aliases(name or role)
        confined: dict[str, Any] = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"]}
        self.with_kwargs(**confined, mem_limit=memory, pids_limit=512)
        self.tmpfs["/tmp"] = "exec,size=512m,mode=1777"

    @property
    def health(self) -> str:
        """What the image's health check last said: starting, healthy, unhealthy."""
        container = self.get_wrapped_container()
        container.reload()
        if container.status != "running":
            last = container.logs(tail=5).decode(errors="replace")
            raise RuntimeError(f"{self.role} is {container.status}; its last words:\n{last}")
        return str(container.attrs["State"]["Health"]["Status"])

    def wait_healthy(self) -> None:
        """Wait until the health check is content."""
        wait_until(lambda: self.health == "healthy", _HEALTHY_TIMEOUT_S, f"{self.role} to be healthy")

    def kill_and_start(self) -> None:
        """Take it away without a word, and bring the same container back."""
        self.get_wrapped_container().kill()
        self.get_wrapped_container().start()

    def stop_politely(self) -> Stopped:
        """Send SIGTERM and wait for the end; the container stays, and can be started again."""
        began_s = time.monotonic()
        container = self.get_wrapped_container()
        container.stop(timeout=_STOP_WITHIN_S)
        took_s = time.monotonic() - began_s
        return Stopped(int(container.wait()["StatusCode"]), took_s)


class PipelineInContainers:
    """The pipeline of two simulated jobs on one network: Kafka, Redis, engine, five roles, agents in two replicas."""

    ROLES = ("monitor", "spark", "agent", "rescaler", "state-service", "engine")

    def __init__(self, minutes: int) -> None:
        self._network = Network()
        self._kafka = KafkaInContainer()
        self._redis = redis_in_container()
        self._minutes = minutes
        self._checkpoint = f"surescale-checkpoint-{uuid.uuid4().hex[:10]}"
        self._started: list[DockerContainer] = []
        self.roles: dict[str, RoleInContainer] = {}

    def __enter__(self) -> Self:
        self._network.create()
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for container in reversed(self._started):
            container.stop()
        self._network.remove()
        with contextlib.suppress(NotFound):
            docker.from_env().volumes.get(self._checkpoint).remove()

    @property
    def settings(self) -> PipelineSettings:
        """The pipeline as this machine reaches it."""
        return PipelineSettings(bootstrap=self._kafka.bootstrap)

    def engine_report(self) -> dict[str, Any]:
        """Return the engine's figures so far."""
        report: dict[str, Any] = fetch_json(self._url("engine", _ENGINE_PORT) + "/report")
        return report

    def state(self, path: str) -> Any:
        """Return what the HTTP API answers."""
        return fetch_json(self._url("state-service", _HTTP_PORT) + path)

    def wait_for_minute(self, minute: int) -> None:
        """Wait until so many minutes of the trace have passed."""
        wait_until(lambda: self.engine_report()["minutes_done"] >= minute, 300, f"minute {minute} of the trace")

    def _start(self) -> None:
        for server, alias in ((self._kafka, "kafka"), (self._redis, "redis")):
            server.with_network(self._network).with_network_aliases(alias)
            self._started.append(server)
            server.start()
        create_topics(self.settings)
        for name, role in self._make_roles().items():
            self._started.append(role)
            self.roles[name] = role
            role.start()
        for role in self.roles.values():
            role.wait_healthy()
        self._start_trace()

    def _make_roles(self) -> dict[str, RoleInContainer]:
        made = {
            "spark": self._role("spark", memory="2500m"),
            "engine": self._role("engine"),
            **{name: self._role(name) for name in ("monitor", "rescaler", "state-service")},
            **{name: self._role("agent", name=name) for name in ("agent-1", "agent-2")},
        }
        made["spark"].with_command(["surescale", "run", "spark", "--master", "local[2]"])
        made["spark"].with_volume_mapping(self._checkpoint, "/var/lib/surescale", "rw")
        jobs = ["--job=clicks", "--job=orders", f"--minutes={self._minutes}"]
        made["engine"].with_env("SURESCALE_HEALTH_PORT", str(_ENGINE_PORT)).with_exposed_ports(_ENGINE_PORT)
        made["engine"].with_command(["surescale", "run", "engine", "--host", "0.0.0.0", "--port", str(_ENGINE_PORT), *jobs])
        made["state-service"].with_env("SURESCALE_HTTP_HOST", "0.0.0.0").with_exposed_ports(_HTTP_PORT)
        return made

    def _role(self, role: str, *, name: str = "", memory: str = "768m") -> RoleInContainer:
        made = RoleInContainer(role, self._network, name=name, memory=memory)
        made.with_envs(
            SURESCALE_BOOTSTRAP=f"kafka:{_ROLES_PORT}",
            SURESCALE_REDIS_URL="redis://redis:6379/0",
            SURESCALE_ENGINE_URL=f"http://engine:{_ENGINE_PORT}",
            SURESCALE_PIPELINE_CLOCK="true",
        )
        return made

    def _start_trace(self) -> None:
        trace = self._role("engine", name="trace")
        trace.with_command(["python", "/opt/surescale/demo/trace.py", "--no-follow"])
        self._started.append(trace)
        trace.start()
        ended = trace.get_wrapped_container().wait(timeout=60)["StatusCode"]
        if ended != 0:
            raise RuntimeError(f"the trace did not start: {trace.get_wrapped_container().logs().decode(errors='replace')}")

    def _url(self, name: str, port: int) -> str:
        role = self.roles[name]
        return f"http://{role.get_container_host_ip()}:{role.get_exposed_port(port)}"


def redis_in_container() -> RedisContainer:
    """Return a Redis container that was not started yet."""
    return RedisContainer(REDIS_IMAGE)


def redis_url(container: RedisContainer) -> str:
    """Return the address to give to clients."""
    return f"redis://{container.get_container_host_ip()}:{container.get_exposed_port(container.port)}/0"


def _archive(path: str, text: str) -> bytes:
    content = text.encode()
    entry = tarfile.TarInfo(path.removeprefix("/"))
    entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o755
    with BytesIO() as buffer:
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            tar.addfile(entry, BytesIO(content))
        return buffer.getvalue()


def _run(command: list[str], timeout_s: float) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        return str(problem)
    if done.returncode == 0:
        return None
    lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"exit code {done.returncode}"]
    said = next((line for line in lines if line.startswith("docker: ")), lines[-1])
    return f"{command[-1]}: {said}" if command[1] == "run" else said
