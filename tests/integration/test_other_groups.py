"""Real members of groups of other types than consumer groups, on a real broker: what is known of them is shown, the rest said."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import ConsumerGroup, TaskSpec
from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.groups.doctor import groups
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.ports.minutes import JobSnapshot
from surescale.monitor.settings import MonitorSettings
from surescale.services.init.answers import checked_groups
from surescale.services.local_stack.errors import JavaError
from surescale.services.local_stack.java import find_compiler, find_java
from surescale.services.local_stack.servers import LocalBroker
from tests.support.other_groups import member
from tests.support.role_settings import role_settings
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("ignore:list_groups:DeprecationWarning")]
SHARED, STREAMED, NOBODY, TOPIC = "shared", "streamed", "nobodys", "in"
PARTITIONS, RECORDS = 4, 200
STREAMS, EITHER = "a Kafka Streams group (KIP-1071)", "a share group (KIP-932) or a Kafka Streams group (KIP-1071)"
NO_MEMBERS = "whose members the broker does not tell us"
NOTHING_TOLD = "whose members and what waits for them the broker does not tell us"


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker of its own, so that it has no other groups: a Streams application and a share consumer read a topic there."""
    folder = tmp_path_factory.mktemp("other-groups")
    with contextlib.ExitStack() as running:
        try:
            find_compiler(find_java())
        except JavaError as missing:
            pytest.skip(str(missing))
        broker = LocalBroker(folder / "kafka")
        running.callback(broker.stop)
        broker.start()
        broker.wait_ready()
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        send(broker.bootstrap)
        running.callback(member("streams", broker.bootstrap, STREAMED, TOPIC, folder / STREAMED).stop, 20.0)
        running.callback(member("share", broker.bootstrap, SHARED, TOPIC, folder / SHARED).stop, 20.0)
        wait_until(lambda: are_read(broker.bootstrap), 180, "both groups, and commits of the application")
        yield broker.bootstrap


