"""Offsets that are no records, on a real broker: topics and commits that move by other means than work."""

import threading
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.settings import PipelineSettings
from surescale.engines.groups.broker import GroupReader
from surescale.engines.groups.job import ChainJob
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.kafka.offsets import TopicOffsets
from surescale.engines.kafka.positions import Extent
from surescale.engines.ports.minutes import JobSnapshot, WallClock
from surescale.engines.ports.source import SourceUnavailable
from surescale.monitor.settings import MonitorSettings
from tests.conftest import KafkaForTests
from tests.support.live_groups import state_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


class _Minutes(WallClock):
    """A clock that stands, and goes a minute further with each look."""

    def __init__(self) -> None:
        super().__init__(threading.Event())
        self.ms = super().now_ms()

    def now_ms(self) -> int:
        """Return it."""
        return self.ms


class Watched:
    """A group of one member on a broker, and the job that the monitor makes of it."""

    def __init__(self, kafka: KafkaForTests) -> None:
        """Start no member yet."""
        prefix = kafka.topic_prefix()
        self.group, self.topic, self.other = f"{prefix}clicks", f"{prefix}orders", f"{prefix}payments"
        self.bootstrap = kafka.bootstrap
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
        self.producer = Producer({"bootstrap.servers": kafka.bootstrap})
        broker = PipelineSettings(bootstrap=kafka.bootstrap)
        self.groups, self.broker = GroupReader(broker), TopicOffsets(broker)
        settings = MonitorSettings(bootstrap=kafka.bootstrap, engine="kafka", cluster="real", jobs=f"{prefix}*")
        self.clock = _Minutes()
        self.source = ConsumerGroupSource(settings, lambda _: self.clock)
        self.job: ChainJob | None = None
        self.member: Consumer | None = None
        self.before: JobSnapshot | None = None
        self.now: JobSnapshot | None = None

    def close(self) -> None:
        """End the member and the looks."""
        self.leave()
        self.source.close()

    def create(self, topic: str, partitions: int = 1) -> None:
        """Create a topic."""
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        wait_until(lambda: len(self._extents(topic)) == partitions, what="the topic")

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self.admin.delete_topics([topic])[topic].result(30)
        wait_until(lambda: topic not in self.broker.topics(), what="the end of the topic")

    def send(self, count: int, topic: str = "", partition: int = 0) -> None:
        """Write records to a partition."""
        for number in range(count):
            self.producer.produce(topic or self.topic, str(number), partition=partition)
        assert self.producer.flush(30) == 0

    def join(self, *topics: str) -> None:
        """Let a member read the topics."""
        self.member = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": self.group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 200,
            }
        )
        self.member.subscribe(list(topics))
        wait_until(self._has_joined, what="the member")

    def leave(self) -> None:
        """Let the member leave."""
        if self.member is not None:
            self.member.close()
            self.member = None
            wait_until(lambda: state_of(self.groups, self.group) == "empty", what="the group without members")

    def commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        """Commit as the member does."""
        assert self.member is not None
        self.member.commit(offsets=[TopicPartition(*each, offset) for each, offset in offsets.items()], asynchronous=False)

    def reset(self, offset: int) -> None:
        """Put the group elsewhere, as kafka-consumer-groups --reset-offsets does while it has no members."""
        asked = ConsumerGroupTopicPartitions(self.group, [TopicPartition(self.topic, 0, offset)])
        for future in self.admin.alter_consumer_group_offsets([asked]).values():
            future.result(30)

    def look(self) -> JobSnapshot:
        """Take a look, a minute after the one before."""
        if self.job is None:
            self.source.jobs()
            self.job = self.source.follow(f"real/{self.group}")
        self.before, self.clock.ms = self.now, self.clock.ms + 60_000
        self.now = wait_until(self._looked, what="a group at rest")
        return self.now

    def figures(self) -> tuple[int, int, int | None]:
        """Return what came and what was got through since the look before, and what waits."""
        assert self.now is not None
        assert self.before is not None
        queued = [each.queued_records for each in self.now.samples]
        return (
            _sum(self.now, "arrived_records") - _sum(self.before, "arrived_records"),
            _sum(self.now, "records_in")
            - (_sum(self.before, "records_in") if _attempt(self.now) == _attempt(self.before) else 0),
            None if None in queued else sum(each or 0 for each in queued),
        )

    def told(self) -> list[str]:
        """Return what the events say, but for who joined and left."""
        return [each.detail for each in self.source.events("") if each.kind == "exception"]

    def _looked(self) -> JobSnapshot | None:
        assert self.job is not None
        try:
            return self.job.look()
        except SourceUnavailable:
            if self.member is not None:
                self.member.poll(0.05)  # or it never joins again
            return None

    def _extents(self, topic: str) -> dict[tuple[str, int], Extent]:
        return dict(self.broker.look([topic]).extents)

    def _has_joined(self) -> bool:
        assert self.member is not None
        self.member.poll(0.05)
        return state_of(self.groups, self.group) == "stable" and bool(self.member.assignment())


def _sum(look: JobSnapshot, figure: str) -> int:
    return sum(getattr(sample, figure) or 0 for sample in look.samples)


def _attempt(look: JobSnapshot) -> int:
    return look.topology.attempt


