"""Real consumer groups on a real Kafka: what the monitor sees of them, and what scaling them does to their records."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, DECISIONS, SNAPSHOTS, TOPICS, agent_group, monitor_group, rescaler_group
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.groups.job import ChainJob
from surescale.engines.groups.source import ConsumerGroupSource
from surescale.engines.ports.minutes import JobSnapshot
from surescale.engines.ports.source import SourceUnavailable, UnknownJob
from surescale.monitor.settings import MonitorSettings
from surescale.runtime.kafka import consumer, create_topics
from surescale.services.local_stack.consumers.worker import REPEATED
from surescale.services.local_stack.servers import LocalBroker
from tests.conftest import KafkaForTests
from tests.support.live_groups import CLUSTER, JOB, PARTITIONS, LiveChain
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
ID = f"{CLUSTER}/{JOB}"
FEW = 80
"""Records that may all come out in one partition between two quick looks, and are not taken for skipped ones."""


def test_a_chain_of_groups_is_a_job_with_figures(kafka: KafkaForTests, tmp_path: Path) -> None:
    """Graph, members, what was asked for, what came and was got through, how busy each member was; then its end."""
    with LiveChain(kafka.bootstrap, kafka.topic_prefix(), tmp_path, wait_ms=1.0, parse=2, count=1) as chain:
        source = ConsumerGroupSource(chain.settings())
        assert source.jobs() == [ID]
        job = source.follow(ID)
        chain.joined(parse=2, count=1)
        chain.send(40)
        first = _at_rest(chain, job, 40)
        # A member that the machine held up for too long leaves its group, and figures begin again.
        for sent in range(40 + FEW, 40 + 7 * FEW, FEW):
            chain.send(FEW)
            look = _at_rest(chain, job, sent)
            if look.topology.attempt == first.topology.attempt and all(sample.busy_ms for sample in look.samples):
                break
            first = look
        parse, count = look.topology.tasks
        assert (parse.upstream, count.upstream) == ((), ("parse",))
        assert (parse.parallelism, parse.required, parse.useful_max) == (2, 2, PARTITIONS)
        assert (count.parallelism, count.required, count.useful_max) == (1, 1, PARTITIONS)
        assert look.topology.state == "running"
        assert look.topology.epoch
        grown = (("parse", "records_in"), ("count", "records_in"), ("parse", "records_out"), ("parse", "arrived_records"))
        assert [_sum(look, *each) - _sum(first, *each) for each in grown] == [FEW] * 4
        assert [sample.arrived_records for sample in look.samples if sample.task == "count"] == [None]
        assert all(sample.busy_ms for sample in look.samples)
        assert sum(part.records for sample in look.samples for part in sample.received) == _sum(look, "count", "records_in")
        _shows_its_groups(chain, look)
        (host,) = source.cluster_topology().hosts
        assert (host.slots, host.free_slots) == (16, 13)
        assert source.cluster_topology().engine.acts == "counts"
        chain.reconciler.store.stop(JOB)
        chain.joined(parse=0, count=0)
        ended = job.look()
        assert (ended.topology.state, ended.samples) == ("resting", ())
        assert [(each.required, each.parallelism, each.hindrance) for each in ended.topology.tasks] == [(0, 2, ""), (0, 1, "")]
        assert [(each.state, each.members) for each in ended.topology.groups] == [("empty", ())] * 2
        assert all(each.is_ending for group in ended.topology.groups for each in group.workers)  # some may have left and live
        assert {each.subtask for group in ended.topology.groups for each in group.partitions} == {None}
        source.close()


def _shows_its_groups(chain: LiveChain, look: JobSnapshot) -> None:
    """Check what people see of the groups of a chain at rest: who has what, how far that is, and who runs it."""
    parse, count = look.topology.groups
    assert [(each.task, each.group, each.state) for each in (parse, count)] == [
        (task, chain.group(task), "stable") for task in ("parse", "count")
    ]
    assert (parse.topics, parse.lag, parse.lag_unknown, parse.oldest_ms) == ((chain.topics[0],), 0, 0, 0)
    assert [each.partition for each in parse.partitions] == list(range(PARTITIONS))
    assert {each.subtask for each in parse.partitions} == {0, 1}
    assert all(each.end == each.committed for each in parse.partitions)
    assert all(None not in (each.arrived_per_minute, each.read_per_minute) for each in parse.partitions)
    assert [each.partitions for each in parse.members] == [PARTITIONS // 2] * 2
    alive = {(each.task, each.index): each.pid for each in chain.reconciler.store.workers(JOB)}
    assert {(group.task, each.index): each.pid for group in (parse, count) for each in group.workers} == alive
    assert all(Path(each.log).is_file() for group in (parse, count) for each in group.workers)


def test_a_job_whose_group_does_not_exist_starts_and_names_the_fix(kafka: KafkaForTests, tmp_path: Path) -> None:
    """It is a job from the first minute, without figures."""
    with LiveChain(kafka.bootstrap, kafka.topic_prefix(), tmp_path, parse=1) as chain:
        chain.joined(parse=1)  # or Kafka has no place yet in which it keeps groups
        chain.file.write_text('{"other": {"groups": {"parse": {"group": "nobodys"}}}}')
        source = ConsumerGroupSource(chain.settings())
        assert source.jobs() == [f"{CLUSTER}/other"]
        look = source.follow(f"{CLUSTER}/other").look()
        assert (look.topology.state, look.samples) == ("created", ())
        why = "there is no group nobodys; start its consumers, or correct its name in SURESCALE_GROUPS_FILE"
        assert look.topology.tasks[0].hindrance == why
        assert [(each.state, each.lag, each.partitions) for each in look.topology.groups] == [("dead", None, ())]
        here = f'"group": "{chain.group("parse")}", "reads": ["{chain.topics[0]}"]'
        chain.file.write_text(f'{{"other": {{"groups": {{"parse": {{{here}, "writes": ["nosuch"]}}}}}}}}')
        source = ConsumerGroupSource(chain.settings())
        assert source.jobs() == [f"{CLUSTER}/other"]
        look = source.follow(f"{CLUSTER}/other").look()
        assert (look.topology.state, look.samples) == ("created", ())
        assert "has no topic nosuch; " in look.topology.tasks[0].hindrance


def test_scaling_loses_no_record_and_doubles_none(kafka: KafkaForTests, tmp_path: Path) -> None:
    """Workers join and drain while records come; each record comes out, and but once unless a worker says why.

    At-least-once is the promise. A worker that the machine held up for so long that it lost its partitions has to break it.
    """
    with LiveChain(kafka.bootstrap, kafka.topic_prefix(), tmp_path, wait_ms=1.0, parse=1) as chain:
        chain.joined(parse=1)
        for members in (3, 2, 4, 1):
            chain.send(500)
            chain.require(parse=members)
            chain.joined(parse=members)
        wait_until(lambda: len(chain.output()) == 2000, timeout_s=90, what="all records")
        chain.reconciler.store.stop(JOB)
        chain.joined(parse=0)
        assert set(chain.output()) == set(range(2000))
        if not any(REPEATED in log.read_text() for log in (tmp_path / "workers").rglob("*.log")):
            assert set(chain.output().values()) == {1}


def test_workers_whose_owner_is_gone_end_by_themselves(kafka: KafkaForTests, tmp_path: Path) -> None:
    """Nobody asks them to, and nobody removes a folder: the demo's starter may have been killed outright."""
    with LiveChain(kafka.bootstrap, kafka.topic_prefix(), tmp_path, parse=2) as chain:
        chain.joined(parse=2)
        chain.presence.close()
        wait_until(lambda: not chain.reconciler.store.workers(JOB), what="the workers to end")
        assert not list((tmp_path / "workers").rglob("*.draining"))


