"""What roles are told of their engine: its kind, its address, what watches and what scales its jobs."""

import re

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import from_environment
from surescale.engines.settings import ClusterSettings, SourceSettings
from surescale.monitor.settings import MonitorSettings
from surescale.rescaler.service.settings import RescalerSettings

KINDS = (MonitorSettings, RescalerSettings)


@pytest.mark.parametrize(
    "url",
    ["foo", "127.0.0.1:8090", "ftp://host", "http://", "http://[::1", "http://host:99999", "http://host:x", "http://a,", ",", ""],
)
@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_without_an_address_is_refused_by_every_role(kind: type[ClusterSettings], url: str) -> None:
    """The message names the variable and shows an address."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_ENGINE_URL: .+ is not the address of an engine; set one like http://"):
        from_environment(kind, {"SURESCALE_ENGINE_URL": url})


@pytest.mark.parametrize("url", ["http://127.0.0.1:8090", "https://engine.streaming/api/", "http://[::1]:8090"])
def test_an_address_of_an_engine_is_taken(url: str) -> None:
    """With and without port and path."""
    assert from_environment(SourceSettings, {"SURESCALE_ENGINE_URL": url}).engine_url == url


@pytest.mark.parametrize(
    "url",
    [
        "http://a,http://ana:hunter2@b",
        "ftp://ana:hunter2@engine",
        "http://ana:hunter2@engine:8090",
        "http://ana:8090/hunter2@engine",
        "http://a:hunter2/x@h",
    ],
)
def test_an_address_of_the_engine_with_a_password_is_refused_without_showing_it(url: str) -> None:
    """No client sends it, and errors about the address travel in records."""
    with pytest.raises(SettingsError, match="SURESCALE_ENGINE_URL") as refused:
        SourceSettings(engine_url=url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"ENGINE": "storm"}, "SURESCALE_ENGINE: 'storm' is not one of flink, kafka, simulated"),
        ({"ENGINE": "flink", "ENGINE_CA_FILE": "ca.pem"}, "SURESCALE_ENGINE_CA_FILE: SURESCALE_ENGINE_URL uses no TLS"),
        ({"ENGINE_TOKEN_FILE": "token"}, "SURESCALE_ENGINE_TOKEN_FILE: the simulated engine has no use"),
        (
            {"ENGINE": "flink", "ENGINE_URL": "https://jm", "ENGINE_KEY_FILE": "k"},
            "SURESCALE_ENGINE_CERTIFICATE_FILE and SURESCALE_ENGINE_KEY_FILE: set both",
        ),
        ({"ENGINE_URL": "http://a,http://b"}, "SURESCALE_ENGINE_URL: the simulated engine has one address"),
        (
            {"ENGINE": "flink", "ENGINE_URL": "https://a,http://b", "ENGINE_CA_FILE": "c"},
            "SURESCALE_ENGINE_CA_FILE: SURESCALE_ENGINE_URL uses no TLS",
        ),
        ({"ENGINE": "flink", "PIPELINE_CLOCK": "true"}, "SURESCALE_PIPELINE_CLOCK: SURESCALE_SOURCE=flink keeps the wall"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_settings_of_an_engine_that_contradict_each_other_are_refused(
    kind: type[ClusterSettings], variables: dict[str, str], says: str
) -> None:
    """By every role, before anything is asked."""
    with pytest.raises(SettingsError, match=f"^{says}"):
        from_environment(kind, {f"SURESCALE_{name}": value for name, value in variables.items()})


def test_a_real_engine_is_named_by_kind_address_and_files() -> None:
    """With TLS and a token."""
    variables = {
        "ENGINE": "flink",
        "ENGINE_URL": "https://jm:1,https://jm:2",
        "ENGINE_TOKEN_FILE": "token",
        "ENGINE_CA_FILE": "ca.pem",
    }
    pipeline = from_environment(SourceSettings, {f"SURESCALE_{name}": value for name, value in variables.items()})
    assert (pipeline.engine, pipeline.engine_url, pipeline.engine_token_file, pipeline.engine_ca_file) == tuple(
        variables.values()
    )


KAFKA = {"SURESCALE_ENGINE": "kafka"}
KUBERNETES = {**KAFKA, "SURESCALE_ACTUATOR": "kubernetes", "SURESCALE_GROUPS_FILE": "g"}
OPERATED = {"SURESCALE_ENGINE": "flink", "SURESCALE_ACTUATOR": "kubernetes", "SURESCALE_FLINK_RESOURCES_FILE": "f"}
COMPOSE = {**KAFKA, "SURESCALE_ACTUATOR": "compose", "SURESCALE_GROUPS_FILE": "g"}
PROCESSES = {**KAFKA, "SURESCALE_ACTUATOR": "processes", "SURESCALE_GROUPS_FILE": "g", "SURESCALE_WORKERS_FOLDER": "w"}


@pytest.mark.parametrize(
    ("variables", "source", "actuator"),
    [
        ({}, "simulated", "simulated"),
        ({"SURESCALE_ENGINE": "flink"}, "flink", "flink"),
        ({"SURESCALE_ENGINE": "flink", "SURESCALE_ACTUATOR": "none"}, "flink", "none"),
        (OPERATED, "flink", "kubernetes"),
        (KAFKA, "consumer-group", "none"),
        (PROCESSES, "consumer-group", "processes"),
        (KUBERNETES, "consumer-group", "kubernetes"),
        (COMPOSE, "consumer-group", "compose"),
        ({**COMPOSE, "SURESCALE_COMPOSE_URL": "unix:///run/docker.sock"}, "consumer-group", "compose"),
        ({**COMPOSE, "SURESCALE_COMPOSE_URL": "http://proxy:2375"}, "consumer-group", "compose"),
        ({**PROCESSES, "SURESCALE_SOURCE": "prometheus", "SURESCALE_PROMETHEUS_FILE": "p"}, "prometheus", "processes"),
    ],
)
def test_an_engine_has_a_usual_source_and_actuator(variables: dict[str, str], source: str, actuator: str) -> None:
    """Each can be named by itself."""
    settings = from_environment(SourceSettings, variables)
    assert (settings.source_kind, settings.actuator_kind) == (source, actuator)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SURESCALE_ACTUATOR": "processes"}, "SURESCALE_ACTUATOR: 'processes' does not fit SURESCALE_ENGINE=simulated; "),
        ({"SURESCALE_SOURCE": "consumer-group"}, "set simulated, or SURESCALE_ENGINE=kafka"),
        ({**KAFKA, "SURESCALE_SOURCE": "nagios"}, "SURESCALE_SOURCE: 'nagios' does not fit SURESCALE_ENGINE=kafka; set "),
        ({**PROCESSES, "SURESCALE_GROUPS_FILE": ""}, "SURESCALE_GROUPS_FILE: not set; SURESCALE_ACTUATOR=processes needs it"),
        ({**PROCESSES, "SURESCALE_ACTUATOR": "none"}, "SURESCALE_WORKERS_FOLDER: only SURESCALE_ACTUATOR=processes uses it"),
        ({"SURESCALE_GROUPS_FILE": "g"}, "SURESCALE_GROUPS_FILE: only SURESCALE_ENGINE=kafka uses it"),
        ({**KUBERNETES, "SURESCALE_GROUPS_FILE": ""}, "SURESCALE_GROUPS_FILE: not set; SURESCALE_ACTUATOR=kubernetes needs it"),
        (
            {**OPERATED, "SURESCALE_FLINK_RESOURCES_FILE": ""},
            "SURESCALE_FLINK_RESOURCES_FILE: not set; ",
        ),
        (
            {**KUBERNETES, "SURESCALE_FLINK_RESOURCES_FILE": "f"},
            "SURESCALE_FLINK_RESOURCES_FILE: only SURESCALE_EN",
        ),
        ({**COMPOSE, "SURESCALE_GROUPS_FILE": ""}, "SURESCALE_GROUPS_FILE: not set; SURESCALE_ACTUATOR=compose needs it"),
        ({**KAFKA, "SURESCALE_COMPOSE_URL": "unix:///s"}, "SURESCALE_COMPOSE_URL: only SURESCALE_ACTUATOR=compose uses it"),
        (
            {**COMPOSE, "SURESCALE_COMPOSE_URL": "/var/run/docker.sock"},
            "SURESCALE_COMPOSE_URL: '/var/run/docker.sock' is not a socket of a container engine; set one like unix:///var/run/docker",
        ),
        (
            {**KAFKA, "SURESCALE_KUBERNETES_URL": "https://k"},
            "SURESCALE_KUBERNETES_URL: only SURESCALE_ACTUATOR=kube",
        ),
        (
            {**KUBERNETES, "SURESCALE_KUBERNETES_URL": "k8s:6443"},
            "'k8s:6443' is not the address of an API server; ",
        ),
        (
            {**KUBERNETES, "SURESCALE_KUBERNETES_URL": "http://k", "SURESCALE_KUBERNETES_TOKEN_FILE": "t"},
            "SURESCALE_KUBERNETES_TOKEN_FILE: SURESCALE_KUBERNETES_URL uses no TLS; set one with https, or unset the file",
        ),
        (
            {"SURESCALE_ENGINE": "flink", "SURESCALE_SOURCE": "prometheus"},
            "SURESCALE_ACTUATOR: 'flink' needs to know what the job was asked for, which SURESCALE_SOURCE=prometheus cannot tell"
            "; set kubernetes or none, or SURESCALE_SOURCE=flink",
        ),
        ({**PROCESSES, "SURESCALE_WORKERS_MAX": "0"}, "SURESCALE_WORKERS_MAX: must be at least 1, not 0"),
    ],
)
def test_a_source_or_actuator_that_does_not_fit_is_refused_with_the_fix(variables: dict[str, str], said: str) -> None:
    """In one line."""
    with pytest.raises(SettingsError, match=re.escape(said)):
        from_environment(SourceSettings, variables)
