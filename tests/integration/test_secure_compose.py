"""The secure pipeline's Compose files on real servers: settings, the secrets of the script, commands of the services."""

import json
import os
import re
import shutil
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

import pytest

from surescale.contracts.messages import JobTopology
from surescale.contracts.settings import PipelineSettings, from_environment
from surescale.contracts.topics import DECISIONS, JOB_TOPOLOGY
from surescale.contracts.wire import encode
from surescale.runtime.kafka import producer
from surescale.runtime.ports import LOOPBACK, free_ports
from surescale.services.local_stack.servers import LocalRedis
from tests.support.builders import JOB, topology
from tests.support.command_line import SURESCALE
from tests.support.composed_broker import ComposedBroker
from tests.support.waiting import PATIENT_S, wait_until

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (it comes with kubernetes-validate)")
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"),
]
COMPOSE = Path(__file__).parents[2] / "compose"
DEFAULTS = {"SURESCALE_ENGINE_URL": "http://engine:8090", "SURESCALE_PIPELINE_CLOCK": "false"}


@dataclass
class SecurePipeline:
    """The merged services, the folder of secrets, and the servers as local processes."""

    folder: Path
    services: dict[str, Any]
    files: dict[str, Path]
    broker: ComposedBroker
    redis: LocalRedis

    def secrets(self, service: str) -> Path:
        """Return a folder with what a service finds under ``/run/secrets``."""
        found = self.folder / f"secrets-of-{service}"
        found.mkdir(exist_ok=True)
        for each in self.services[service]["secrets"]:
            named = each if isinstance(each, dict) else {"source": each, "target": each}
            if not (found / named["target"]).exists():
                (found / named["target"]).symlink_to(self.files[named["source"]])
        return found

    def environment(self, service: str) -> dict[str, str]:
        """Return a service's variables, with this machine's addresses and files."""
        found = {}
        for name, value in self.services[service]["environment"].items():
            here = re.sub(r"\$\{(\w+)(?::[-?]([^}]*))?\}", lambda match: DEFAULTS.get(match[1], match[2]), str(value))
            for listener, port in (("ROLES", 19092), ("ADMIN", 19094)):
                here = here.replace(f"kafka:{port}", self.broker.at(listener))
            # The Redis of this machine's tests is built without TLS; test_redis_access.py has that.
            here = here.replace("rediss://surescale@redis:6379", f"redis://surescale@{self.redis.address}")
            found[name] = here.replace("/run/secrets", str(self.secrets(service)))
        if found.get("SURESCALE_REDIS_URL", "").startswith("redis://"):
            found.pop("SURESCALE_REDIS_CA_FILE", None)
        return found

    def settings(self, service: str) -> PipelineSettings:
        """Return a service's settings."""
        return from_environment(PipelineSettings, self.environment(service))


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecurePipeline]:
    """Secrets made by the script, then the broker and Redis as the files describe them, then what the service ``topics`` does."""
    folder = tmp_path_factory.mktemp("secure-compose")
    subprocess.run(
        [str(COMPOSE / "secure/secrets.sh"), str(folder / "generated")], check=True, capture_output=True, timeout=PATIENT_S
    )
    base, secure = (yaml.safe_load((COMPOSE / name).read_text()) for name in ("compose.yaml", "secure/compose.yaml"))
    services = {name: merged(base["services"][name], secure["services"].get(name, {})) for name in base["services"]}
    files = {name: folder / each["file"].removeprefix("secure/") for name, each in secure["secrets"].items()}
    redis = LocalRedis(folder / "redis")
    made = SecurePipeline(folder, services, files, ComposedBroker(folder / "kafka", services["kafka"], files), redis)
    redis.command = lambda: [*LocalRedis.command(redis), "--aclfile", str(files["redis-users"])]  # type: ignore[method-assign]
    redis.answers = lambda: b"NOAUTH" in asked(redis)  # type: ignore[method-assign]  # nobody gets in without a password
    made.broker.start()
    redis.start()
    try:
        redis.wait_ready()
        made.broker.wait_ready()
        _set_up(made)
        yield made
    finally:
        redis.stop()
        made.broker.stop()


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return a service as Compose merges it, as far as these files need."""
    return base | over | {"environment": base.get("environment", {}) | over.get("environment", {})}


def asked(redis: LocalRedis) -> bytes:
    """Return what Redis says to somebody it does not know."""
    import socket

    try:
        with socket.create_connection((LOOPBACK, redis.port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(64)
    except OSError:
        return b""


def _set_up(pipeline: SecurePipeline) -> None:
    """Run what the service ``topics`` runs, to the letter."""
    words = [word.replace("/run/secrets", str(pipeline.secrets("topics"))) for word in pipeline.services["topics"]["command"]]
    bin_folder = pipeline.folder / "bin"
    bin_folder.mkdir()
    (bin_folder / "surescale").write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'from surescale.services.cli import main; main()' \"$@\"\n"
    )
    (bin_folder / "surescale").chmod(0o755)
    environment = os.environ | pipeline.environment("topics") | {"PATH": f"{bin_folder}:{os.environ['PATH']}"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\d\d rights granted to 7 roles, 7 passwords set", done.stdout)
    passwords = [(pipeline.folder / f"generated/kafka-passwords/{role}").read_text().strip() for role in ("agent", "operator")]
    assert not [each for each in passwords if each in done.stdout + done.stderr]


@pytest.fixture
def api(pipeline: SecurePipeline, tmp_path: Path) -> Iterator[int]:
    """The state service with exactly the variables of its container, but for its ports; yields that of its API."""
    http, health = free_ports(2)
    more = {"SURESCALE_HTTP_PORT": str(http), "SURESCALE_HTTP_HOST": LOOPBACK, "SURESCALE_HEALTH_PORT": str(health)}
    environment = os.environ | pipeline.environment("state") | more | {"SURESCALE_HEALTH_HOST": LOOPBACK}
    command = [*SURESCALE, "run", "state-service"]
    with (tmp_path / "log").open("wb") as log, subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process:
        try:

            def answers() -> bool:
                assert process.poll() is None, (tmp_path / "log").read_text()
                return request(pipeline, http, "GET", "/health")[0] == 200

            wait_until(answers, 60, "the state service")
            yield http
        finally:
            process.terminate()
            process.wait(PATIENT_S)


def request(pipeline: SecurePipeline, port: int, method: str, path: str, token: str = "", **body: str) -> tuple[int, Any]:
    """Ask the API over TLS, trusting the script's authority alone; 0 if nobody answers."""
    client = HTTPSConnection(LOOPBACK, port, timeout=30, context=ssl.create_default_context(cafile=str(pipeline.files["ca"])))
    headers = {"Idempotency-Key": "one", "Content-Type": "application/json"} if method == "POST" else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        client.request(method, path, json.dumps(body) if body else None, headers)
        answer = client.getresponse()
        return answer.status, json.loads(answer.read())
    except OSError:
        return 0, None
    finally:
        client.close()


