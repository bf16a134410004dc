"""``surescale doctor`` where something is wrong: each fault is named, with what to do, and the other checks go on."""

import json
import math
import os
import subprocess
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic
from msgspec.structs import replace as replace_in

from surescale.contracts.messages import ClockSegment
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.topics import CLOCK, JOB_TOPOLOGY, TASK_METRICS
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.chains import Group
from surescale.engines.groups.doctor import groups
from surescale.engines.settings import ClusterSettings, SourceSettings
from surescale.runtime.kafka import admin_client, create_topics, producer
from surescale.runtime.ports import free_ports
from surescale.services.doctor import kafka_checks
from surescale.services.local_stack.roles import surescale
from surescale.services.state import keys
from surescale.services.state.connection import connect
from surescale.services.state.write.view_store import ViewStore
from tests.conftest import KafkaForTests
from tests.support.builders import JOB, topology
from tests.support.faults.pipeline import CLOCK as CLOCK_FOLDER
from tests.support.recorded_flink import recorded, replayed
from tests.support.role_settings import write_groups
from tests.support.view_pipeline import send
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration


@pytest.fixture
def pipeline(kafka: KafkaForTests, redis_url: str) -> ClusterSettings:
    """Settings of a pipeline of its own; nothing runs on it."""
    (nowhere,) = free_ports(1)
    return ClusterSettings(
        bootstrap=kafka.bootstrap,
        topic_prefix=kafka.topic_prefix(),
        redis_url=redis_url,
        engine_url=f"http://127.0.0.1:{nowhere}",
    )


def examined(pipeline: PipelineSettings, *more: str, code: int = 1) -> dict[str, tuple[str, str, str]]:
    """Return verdict, detail and remedy by subject; of several findings on one subject, the last."""
    command = surescale("doctor", "--json", *more)
    done = subprocess.run(command, env=os.environ | to_environment(pipeline), capture_output=True, timeout=PATIENT_S)
    assert done.returncode == code, done.stderr.decode()
    return {each["subject"]: (each["verdict"], each["detail"], each["remedy"]) for each in json.loads(done.stdout)}


def verdicts_on_writers(pipeline: PipelineSettings) -> dict[str, str]:
    """Return what is said of monitor and Spark job, by the limits of this process."""
    checks = kafka_checks.KafkaChecks(pipeline)
    assert [each.verdict for each in checks.broker()] == ["ok"]
    return {each.subject: each.verdict for each in checks.writers()}


def write_one_record(pipeline: PipelineSettings) -> None:
    """Let the pipeline be one that was in use."""
    client = producer(pipeline)
    client.produce(f"{pipeline.topic_prefix}{TASK_METRICS}", b"{}", key=b"sim/clicks")
    assert client.flush(20) == 0


def test_missing_topics_and_an_absent_engine_are_problems(pipeline: PipelineSettings) -> None:
    """What is there is checked all the same."""
    found = examined(pipeline)
    assert found["topics"] == (
        "problem",
        found["topics"][1],
        f"create them: surescale topics create --prefix {pipeline.topic_prefix}",
    )
    assert "task-metrics, snapshots" in found["topics"][1]
    assert found["engine"][0] == "problem"
    assert pipeline.engine_url in found["engine"][1]
    assert {subject for subject, each in found.items() if each[0] == "ok"} == {"surescale", "java", "kafka", "redis", "policy"}


