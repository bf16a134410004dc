"""A real broker that authorises: each role works with exactly the rights printed for it, and nobody writes for another."""

import json
import logging
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from surescale.contracts.access import ROLES, Role, writers
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import JOB_SETTINGS, JOB_TOPOLOGY, TOPICS
from surescale.runtime.kafka import create_topics
from surescale.runtime.kafka_security import librdkafka_options
from surescale.runtime.topic_records import send
from surescale.services.state.notify.feed import Feed
from surescale.services.state.notify.watch import Watch
from surescale.services.state.operate import OperationRequest, Operator, PauseBody
from tests.support.attacked_consumer import Consumer, consumer_of
from tests.support.builders import JOB, topology
from tests.support.command_line import SURESCALE
from tests.support.hostile_consumers import CONSUMERS
from tests.support.secure_broker import AuthorizingBroker
from tests.support.waiting import PATIENT_S

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizingBroker]:
    """A broker with one user a role, none of which may do anything yet."""
    made = AuthorizingBroker(tmp_path_factory.mktemp("authorizing") / "kafka")
    made.start()
    try:
        made.wait_ready()
        made.add_user(*(f"surescale-{role}" for role in ROLES), "nobody")
        yield made
    finally:
        made.stop()


def user(broker: AuthorizingBroker, name: str) -> dict[str, str]:
    """Return the settings of one user."""
    return broker.scram | {"kafka_username": name}


def granted(broker: AuthorizingBroker, prefix: str, *options: str) -> None:
    """Grant what the command prints, to the letter."""
    words = [*SURESCALE, "topics", "acls", "--json", "--prefix", prefix, *options]
    printed = subprocess.run(words, capture_output=True, text=True, timeout=PATIENT_S, check=True)
    broker.grant(json.loads(printed.stdout))


@pytest.mark.parametrize("kind", CONSUMERS, ids=[kind.role for kind in CONSUMERS])
def test_a_role_works_with_exactly_its_rights(
    kind: type[Consumer], broker: AuthorizingBroker, redis_url: str, tmp_path: Path
) -> None:
    """It handles good records, also after a kill, as a user who may do nothing else. The monitor is one of several."""
    prefix = f"{kind.role}-"
    granted(broker, prefix)
    settings = PipelineSettings(bootstrap=broker.bootstrap, topic_prefix=prefix, redis_url=redis_url)
    more = {f"SURESCALE_{name.upper()}": value for name, value in user(broker, f"surescale-{kind.role}").items()}
    more["SURESCALE_LEADER_ELECT"] = "true"
    with consumer_of(kind, settings, tmp_path, more) as consumer:
        consumer.round()
        consumer.round()


def test_nobody_writes_for_another(broker: AuthorizingBroker) -> None:
    """Every role at every topic: its own writers are let in, everybody else's forged record is refused by the broker."""
    prefix = "forged-"
    create_topics(PipelineSettings(bootstrap=broker.bootstrap, topic_prefix=prefix))
    granted(broker, prefix)
    for name in (*ROLES, "nobody"):
        assert let_in(broker, name, prefix) == {topic for topic in TOPICS if name in writers(topic)}, name


def let_in(broker: AuthorizingBroker, name: str, prefix: str) -> set[str]:
    """Return the topics (bare names) that take a record of this user."""
    taken: set[str] = set()

    def delivered(error: KafkaError | None, record: Message) -> None:
        assert error is None or error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED, error
        if error is None:
            taken.add((record.topic() or "").removeprefix(prefix))

    pipeline = PipelineSettings(**user(broker, name if name == "nobody" else f"surescale-{name}"))  # type: ignore[arg-type]  # texts
    client = Producer({"bootstrap.servers": pipeline.bootstrap, **librdkafka_options(pipeline), "log_level": 0})
    for topic in TOPICS:
        client.produce(f"{prefix}{topic}", b"forged", b"sim", on_delivery=delivered)
    assert client.flush(20) == 0
    return taken


def test_the_command_line_changes_settings_with_the_operators_rights(broker: AuthorizingBroker) -> None:
    """Lists a job's settings and releases; anybody else's change is refused in one line."""
    prefix = "line-"
    pipeline = PipelineSettings(bootstrap=broker.bootstrap, topic_prefix=prefix)
    create_topics(pipeline)
    granted(broker, prefix)
    outcomes: dict[Role, tuple[int, str]] = {}
    for role in ("operator", "agent"):
        own = replace(pipeline, **user(broker, f"surescale-{role}"))  # type: ignore[arg-type]  # texts
        outcomes[role] = release(own)  # type: ignore[index]  # one of the roles
    assert outcomes["operator"][0] == 0, outcomes["operator"][1]
    assert outcomes["agent"][0] == 1
    assert len(outcomes["agent"][1].splitlines()) == 1


def test_the_state_service_pauses_a_job_only_with_the_right_for_it(broker: AuthorizingBroker) -> None:
    """Without it the broker refuses, in one line; with `--http-operate` it works, and settings are all that it writes."""
    prefix = "operate-"
    pipeline = PipelineSettings(bootstrap=broker.bootstrap, topic_prefix=prefix)
    create_topics(pipeline)
    send(pipeline, JOB_TOPOLOGY, JOB, topology(1))
    own = replace(pipeline, **user(broker, "surescale-state-service"))  # type: ignore[arg-type]  # texts
    operator = Operator(own, logging.getLogger("test"))
    asked = OperationRequest(target=JOB, of_cluster=False, body=PauseBody(why="audit"), by="ana", key="k")
    granted(broker, prefix)
    with pytest.raises(ConnectionError, match="uthoriz") as refused:
        operator.execute(asked)
    assert "\n" not in str(refused.value)
    granted(broker, prefix, "--http-operate")
    assert operator.execute(asked).written
    assert let_in(broker, "state-service", prefix) == {JOB_SETTINGS}


def test_a_webhook_is_told_only_with_the_right_for_it(broker: AuthorizingBroker) -> None:
    """The mark of how far it was told needs it: without it nothing is told, with `--notify` the first marks are set."""
    prefix = "notify-"
    pipeline = PipelineSettings(bootstrap=broker.bootstrap, topic_prefix=prefix)
    create_topics(pipeline)
    own = replace(pipeline, **user(broker, "surescale-state-service"))  # type: ignore[arg-type]  # texts
    granted(broker, prefix)
    with pytest.raises(KafkaException, match="surescale topics acls --notify"):
        Feed(own, keep_ms=1)
    granted(broker, prefix, "--notify")
    feed = Feed(own, keep_ms=1)
    feed.prime(Watch())
    feed.close()
    assert let_in(broker, "state-service", prefix) == set()


def release(pipeline: PipelineSettings) -> tuple[int, str]:
    """Release a policy as the user of these settings; return exit code and error."""
    from surescale.contracts.settings import to_environment

    words = ["policy", "release", "target-utilisation", "--by", "a test"]
    done = subprocess.run(
        [*SURESCALE, *words], env=to_environment(pipeline), capture_output=True, text=True, timeout=PATIENT_S, check=False
    )
    return done.returncode, done.stderr