def sent(settings: PipelineSettings, topic: str, message: JobTopology) -> str:
    """Send a record and return why it was refused, or an empty text."""
    refused: list[str] = []
    client = producer(settings)
    client.produce(topic, encode(message), message.job, on_delivery=lambda error, _: refused.append(str(error or "")))
    assert client.flush(30) == 0
    return refused[0]


def test_the_pipeline_works_and_lets_in_only_whom_it_should(pipeline: SecurePipeline, api: int) -> None:
    """A record of the monitor's arrives in the view; who asks needs a token; an operator's token writes, a reader's does not."""
    assert sent(pipeline.settings("monitor"), JOB_TOPOLOGY, topology(1)) == ""
    assert "authoriz" in sent(pipeline.settings("agent"), JOB_TOPOLOGY, topology(2))
    assert "authoriz" in sent(pipeline.settings("monitor"), DECISIONS, topology(3))
    reader = pipeline.files["http-tokens"].read_text().strip()
    operator = pipeline.files["operate-tokens"].read_text().split()[1]
    assert request(pipeline, api, "GET", "/jobs")[0] == 401
    wait_until(lambda: request(pipeline, api, "GET", f"/jobs/{JOB}", reader)[0] == 200, 60, "the job in the view")
    assert request(pipeline, api, "GET", f"/jobs/{JOB}", reader)[1]["topology"]["record"]["version"] == 1
    assert request(pipeline, api, "POST", f"/jobs/{JOB}/pause", reader, why="audit")[0] == 403
    status, told = request(pipeline, api, "POST", f"/jobs/{JOB}/pause", operator, why="audit")
    assert (status, told["by"], told["written"]) == (200, "operator", True)


def test_who_brings_another_roles_password_or_none_stays_out(pipeline: SecurePipeline) -> None:
    """At Kafka; Redis answers nobody else by the fixture already."""
    from dataclasses import replace

    from surescale.runtime.kafka import admin_client
    from surescale.runtime.kafka_errors import Refusals, Refused

    for stranger in (
        replace(pipeline.settings("agent"), kafka_username="surescale-rescaler"),
        replace(pipeline.settings("agent"), kafka_username="nobody"),
    ):
        refusals = Refusals(stranger)
        admin = admin_client(stranger, error_cb=refusals.hear)
        with pytest.raises(Refused, match="the broker refuses user and password"), refusals.explained(admin):
            admin.list_topics(timeout=1.0)
