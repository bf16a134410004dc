"""What the monitor is told: which jobs, and which Kafka their sources read."""

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import from_environment
from surescale.engines.prometheus import PrometheusSettings
from surescale.monitor.settings import MonitorSettings

PROMETHEUS = {"engine": "kafka", "source": "prometheus", "prometheus_file": "jobs.toml"}


def of(**variables: str) -> MonitorSettings:
    """Return the settings that these variables give."""
    return from_environment(MonitorSettings, {f"SURESCALE_{name.upper()}": value for name, value in variables.items()})


@pytest.mark.parametrize(
    ("jobs", "watched", "left_alone"),
    [
        ("", ["orders", "a,b"], []),
        ("orders", ["orders"], ["orders-2", "Orders"]),
        ("orders, clicks*,?", ["orders", "clicks-eu", "x"], ["my-clicks", "xy"]),
    ],
)
def test_jobs_are_watched_by_name(jobs: str, watched: list[str], left_alone: list[str]) -> None:
    """All of them without a setting."""
    settings = of(jobs=jobs)
    assert [name for name in watched + left_alone if settings.watches(name)] == watched


def test_jobs_are_watched_by_label() -> None:
    """The value must be the same, and a job without the label is left alone."""
    settings = of(jobs_label="surescale.watch = true")
    assert settings.watches_labels({"surescale.watch": "true", "team": "a"})
    assert not settings.watches_labels({"surescale.watch": "false"})
    assert not settings.watches_labels({})
    assert of().watches_labels({})


def test_sources_read_the_pipelines_own_kafka_unless_another_is_named() -> None:
    """Never with the pipeline's credentials: they are another broker's."""
    own = of(bootstrap="pipeline:9092", kafka_security_protocol="SSL", kafka_ca_file="ca.pem")
    assert own.source_kafka().bootstrap == "pipeline:9092"
    assert own.source_kafka().kafka_ca_file == "ca.pem"
    other = of(bootstrap="pipeline:9092", kafka_security_protocol="SSL", source_bootstrap="orders:9092").source_kafka()
    assert (other.bootstrap, other.kafka_security_protocol) == ("orders:9092", "PLAINTEXT")
    given = {"source_kafka_security_protocol": "SASL_SSL", "source_kafka_username": "me", "source_kafka_password_file": "pw"}
    secured = of(source_bootstrap="orders:9093", **given).source_kafka()
    assert (secured.kafka_security_protocol, secured.kafka_username) == ("SASL_SSL", "me")


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"jobs_label": "surescale.watch"}, "^SURESCALE_JOBS_LABEL: 'surescale.watch' is not surescale.NAME=VALUE; set one like"),
        ({"source_bootstrap": "b"}, "^SURESCALE_SOURCE_BOOTSTRAP: 'b' is not a Kafka broker; .* or with --source-bootstrap"),
        ({"source_kafka_username": "me"}, "^SURESCALE_SOURCE_BOOTSTRAP: not set, though credentials are"),
        (
            {"source_bootstrap": "b:1", "source_kafka_security_protocol": "SASL_SSL"},
            "^SURESCALE_SOURCE_KAFKA_USERNAME: not set; SURESCALE_SOURCE_KAFKA_SECURITY_PROTOCOL=SASL_SSL needs it",
        ),
        (
            {"prometheus_file": "jobs.toml"},
            "^SURESCALE_PROMETHEUS_FILE: only SURESCALE_ENGINE=flink with SURESCALE_SOURCE=prometheus uses it",
        ),
        ({**PROMETHEUS, "prometheus_file": ""}, "^SURESCALE_PROMETHEUS_FILE: not set; SURESCALE_SOURCE=prometheus needs it"),
        ({**PROMETHEUS, "prometheus_url": "a:9090"}, "^SURESCALE_PROMETHEUS_URL: 'a:9090' is not the address of a Prometheus"),
        ({**PROMETHEUS, "prometheus_url": " , "}, "^SURESCALE_PROMETHEUS_URL: '' is not the address"),
        ({**PROMETHEUS, "prometheus_url": "http://u:pw@a"}, r"^SURESCALE_PROMETHEUS_URL: 'http://u:\*\*\*@a' is not the address"),
        ({**PROMETHEUS, "prometheus_ca_file": "ca.pem"}, "^SURESCALE_PROMETHEUS_CA_FILE: SURESCALE_PROMETHEUS_URL uses no TLS"),
        (
            {**PROMETHEUS, "prometheus_url": "https://a", "prometheus_key_file": "k"},
            "^SURESCALE_PROMETHEUS_CERTIFICATE_FILE and SURESCALE_PROMETHEUS_KEY_FILE: set both, or neither",
        ),
        (
            {**PROMETHEUS, "pipeline_clock": "true"},
            "^SURESCALE_PIPELINE_CLOCK: SURESCALE_SOURCE=prometheus keeps the wall's time; unset it",
        ),
    ],
)
def test_what_contradicts_itself_is_refused_with_the_fix(variables: dict[str, str], says: str) -> None:
    """In one line, which names the setting that is wrong, not the pipeline's of the same kind."""
    with pytest.raises(SettingsError, match=says):
        of(**variables)


def test_replicas_of_prometheus_are_separated_by_commas() -> None:
    """Each is asked once, in the order given."""
    assert of(**PROMETHEUS).part(PrometheusSettings).prometheus_urls() == ("http://127.0.0.1:9090",)
    several = of(**PROMETHEUS, prometheus_url="http://a:1, https://b/x,http://a:1")
    assert several.part(PrometheusSettings).prometheus_urls() == ("http://a:1", "https://b/x")
