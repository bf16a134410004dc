"""Secrets of Kafka change while roles run: a password is taken over, a certificate ends the role for its supervisor."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DECISIONS, SNAPSHOTS
from surescale.runtime.kafka import LogReader, admin_client, create_topics, producer
from surescale.runtime.ports import LOOPBACK, free_port
from tests.support.agent_pipeline import AgentPipeline, windows
from tests.support.builders import JOB
from tests.support.command_line import started
from tests.support.secure_broker import SecureBroker, make_certificates, running
from tests.support.spark_pipeline import secure_spark_pipeline
from tests.support.waiting import PATIENT_S, wait_until
from tests.unit.spark_streaming.pipeline import graph, marker, sample, spec

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"),
]
CHANGED = "SURESCALE_KAFKA_PASSWORD_FILE has changed"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SecureBroker]:
    """A broker with TLS and SCRAM."""
    made = SecureBroker(tmp_path / "kafka")
    with running(made):
        made.add_user()
        yield made


def test_an_agent_and_clients_that_run_take_a_new_password(broker: SecureBroker, tmp_path: Path) -> None:
    """The broker is stopped and started, so everybody has to authenticate again and fails at first; no process is restarted."""
    own = {"topic_prefix": "r-", "policy": "target-utilisation", "pipeline_clock": True}  # or its windows would be long overtaken
    settings = PipelineSettings(**broker.scram, **own)  # type: ignore[arg-type]  # texts
    create_topics(settings)
    pipeline = AgentPipeline(settings, tmp_path)
    earlier, asking, reading = producer(settings), admin_client(settings), LogReader(settings, [DECISIONS])
    try:
        agent = pipeline.start()
        pipeline.send(SNAPSHOTS, JOB, windows(610, 610)[0])
        assert [decision.span_end_ms // 60_000 for decision in pipeline.decisions(1)] == [610]
        (tmp_path / "old").write_text((broker.folder / "password").read_text())
        broker.add_user(password="second password")
        broker.stop()
        broker.start()
        broker.wait_ready()
        wait_until(lambda: "authentication" in pipeline.log().lower(), 60, "the agent to be refused")
        broker.rotate("second password")
        wait_until(lambda: CHANGED in pipeline.log(), 30, "the agent to notice")
        pipeline.send(SNAPSHOTS, JOB, windows(620, 620)[0])
        assert [decision.span_end_ms // 60_000 for decision in pipeline.decisions(2)] == [610, 620]
        earlier.produce("r-decisions", b"of an earlier producer")
        assert earlier.flush(60) == 0
        assert "r-decisions" in asking.list_topics(timeout=60).topics
        assert b"of an earlier producer" in [record.value() for record in reading.read_to_end()]
        assert agent.poll() is None
        refused = PipelineSettings(**(broker.scram | {"kafka_password_file": str(tmp_path / "old")}))  # type: ignore[arg-type]
        with pytest.raises(KafkaException):
            create_topics(refused)
    finally:
        reading.close()
        pipeline.stop()


@pytest.mark.nightly("starts Spark on a secured broker once more; the agent's test changes the password too")
def test_spark_starts_its_query_again_with_a_new_password(broker: SecureBroker, tmp_path: Path) -> None:
    """The process goes on; the old password would open nothing any more."""
    pipeline = secure_spark_pipeline(broker, tmp_path)
    try:
        pipeline.start()
        topology = graph(spec("map"), job=JOB)
        pipeline.send(sample(600_000, 5, job=JOB, task="map"), marker(10, topology))
        wait_until(lambda: pipeline.has_windows(1), 180, "the first window")
        broker.rotate("second password")
        wait_until(lambda: pipeline.log().count("query started") == 2, 60, "another query")
        pipeline.send(sample(660_000, 5, job=JOB, task="map"), marker(11, topology))
        wait_until(lambda: pipeline.has_windows(2), 120, "the second window")
        assert pipeline.process.poll() is None
    finally:
        pipeline.close()


@pytest.mark.parametrize("role", ["agent", "monitor", "rescaler", "state-service"])
def test_a_role_ends_for_its_supervisor_when_its_certificate_changes(role: str, tmp_path: Path) -> None:
    """Even while it waits for a broker. A certificate without its new key changes nothing yet."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        make_certificates(folder)
    settings = PipelineSettings(
        bootstrap=f"{LOOPBACK}:{free_port()}",
        kafka_security_protocol="SSL",
        kafka_ca_file=str(first / "ca.pem"),
        kafka_certificate_file=str(first / "client.pem"),
        kafka_key_file=str(first / "client-key.pem"),
    )
    log = tmp_path / "log"
    process = started(settings, log, "run", role)
    try:
        wait_until(lambda: "Kafka at" in log.read_text(), 60, "the role to wait for Kafka")
        shutil.copy(second / "client.pem", first / "client.pem")
        wait_until(lambda: "cannot be used" in log.read_text(), 30, "the certificate without its key to be refused")
        assert process.poll() is None
        shutil.copy(second / "client-key.pem", first / "client-key.pem")
        assert process.wait(PATIENT_S) == 1
        assert "SURESCALE_KAFKA_KEY_FILE changed, and Kafka clients read it only when they are made" in log.read_text()
    finally:
        process.kill()
        process.wait()
