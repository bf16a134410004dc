"""Every client of ours towards a real broker that takes AWS MSK's IAM tokens, which AWS' libraries sign, and verifies them.

Nothing is asked of AWS: a signature needs the key only, and the broker knows its secret.
"""

import contextlib
import importlib.util
import json
import logging
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DECISIONS, SNAPSHOTS
from surescale.runtime.kafka import LogReader, create_topics, producer, wait_for_topics
from surescale.runtime.kafka_errors import Refused
from surescale.services.doctor.kafka_checks import KafkaChecks
from surescale.services.local_stack.artifacts import MSK_IAM, SPARK_KAFKA, fetch
from tests.support.agent_pipeline import AgentPipeline, windows
from tests.support.attacked_consumer import consumer_of
from tests.support.builders import JOB
from tests.support.command_line import SURESCALE
from tests.support.hostile_consumers import SparkConsumer
from tests.support.secure_broker import KEY_ID, KEY_SECRET, IamBroker, ask
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("aws_msk_iam_sasl_signer") is None, reason="AWS' library is not installed"),
]
LIFE_S = 12  # of a token, in place of the quarter of an hour that AWS' library gives it
SHORT_LIVED = (
    "from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as signer; "
    f"signer.DEFAULT_TOKEN_EXPIRY_SECONDS = {LIFE_S}; "
    "from surescale.services.cli import main; main()"
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IamBroker]:
    """A broker that knows one key, whose user may do everything."""
    made = IamBroker(tmp_path_factory.mktemp("iam") / "kafka")
    made.start()
    try:
        made.wait_ready()
        made.allow_everything(KEY_ID)
        yield made
    finally:
        made.stop()


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key of the environment; no other is looked for in this machine or its network."""
    for name, value in {"ACCESS_KEY_ID": KEY_ID, "SECRET_ACCESS_KEY": KEY_SECRET, "EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for name in ("SESSION_TOKEN", "PROFILE", "REGION", "DEFAULT_REGION"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)


def pipeline(broker: IamBroker, prefix: str, **more: str) -> PipelineSettings:
    """Return settings with IAM."""
    return PipelineSettings(**(broker.iam | more), topic_prefix=prefix)  # type: ignore[arg-type]  # all are texts


def test_a_producer_and_a_reader_outlive_their_tokens(broker: IamBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker ends a connection when its token expires; the next one shows a new token."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider

    monkeypatch.setattr(MSKAuthTokenProvider, "DEFAULT_TOKEN_EXPIRY_SECONDS", LIFE_S)
    settings = pipeline(broker, "clients-")
    create_topics(settings)
    client, reader = producer(settings), LogReader(settings, [DECISIONS])
    client.produce("clients-decisions", b"0", key=b"sim")
    assert client.flush(20) == 0
    before, sent, found = set(broker.accepted), 1, list(reader.read_to_end())

    def has_two_new_tokens() -> bool:
        nonlocal sent
        client.produce("clients-decisions", str(sent).encode(), key=b"sim")
        sent += 1
        assert client.flush(60) == 0
        with contextlib.suppress(KafkaException):  # the connection has just ended: roles ask again
            found.extend(reader.poll(1.0))
        return len(set(broker.accepted) - before) >= 4  # two of each client

    def has_read_all() -> bool:
        found.extend(reader.poll(1.0))
        return len(found) >= sent

    wait_until(has_two_new_tokens, 10 * LIFE_S, "tokens in place of those that expired")
    wait_until(has_read_all, 60, "the records")
    assert [record.value() for record in found] == [str(number).encode() for number in range(sent)]
    reader.close()


def test_doctor_says_whose_token_it_is(broker: IamBroker) -> None:
    """The id of the key, which is no secret; never the token."""
    checks = KafkaChecks(pipeline(broker, "doctor-"))
    token, kafka = [*checks.token(), *checks.broker()]
    assert ((token.verdict, token.subject), (kafka.verdict, kafka.subject)) == (("ok", "token"), ("ok", "kafka"))
    assert token.detail.startswith(f"AWS access key '{KEY_ID}', valid for ")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "another"}, f"refuses the token .*access key '{KEY_ID}'.*allow kafka-cluster:Connect on the"),
        (
            {"AWS_ACCESS_KEY_ID": "AKIANOBODYSKEY000000"},
            "refuses the token .*access key 'AKIANOBODYSKEY000000'.*topics acls --iam",
        ),
        ({"AWS_ACCESS_KEY_ID": ""}, "SASL_MECHANISM: AWS' library finds no credentials .*AWS_PROFILE"),
        ({"AWS_PROFILE": "nobody"}, "AWS' library finds no credentials .*nobody"),
    ],
    ids=["secret", "key", "none", "profile"],
)
def test_an_identity_that_may_not_connect_is_one_line_with_the_right_that_lacks(
    broker: IamBroker, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], says: str
) -> None:
    """Or none at all."""
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Refused, match=says) as refused:
        ask(pipeline(broker, "refused-"))
    assert KEY_SECRET not in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_role_without_credentials_waits_for_them(
    broker: IamBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And says which are missing."""
    settings = pipeline(broker, "waits-")
    create_topics(settings)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "")
    stop = threading.Event()
    role = threading.Thread(
        target=wait_for_topics, args=(settings, [DECISIONS]), kwargs={"stop": stop, "log": logging.getLogger()}
    )
    role.start()
    try:
        wait_until(lambda: "AWS' library finds no credentials" in caplog.text, PATIENT_S, "the line")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY_ID)
        role.join(PATIENT_S)
        assert not role.is_alive()
    finally:
        stop.set()
        role.join()


