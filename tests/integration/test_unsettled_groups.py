"""Positions of groups on a real Kafka while they are not settled: a rebalance, no commit yet, an open transaction."""

import contextlib
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import SNAPSHOTS, TopicNames, agent_group
from surescale.engines.groups.broker import GroupReader
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.ports.minutes import WallClock
from surescale.engines.ports.source import SourceUnavailable
from surescale.monitor.settings import MonitorSettings
from surescale.services.tools.group_position import GroupPosition
from tests.conftest import KafkaForTests
from tests.support.live_groups import state_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


class _Ahead(WallClock):
    """The wall's time, and a bit more."""

    ahead_ms = 0

    def now_ms(self) -> int:
        """Return it."""
        return super().now_ms() + self.ahead_ms


def _member(kafka: KafkaForTests, group: str, topic: str) -> Consumer:
    found = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 45_000,
            "max.poll.interval.ms": 300_000,
            "partition.assignment.strategy": "range",
        }
    )
    found.subscribe([topic])
    return found


def test_a_group_that_deals_out_its_partitions_has_no_figures_and_then_does_not_run(kafka: KafkaForTests) -> None:
    """A member that does not come back to its group keeps it rebalancing. Commits stay readable, and none is taken for 0."""
    prefix = kafka.topic_prefix()
    group, topic = f"{prefix}clicks", f"{prefix}in"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(20):
        producer.produce(topic, str(number), partition=number % 2)
    producer.flush(30)
    reader, clock = GroupReader(PipelineSettings(bootstrap=kafka.bootstrap)), _Ahead(threading.Event())
    first = _member(kafka, group, topic)
    wait_until(lambda: [first.poll(0.05), state_of(reader, group) == "stable"][1], what="the first member")
    first.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    settings = MonitorSettings(bootstrap=kafka.bootstrap, engine="kafka", cluster="real", jobs=f"{prefix}*")
    source = ConsumerGroupSource(settings, lambda stop: clock)
    source.jobs()
    job = source.follow(f"real/{group}")
    job.look()
    settled = job.look()
    # Of one partition nobody has committed anything: what waits there is unknown, and the rest is the least.
    assert reader.look([group])[group].committed == {(topic, 0): 4}
    assert [sample.queued_records for sample in settled.samples] == [6]
    assert f"{topic}[1]: nothing was ever committed" in settled.topology.tasks[0].backlog_partly_unknown
    second = _member(kafka, group, topic)  # the first one is not polled any more, so it never joins again
    try:
        wait_until(lambda: [second.poll(0.05), state_of(reader, group) == "rebalancing"][1], what="the rebalance")
        assert reader.look([group])[group].committed == {(topic, 0): 4}
        with pytest.raises(SourceUnavailable, match=f"group {group} is rebalancing"):
            job.look()
        clock.ahead_ms = 6_000
        look = job.look()
        assert (look.topology.state, look.samples) == ("restarting", ())
        polling = threading.Event()
        thread = threading.Thread(target=_poll_until, args=(first, polling))
        thread.start()
        try:
            wait_until(lambda: [second.poll(0.05), state_of(reader, group) == "stable"][1], what="the group again")
        finally:
            polling.set()
            thread.join()
        again = job.look()
        assert again.topology.state == "running"
        assert len(again.samples) == 2
        assert {sample.records_in for sample in again.samples} == {0}
    finally:
        second.close()
        first.close()
        source.close()


