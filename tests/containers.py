"""Kafka and Redis in containers, for machines on which a container engine really runs them.

The images are the official ones unless KAFKA_IMAGE or REDIS_IMAGE name others.
"""

import os
import shutil
import subprocess
import tarfile
import time
from io import BytesIO

# The fixtures stop what they start, and the library's own cleaner is one more image that may be out of reach.
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")  # read when the library is imported

from testcontainers.community.redis import RedisContainer
from testcontainers.core.container import DockerContainer
from testcontainers.core.wait_strategies import LogMessageWaitStrategy

from services.stack.broker import SETTINGS

KAFKA_IMAGE = os.environ.get("KAFKA_IMAGE", "apache/kafka:4.1.1")
REDIS_IMAGE = os.environ.get("REDIS_IMAGE", "redis:7")
_ENGINE_TIMEOUT_S = 15.0
_IMAGE_TIMEOUT_S = 300.0
_START_TIMEOUT_S = 120
_CLIENTS_PORT = 9092
_START_SCRIPT = "/tmp/start.sh"


def why_not() -> str | None:
    """Return why containers cannot be used here, None if they can.

    Only a container that ran is proof: an engine that may not make namespaces still answers questions about itself.
    """
    docker = shutil.which("docker")
    if docker is None:
        return "no docker command"
    problem = _run([docker, "info", "--format", "{{.ServerVersion}}"], _ENGINE_TIMEOUT_S)
    for image in (REDIS_IMAGE, KAFKA_IMAGE):
        problem = problem or _run([docker, "run", "--rm", "--entrypoint", "true", image], _IMAGE_TIMEOUT_S)
    return problem


class KafkaInContainer(DockerContainer):
    """One KRaft broker of the official image; clients reach it through a published port, which it must advertise."""

    def __init__(self) -> None:
        super().__init__(KAFKA_IMAGE)
        self.with_exposed_ports(_CLIENTS_PORT)
        settings = {
            **SETTINGS,
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"CLIENTS://0.0.0.0:{_CLIENTS_PORT},INTERNAL://localhost:9093,CONTROLLER://localhost:9094",
            "inter.broker.listener.name": "INTERNAL",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
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
        advertised = f"CLIENTS://{self.bootstrap},INTERNAL://localhost:9093"
        script = f"export KAFKA_ADVERTISED_LISTENERS={advertised}\nexec /etc/kafka/docker/run\n"
        self.get_wrapped_container().put_archive("/", _archive(_START_SCRIPT, script))
        started = LogMessageWaitStrategy("Kafka Server started").with_startup_timeout(_START_TIMEOUT_S)
        started.wait_until_ready(self)
        return self


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
