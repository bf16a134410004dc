"""Every client of ours towards a real broker that takes signed tokens: they expire, their issuer goes away and comes back."""

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import KafkaException

from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.topics import DECISIONS, SNAPSHOTS, TASK_METRICS
from surescale.engines.groups.other_types import OtherGroups
from surescale.runtime.kafka import LogReader, create_topics, producer
from surescale.runtime.kafka_errors import Refused
from surescale.services.doctor.kafka_checks import KafkaChecks
from tests.support.agent_pipeline import AgentPipeline, windows
from tests.support.attacked_consumer import Consumer, consumer_of
from tests.support.builders import JOB
from tests.support.command_line import SURESCALE
from tests.support.hostile_consumers import SparkConsumer
from tests.support.issuer import CLIENT, SECRET, SECRET_TELLTALE, Issuer, make_key
from tests.support.lost_rights import lose_and_regain
from tests.support.secure_broker import TokenBroker, ask
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"),
]
LIFE_S = 12.0  # a fifth of it is what clients have left to show the next one, also on a busy machine


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    """A broker that takes tokens; the client of the tests may do everything."""
    made = TokenBroker(tmp_path_factory.mktemp("tokens") / "kafka")
    made.start()
    try:
        made.wait_ready()
        made.allow_everything(CLIENT)
        yield made
    finally:
        made.stop()


@pytest.fixture
def issuer(broker: TokenBroker) -> Iterator[Issuer]:
    """An issuer whose key the broker knows, with tokens of a few seconds."""
    with Issuer(broker.folder, life_s=LIFE_S, has_tls=True) as made:
        yield made


def pipeline(broker: TokenBroker, issuer: Issuer, prefix: str, **more: str) -> PipelineSettings:
    """Return settings with tokens."""
    return PipelineSettings(**(broker.oauth(issuer) | more), topic_prefix=prefix)  # type: ignore[arg-type]  # all are texts


def away_past_expiry(issuer: Issuer) -> None:
    """Take the issuer away until every token it gave has expired, then bring it back."""
    issuer.stop()
    expired_s = time.monotonic() + LIFE_S
    wait_until(lambda: time.monotonic() > expired_s, 2 * LIFE_S, "the tokens to expire")
    issuer.start()


@pytest.mark.nightly("waits for tokens to expire; the agent's test does too")
def test_a_producer_and_a_reader_outlive_their_tokens_and_an_absent_issuer(broker: TokenBroker, issuer: Issuer) -> None:
    """What is sent while no token is to be had arrives once the issuer is back; nothing is lost or doubled."""
    settings = pipeline(broker, issuer, "clients-")
    create_topics(settings)
    client, reader = producer(settings), LogReader(settings, [DECISIONS])
    client.produce("clients-decisions", b"before", key=b"sim")
    assert client.flush(20) == 0
    assert [record.value() for record in reader.read_to_end()] == [b"before"]
    given = issuer.given
    away_past_expiry(issuer)
    client.produce("clients-decisions", b"after", key=b"sim")
    assert client.flush(60) == 0
    found: list[Any] = []

    def read_on() -> bool:
        with contextlib.suppress(KafkaException):  # the broker refuses the old token until the new one is there: roles ask again
            found.extend(reader.poll(1.0))
        return bool(found)

    wait_until(read_on, 60, "the record")
    assert ([record.value() for record in found], issuer.given > given) == ([b"after"], True)
    reader.close()


def test_doctor_says_whose_token_it_is(broker: TokenBroker, issuer: Issuer) -> None:
    """And what is wrong where there is none."""
    settings = pipeline(broker, issuer, "doctor-")
    well = [*(checks := KafkaChecks(settings)).token(), *checks.broker()]
    assert [(finding.verdict, finding.subject) for finding in well] == [("ok", "token"), ("ok", "kafka")]
    assert OtherGroups(settings, PATIENT_S).listed() == {}
    assert "client 'surescale', issuer 'https://issuer.test', audience 'kafka.test'" in well[0].detail
    issuer.stop()
    (finding,) = KafkaChecks(settings).token()
    assert (finding.verdict, "SURESCALE_KAFKA_OAUTH_TOKEN_URL" in finding.detail) == ("problem", True)


