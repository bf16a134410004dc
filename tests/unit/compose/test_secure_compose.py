"""The secure pipeline's Compose file and its secrets, without an engine: what each service is given, and what nobody is."""

import os
import re
import shutil
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from surescale.contracts.access import ROLES
from surescale.contracts.settings import PipelineSettings, from_environment
from surescale.services.state.settings import StateSettings
from tests.support.known_settings import SETTINGS
from tests.support.secure_broker import make_certificates

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (it comes with kubernetes-validate)")

COMPOSE = Path(__file__).parents[3] / "compose"
BASE = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
SECURE = yaml.safe_load((COMPOSE / "secure/compose.yaml").read_text())
CLIENTS = {"monitor": "monitor", "spark": "spark", "agent": "agent", "rescaler": "rescaler", "state": "state-service"} | {
    "engine": "engine",
    "trace": "operator",
}
"""Services and the role as which Kafka knows them."""

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"
)


def made(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script that makes the secrets."""
    words = [str(COMPOSE / "secure/secrets.sh"), str(folder)]
    return subprocess.run(words, env=os.environ | environment, capture_output=True, text=True, timeout=60, check=False)


def sources(service: dict[str, Any]) -> dict[str, str]:
    """Return which secret a service sees under which name."""
    given = [each if isinstance(each, dict) else {"source": each, "target": each} for each in service.get("secrets", [])]
    return {each["target"]: each["source"] for each in given}


def test_it_only_changes_services_that_there_are() -> None:
    """Limits and confinement stay those of the plain file; no service that connects to Kafka or Redis is left out."""
    assert {name for name in SECURE if not name.startswith("x-")} == {"services", "secrets"}
    assert set(SECURE["services"]) == {*CLIENTS, "kafka", "redis", "topics"}
    assert set(SECURE["services"]) <= set(BASE["services"])
    kept = {"environment", "secrets", "command", "healthcheck"}
    assert all(set(service) <= kept for service in SECURE["services"].values())


def test_no_listener_takes_anybody() -> None:
    """Passwords or certificates at each, over TLS, and nothing allowed that is not granted."""
    environment = SECURE["services"]["kafka"]["environment"]
    kinds = dict(each.split(":") for each in environment["KAFKA_LISTENER_SECURITY_PROTOCOL_MAP"].split(","))
    for name in re.findall(r"(\w+)://", environment["KAFKA_LISTENERS"]):
        assert kinds[name] == "SASL_SSL" or environment[f"KAFKA_LISTENER_NAME_{name}_SSL_CLIENT_AUTH"] == "required", name
    assert environment["KAFKA_ALLOW_EVERYONE_IF_NO_ACL_FOUND"] == "false"
    assert "ANONYMOUS" not in environment["KAFKA_SUPER_USERS"]


def test_a_service_has_its_own_password_and_nobody_elses() -> None:
    """Only the service that sets them sees all; only the state service sees tokens and Redis's password."""
    for name, role in CLIENTS.items():
        service = SECURE["services"][name]
        assert service["environment"]["SURESCALE_KAFKA_USERNAME"] == f"surescale-{role}"
        own = sources(service)
        assert own["kafka-password"] == role
        assert {source for source in own.values() if source in ROLES} == {role}
        if name != "state":
            assert set(own) == {"ca", "kafka-password"}
    assert set(ROLES) <= set(sources(SECURE["services"]["topics"]))
    assert not [name for name in SECURE["secrets"] if name == "ca-key" or "ca-key" in SECURE["secrets"][name]["file"]]


def test_every_file_is_a_secret_that_the_service_has() -> None:
    """And every setting of ours exists and fits the others."""
    for name, service in SECURE["services"].items():
        named = re.findall(r"/run/secrets/([\w-]+)", str(service))
        assert set(named) <= set(sources(service)), name
        assert set(sources(service).values()) <= set(SECURE["secrets"]), name
        given = {key: value for key, value in service.get("environment", {}).items() if key.startswith("SURESCALE_")}
        assert set(given) <= SETTINGS, name
        if given:
            from_environment(StateSettings if name == "state" else PipelineSettings, given)


@needs_openssl
def test_the_script_makes_every_file_and_leaves_alone_what_there_is(tmp_path: Path) -> None:
    """Nobody else on this machine gets to the files; the authority's key is for its owner alone, also inside the folder."""
    folder = tmp_path / "generated"
    assert (done := made(folder)).returncode == 0, done.stderr
    files = {each["file"].removeprefix("secure/generated/") for each in SECURE["secrets"].values()}
    assert [file for file in sorted(files) if not (folder / file).is_file()] == []
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "ca-key.pem").stat().st_mode) == 0o400
    passwords = [file.read_text() for file in (folder / "kafka-passwords").iterdir()]
    assert len(set(passwords)) == len(ROLES)
    assert min(map(len, passwords)) > 40
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    assert made(folder).returncode == 0
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


@needs_openssl
def test_a_file_that_was_deleted_is_made_again_and_what_depends_on_it_too(tmp_path: Path) -> None:
    """So secrets rotate one by one."""
    made(tmp_path)
    users, keystore, agent = (tmp_path / name for name in ("redis-users.acl", "kafka-keystore.pem", "kafka-passwords/agent"))
    before = users.read_text(), keystore.read_text(), agent.read_text()
    for name in ("redis-password", "kafka.pem", "kafka-passwords/agent"):
        (tmp_path / name).unlink()
    assert made(tmp_path).returncode == 0
    after = users.read_text(), keystore.read_text(), agent.read_text()
    assert not set(before) & set(after)


@needs_openssl
@pytest.mark.parametrize("made_by", [made, make_certificates], ids=["the script", "the tests"])
def test_certificates_have_all_that_a_strict_reader_asks_for(made_by: Callable[[Path], object], tmp_path: Path) -> None:
    """As Python 3.13 and later do."""
    made_by(tmp_path)
    signed = sorted(
        each.name
        for each in tmp_path.glob("*.pem")
        if not each.stem.endswith(("ca", "-key", "-keystore")) and "CERTIFICATE" in each.read_text()
    )
    assert len(signed) > 1
    words = ["openssl", "verify", "-x509_strict", "-CAfile", "ca.pem", *signed]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_number_of_days_that_is_none_is_one_line(tmp_path: Path) -> None:
    """With the fix."""
    done = made(tmp_path, DAYS="soon")
    assert (done.returncode, done.stderr) == (1, "surescale: DAYS: 'soon' is no number of days; set one like 365\n")


@needs_openssl
@pytest.mark.skipif(shutil.which("docker-compose") is None, reason="docker-compose is not installed")
def test_compose_takes_both_files_together() -> None:
    """As `make up` gives them; nothing has to run for that."""
    words = ["docker-compose", "--file", "compose.yaml", "--file", "secure/compose.yaml", "--env-file", ".env.example", "config"]
    done = subprocess.run(words, cwd=COMPOSE, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    merged = yaml.safe_load(done.stdout)["services"]
    assert merged["agent"]["environment"]["SURESCALE_KAFKA_SECURITY_PROTOCOL"] == "SASL_SSL"
    assert merged["agent"]["read_only"] is True


def test_nothing_that_the_script_makes_is_committed() -> None:
    """The folder is ignored."""
    assert "compose/secure/generated/" in (COMPOSE.parent / ".gitignore").read_text().splitlines()
