"""The table of topics and the settings' defaults."""

from importlib.metadata import entry_points

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings, from_environment, to_environment
from surescale.contracts.topics import CLUSTER_PARTITIONS, RECORD_BYTES_MAX, TOPICS, TopicNames, TopicSettings
from surescale.services.engine.settings import EngineSettings


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
        ("SURESCALE_REPLICAS", "-1", 0),
    ],
)
def test_topics_that_could_not_carry_the_pipeline_are_refused(variable: str, said: str, least: int) -> None:
    """A window of an hour would lose its first minutes before its last ones come."""
    with pytest.raises(SettingsError, match=rf"^{variable}: must be at least {least}, not {said}$"):
        from_environment(TopicSettings, {variable: said})


def test_of_three_copies_two_are_acknowledged_and_what_is_left_to_the_broker_is_not_set() -> None:
    """Of two copies one is enough, since one broker must be able to fail."""
    for replicas, acknowledged in (("2", None), ("3", "2"), ("5", "2")):
        made = from_environment(TopicSettings, {"SURESCALE_REPLICAS": replicas}).topics()
        assert {topic.config().get("min.insync.replicas") for topic in made} == {acknowledged}
    left = from_environment(TopicSettings, {"SURESCALE_TOPICS_LEAVE": " compression.type, min.cleanable.dirty.ratio,"}).topics()
    for topic in left:
        kept = TOPICS[topic.name].config()
        assert topic.config() == {name: kept[name] for name in kept.keys() - {"compression.type", "min.cleanable.dirty.ratio"}}


@pytest.mark.parametrize("name", ["cleanup.policy", "retention.ms", "compresion.type", "message.timestamp.type"])
def test_what_the_pipeline_relies_on_cannot_be_left_to_the_broker(name: str) -> None:
    """Settings of jobs would expire, and windows wait for clocks."""
    with pytest.raises(SettingsError, match=rf"^SURESCALE_TOPICS_LEAVE: '{name}' cannot be left to the broker; only compression"):
        from_environment(TopicSettings, {"SURESCALE_TOPICS_LEAVE": f"compression.type,{name}"})


def test_more_copies_than_kafka_can_are_refused() -> None:
    """Before its protocol is asked to carry the number."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_REPLICAS: 32768 is more than Kafka can"):
        from_environment(TopicSettings, {"SURESCALE_REPLICAS": "32768"})


def test_a_prefix_stands_before_every_name_and_comes_off_again() -> None:
    """A replay's topics never meet the live pipeline's."""
    names = TopicNames("replay-")
    assert names("decisions") == "replay-decisions"
    assert names.bare("replay-decisions") == "decisions"


def test_promised_defaults() -> None:
    """Each default that the documents promise."""
    pipeline = PipelineSettings()
    assert (pipeline.window_minutes, pipeline.allowed_lateness_ms, pipeline.ahead_of_clock_ms_max) == (60, 5_000, 120_000)
    assert (pipeline.policy, pipeline.seed, pipeline.topic_prefix, pipeline.pipeline_clock) == ("sure", 0, "", False)


def test_options_win_over_environment_over_defaults() -> None:
    """None means: not given."""
    variables = {"SURESCALE_WINDOW_MINUTES": "30", "SURESCALE_SEED": "7", "SURESCALE_PIPELINE_CLOCK": "true"}
    pipeline = from_environment(PipelineSettings, variables, seed=9, bootstrap=None)
    assert (pipeline.window_minutes, pipeline.seed, pipeline.bootstrap, pipeline.pipeline_clock) == (
        30,
        9,
        "127.0.0.1:9092",
        True,
    )


@pytest.mark.parametrize("bootstrap", ["", " "])
def test_an_address_of_kafka_that_is_empty_is_refused(bootstrap: str) -> None:
    """A variable that a script left empty; no client says what is wrong."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_BOOTSTRAP: empty; set"):
        from_environment(PipelineSettings, {"SURESCALE_BOOTSTRAP": bootstrap})