PROTOCOLS: dict[str, dict[str, str]] = {
    "KIP-848": {"group.protocol": "consumer"},
    "cooperative": {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": "45000"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_group_goes_on_while_one_member_is_slow_to_join_again(kafka: KafkaForTests, protocol: str) -> None:
    """A member inside a long record gives nothing away; the others read on, and so the group has its figures."""
    prefix = kafka.topic_prefix()
    group, topic = f"{prefix}clicks", f"{prefix}in"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 4, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    common = {"bootstrap.servers": kafka.bootstrap, "group.id": group, "auto.offset.reset": "earliest"}
    first, slow, third = members = [
        Consumer({**common, "enable.auto.commit": False, "queued.min.messages": 1, **PROTOCOLS[protocol]}) for _ in range(3)
    ]
    reader, clock = GroupReader(PipelineSettings(bootstrap=kafka.bootstrap)), _Ahead(threading.Event())
    settings = MonitorSettings(bootstrap=kafka.bootstrap, engine="kafka", cluster="real", jobs=f"{prefix}*")
    source = ConsumerGroupSource(settings, lambda stop: clock)

    def work(*working: Consumer) -> None:
        for partition in range(4):  # what comes meanwhile, and no backlog, which somebody might have skipped
            producer.produce(topic, "x", partition=partition)
        producer.flush(30)
        for member in working:
            record = member.poll(0.05)
            if record is not None and record.error() is None:
                with contextlib.suppress(KafkaException):  # a partition may just have been given away
                    member.commit(record, asynchronous=False)

    def has(count: int) -> bool:
        return (
            state_of(reader, group) == "stable"
            and [len(each.partitions) for each in reader.look([group])[group].members] == [4 // count] * count
        )

    try:
        first.subscribe([topic])
        slow.subscribe([topic])
        wait_until(lambda: [work(first, slow), has(2)][1], timeout_s=90, what="two members")
        committed = lambda: reader.look([group])[group].committed  # noqa: E731
        wait_until(lambda: [work(first, slow), len(committed()) == 4][1], what="commits everywhere")
        assert source.jobs() == [f"real/{group}"]
        job = source.follow(f"real/{group}")
        job.look()
        third.subscribe([topic])  # the second one is not polled any more, so it gives nothing away
        wait_until(lambda: [work(first, third), state_of(reader, group) == "rebalancing"][1], timeout_s=60, what="the rebalance")
        with pytest.raises(SourceUnavailable, match=f"group {group} is rebalancing"):
            job.look()
        before = committed()
        wait_until(lambda: [work(first, third), committed() != before][1], what="a commit")
        clock.ahead_ms = 6_000
        look = job.look()
        assert state_of(reader, group) == "rebalancing"
        assert look.topology.state == "running"
        assert len(look.samples) == 3
        assert sum(each.records_in for each in look.samples) > 0
        clock.ahead_ms = 12_000  # nobody commits any more
        assert job.look().topology.state == "restarting"
    finally:
        for member in members:
            member.close()
        source.close()


def _poll_until(member: Consumer, stop: threading.Event) -> None:
    while not stop.is_set():
        member.poll(0.05)


def test_a_role_is_not_skipped_past_a_record_while_its_last_transaction_is_open(kafka: KafkaForTests, tmp_path: Path) -> None:
    """The position that the transaction may still commit would overwrite the one that we set."""
    prefix = kafka.topic_prefix()
    group, topic = agent_group(prefix), TopicNames(prefix)(SNAPSHOTS)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": kafka.bootstrap})
    for number in range(3):
        producer.produce(topic, str(number), partition=0)
    producer.flush(30)
    member = _member(kafka, group, topic)
    wait_until(lambda: member.poll(0.05), what="a record")
    writer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": f"{prefix}writer"})
    writer.init_transactions(30)
    writer.begin_transaction()
    writer.send_offsets_to_transaction([TopicPartition(topic, 0, 2)], member.consumer_group_metadata(), 30)
    member.close()
    position = GroupPosition(PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=prefix), "agent", SNAPSHOTS, 0)
    with pytest.raises(SettingsError, match=f"group {group} has a transaction that has not ended; ask again in a minute"):
        position.check(0, 0)
    writer.commit_transaction(30)
    wait_until(lambda: _stands_at(position) == 2, what="the commit")
    position.check(2, 2)
    position.move(3)
    assert position._committed() == 3


def _stands_at(position: GroupPosition) -> int | None:
    """Return where a group stands; None until its transaction has ended, which takes a moment longer than the answer."""
    try:
        return position._committed()
    except SettingsError:
        return None
