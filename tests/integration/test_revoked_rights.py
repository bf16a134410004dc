"""A right that is taken away while a role runs: the role says which, is not ready, and goes on once it is given again."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.contracts.access import ROLES
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DECISIONS, SNAPSHOTS, TASK_METRICS
from tests.support.attacked_consumer import consumer_of
from tests.support.command_line import SURESCALE
from tests.support.hostile_consumers import CONSUMERS
from tests.support.lost_rights import lose_and_regain
from tests.support.secure_broker import AuthorizingBroker
from tests.support.waiting import PATIENT_S

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"),
]
LOST = {
    "state-service": (DECISIONS, "Read"),
    "agent": (SNAPSHOTS, "Read"),
    "rescaler": (DECISIONS, "Read"),
    "monitor": (TASK_METRICS, "Write"),
}
"""The right that each role loses; Spark's stage loses two in ``test_kafka_oauth``, where it starts anyway."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizingBroker]:
    """A broker with one user a role."""
    made = AuthorizingBroker(tmp_path_factory.mktemp("revoking") / "kafka")
    made.start()
    try:
        made.wait_ready()
        made.add_user(*(f"surescale-{role}" for role in ROLES))
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("role", LOST)
def test_a_role_names_the_right_that_it_lost_and_comes_back(
    role: str, broker: AuthorizingBroker, redis_url: str, tmp_path: Path
) -> None:
    """One line with the topic, and not ready; once the right is back it is ready and handles records again."""
    kind, (topic, operation) = next(each for each in CONSUMERS if each.role == role), LOST[role]
    prefix = f"revoked-{role}-"
    words = [*SURESCALE, "topics", "acls", "--json", "--prefix", prefix, "--role", role]
    rights = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=PATIENT_S, check=True).stdout)
    broker.grant(rights)
    settings = PipelineSettings(bootstrap=broker.bootstrap, topic_prefix=prefix, redis_url=redis_url)
    user = broker.scram | {"kafka_username": f"surescale-{role}"}
    more = {f"SURESCALE_{name.upper()}": value for name, value in user.items()}
    with consumer_of(kind, settings, tmp_path, more) as consumer:
        consumer.round()
        if role == "monitor":
            consumer.round()  # in which it starts again
        lose_and_regain(consumer, broker, rights, f"{prefix}{topic}", operation)
        consumer.round()