@pytest.mark.parametrize("bootstrap", ["kafka", "kafka:99999", "http://kafka:9092", "one:9092,two two:9092"])
def test_an_address_of_kafka_that_no_client_can_use_is_refused(bootstrap: str) -> None:
    """Before anybody waits for an answer; the first of several that is none is named."""
    with pytest.raises(
        SettingsError, match=rf"^SURESCALE_BOOTSTRAP: '{bootstrap.rpartition(',')[2]}' is not a Kafka broker; set"
    ):
        from_environment(PipelineSettings, {"SURESCALE_BOOTSTRAP": bootstrap})


@pytest.mark.parametrize("prefix", ["a b", "team/", "ü", "x" * 201])
def test_a_prefix_that_no_topic_can_have_is_refused(prefix: str) -> None:
    """Kafka would refuse every name, one by one."""
    with pytest.raises(SettingsError, match=r"^SURESCALE_TOPIC_PREFIX: no topic's name can begin with"):
        from_environment(PipelineSettings, {"SURESCALE_TOPIC_PREFIX": prefix})


def test_a_child_process_reads_the_same_settings() -> None:
    """Settings survive the way through the environment."""
    pipeline = PipelineSettings(seed=3, topic_prefix="x-", pipeline_clock=True)
    assert from_environment(PipelineSettings, to_environment(pipeline)) == pipeline


@pytest.mark.parametrize("variable", ["SURESCALE_SEED", "SURESCALE_PIPELINE_CLOCK"])
def test_a_variable_that_does_not_parse_is_named(variable: str) -> None:
    """The message names the variable and shows the value."""
    with pytest.raises(SettingsError, match=f"{variable}.*'maybe'"):
        from_environment(PipelineSettings, {variable: "maybe"})


KINDS = [point.load() for point in entry_points(group="surescale.settings")]


@pytest.mark.parametrize("port", [-1, 65_536])
@pytest.mark.parametrize("kind", KINDS)
def test_a_health_port_that_is_none_is_refused_by_every_role(kind: type[PipelineSettings], port: int) -> None:
    """By the environment as by the option."""
    with pytest.raises(SettingsError, match=rf"^SURESCALE_HEALTH_PORT: {port} is not a port; set 1 to 65535, or 0 for none$"):
        from_environment(kind, {"SURESCALE_HEALTH_PORT": str(port)})


@pytest.mark.parametrize("said", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("variable", ["SURESCALE_SPEED", "SURESCALE_STOP_WAIT_S"])
def test_a_setting_that_is_no_finite_number_is_named(variable: str, said: str) -> None:
    """Not a number is below and above no limit, so no check behind it would notice."""
    with pytest.raises(SettingsError, match=rf"^{variable}: '{said}' is not a number; correct or unset it$"):
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


@pytest.mark.parametrize("minutes", ["0", "-3", "1441"])
def test_a_span_that_is_no_time_is_refused(minutes: str) -> None:
    """The message names the variable and what may be set."""
    with pytest.raises(SettingsError, match=r"SURESCALE_SPAN_MINUTES: .* set 1 to 1440 minutes"):
        from_environment(PipelineSettings, {"SURESCALE_SPAN_MINUTES": minutes})


@pytest.mark.parametrize(
    ("settings", "wrong"),
    [
        ({"cluster": "c" * 101}, "SURESCALE_CLUSTER: has 101 characters; give at most 100"),
        ({"pipeline": "p" * 257}, "SURESCALE_PIPELINE: has 257 characters; give at most 256"),
        ({"pipeline": ""}, "SURESCALE_PIPELINE: is empty"),
        ({"pipeline": "main\x1b[2J"}, "SURESCALE_PIPELINE: has "),
    ],
)
def test_a_name_that_no_record_can_hold_is_refused_at_the_start(settings: dict[str, str], wrong: str) -> None:
    """Every reader would refuse every record."""
    with pytest.raises(SettingsError, match=wrong):
        PipelineSettings(**settings)  # type: ignore[arg-type]  # texts
