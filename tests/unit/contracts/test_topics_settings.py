"""The table of topics and the settings' defaults."""

import re
from importlib.metadata import entry_points

import pytest

from contracts.errors import SettingsError
from contracts.settings import PipelineSettings, from_environment, to_environment
from contracts.topic_settings import TopicSettings
from contracts.topics import CLUSTER_PARTITIONS, RECORD_BYTES_MAX, TOPICS, TopicNames
from services.engine.settings import EngineSettings


def test_cluster_keyed_topics_have_equal_partition_counts() -> None:
    """The rescaler's assignment is co-partitioned: one cluster is one partition number everywhere."""
    keyed = [topic for topic in TOPICS.values() if topic.key.startswith("cluster")]
    assert len(keyed) == 8
    assert {topic.partitions for topic in keyed} == {CLUSTER_PARTITIONS}


def test_settings_and_releases_never_expire() -> None:
    """What users said must be found years later."""
    for name in ("job-settings", "policy-releases"):
        assert TOPICS[name].config()["retention.ms"] == "-1"


def test_compacted_topics_are_compacted_and_all_carry_append_time() -> None:
    """Freshness is measured between append times of the broker."""
    assert [name for name, topic in TOPICS.items() if topic.config()["cleanup.policy"] == "compact"] == [
        "job-topology",
        "cluster-topology",
        "rescaler-state",
        "clock",
    ]
    assert {topic.config()["message.timestamp.type"] for topic in TOPICS.values()} == {"LogAppendTime"}
    assert {topic.config()["max.message.bytes"] for topic in TOPICS.values()} == {str(RECORD_BYTES_MAX)}


def test_an_operator_chooses_partitions_and_retention() -> None:
    """Topics of one key have one number of partitions; what must stay for ever stays."""
    chosen = from_environment(
        TopicSettings,
        {"SURESCALE_JOB_PARTITIONS": "16", "SURESCALE_CLUSTER_PARTITIONS": "3", "SURESCALE_RETENTION_HOURS": "48"},
    )
    made = {topic.name: topic for topic in chosen.topics()}
    assert set(made) == set(TOPICS)
    assert {topic.partitions for topic in made.values() if topic.key == "job"} == {16}
    assert {topic.partitions for topic in made.values() if topic.key.startswith("cluster")} == {3}
    assert made["clock"].partitions == 1
    assert made["task-metrics"].config()["retention.ms"] == str(48 * 3_600_000)
    for name in ("job-settings", "policy-releases", "job-topology"):
        assert made[name].config() == TOPICS[name].config()


def test_topics_are_those_of_the_table_unless_somebody_chooses() -> None:
    """The table is what the documents show."""
    assert TopicSettings().topics() == tuple(TOPICS.values())


@pytest.mark.parametrize(
    ("variable", "said", "least"),
    [
        ("SURESCALE_JOB_PARTITIONS", "0", 1),
        ("SURESCALE_CLUSTER_PARTITIONS", "-1", 1),
        ("SURESCALE_RETENTION_HOURS", "1", 2),
    ],
)
def test_topics_that_could_not_carry_the_pipeline_are_refused(variable: str, said: str, least: int) -> None:
    """A window of an hour would lose its first minutes before its last ones come."""
    with pytest.raises(SettingsError, match=rf"^{variable}: must be at least {least}, not {said}$"):
        from_environment(TopicSettings, {variable: said})


def test_a_prefix_stands_before_every_name_and_comes_off_again() -> None:
    """A replay's topics never meet the live pipeline's."""
    names = TopicNames("replay-")
    assert names("decisions") == "replay-decisions"
    assert names.bare("replay-decisions") == "decisions"


def test_promised_defaults() -> None:
    """Each default that the documents promise."""
    pipeline = PipelineSettings()
    assert (pipeline.window_minutes, pipeline.allowed_lateness_ms, pipeline.ahead_of_clock_ms_max) == (60, 5_000, 120_000)
    assert (pipeline.policy, pipeline.seed, pipeline.topic_prefix, pipeline.road_clock) == ("sure", 0, "", False)


def test_options_win_over_environment_over_defaults() -> None:
    """None means: not given."""
    variables = {"SURESCALE_WINDOW_MINUTES": "30", "SURESCALE_SEED": "7", "SURESCALE_ROAD_CLOCK": "true"}
    pipeline = from_environment(PipelineSettings, variables, seed=9, bootstrap=None)
    assert (pipeline.window_minutes, pipeline.seed, pipeline.bootstrap, pipeline.road_clock) == (30, 9, "127.0.0.1:9092", True)


@pytest.mark.parametrize("bootstrap", ["", " "])
def test_an_address_of_kafka_that_is_empty_is_refused(bootstrap: str) -> None:
    """A variable that a script left empty; no client says what is wrong."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_BOOTSTRAP: empty; set"):
        from_environment(PipelineSettings, {"SURESCALE_BOOTSTRAP": bootstrap})


def test_a_child_process_reads_the_same_settings() -> None:
    """Settings survive the way through the environment."""
    pipeline = PipelineSettings(seed=3, topic_prefix="x-", road_clock=True)
    assert from_environment(PipelineSettings, to_environment(pipeline)) == pipeline


@pytest.mark.parametrize("variable", ["SURESCALE_SEED", "SURESCALE_ROAD_CLOCK"])
def test_a_variable_that_does_not_parse_is_named(variable: str) -> None:
    """The message names the variable and shows the value."""
    with pytest.raises(SettingsError, match=f"{variable}.*'maybe'"):
        from_environment(PipelineSettings, {variable: "maybe"})


KINDS = [point.load() for point in entry_points(group="surescale.settings")]


@pytest.mark.parametrize(
    "url",
    ["foo", "127.0.0.1:8090", "ftp://host", "http://", "http://[::1", "http://host:99999", "http://host:x", "http://a,", ",", ""],
)
@pytest.mark.parametrize("kind", KINDS)
def test_an_engine_without_an_address_is_refused_by_every_role(kind: type[PipelineSettings], url: str) -> None:
    """The message names the variable and shows an address."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_ENGINE_URL: .+ is not the address of an engine; set one like http://"):
        from_environment(kind, {"SURESCALE_ENGINE_URL": url})


