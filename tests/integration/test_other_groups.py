"""Real members of groups of other types than consumer groups, on a real broker: they are jobs like any other group."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.messages import ConsumerGroup, TaskSpec
from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.groups.doctor import groups
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.ports.minutes import JobSnapshot
from surescale.engines.ports.source import SourceUnavailable
from surescale.monitor.settings import MonitorSettings
from surescale.services.init.answers import checked_groups
from surescale.services.local_stack.errors import JavaError
from surescale.services.local_stack.java import find_compiler, find_java
from surescale.services.local_stack.servers import LocalBroker
from tests.support.other_groups import member
from tests.support.role_settings import role_settings
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
SHARED, STREAMED, NOBODY, TOPIC = "shared", "streamed", "nobodys", "in"
REPARTITION = f"{STREAMED}-counts-repartition"
PARTITIONS, RECORDS = 4, 200
ALL = {(TOPIC, partition) for partition in range(PARTITIONS)}


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
        running.callback(member("streams", broker.bootstrap, STREAMED, TOPIC, folder / STREAMED).stop, 20.0)
        running.callback(member("share", broker.bootstrap, SHARED, TOPIC, folder / SHARED).stop, 20.0)
        wait_until(lambda: are_there(broker.bootstrap), 180, "both groups")
        send(broker.bootstrap)
        wait_until(lambda: are_read(broker.bootstrap), 180, "the first records to be read")
        yield broker.bootstrap


def send(bootstrap: str) -> None:
    """Send as many records to every partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, str(number % 10), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


def are_there(bootstrap: str) -> bool:
    """Return whether both groups have a member that has all partitions."""
    try:
        seen = GroupReader(PipelineSettings(bootstrap=bootstrap)).look([SHARED, STREAMED])
    except GroupsUnavailable:  # a fresh broker first makes the topic in which it keeps groups
        return False
    return all(len(group.members) == 1 and group.members[0].partitions >= ALL for group in seen.values())