@pytest.fixture
def watched(kafka: KafkaForTests) -> Iterator[Watched]:
    """A group that is watched."""
    made = Watched(kafka)
    try:
        yield made
    finally:
        made.close()


def test_a_topic_that_is_made_anew_counts_once(watched: Watched) -> None:
    """Kafka forgets its commits, so what waits is unknown until there is one; nothing is counted twice, and nothing is lost."""
    watched.create(watched.topic)
    watched.send(100)
    watched.join(watched.topic)
    watched.commit({(watched.topic, 0): 90})
    watched.look()
    watched.send(20)
    watched.look()
    watched.commit({(watched.topic, 0): 110})
    watched.look()
    assert watched.figures() == (0, 20, 10)
    watched.delete(watched.topic)
    watched.create(watched.topic)
    watched.send(30)
    wait_until(lambda: watched._has_joined() and (watched.topic, 0) in _assigned(watched), what="the member's new partition")
    watched.look()
    assert _sum(watched.now, "arrived_records") - _sum(watched.before, "arrived_records") == 30  # type: ignore[arg-type]
    assert any("made anew: counted from the start" in each for each in watched.told())
    watched.commit({(watched.topic, 0): 25})
    watched.look()
    assert watched.figures() == (0, 25, 5)


def _assigned(watched: Watched) -> set[tuple[str, int]]:
    (description,) = watched.groups.look([watched.group]).values()
    return {each for member in description.members for each in member.partitions}


@pytest.mark.parametrize("seen_empty", [True, False])
def test_offsets_that_are_put_to_the_end_are_no_work(watched: Watched, seen_empty: bool) -> None:
    """Whether or not the group is seen without members meanwhile; before and after its work counts."""
    watched.create(watched.topic)
    watched.send(20_000)
    watched.join(watched.topic)
    watched.commit({(watched.topic, 0): 0})
    watched.look()
    for minute in range(1, 5):
        watched.send(50)
        watched.commit({(watched.topic, 0): 50 * minute})
        watched.look()
        assert minute == 1 or watched.figures() == (50, 50, 20_000)
    watched.leave()
    if seen_empty:
        assert watched.look().topology.state == "suspended"
    watched.reset(20_200)
    watched.join(watched.topic)
    look = watched.look()
    assert (_sum(look, "records_in"), _sum(look, "queued_records")) == (0, 0)
    assert [each for each in watched.told() if "was put forward by 20000 records: skipped" in each]
    watched.send(50)
    watched.commit({(watched.topic, 0): 20_250})
    watched.look()
    assert watched.figures() == (50, 50, 0)


def test_a_group_at_rest_behind_a_marker_of_a_transaction_waits_for_nothing(watched: Watched) -> None:
    """It commits the offset after its last record; the marker takes up one more, and is no record that is stuck."""
    watched.create(watched.topic)
    writer = Producer({"bootstrap.servers": watched.bootstrap, "transactional.id": watched.group})
    writer.init_transactions(30)
    watched.join(watched.topic)
    for minute in range(1, 4):
        writer.begin_transaction()
        for number in range(10):
            writer.produce(watched.topic, str(number), partition=0)
        writer.commit_transaction(30)
        watched.commit({(watched.topic, 0): 11 * minute - 1})
        watched.look()
    assert watched.figures() == (11, 11, 1)
    for _ in range(10):
        watched.look()
    assert (watched.figures(), watched.told()) == ((0, 0, 0), [])
    (spec,) = watched.now.topology.tasks  # type: ignore[union-attr]
    assert (spec.hindrance, spec.useful_max) == ("", 1)


def test_a_partition_without_a_commit_hides_nothing(watched: Watched) -> None:
    """Emptied by retention, nothing waits there; with records, its part is unknown and named, and the rest is the least."""
    watched.create(watched.topic, 3)
    for partition in range(3):
        watched.send(40, partition=partition)
    watched.admin.delete_records([TopicPartition(watched.topic, 1, 40)])
    wait_until(lambda: watched._extents(watched.topic)[watched.topic, 1].start == 40, what="the removal")
    watched.join(watched.topic)
    watched.commit({(watched.topic, 0): 10, (watched.topic, 2): 40})
    for _ in range(3):
        watched.look()
    assert watched.figures() == (0, 0, 30)
    (spec,) = watched.now.topology.tasks  # type: ignore[union-attr]
    assert spec.backlog_partly_unknown == ""
    watched.send(5, partition=1)
    watched.look()
    assert watched.figures() == (5, 0, 30)
    (spec,) = watched.now.topology.tasks  # type: ignore[union-attr]
    assert f"{watched.topic}[1]: nothing was ever committed there" in spec.backlog_partly_unknown


def test_a_deploy_that_moves_a_group_to_other_topics_brings_no_past(watched: Watched) -> None:
    """What the new topic held did not come now; the old one goes on, and does not count any more, though its commits stay."""
    watched.create(watched.topic)
    watched.create(watched.other)
    watched.send(500, watched.other)
    watched.join(watched.topic)
    watched.commit({(watched.topic, 0): 0})
    watched.look()
    watched.send(10)
    watched.look()
    watched.leave()
    watched.join(watched.other)
    watched.commit({(watched.other, 0): 500})
    watched.send(70)
    watched.look()
    assert watched.figures() == (0, 0, 0)
    watched.send(70)
    watched.send(8, watched.other)
    watched.look()
    assert watched.figures() == (8, 0, 8)