@pytest.mark.parametrize("url", ["http://127.0.0.1:8090", "https://engine.streaming/api/", "http://[::1]:8090"])
def test_an_address_of_an_engine_is_taken(url: str) -> None:
    """With and without port and path."""
    assert from_environment(PipelineSettings, {"SURESCALE_ENGINE_URL": url}).engine_url == url


@pytest.mark.parametrize("port", [-1, 65_536])
@pytest.mark.parametrize("kind", KINDS)
def test_a_health_port_that_is_none_is_refused_by_every_role(kind: type[PipelineSettings], port: int) -> None:
    """By the environment as by the option."""
    with pytest.raises(SettingsError, match=rf"^SURESCALE_HEALTH_PORT: {port} is not a port; set 1 to 65535, or 0 for none$"):
        from_environment(kind, {"SURESCALE_HEALTH_PORT": str(port)})


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
        PipelineSettings(engine_url=url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("said", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("variable", ["SURESCALE_SPEED", "SURESCALE_STOP_WAIT_S"])
def test_a_setting_that_is_no_finite_number_is_named(variable: str, said: str) -> None:
    """Not a number is below and above no limit, so no check behind it would notice."""
    with pytest.raises(SettingsError, match=rf"^{variable}: '{said}' is not a valid float; set it or unset it$"):
        from_environment(EngineSettings, {variable: said})


@pytest.mark.parametrize(
    ("variable", "said"),
    [
        ("SURESCALE_WINDOW_MINUTES", "0"),
        ("SURESCALE_WINDOW_MINUTES", "-5"),
        ("SURESCALE_ALLOWED_LATENESS_MS", "-1"),
        ("SURESCALE_AHEAD_OF_CLOCK_MS_MAX", "-1"),
    ],
)
def test_a_length_of_time_that_cannot_be_is_refused(variable: str, said: str) -> None:
    """A window of no minute has no figures: the Spark job would end with a trace at its first one."""
    with pytest.raises(SettingsError, match=rf"^{variable}: must be at least [01], not {said}$"):
        from_environment(PipelineSettings, {variable: said})


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"ENGINE": "storm"}, "SURESCALE_ENGINE: 'storm' is not one of simulated, flink, kafka"),
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
        ({"ENGINE": "flink", "ROAD_CLOCK": "true"}, "SURESCALE_ROAD_CLOCK: SURESCALE_ENGINE=flink publishes no clock"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_settings_of_an_engine_that_contradict_each_other_are_refused(
    kind: type[PipelineSettings], variables: dict[str, str], says: str
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
    pipeline = from_environment(PipelineSettings, {f"SURESCALE_{name}": value for name, value in variables.items()})
    assert (pipeline.engine, pipeline.engine_url, pipeline.engine_token_file, pipeline.engine_ca_file) == tuple(
        variables.values()
    )


@pytest.mark.parametrize("minutes", ["0", "-3", "1441"])
def test_a_span_that_is_no_time_is_refused(minutes: str) -> None:
    """The message names the variable and what may be set."""
    with pytest.raises(SettingsError, match=r"SURESCALE_SPAN_MINUTES: .* set 1 to 1440 minutes"):
        from_environment(PipelineSettings, {"SURESCALE_SPAN_MINUTES": minutes})


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
        ({**PROCESSES, "SURESCALE_SOURCE": "prometheus"}, "prometheus", "processes"),
    ],
)
def test_an_engine_has_a_usual_source_and_actuator(variables: dict[str, str], source: str, actuator: str) -> None:
    """Each can be named by itself."""
    settings = from_environment(PipelineSettings, variables)
    assert (settings.source_kind, settings.actuator_kind) == (source, actuator)


@pytest.mark.parametrize(
    ("variables", "said"),
    [
        ({"SURESCALE_ACTUATOR": "processes"}, "SURESCALE_ACTUATOR: 'processes' does not fit SURESCALE_ENGINE=simulated; "),
        ({"SURESCALE_SOURCE": "consumer-group"}, "set simulated, or SURESCALE_ENGINE=kafka"),
        ({**KAFKA, "SURESCALE_SOURCE": "nagios"}, "SURESCALE_SOURCE: 'nagios' does not fit SURESCALE_ENGINE=kafka; set "),
        ({**PROCESSES, "SURESCALE_GROUPS_FILE": ""}, "SURESCALE_GROUPS_FILE: not set; SURESCALE_ACTUATOR=processes needs it"),
        ({**PROCESSES, "SURESCALE_ACTUATOR": "none"}, "SURESCALE_WORKERS_FOLDER: only SURESCALE_ACTUATOR=processes uses it"),
        ({"SURESCALE_GROUPS_FILE": "g"}, "SURESCALE_GROUPS_FILE: only SURESCALE_ENGINE=kafka reads it"),
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
            "; set none or kubernetes, or SURESCALE_SOURCE=flink",
        ),
        ({**PROCESSES, "SURESCALE_WORKERS_MAX": "0"}, "SURESCALE_WORKERS_MAX: must be at least 1, not 0"),
    ],
)
def test_a_source_or_actuator_that_does_not_fit_is_refused_with_the_fix(variables: dict[str, str], said: str) -> None:
    """In one line."""
    with pytest.raises(SettingsError, match=re.escape(said)):
        from_environment(PipelineSettings, variables)