def are_read(bootstrap: str) -> bool:
    """Return whether both groups have done with all records, and the application has committed all that it reads."""
    seen = GroupReader(PipelineSettings(bootstrap=bootstrap)).look([SHARED, STREAMED])
    done = (all(group.committed.get(each) == RECORDS // PARTITIONS for each in ALL) for group in seen.values())
    return all(done) and {topic for topic, _ in seen[STREAMED].committed} == {TOPIC, REPARTITION}


def settings_of(bootstrap: str, folder: Path) -> MonitorSettings:
    """Return the settings of a monitor with a file of a job for each group."""
    file = folder / "groups.json"
    named = {"app": STREAMED, "queue": SHARED}
    file.write_text(json.dumps({job: {"groups": {"t": {"group": group}}} for job, group in named.items()}))
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


class Looks:
    """Looks at a job again and again, as the monitor does."""

    def __init__(self, source: ConsumerGroupSource, job: str) -> None:
        """Look for the first time."""
        self._job = source.follow(job)
        wait_until(self._looks, 120, "a look at the job")

    def _looks(self) -> bool:
        try:
            self.last = self._job.look()
        except SourceUnavailable:  # it rebalances
            return False
        return True

    def has(self, members: int, read: int) -> bool:
        """Return whether a look shows so many members that have got through so many records, and nothing that waits."""
        self._looks()
        task, group = parts(self.last)
        done = sum(each.records_in for each in self.last.samples)
        return (task.parallelism, len(self.last.samples), done, group.lag) == (members, members, read, 0)

    def came(self) -> int:
        """Return how many records have come since the first look."""
        return sum(each.arrived_records or 0 for each in self.last.samples)


def test_they_are_groups_with_members_and_what_each_has(bootstrap: str) -> None:
    """Of the type that each is; one that is not there is not there. Without a file each is a job."""
    reader = GroupReader(PipelineSettings(bootstrap=bootstrap))
    seen = reader.look([SHARED, STREAMED, NOBODY])
    assert {name: (group.state, group.type, len(group.members)) for name, group in seen.items()} == {
        SHARED: ("stable", "share", 1),
        STREAMED: ("stable", "streams", 1),
        NOBODY: ("dead", "consumer", 0),
    }
    assert seen[SHARED].members[0].partitions == ALL
    assert seen[STREAMED].members[0].partitions == ALL | {(REPARTITION, partition) for partition in range(PARTITIONS)}
    assert [group.topics for group in seen.values()] == [{TOPIC}, {TOPIC}, frozenset()]
    assert all(seen[name].members[0].host == "127.0.0.1" and seen[name].members[0].client_id for name in (SHARED, STREAMED))
    assert reader.names() == (SHARED, STREAMED)


def test_a_streams_application_of_two_processes_is_a_job(source: ConsumerGroupSource, bootstrap: str, tmp_path: Path) -> None:
    """What waits, comes and is read by whom; a second process takes over some of its tasks."""
    looks = Looks(source, "c/app")
    with contextlib.ExitStack() as running:
        running.callback(member("streams", bootstrap, STREAMED, TOPIC, tmp_path / "second").stop, 20.0)
        wait_until(lambda: looks.has(2, 0), 120, "the second process")
        came = looks.came()
        send(bootstrap)
        wait_until(lambda: looks.has(2, RECORDS), 120, "the records to be read")
    task, group = parts(looks.last)
    assert (group.topics, {each.topic for each in group.partitions}) == ((TOPIC,), {TOPIC})
    assert (task.useful_max, task.hindrance, looks.last.topology.state) == (PARTITIONS, "", "running")
    assert sum(each.partitions for each in group.members) == PARTITIONS
    assert looks.came() == came + RECORDS
    quiet = looks.last.topology.quiet
    assert quiet is not None
    assert (quiet.since_ms, quiet.why) == (None, f"t: its members also read {REPARTITION}, which is not looked at")
    wait_until(lambda: looks.has(1, 0), 120, "the second process to be missed")


def test_members_of_a_share_group_share_its_work(source: ConsumerGroupSource, bootstrap: str, tmp_path: Path) -> None:
    """What was read of a partition is divided among those that have it, and no number of members is one too many."""
    looks = Looks(source, "c/queue")
    with contextlib.ExitStack() as running:
        for number in range(2):
            running.callback(member("share", bootstrap, SHARED, TOPIC, tmp_path / f"more{number}").stop, 20.0)
        wait_until(lambda: looks.has(3, 0), 120, "the other members")
        send(bootstrap)
        wait_until(lambda: looks.has(3, RECORDS), 120, "the records to be read")
    task, group = parts(looks.last)
    assert (group.topics, group.lag, group.lag_unknown, task.hindrance) == ((TOPIC,), 0, 0, "")
    assert (task.useful_max, task.carries[:4]) == (task.max_parallelism, ((1, 1.0), (2, 2.0), (4, 4.0), (5, 5.0)))
    assert sum(each.records_in for each in looks.last.samples) == RECORDS
    assert {(each.partitions > 0, each.lag, each.read_per_minute) for each in group.members} == {(True, None, None)}
    assert {each.subtask for each in group.partitions} == {None}
    quiet = looks.last.topology.quiet
    assert quiet is not None
    assert (quiet.waiting, quiet.why, quiet.since_ms is not None) == (0, "", True)
    wait_until(lambda: looks.has(1, 0), 120, "the members to be missed")


def test_one_without_members_is_known_and_at_rest(source: ConsumerGroupSource, bootstrap: str, tmp_path: Path) -> None:
    """As a consumer group is: how far it has come is known, and so is what waits for it."""
    reader = GroupReader(PipelineSettings(bootstrap=bootstrap))
    gone = member("share", bootstrap, "left", TOPIC, tmp_path / "left")
    try:
        wait_until(lambda: bool(reader.look(["left"])["left"].members), 120, "the member")
    finally:
        gone.stop(20.0)
    wait_until(lambda: reader.look(["left"])["left"].state == "empty", 120, "the member to be missed")
    assert reader.listed()["left"] is False
    assert "left" not in reader.names()


def test_doctor_and_init_take_them_for_what_they_are(bootstrap: str, tmp_path: Path) -> None:
    """With a file and without one."""
    assert {each.verdict for each in groups(settings_of(bootstrap, tmp_path))} == {"ok"}
    told = [each.detail for each in groups(role_settings(MonitorSettings, bootstrap=bootstrap, engine="kafka", cluster="c"))]
    assert f"each is a job: {SHARED}, {STREAMED}" in told
    found = checked_groups(PipelineSettings(bootstrap=bootstrap), [STREAMED, SHARED], [])
    assert [each.group for each in found] == [STREAMED, SHARED]
