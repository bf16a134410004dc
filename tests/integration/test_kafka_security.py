"""Every client of ours towards a real broker that wants TLS, with a password or a certificate; and what it refuses."""

import logging
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.topics import DECISIONS, SNAPSHOTS
from surescale.engines.groups.other_types import NotTold, OtherGroups
from surescale.runtime.kafka import LogReader, create_topics, producer, wait_for_topics
from tests.support.agent_pipeline import AgentPipeline, windows
from tests.support.builders import JOB
from tests.support.command_line import SURESCALE
from tests.support.secure_broker import BROKER_NAMES, TELLTALE, MutualTlsBroker, SecureBroker, certify_broker, running
from tests.support.spark_pipeline import secure_spark_pipeline
from tests.support.waiting import PATIENT_S, wait_until
from tests.unit.spark_streaming.pipeline import graph, marker, sample, spec

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureBroker]:
    """The broker with TLS and SCRAM that the tests share."""
    made = SecureBroker(tmp_path_factory.mktemp("secure") / "kafka")
    with running(made):
        made.add_user()
        yield made


def test_the_command_line_creates_and_lists_topics_over_tls_and_scram(broker: SecureBroker) -> None:
    """A password with quotes, blanks and a backslash is a password like any other."""
    pipeline = PipelineSettings(**broker.scram, topic_prefix="cli-")  # type: ignore[arg-type]  # all are texts
    environment = os.environ | to_environment(pipeline)
    done = subprocess.run(
        [*SURESCALE, "topics", "create"], env=environment, capture_output=True, text=True, timeout=PATIENT_S, check=False
    )
    assert (done.returncode, TELLTALE in done.stdout + done.stderr) == (0, False), done.stderr
    wait_for_topics(pipeline, [DECISIONS], stop=threading.Event(), log=logging.getLogger("test"))
    client = producer(pipeline)
    client.produce("cli-decisions", b"value", key=b"sim")
    assert client.flush(20) == 0
    reader = LogReader(pipeline, [DECISIONS])
    assert [record.value() for record in reader.read_to_end()] == [b"value"]
    reader.close()


@pytest.mark.parametrize(
    "changed",
    [
        {"kafka_password_file": "wrong-password"},
        {"kafka_ca_file": "other-ca.pem"},
        {"kafka_security_protocol": "PLAINTEXT", "kafka_username": "", "kafka_password_file": "", "kafka_ca_file": ""},
    ],
    ids=["wrong password", "authority that did not sign", "plaintext against TLS"],
)
def test_a_client_that_may_not_or_should_not_connect_does_not(broker: SecureBroker, changed: dict[str, str]) -> None:
    """One line, without the password."""
    files = {name: str(broker.folder / value) if name.endswith("_file") and value else value for name, value in changed.items()}
    pipeline = PipelineSettings(**(broker.scram | files))  # type: ignore[arg-type]  # all are texts
    with pytest.raises(KafkaException) as refused:
        create_topics(pipeline)
    assert TELLTALE not in str(refused.value)
    if changed.get("kafka_ca_file"):
        assert "was not signed by the authority in SURESCALE_KAFKA_CA_FILE" in str(refused.value)


def test_the_client_that_asks_for_other_types_of_groups_comes_in_as_well(broker: SecureBroker) -> None:
    """With the same settings; with a wrong password it says that it does not, within its time and without the password."""
    assert OtherGroups(PipelineSettings(**broker.scram), PATIENT_S).listed() == {}  # type: ignore[arg-type]  # all are texts
    wrong = broker.scram | {"kafka_password_file": str(broker.folder / "wrong-password")}
    with pytest.raises(NotTold) as refused:
        OtherGroups(PipelineSettings(**wrong), 3.0).listed()  # type: ignore[arg-type]  # all are texts
    assert TELLTALE not in str(refused.value)


@pytest.mark.parametrize(
    ("names", "days"),
    [("subjectAltName=DNS:kafka.example.org", 2), (BROKER_NAMES, -1)],
    ids=["another host's", "expired"],
)
def test_a_broker_with_a_certificate_that_is_not_good_gets_no_password(tmp_path: Path, names: str, days: int) -> None:
    """The right authority signed it, and it is not believed; the line says what may be wrong. With a good one all is well."""
    broker = SecureBroker(tmp_path / "kafka")
    certify_broker(broker.folder, names, days=days)
    why = "has expired, is for another host than the one in SURESCALE_BOOTSTRAP"
    with running(broker), pytest.raises(KafkaException, match=why):
        create_topics(PipelineSettings(**broker.scram))  # type: ignore[arg-type]  # all are texts
    certify_broker(broker.folder, BROKER_NAMES, days=2)
    with running(broker):
        broker.add_user()
        assert DECISIONS in create_topics(PipelineSettings(**broker.scram))  # type: ignore[arg-type]  # all are texts


def test_the_agent_decides_over_tls_and_scram(broker: SecureBroker, tmp_path: Path) -> None:
    """Faust's consumer and producer take the same settings."""
    settings = PipelineSettings(**broker.scram, topic_prefix="agent-", policy="target-utilisation")  # type: ignore[arg-type]  # texts
    create_topics(settings)
    pipeline = AgentPipeline(settings, tmp_path)
    try:
        pipeline.start()
        pipeline.send(SNAPSHOTS, JOB, windows(610, 610)[0])
        assert [decision.span_end_ms // 60_000 for decision in pipeline.decisions(1)] == [610]
        assert TELLTALE not in pipeline.log()
    finally:
        pipeline.stop()


def test_spark_assembles_windows_over_tls_and_scram(broker: SecureBroker, tmp_path: Path) -> None:
    """Its Java consumer reads, its Python producer writes; log and checkpoint hold no password."""
    pipeline = secure_spark_pipeline(broker, tmp_path)
    try:
        pipeline.start()
        topology = graph(spec("map"), job=JOB)
        pipeline.send(sample(600_000, 5, job=JOB, task="map"), marker(10, topology))
        wait_until(lambda: pipeline.has_windows(1), 180, "the window")
        pipeline.process.terminate()
        assert pipeline.process.wait(PATIENT_S) == 0  # while it runs, files of its checkpoint come and go
        assert TELLTALE not in pipeline.log()
        files = [path for path in pipeline.checkpoint.rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if TELLTALE.encode() in path.read_bytes()]
    finally:
        pipeline.close()


def test_a_certificate_opens_a_listener_that_wants_one(tmp_path: Path) -> None:
    """Mutual TLS: with the client's certificate topics can be created, without it the broker hangs up."""
    broker = MutualTlsBroker(tmp_path / "kafka")
    broker.start()
    try:
        broker.wait_ready()
        pipeline = PipelineSettings(**broker.mutual, topic_prefix="mutual-")  # type: ignore[arg-type]  # all are texts
        assert "mutual-decisions" in create_topics(pipeline)
        assert OtherGroups(pipeline, PATIENT_S).listed() == {}
        with pytest.raises(KafkaException):
            create_topics(replace(pipeline, kafka_certificate_file="", kafka_key_file=""))
    finally:
        broker.stop()
