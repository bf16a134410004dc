"""A group that the monitor may not describe, and a topic that it may not read: one line with what to do, and the job is held."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.broker import GroupReader
from surescale.engines.groups.doctor import groups
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.ports.source import SourceUnavailable
from surescale.engines.settings import SourceSettings
from surescale.monitor.settings import MonitorSettings
from surescale.runtime.kafka import consumer
from tests.support.live_groups import state_of
from tests.support.role_settings import role_settings
from tests.support.secure_broker import AuthorizingBroker
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which makes the certificates, is not installed"),
]
GROUP, TOPIC, USER = "orders-parse", "orders", "watcher"
_OF_GROUP = {"resource": "group", "name": GROUP, "operation": "Describe", "principal": f"User:{USER}"}
_OF_TOPIC = {"resource": "topic", "name": TOPIC, "operation": "Describe", "principal": f"User:{USER}"}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[AuthorizingBroker]:
    """A broker with a user who may do nothing yet."""
    made = AuthorizingBroker(tmp_path / "kafka")
    made.start()
    try:
        made.wait_ready()
        made.add_user(USER)
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("reads", [[TOPIC], []])
def test_a_right_that_is_missing_is_one_line_and_the_job_is_held(
    broker: AuthorizingBroker, tmp_path: Path, reads: list[str]
) -> None:
    """First the group's, then the topic's; with both there are figures, and a right that is lost is named again.

    Also where the topic is known from the group's assignment alone: the broker leaves out offsets that we may not see.
    """
    client = consumer(PipelineSettings(bootstrap=broker.bootstrap), GROUP)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce(TOPIC, "one")
    producer.flush(30)
    client.subscribe([TOPIC])
    everybody = GroupReader(PipelineSettings(bootstrap=broker.bootstrap))
    wait_until(lambda: [client.poll(0.05), state_of(everybody, GROUP) == "stable"][1], what="the group")
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"orders": {"groups": {"parse": {"group": GROUP, "reads": reads}}}}))
    user = {f"source_{name}": value for name, value in (broker.scram | {"kafka_username": USER}).items()}
    settings = role_settings(
        MonitorSettings, bootstrap=broker.bootstrap, engine="kafka", cluster="real", groups_file=str(file), **user
    )
    source = ConsumerGroupSource(settings)
    try:
        may_not = (
            f"which the groups read, does not let us describe group {GROUP}; grant DESCRIBE on it to the user of the monitor"
        )
        assert may_not in _held(source)
        assert may_not in _doctor(settings)
        broker.grant([_OF_GROUP])
        may_not = f"which sources read, does not let us describe {TOPIC}; grant DESCRIBE to the user of the monitor"
        assert may_not in wait_until(lambda: TOPIC in _held(source) and _held(source), what="the group's right")
        assert may_not in _doctor(settings)
        broker.grant([_OF_TOPIC])
        wait_until(lambda: not _held(source), what="the topic's right")
        look = source.follow("real/orders").look()
        assert (look.topology.state, look.topology.tasks[0].useful_max) == ("running", 2)
        broker.revoke([_OF_GROUP])
        assert f"describe group {GROUP}" in wait_until(lambda: _held(source), what="the right to be gone")
    finally:
        source.close()
        client.close()


def test_one_group_that_may_not_be_described_hides_no_other(broker: AuthorizingBroker) -> None:
    """Whoever may describe the cluster sees all groups. One is named like a role of surescale, and may be somebody's."""
    names, client_settings = ["lag-monitor-a", GROUP], PipelineSettings(bootstrap=broker.bootstrap)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 1)])[TOPIC].result(30)
    clients, everybody = [consumer(client_settings, name) for name in names], GroupReader(client_settings)
    broker.grant([_OF_GROUP, {**_OF_GROUP, "resource": "broker", "name": "kafka-cluster"}])
    user = {f"source_{name}": value for name, value in (broker.scram | {"kafka_username": USER}).items()}
    settings = role_settings(MonitorSettings, bootstrap=broker.bootstrap, engine="kafka", cluster="real", **user)
    source = ConsumerGroupSource(settings)
    try:
        for client in clients:
            client.subscribe([TOPIC])
        for client, name in zip(clients, names, strict=True):
            wait_until(lambda of=client, is_of=name: [of.poll(0.05), state_of(everybody, is_of) == "stable"][1], what="the group")
        assert source.jobs() == ["real/lag-monitor-a", f"real/{GROUP}"]
        with pytest.raises(SourceUnavailable, match="does not let us describe group lag-monitor-a; grant DESCRIBE on it"):
            source.follow("real/lag-monitor-a").look()
    finally:
        source.close()
        for client in clients:
            client.close()


def _held(source: ConsumerGroupSource) -> str:
    """Return why a look has no figures; empty if it has some."""
    source.jobs()
    try:
        source.follow("real/orders").look()
    except SourceUnavailable as away:
        said = str(away)
        assert "\n" not in said
        assert said.startswith("real/orders: Kafka at ")
        assert said.endswith("until then its figures are unknown and it is held")
        return said
    return ""


def _doctor(settings: SourceSettings) -> str:
    """Return the problem that the doctor finds."""
    (found,) = groups(settings)
    assert found.verdict == "problem"
    return found.detail
