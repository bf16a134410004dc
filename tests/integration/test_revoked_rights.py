"""A right that is taken away while a role runs: the role says which, is not ready, and goes on once it is given again."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from contracts.access import ROLES
from contracts.settings import RoadSettings
from contracts.topics import DECISIONS, SNAPSHOTS
from tests.support.hostile_consumers import CONSUMERS, consumer_of
from tests.support.rescaler_road import health
from tests.support.secure_broker import AuthorizingBroker
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"),
]
SURESCALE = [sys.executable, "-c", "from services.cli import main; main()"]
LOST = {
    "state-service": (DECISIONS, "Read"),
    "agent": (SNAPSHOTS, "Read"),
    "rescaler": (DECISIONS, "Read"),
}
"""The right that each role loses."""


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
    rights = json.loads(subprocess.run(words, capture_output=True, text=True, timeout=60, check=True).stdout)
    broker.grant(rights)
    lost = [each for each in rights if (each["name"], each["operation"]) == (f"{prefix}{topic}", operation)]
    settings = RoadSettings(bootstrap=broker.bootstrap, topic_prefix=prefix, redis_url=redis_url)
    user = broker.scram | {"kafka_username": f"surescale-{role}"}
    more = {f"SURESCALE_{name.upper()}": value for name, value in user.items()}
    with consumer_of(kind, settings, tmp_path, more) as consumer:
        consumer.round()
        port, log = consumer.settings.health_port, tmp_path / f"{role}.log"
        before = len(log.read_text())
        broker.revoke(lost)

        def said() -> list[str]:
            return [line for line in log.read_text()[before:].splitlines() if f"{prefix}{topic}" in line and "uthoriz" in line]

        wait_until(lambda: bool(said()) and not (health(port) or {}).get("ready"), 90, f"the {role} to say what it lost")
        broker.grant(lost)
        wait_until(lambda: bool((health(port) or {}).get("ready")), 90, f"the {role} to be ready again")
        consumer.round()
