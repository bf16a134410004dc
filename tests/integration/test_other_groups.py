"""Groups of other types than consumer groups, on a real broker: they are not said to be missing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.groups.doctor import groups
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.monitor.settings import MonitorSettings
from surescale.services.init.answers import checked_groups
from tests.support.other_groups import ManyTypesBroker, join_share_group, join_streams_group, leave_streams_group
from tests.support.role_settings import role_settings
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")]
SHARED, STREAMED, NOBODY = "shared", "streamed", "nobodys"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with a topic, a share group, and a Streams group that has committed an offset."""
    broker = ManyTypesBroker(tmp_path_factory.mktemp("many-types"))
    try:
        broker.start()
        broker.wait_ready()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("in", 2, 1)])["in"].result(30)
        reader = GroupReader(PipelineSettings(bootstrap=broker.bootstrap))
        wait_until(lambda: _has_groups(reader), 60, "the topic in which it keeps groups")
        join_share_group(broker.bootstrap, SHARED, "in")
        member = join_streams_group(broker.bootstrap, STREAMED, "in")
        leave_streams_group(broker.bootstrap, STREAMED, member)
        wait_until(lambda: _is_committed(admin), 60, "the commit of the Streams group")
        yield broker.bootstrap
    finally:
        broker.stop()


def _has_groups(reader: GroupReader) -> bool:
    try:
        return reader.look([NOBODY])[NOBODY].state == "dead"
    except GroupsUnavailable:
        return False


def _is_committed(admin: AdminClient) -> bool:
    offsets = ConsumerGroupTopicPartitions(STREAMED, [TopicPartition("in", 0, 0)])
    (future,) = admin.alter_consumer_group_offsets([offsets]).values()
    return all(each.error is None for each in future.result(30).topic_partitions)


def test_what_a_group_is_that_is_no_consumer_group_is_said(bootstrap: str) -> None:
    """As far as the broker lets us know; one that is not there is not there."""
    seen = GroupReader(PipelineSettings(bootstrap=bootstrap)).look([SHARED, STREAMED, NOBODY])
    assert {name: (group.state, group.other_type) for name, group in seen.items()} == {
        SHARED: ("dead", "a share group (KIP-932) or a Kafka Streams group (KIP-1071)"),
        STREAMED: ("dead", "a Kafka Streams group (KIP-1071)"),
        NOBODY: ("dead", ""),
    }


def test_a_job_of_such_a_group_says_so_and_what_to_do(bootstrap: str, tmp_path: Path) -> None:
    """In its topology, in doctor and in init."""
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"j": {"groups": {"t": {"group": SHARED, "reads": ["in"]}}}}))
    settings = role_settings(MonitorSettings, bootstrap=bootstrap, engine="kafka", cluster="c", groups_file=str(file))
    source = ConsumerGroupSource(settings)
    source.jobs()
    (task,) = source.follow("c/j").look().topology.tasks
    assert task.hindrance == (
        f"{SHARED} is a share group (KIP-932) or a Kafka Streams group (KIP-1071), whose members and what waits for them the "
        "broker does not tell us; read its topics as a consumer group, or take it out of SURESCALE_GROUPS_FILE"
    )
    (finding,) = groups(settings)
    assert (finding.verdict, finding.detail.startswith(f"j/t: {SHARED} is a share group")) == ("problem", True)
    with pytest.raises(SettingsError, match=f"--group: {STREAMED} is a Kafka Streams group .* name a consumer group"):
        checked_groups(PipelineSettings(bootstrap=bootstrap), [STREAMED], [])
    source.close()


def test_without_a_file_doctor_names_such_groups(bootstrap: str) -> None:
    """They are no jobs."""
    told = [each.detail for each in groups(role_settings(MonitorSettings, bootstrap=bootstrap, engine="kafka", cluster="c"))]
    assert told[1:] == [
        f"no jobs: {SHARED}, {STREAMED}: a share group (KIP-932) or a Kafka Streams group (KIP-1071) each, whose members and "
        "what waits for them the broker does not tell us"
    ]