def test_workers_end_though_kafka_went_with_their_owner(tmp_path: Path) -> None:
    """What they have worked on and cannot commit keeps none of them: a synchronous commit would wait for ever."""
    broker = LocalBroker(tmp_path / "kafka")
    try:
        broker.start()
        broker.wait_ready()
        with LiveChain(broker.bootstrap, "", tmp_path, wait_ms=20.0, parse=2) as chain:
            chain.joined(parse=2)
            chain.send(2_000)
            wait_until(chain.output, what="the first records to come out")
            broker.kill()
            chain.presence.close()
            wait_until(lambda: not chain.reconciler.store.workers(JOB), timeout_s=90, what="the workers to end")
    finally:
        broker.kill()


def test_without_a_file_each_group_is_a_job_that_is_only_watched(kafka: KafkaForTests) -> None:
    """Our own groups are none; a topic that is deleted under way makes the job unknown, in one line."""
    prefix = kafka.topic_prefix()
    group, topic = f"{prefix}clicks", f"{prefix}in"
    settings = MonitorSettings(bootstrap=kafka.bootstrap, engine="kafka", cluster=CLUSTER, jobs=f"{prefix}*")
    client = consumer(PipelineSettings(bootstrap=kafka.bootstrap), group)
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    client.subscribe([topic])
    reader = GroupReader(PipelineSettings(bootstrap=kafka.bootstrap))
    wait_until(lambda: [client.poll(0.05), _state_of(reader, group) == "stable"][1], what="the group")
    source = ConsumerGroupSource(settings)
    assert source.jobs() == [f"{CLUSTER}/{group}"]
    look = source.follow(f"{CLUSTER}/{group}").look()
    (task,) = look.topology.tasks
    assert (task.task, task.parallelism, task.required, task.useful_max) == (group, 1, None, 2)
    assert (source.cluster_topology().engine.acts, source.cluster_topology().hosts) == ("none", ())
    admin.delete_topics([topic])[topic].result(30)
    away = wait_until(lambda: _refusal(source, f"{CLUSTER}/{group}"), what="the topic to be gone")
    assert f"has no topic {topic}" in away
    assert "held" in away
    client.close()


