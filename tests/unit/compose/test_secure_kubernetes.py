"""The overlay that locks every link: each role has its own secret, and its settings fit one another and that secret."""

from typing import Any

import pytest

pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")

from surescale.contracts.settings import PipelineSettings, from_environment
from surescale.services.state.settings import StateSettings
from tests.support.kustomized import rendered

USERS = {"monitor": "monitor", "spark": "spark", "agent": "agent", "rescaler": "rescaler", "state": "state-service"}
COMMON = {"ca.pem", "kafka-password"}
OF_STATE = {"redis-password", "redis-ca.pem", "http-tokens", "operate-tokens", "state.pem", "state-key.pem"}
"""Keys of the roles' secrets, as docs/deploy.md gives them."""


@pytest.fixture(scope="module")
def objects() -> list[dict[str, Any]]:
    """Return what kustomize makes of the overlay."""
    return rendered("secure")


def pods(objects: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return each role's pod."""
    found = {each["metadata"]["name"]: each for each in objects if each["kind"] in {"Deployment", "StatefulSet"}}
    return {name.removeprefix("surescale-"): each["spec"]["template"]["spec"] for name, each in found.items()}


def variables(objects: list[dict[str, Any]], pod: dict[str, Any]) -> dict[str, str]:
    """Return the variables of a role's container."""
    (pipeline,) = (each["data"] for each in objects if each["kind"] == "ConfigMap" and "pipeline" in each["metadata"]["name"])
    return pipeline | {each["name"]: each["value"] for each in pod["containers"][0]["env"]}


def test_each_role_mounts_its_own_secret_and_no_other(objects: list[dict[str, Any]]) -> None:
    """Nobody else on the node reads it, and no role creates topics."""
    for role, pod in pods(objects).items():
        secrets = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        assert secrets == [{"secretName": f"surescale-access-{role}", "defaultMode": 0o440}]
        (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "access")
        assert (mount["mountPath"], mount["readOnly"]) == ("/run/surescale", True)
        assert "initContainers" not in pod


def test_settings_fit_one_another_and_name_what_the_secret_has(objects: list[dict[str, Any]]) -> None:
    """TLS and a user of its own towards Kafka for every role; Redis, tokens and certificate for the state service alone."""
    for role, pod in pods(objects).items():
        given = variables(objects, pod)
        assert given["SURESCALE_KAFKA_USERNAME"] == f"surescale-{USERS[role]}"
        assert (
            from_environment(StateSettings if role == "state" else PipelineSettings, given).kafka_security_protocol == "SASL_SSL"
        )
        files = {value.removeprefix("/run/surescale/") for value in given.values() if value.startswith("/run/surescale/")}
        assert files == COMMON | (OF_STATE if role == "state" else set())


def test_kafka_is_reached_at_its_port_with_tls_alone(objects: list[dict[str, Any]]) -> None:
    """The network policy goes with the address."""
    (policy,) = (each for each in objects if each["metadata"]["name"] == "surescale-kafka")
    assert [port for rule in policy["spec"]["egress"] for port in rule["ports"]] == [{"port": 9093}]
    assert variables(objects, pods(objects)["agent"])["SURESCALE_BOOTSTRAP"].endswith(":9093")