def test_topics_that_nobody_serves(pipeline: PipelineSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """No member in a group is a problem; topics that never had a record are a warning, until one has.

    A role that has stopped writing, or never began, is a problem, but where a simulated clock may have.
    """
    create_topics(pipeline)
    found = examined(pipeline)
    assert found["topics"][:2] == ("warning", "all 14 are there, and none ever had a record")
    assert found["the monitor"][:2] == ("warning", f"{pipeline.topic_prefix}task-metrics is empty")
    assert found["the agent"][0] == found["the rescaler of sim"][0] == "problem"
    assert found["the agent"][2] == "start surescale run agent"
    assert (found["the state service"][0], found["the state service"][2]) == ("problem", "start surescale run state-service")
    write_one_record(pipeline)
    send(pipeline, (JOB_TOPOLOGY, JOB, replace_in(topology(), engine="kafka")))
    found = examined(pipeline)
    assert (found["the monitor"][0], found["topics"][0], "the monitor of sim" in found) == ("ok", "ok", False)
    assert found["the Spark job"][0] == "warning"
    monkeypatch.setattr(kafka_checks, "LATE_S", -math.inf)
    assert verdicts_on_writers(pipeline) == {"the monitor": "problem", "the Spark job": "problem"}
    clock = ClockSegment(pipeline="main", sequence=0, e0_ms=0, w0_ms=0, speed=1.0, until_ms=0)
    send(pipeline, (CLOCK, "main", clock))
    assert verdicts_on_writers(pipeline) == {"the monitor": "warning", "the Spark job": "warning"}


def test_a_state_service_that_has_stopped_is_a_problem(pipeline: PipelineSettings) -> None:
    """What is shown is old then, whatever the roles do."""
    create_topics(pipeline)
    with closing(connect(pipeline.redis_url)) as client:
        store = ViewStore(client, pipeline.topic_prefix)
        try:
            for minutes, verdict in ((0, "ok"), (25, "problem")):
                store.keep(time.time_ns() // 1_000_000 - minutes * 60_000)
                found = examined(pipeline)["the state service"]
                assert found[0] == verdict
                assert found[1].startswith("last ") is (verdict == "problem")
            client.delete(store.key(keys.KEPT))
            assert store.begin({("decisions", 0): 0}, None)
            assert examined(pipeline)["the state service"][:2] == ("warning", "the view is still being built")
        finally:
            store.flush()


@pytest.mark.parametrize(
    ("ahead_s", "words"),
    [
        (7_200, "this machine's clock is 120 min ahead of Kafka's and that of Redis"),
        (-7_200, "this machine's clock is 120 min behind Kafka's"),
    ],
)
def test_a_clock_of_this_machine_that_is_wrong_is_named_and_no_role_is_accused(
    pipeline: PipelineSettings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ahead_s: int, words: str
) -> None:
    """The newest record would be hours old by it."""
    create_topics(pipeline)
    (tmp_path / "clock").write_text(str(ahead_s))
    monkeypatch.setenv("PYTHONPATH", str(CLOCK_FOLDER), prepend=os.pathsep)
    monkeypatch.setenv("FAULTS_CLOCK", str(tmp_path / "clock"))
    write_one_record(pipeline)
    found = examined(pipeline)
    assert found["clock"][:2] == ("problem", words)
    assert found["the monitor"][0] == "ok"


def test_a_topic_set_up_by_hand_is_compared_with_the_table(pipeline: PipelineSettings) -> None:
    """The number of partitions is a problem, a setting is a warning with the command that fixes it."""
    admin, clock, metrics = admin_client(pipeline), f"{pipeline.topic_prefix}{CLOCK}", f"{pipeline.topic_prefix}{TASK_METRICS}"
    admin.create_topics([NewTopic(clock, num_partitions=3)])[clock].result(20)
    create_topics(pipeline)
    gzip = ConfigEntry("compression.type", "gzip", incremental_operation=AlterConfigOpType.SET)
    for future in admin.incremental_alter_configs([ConfigResource("topic", metrics, incremental_configs=[gzip])]).values():
        future.result(20)
    command = surescale("doctor")
    done = subprocess.run(command, env=os.environ | to_environment(pipeline), capture_output=True, timeout=PATIENT_S, text=True)
    said = " ".join(done.stdout.split())  # lines break where the column is full
    assert done.returncode == 1
    assert f"{clock} has 3 partitions, not 1" in said
    assert f"{metrics}: compression.type is gzip, not uncompressed" in said
    assert f"kafka-configs.sh --alter --topic {metrics} --add-config compression.type=uncompressed" in said
    assert "warning" in said


def test_partitions_that_an_operator_chose_are_right(pipeline: PipelineSettings) -> None:
    """What doctor looks for is that topics of one key have the same number, whichever that is."""
    command = surescale("topics", "create", "--job-partitions", "6", "--retention-hours", "48")
    done = subprocess.run(command, env=os.environ | to_environment(pipeline), capture_output=True, timeout=PATIENT_S, text=True)
    assert done.returncode == 0, done.stderr
    write_one_record(pipeline)
    assert examined(pipeline)["topics"][0] == "ok"
    admin, metrics = admin_client(pipeline), f"{pipeline.topic_prefix}{TASK_METRICS}"
    assert len(admin.list_topics(metrics, timeout=20).topics[metrics].partitions) == 6
    resource = ConfigResource("topic", metrics)
    assert admin.describe_configs([resource])[resource].result(20)["retention.ms"].value == str(48 * 3_600_000)
    admin.create_partitions([NewPartitions(metrics, 7)])[metrics].result(20)
    assert examined(pipeline)["topics"][:2] == ("problem", f"{metrics} has 7 partitions, not 6")


def test_a_flink_cluster_is_known(pipeline: PipelineSettings) -> None:
    """Its version and slots."""
    exchanges = recorded("2.3.0", "running")
    exchanges["GET /overview"]["body"]["slots-available"] = 1
    with replayed(exchanges) as server:
        found = examined(pipeline, "--engine", "flink", "--engine-url", server.url)["engine"]
    assert found[0] == "ok"
    assert f"Flink 2.3.0 at {server.url}, " in found[1]


def test_a_flink_cluster_that_cannot_rescale_is_a_warning(pipeline: PipelineSettings) -> None:
    """Jobs can be observed all the same."""
    exchanges = recorded("2.3.0", "running")
    entries = exchanges["GET /jobmanager/config"]["body"]
    exchanges["GET /jobmanager/config"]["body"] = [entry for entry in entries if entry["key"] != "jobmanager.scheduler"]
    with replayed(exchanges) as server:
        found = examined(pipeline, "--engine", "flink", "--engine-url", server.url)["engine"]
    assert found[0] == "warning"
    assert "not rescaled" in found[1]
    assert "jobmanager.scheduler: adaptive" in found[2]


def test_consumer_groups_have_a_file_instead_of_an_address(pipeline: PipelineSettings, tmp_path: Path) -> None:
    """It is read, and what is wrong in it is named; no engine is asked."""
    file = tmp_path / "groups.toml"
    every = replace(pipeline, engine="kafka")
    kafka = replace(every, parts=(GroupsSettings(str(file)),))
    assert examined(every)["engine"][0] == "ok"
    assert examined(kafka)["engine"][0] == "problem"
    file.write_text('[shop.groups.parse]\nreads = ["orders"]\n')
    verdict, detail, _ = examined(kafka)["engine"]
    assert verdict == "ok"
    assert "jobs shop of" in detail


def test_consumer_groups_that_are_jobs_are_asked_for(pipeline: PipelineSettings, kafka: KafkaForTests, tmp_path: Path) -> None:
    """One reads, one has no members, one was never there, one reads a topic that is gone, and of one neither is there."""
    prefix = pipeline.topic_prefix
    topic = f"{prefix}orders"
    admin = admin_client(pipeline)
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    sender = producer(pipeline)
    for number in range(5):
        sender.produce(topic, str(number), partition=number % 2)
    assert sender.flush(30) == 0
    names = {task: f"{prefix}{task}" for task in ("reads", "left", "never", "lost", "neither")}
    reading, left = (_committed(pipeline, names[task], topic) for task in ("reads", "left"))
    left.close()
    shop = {
        task: Group(group, reads=(f"{prefix}gone",) if task in ("lost", "neither") else (topic,)) for task, group in names.items()
    }
    lost = _committed(pipeline, names["lost"], topic)
    every = SourceSettings(bootstrap=pipeline.bootstrap, topic_prefix=prefix, engine="kafka")
    settings = replace(every, parts=(GroupsSettings(str(tmp_path / "groups.json")),))
    write_groups(settings, shop=shop)
    try:
        reads, empty, never, gone, neither = groups(settings)
        assert (reads.verdict, reads.detail) == (
            "ok",
            f"shop/reads: group {names['reads']} with 1 member, 0 records to read",
        )
        assert (empty.verdict, empty.detail) == ("warning", f"shop/left: group {names['left']} has no members")
        assert (never.verdict, never.detail) == ("warning", f"shop/never: there is no group {names['never']}")
        for each in (gone, neither):
            assert (each.verdict, f"has no topic {prefix}gone" in each.detail) == ("problem", True)
        (found,) = groups(every)
        assert found.verdict == "ok"
        silent = Group(names["reads"], reads=(topic,), metrics="http://127.0.0.1:1/metrics", busy="busy_seconds_total")
        write_groups(settings, shop={"reads": silent})
        _, busy = groups(settings)
        assert busy.verdict == "warning"
        assert busy.detail.startswith("shop/reads: http://127.0.0.1:1/metrics does not answer (")
    finally:
        reading.close()
        lost.close()


def _committed(pipeline: PipelineSettings, group: str, topic: str) -> Consumer:
    """Return a member of a group that has read and committed the whole topic."""
    member = Consumer({"bootstrap.servers": pipeline.bootstrap, "group.id": group, "auto.offset.reset": "earliest"})
    member.subscribe([topic])
    read = 0

    def is_through() -> bool:
        nonlocal read
        record = member.poll(0.2)
        read += record is not None and record.error() is None
        return read == 5

    wait_until(is_through, timeout_s=60, what="the group to read its topic")
    member.commit(asynchronous=False)
    return member


def test_something_else_at_flinks_address(pipeline: PipelineSettings) -> None:
    """The client's own words say what answered."""
    with replayed({}) as server:
        found = examined(pipeline, "--engine", "flink", "--engine-url", server.url)["engine"]
    assert found[0] == "problem"
    assert server.url in found[1]


def test_nothing_answers(pipeline: PipelineSettings, tmp_path: Path) -> None:
    """Every address is named once, the password of Redis never, and the whole takes seconds."""
    (port,) = free_ports(1)
    arguments = ["--bootstrap", f"127.0.0.1:{port}", "--redis", f"redis://ana:hush-hush@127.0.0.1:{port}/0", "--policy", "best"]
    found = examined(pipeline, *arguments, "--policy-folder", str(tmp_path))
    assert {subject for subject, each in found.items() if each[0] == "problem"} == {"kafka", "redis", "engine", "policy"}
    assert f"127.0.0.1:{port} does not answer" in found["kafka"][1]
    assert "hush" not in str(found)
    assert "best cannot be used" in found["policy"][1]