def test_another_region_is_refused(broker: IamBroker) -> None:
    """The token is for one region only."""
    with pytest.raises(Refused, match="refuses the token"):
        ask(replace(pipeline(broker, "region-"), kafka_aws_region="us-test-1"))


def known(broker: IamBroker, key_id: str) -> str:
    """Let another key connect, with the same secret."""
    with (broker.folder / "keys").open("a") as keys:
        keys.write(f"{key_id}={KEY_SECRET}\n")
    return key_id


def shown(broker: IamBroker, key_id: str) -> set[str]:
    """Return the tokens of a key that were taken."""
    return {each for each in broker.accepted if each.startswith(key_id)}


def test_the_agent_decides_on_tokens_that_expire(broker: IamBroker, tmp_path: Path) -> None:
    """Faust's consumer and producer show new ones; every window has its decision."""
    settings = pipeline(broker, "agent-", policy="target-utilisation")
    create_topics(settings)
    own = known(broker, "AKIASURESCALEAGENT00")
    broker.allow_everything(own)
    agent, minute, first = AgentPipeline(settings, tmp_path), 600, set[str]()
    try:
        agent.start([sys.executable, "-P", "-c", SHORT_LIVED], AWS_ACCESS_KEY_ID=own)

        def has_shown_new_tokens() -> bool:
            nonlocal minute, first
            minute += 10
            agent.send(SNAPSHOTS, JOB, windows(minute, minute)[0])
            agent.decisions((minute - 600) // 10)
            first = first or shown(broker, own)
            return len(shown(broker, own) - first) >= 3

        wait_until(has_shown_new_tokens, 10 * PATIENT_S, "tokens in place of those that expired")
        assert KEY_SECRET not in agent.log()
    finally:
        agent.stop()


def test_spark_logs_in_by_the_library_for_java(broker: IamBroker, tmp_path: Path) -> None:
    """And its Python producer by the one for Python, as a key with the printed rights; the secret shows up nowhere."""
    spark_key = known(broker, "AKIASURESCALESPARK00")
    words = [*SURESCALE, "topics", "acls", "--json", "--prefix", "spark-", "--role", "spark"]
    words += ["--principal", f"spark=User:{spark_key}"]
    printed = subprocess.run(words, capture_output=True, text=True, timeout=PATIENT_S, check=True).stdout
    broker.grant(json.loads(printed))
    more = {f"SURESCALE_{name.upper()}": value for name, value in broker.iam.items()}
    jars = [*fetch(SPARK_KAFKA), *fetch(MSK_IAM)]
    more |= {"AWS_ACCESS_KEY_ID": spark_key, "SURESCALE_SPARK_JARS": ",".join(map(str, jars))}
    with consumer_of(SparkConsumer, PipelineSettings(bootstrap=broker.bootstrap, topic_prefix="spark-"), tmp_path, more) as spark:
        spark.round()
        assert len(shown(broker, spark_key)) >= 2
        assert KEY_SECRET not in spark.log()