@pytest.mark.parametrize(
    ("changed", "claims", "says"),
    [
        (
            {"kafka_oauth_client_secret_file": "wrong-secret"},
            {},
            "_CLIENT_SECRET_FILE: .* refuses the client .*401 invalid_client",
        ),
        ({"kafka_oauth_scope": "nothing"}, {}, "SURESCALE_KAFKA_OAUTH_SCOPE: .* refuses 'nothing'"),
        ({"kafka_oauth_ca_file": "other-ca.pem"}, {}, "SURESCALE_KAFKA_OAUTH_CA_FILE: the certificate of .* is not trusted"),
        ({"kafka_oauth_token_url": "http://127.0.0.1:1/token", "kafka_oauth_ca_file": ""}, {}, "_TOKEN_URL: .* does not answer"),
        ({}, {"aud": "another"}, "the broker refuses the token .*audience 'another'.* .expected.audience"),
        ({}, {"iss": "another"}, "the broker refuses the token .*issuer 'another'"),
        ({}, {"exp": 1_000}, "_TOKEN_URL: the token that .* has just made expired .* clocks"),
        ({}, {"nbf": int(time.time()) + 10_000}, r"the broker refuses the token .*valid only \d{4,5} s from now"),
        ({}, {"exp": None}, "_TOKEN_URL: .* answers without a JWT that says when it expires"),
    ],
    ids=["secret", "scope", "authority", "address", "audience", "issuer", "expired", "too early", "no end"],
)
def test_a_token_that_is_not_to_be_had_or_is_refused_is_one_line_with_the_fix(
    broker: TokenBroker, issuer: Issuer, changed: dict[str, str], claims: dict[str, Any], says: str
) -> None:
    """The setting's name, without the secret."""
    files = {name: str(broker.folder / value) if name.endswith("_file") and value else value for name, value in changed.items()}
    settings = pipeline(broker, issuer, "refused-", **files)
    issuer.claims = claims
    with pytest.raises(Refused, match=says) as refused:
        ask(settings)
    assert SECRET_TELLTALE not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_token_that_another_key_signed_opens_nothing(broker: TokenBroker, issuer: Issuer, tmp_path: Path) -> None:
    """The broker verifies signatures, so these tests show something."""
    make_key(tmp_path)
    with Issuer(tmp_path) as forger, pytest.raises(Refused, match="the broker refuses the token"):
        ask(replace(pipeline(broker, issuer, "forged-"), kafka_oauth_token_url=forger.url, kafka_oauth_ca_file=""))


def test_the_agent_decides_on_tokens_that_expire(broker: TokenBroker, issuer: Issuer, tmp_path: Path) -> None:
    """Faust's consumer and producer get new ones, also after the issuer was away; every window has its decision."""
    settings = pipeline(broker, issuer, "agent-", policy="target-utilisation")
    create_topics(settings)
    agent = AgentPipeline(settings, tmp_path)
    try:
        agent.start()
        agent.send(SNAPSHOTS, JOB, windows(610, 610)[0])
        agent.decisions(1)
        away_past_expiry(issuer)
        agent.send(SNAPSHOTS, JOB, windows(620, 620)[0])
        assert [decision.span_end_ms // 60_000 for decision in agent.decisions(2)] == [610, 620]
        assert SECRET_TELLTALE not in agent.log()
    finally:
        agent.stop()


@pytest.mark.nightly("waits for tokens to expire; the agent's test does too")
def test_spark_outlives_its_tokens_and_the_rights_that_it_loses(broker: TokenBroker, issuer: Issuer, tmp_path: Path) -> None:
    """Its Java consumer and its Python producer, as a client with the printed rights; its secret shows up nowhere."""
    client = "surescale-spark"
    words = [*SURESCALE, "topics", "acls", "--json", "--prefix", "spark-", "--role", "spark"]
    rights = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=PATIENT_S, check=True).stdout)
    broker.grant(rights)
    issuer.clients[client] = SECRET
    more = {f"SURESCALE_{name.upper()}": value for name, value in broker.oauth(issuer, client).items()}
    with consumer_of(SparkConsumer, PipelineSettings(bootstrap=broker.bootstrap, topic_prefix="spark-"), tmp_path, more) as spark:
        spark.round()
        assert not [said for said in seen_from_outside(spark) if SECRET_TELLTALE in said]
        away_past_expiry(issuer)
        spark.round()
        for topic, operation in ((TASK_METRICS, "Read"), (SNAPSHOTS, "Write")):
            lose_and_regain(spark, broker, rights, f"spark-{topic}", operation)
        spark.round()
        assert spark.process is not None
        spark.process.terminate()
        assert spark.process.wait(PATIENT_S) == 0  # while it runs, files of its checkpoint come and go
        assert SECRET_TELLTALE not in spark.log()
        files = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
        assert files
        assert not [path for path in files if SECRET_TELLTALE.encode() in path.read_bytes()]


def seen_from_outside(consumer: Consumer) -> list[str]:
    """Return the command lines and the environments of a role's processes."""
    assert consumer.process is not None
    own, found = psutil.Process(consumer.process.pid), []
    for each in (own, *own.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has ended
            found.append(f"{each.cmdline()} {each.environ()}")
    assert found
    return found


def test_a_child_process_gets_the_same_settings(broker: TokenBroker, issuer: Issuer) -> None:
    """By the environment, which holds the secret's file and never the secret."""
    variables = to_environment(pipeline(broker, issuer, "child-"))
    assert variables["SURESCALE_KAFKA_OAUTH_CLIENT_SECRET_FILE"] == str(broker.folder / "secret")
    assert SECRET_TELLTALE not in str(variables)
