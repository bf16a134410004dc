"""The Compose file without an engine: structure, limits, and that it names what exists."""

import re
from pathlib import Path
from typing import Any

import pytest

from surescale.contracts.settings import from_environment
from surescale.contracts.topics import RECORD_BYTES_MAX
from surescale.monitor.settings import MonitorSettings
from surescale.services.tools.health import ROLES
from tests.support.known_settings import SETTINGS

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed (it comes with kubernetes-validate)")

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "compose/compose.yaml").read_text()
EXAMPLE = (ROOT / "compose/.env.example").read_text()
OWN_ENGINE = [path.read_text() for path in sorted((ROOT / "compose/own-engine").glob("*.yaml"))]
OURS = ("topics", "monitor", "spark", "agent", "rescaler", "state", "engine", "trace")


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    """The services as they are written, anchors resolved, variables not."""
    return yaml.safe_load(TEXT)["services"]


def test_every_compose_takes_the_file(services: dict[str, Any]) -> None:
    """No version and no name; volumes, services and extensions only."""
    assert {key for key in yaml.safe_load(TEXT) if not key.startswith("x-")} == {"services", "volumes"}
    assert {"kafka", "redis", "prometheus", "grafana", *OURS} == set(services)


def test_our_containers_are_confined(services: dict[str, Any]) -> None:
    """Read-only, without capabilities, and with limits of memory, CPU and processes."""
    for name in OURS:
        service = services[name]
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert {"mem_limit", "cpus", "pids_limit", "logging"} <= set(service), name


def test_published_ports_are_on_loopback(services: dict[str, Any]) -> None:
    """Nothing is open to other machines unless somebody changes the file."""
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert len(published) == 4
    assert all(port.startswith("127.0.0.1:${") for port in published)


def test_every_image_is_a_variable(services: dict[str, Any]) -> None:
    """Stand-ins and mirrors need no change of the file."""
    assert all(service["image"].startswith("${") for service in services.values())


def test_every_image_of_ours_has_a_lock(services: dict[str, Any]) -> None:
    """An image is a role of the build, and the health command knows it."""
    roles = {re.sub(r".*\}/([a-z-]+):.*", r"\1", services[name]["image"]) for name in OURS}
    assert roles == set(ROLES)
    assert all((ROOT / f"locks/images/{role}.txt").exists() for role in roles)


def test_dependencies_have_a_health_to_depend_on(services: dict[str, Any]) -> None:
    """What is awaited as healthy has a health check, what is awaited as completed does not restart."""
    for name, service in services.items():
        for awaited, how in service.get("depends_on", {}).items():
            check = services[awaited].get("healthcheck", {})
            if how["condition"] == "service_healthy":
                assert not check.get("disable"), (name, awaited)
            else:
                assert (how["condition"], services[awaited]["restart"]) == ("service_completed_successfully", "no")


def test_the_tag_is_the_projects_version() -> None:
    """A release changes both."""
    version = re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version is not None
    assert set(re.findall(r"SURESCALE_TAG:-([^}]+)\}", TEXT)) == {version[1]}


def test_every_variable_is_explained_in_the_example() -> None:
    """And every setting of a role that is given exists."""
    used = set(re.findall(r"\$\{([A-Z_]+)", TEXT + "".join(OWN_ENGINE)))
    assert used <= set(re.findall(r"^#?([A-Z_]+)=", EXAMPLE, re.M))
    given = set(re.findall(r"^\s+(SURESCALE_[A-Z_]+):", TEXT, re.M))
    assert given <= SETTINGS


def test_the_broker_takes_the_largest_record_and_no_larger_one(services: dict[str, Any]) -> None:
    """As managed ones do."""
    assert services["kafka"]["environment"]["KAFKA_MESSAGE_MAX_BYTES"] == str(RECORD_BYTES_MAX)


def test_the_examples_lines_for_flink_are_settings_of_it() -> None:
    """Once they are no comments any more; only monitor and rescaler see its API."""
    lines = re.findall(r"^#((?:SURESCALE|ENGINE)_(?:ENGINE|SOURCE|JOBS|FILES|NETWORK)\w*)=(.*)", EXAMPLE, re.M)
    given = dict(lines) | {"SURESCALE_PIPELINE_CLOCK": "false"}
    given["SURESCALE_ENGINE_URL"] = given["SURESCALE_ENGINE_URL"].replace("http:", "https:")  # else certificates are of no use
    folder = {yaml.safe_load(text)["services"]["monitor"].get("volumes", [""])[0] for text in OWN_ENGINE} - {""}
    settings = from_environment(MonitorSettings, given)
    assert (settings.engine, settings.pipeline_clock, settings.jobs_label) == ("flink", False, "surescale.watch=true")
    assert folder == {f"${{ENGINE_FILES}}:{Path(settings.engine_token_file).parent}:ro"}
    assert all(set(yaml.safe_load(text)["services"]) == {"monitor", "rescaler"} for text in OWN_ENGINE)


@pytest.mark.parametrize("role", ROLES)
def test_an_images_lock_is_part_of_the_whole_one(role: str) -> None:
    """Every name has the version and the hashes of locks/runtime.txt, and torch is in none."""
    whole = blocks(ROOT / "locks/runtime.txt")
    own = blocks(ROOT / f"locks/images/{role}.txt")
    assert own.items() <= whole.items()
    assert not [name for name in own if name.startswith(("torch", "nvidia"))]


@pytest.mark.parametrize("role", ROLES)
def test_what_the_monitor_has_every_image_has(role: str) -> None:
    """The Dockerfile installs it once, in a layer that all images share."""
    assert blocks(ROOT / "locks/images/monitor.txt").items() <= blocks(ROOT / f"locks/images/{role}.txt").items()


def blocks(path: Path) -> dict[str, frozenset[str]]:
    """Return the hashes of each requirement of a lock file."""
    found: dict[str, frozenset[str]] = {}
    for block in re.split(r"\n(?=\S)", path.read_text().strip()):
        head = block.splitlines()[0].split(";")[0].rstrip(" \\")
        found[head] = frozenset(re.findall(r"sha256:[0-9a-f]{64}", block))
        assert found[head], head
    return found