def test_without_a_file_a_group_that_kafka_no_longer_has_has_ended(kafka: KafkaForTests) -> None:
    """While it has offsets it only lacks members. Whoever brings it back has a new job of that name."""
    prefix = kafka.topic_prefix()
    group, topic = f"{prefix}clicks", f"{prefix}in"
    job = f"{CLUSTER}/{group}"
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    reader = GroupReader(PipelineSettings(bootstrap=kafka.bootstrap))

    def joined() -> Consumer:
        client = consumer(PipelineSettings(bootstrap=kafka.bootstrap), group)
        client.subscribe([topic])
        wait_until(lambda: [client.poll(0.05), _state_of(reader, group) == "stable"][1], what="the group")
        client.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
        return client

    client = joined()
    source = ConsumerGroupSource(MonitorSettings(bootstrap=kafka.bootstrap, engine="kafka", cluster=CLUSTER, jobs=f"{prefix}*"))
    assert source.jobs() == [job]
    looks = source.follow(job)
    looks.look()
    client.close()
    wait_until(lambda: _state_of(reader, group) == "empty", what="its member to leave")
    assert source.jobs() == []
    last = looks.look().topology
    assert last.state == "suspended"
    assert source.end_of(last) is None

    admin.delete_consumer_groups([group])[group].result(30)
    wait_until(lambda: group not in reader.listed(), what="the group to be gone")
    assert source.jobs() == []
    with pytest.raises(UnknownJob, match=f"there is no group {group}"):
        looks.look()
    ended = source.end_of(last)
    assert ended is not None
    assert (ended.state, ended.groups) == ("finished", ())
    assert [(event.kind, event.job) for event in source.events("")][-1] == ("job_stopped", job)

    client = joined()
    assert source.jobs() == [job]
    assert source.follow(job) is not looks
    assert source.follow(job).look().topology.state == "running"
    assert source.end_of(last) is None
    client.close()
    source.close()


def _state_of(reader: GroupReader, group: str) -> str:
    """Return the state of a group; empty while Kafka has no place yet in which it keeps groups."""
    try:
        return reader.look([group])[group].state
    except GroupsUnavailable:
        return ""


def _refusal(source: ConsumerGroupSource, job: str) -> str:
    try:
        source.follow(job).look()
    except SourceUnavailable as away:
        return str(away)
    return ""


def _at_rest(chain: LiveChain, job: ChainJob, records: int) -> JobSnapshot:
    """Return a look after so many records have come out and been committed."""

    def look() -> JobSnapshot | None:
        try:
            found = job.look()
        except SourceUnavailable:  # a group deals out its partitions
            return None
        return found if found.samples and all(sample.queued_records == 0 for sample in found.samples) else None

    wait_until(lambda: len(chain.output()) == records, timeout_s=90, what=f"{records} records at the end")
    found = wait_until(look, timeout_s=90, what="their commits")
    assert found is not None
    return found


def _sum(look: JobSnapshot, task: str, figure: str) -> int:
    return sum(getattr(sample, figure) for sample in look.samples if sample.task == task)


def test_roles_of_other_pipelines_and_clusters_are_no_jobs(kafka: KafkaForTests) -> None:
    """Nor are they offered as such; a group of somebody's own that has such a name is one."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=(prefix := kafka.topic_prefix()))
    create_topics(settings, [TOPICS[each] for each in (CLOCK, DECISIONS, SNAPSHOTS)])
    admin, orders = AdminClient({"bootstrap.servers": kafka.bootstrap}), f"{prefix}orders"
    admin.create_topics([NewTopic(orders, 1, 1)])[orders].result(30)
    read = {
        monitor_group(prefix, "else"): f"{prefix}{CLOCK}",
        rescaler_group(prefix, "else"): f"{prefix}{DECISIONS}",
        agent_group(prefix): f"{prefix}{SNAPSHOTS}",
        monitor_group(prefix, "orders"): orders,
    }
    members = [consumer(settings, group) for group in read]
    source = ConsumerGroupSource(MonitorSettings(bootstrap=kafka.bootstrap, engine="kafka", cluster=CLUSTER))
    reader = GroupReader(settings)
    try:
        for member, topic in zip(members, read.values(), strict=True):
            member.subscribe([topic])
        wait_until(lambda: all([member.poll(0.05), member.assignment()][1] for member in members), 60, "partitions for all")
        wait_until(lambda: all(each.topics for each in reader.look(list(read)).values()), 60, "the broker to tell of them")
        assert [job for job in source.jobs() if prefix in job] == [f"{CLUSTER}/{monitor_group(prefix, 'orders')}"]
        assert [name for name in reader.names() if prefix in name] == [monitor_group(prefix, "orders")]
    finally:
        source.close()
        for member in members:
            member.close()