def send(bootstrap: str) -> None:
    """Send records to every partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number % 10), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def are_read(bootstrap: str) -> bool:
    """Return whether both groups are there, and the application has committed every partition of all that it reads."""
    try:
        seen = GroupReader(PipelineSettings(bootstrap=bootstrap)).look([SHARED, STREAMED])
    except GroupsUnavailable:  # a fresh broker first makes the topic in which it keeps groups
        return False
    return all(group.other_type for group in seen.values()) and {topic for topic, _ in seen[STREAMED].committed} == {
        TOPIC,
        f"{STREAMED}-counts-repartition",
    }


def settings_of(bootstrap: str, folder: Path) -> MonitorSettings:
    """Return the settings of a monitor with a file of a job for each group."""
    file = folder / "groups.json"
    named = {"app": {"group": STREAMED}, "queue": {"group": SHARED, "reads": [TOPIC]}}
    file.write_text(json.dumps({job: {"groups": {"t": group}} for job, group in named.items()}))
    return role_settings(MonitorSettings, bootstrap=bootstrap, engine="kafka", cluster="c", groups_file=str(file))


@pytest.fixture
def source(bootstrap: str, tmp_path: Path) -> Iterator[ConsumerGroupSource]:
    """What the monitor reads of both."""
    opened = ConsumerGroupSource(settings_of(bootstrap, tmp_path))
    opened.jobs()
    yield opened
    opened.close()


def parts(snapshot: JobSnapshot) -> tuple[TaskSpec, ConsumerGroup]:
    """Return the one task of a job, and what is shown of its group."""
    (task,), (group,) = snapshot.topology.tasks, snapshot.topology.groups
    return task, group


def test_what_a_group_is_that_is_no_consumer_group_is_said(bootstrap: str) -> None:
    """As far as the broker lets us know; one that is not there is not there."""
    reader = GroupReader(PipelineSettings(bootstrap=bootstrap))
    seen = reader.look([SHARED, STREAMED, NOBODY])
    told = {name: (group.state, group.other_type) for name, group in seen.items()}
    assert told == {SHARED: ("dead", EITHER), STREAMED: ("dead", STREAMS), NOBODY: ("dead", "")}
    assert (reader.names(), reader.of_other_types()) == ((), {SHARED: EITHER, STREAMED: STREAMS})


def test_of_a_streams_application_is_shown_what_waits_and_is_read(
    source: ConsumerGroupSource, bootstrap: str, tmp_path: Path
) -> None:
    """Of the topic alone, not of those that it makes for itself; also when a second process joins. No sample, so no decision."""
    job = source.follow("c/app")
    task, group = parts(job.look())
    assert task.hindrance == (
        f"{STREAMED} is {STREAMS}, {NO_MEMBERS}; read its topics as a consumer group, or take it out of SURESCALE_GROUPS_FILE"
    )
    assert (group.topics, group.members, {each.topic for each in group.partitions}) == ((TOPIC,), (), {TOPIC})
    ends = sum(each.end or 0 for each in group.partitions)
    second = member("streams", bootstrap, STREAMED, TOPIC, tmp_path / "second")
    try:
        wait_until(lambda: "RUNNING" in (tmp_path / "second" / "member.log").read_text(), 120, "the second process")
        send(bootstrap)
        seen = []

        def is_read() -> bool:
            seen.append(job.look())
            _, now = parts(seen[-1])
            return (now.lag, sum(each.end or 0 for each in now.partitions)) == (0, ends + RECORDS)

        wait_until(is_read, 120, "the records to be read")
    finally:
        second.stop(20.0)
    came = [[each.read_per_minute for each in parts(snapshot)[1].partitions] for snapshot in seen]
    assert all(any(each[number] for each in came) for number in range(PARTITIONS))
    assert all(each.samples == () for each in seen)
    quiet = seen[-1].topology.quiet
    assert quiet is not None
    assert (quiet.since_ms, quiet.why) == (None, f"t: {STREAMED} is {STREAMS}, {NO_MEMBERS}")


def test_of_a_share_group_only_its_topic_is_known(source: ConsumerGroupSource, caplog: pytest.LogCaptureFixture) -> None:
    """No partition advises it to commit, which its members cannot."""
    task, group = parts(source.follow("c/queue").look())
    assert task.hindrance.startswith(f"{SHARED} is {EITHER}, {NOTHING_TOLD}; read its topics")
    assert (group.lag, group.lag_unknown, group.members) == (None, PARTITIONS, ())
    assert {each.problem for each in group.partitions} == {"the broker does not tell how far a group of this type is"}
    assert all(each.end for each in group.partitions)
    assert "let it commit" not in caplog.text


def test_doctor_and_init_say_what_such_groups_are(bootstrap: str, tmp_path: Path) -> None:
    """With a file they are problems; without one they are named, and are no jobs."""
    found = {each.detail for each in groups(settings_of(bootstrap, tmp_path)) if each.verdict == "problem"}
    assert f"queue/t: {SHARED} is {EITHER}, {NOTHING_TOLD}" in found
    (app,) = (each for each in found if each.startswith("app/t"))
    assert app.startswith(f"app/t: {STREAMED} is {STREAMS}, {NO_MEMBERS}; ")
    assert app.endswith(" to read")
    told = [each.detail for each in groups(role_settings(MonitorSettings, bootstrap=bootstrap, engine="kafka", cluster="c"))]
    assert told[1:] == [
        f"no jobs: {STREAMED}: {STREAMS} each, {NO_MEMBERS}",
        f"no jobs: {SHARED}: {EITHER} each, {NOTHING_TOLD}",
    ]
    with pytest.raises(SettingsError, match=f"--group: {STREAMED} is a Kafka Streams group .* name a consumer group"):
        checked_groups(PipelineSettings(bootstrap=bootstrap), [STREAMED], [])
