"""What people are shown of a group, look by look."""

from msgspec.structs import replace

from surescale.contracts.messages import ConsumerGroup, GroupWorker, JobTopology
from surescale.contracts.wire import decode, encode
from surescale.engines.groups.chains import Chain, Group
from surescale.engines.groups.shown import SHOWN_MAX
from tests.unit.engines.groups.test_job import BEGAN_MS, Broker, Followed, alone, parts

MINUTE_MS = 60_000


def shown(job: Followed) -> ConsumerGroup:
    """Take a look and return what is shown of its only group."""
    (group,) = job.look().topology.groups
    return group


def test_each_partition_has_its_end_its_commit_its_lag_and_its_rates() -> None:
    """Of the first look no rate is known."""
    broker, orders = Broker(), parts("orders", 3)
    job = alone(broker)
    broker.ends.update({orders[0]: 500, orders[1]: 80, orders[2]: 40})
    broker.group({orders[0]: 100, orders[1]: 80}, orders[:1], orders[1:2])
    first = shown(job)
    assert [each.arrived_per_minute for each in first.partitions] == [None, None, None]
    assert [each.read_per_minute for each in first.partitions] == [None, None, None]
    broker.ends.update({orders[0]: 560, orders[1]: 90})
    broker.group({orders[0]: 130, orders[1]: 90}, orders[:1], orders[1:2])
    group = shown(job)
    assert (group.task, group.group, group.state, group.topics) == ("g", "g", "stable", ("orders",))
    busy, idle, open_one = group.partitions
    assert (busy.end, busy.committed, busy.lag, busy.subtask) == (560, 130, 430, 0)
    assert (busy.arrived_per_minute, busy.read_per_minute) == (60.0, 30.0)
    assert (idle.lag, idle.subtask, idle.stands_since_ms) == (0, 1, None)
    assert (open_one.end, open_one.committed, open_one.lag, open_one.subtask) == (40, None, None, None)
    assert "nothing was ever committed there" in open_one.problem
    assert (open_one.arrived_per_minute, open_one.read_per_minute) == (0.0, None)
    assert (group.lag, group.lag_unknown) == (430, 1)
    assert [(each.client_id, each.partitions, each.lag, each.read_per_minute) for each in group.members] == [
        ("c0", 1, 430, 30.0),
        ("c1", 1, 0, 10.0),
    ]


def test_a_partition_whose_reader_stands_says_since_when() -> None:
    """The others do not."""
    broker, orders = Broker(), parts("orders", 2)
    job = alone(broker)
    for minute in range(5):
        broker.ends.update(dict.fromkeys(orders, 1_000 + 50 * minute))
        broker.group({orders[0]: 900, orders[1]: 1_000 + 50 * minute}, orders)
        group = shown(job)
    stuck, well = group.partitions
    assert (stuck.lag, stuck.stands_since_ms, well.stands_since_ms) == (300, BEGAN_MS + MINUTE_MS, None)


def test_what_the_broker_does_not_tell_is_unknown() -> None:
    """Also for the member that has it, and for the age of what waits."""
    broker, orders = Broker(), parts("orders", 2)
    job = alone(broker)
    broker.ends.update({orders[0]: 10})
    broker.untold[orders[1]] = "the broker does not tell its offsets"
    broker.group({orders[0]: 10, orders[1]: 7}, orders)
    shown(job)
    group = shown(job)
    lost = group.partitions[1]
    assert (lost.end, lost.lag, lost.arrived_per_minute, lost.read_per_minute) == (None, None, None, None)
    assert (lost.committed, lost.problem) == (7, "the broker does not tell its offsets")
    assert (group.members[0].lag, group.members[0].read_per_minute) == (None, None)
    assert (group.lag, group.lag_unknown, group.oldest_ms) == (0, 1, None)


def test_of_a_thousand_partitions_those_that_wait_most_are_shown() -> None:
    """And those with a problem; what is left out is counted, and a minute stays small."""
    broker, orders = Broker(), parts("orders-of-the-shop-in-the-north", 1_000)
    job = alone(broker)
    broker.ends.update({each: 10_000_000 + each[1] for each in orders})
    committed = dict.fromkeys(orders, 10_000_000)
    del committed[orders[5]]
    broker.group(committed, *([each] for each in orders))
    group = shown(job)
    assert [each.partition for each in group.partitions] == [5, *range(901, 1_000)]
    assert (group.partitions_left_out, group.members_left_out) == (1_000 - SHOWN_MAX, 1_000 - SHOWN_MAX)
    assert group.lag == sum(range(1_000)) - 5
    assert len(encode(job.look().topology)) < 50_000


def test_what_members_choose_never_makes_a_topology_that_nobody_can_read() -> None:
    """A group's id is as long as the broker takes it, and an offset may be committed that no topic reaches."""
    broker, orders, name = Broker(), parts("orders", 2), "g\x1b]0;" * 1_000
    job = Followed(broker, Chain("j", {"g": Group(name)}))
    broker.ends.update(dict.fromkeys(orders, 10))
    broker.group({orders[0]: 2**62, orders[1]: 10}, orders, name=name)
    look = job.look()
    (group,) = decode(encode(look.topology), JobTopology).groups
    assert group.group.isprintable()
    assert (group.partitions[0].committed, group.partitions[0].lag) == (None, None)
    assert f"offset {2**62} was committed" in group.partitions[0].problem


def test_figures_for_people_make_no_version_of_the_topology() -> None:
    """The rescaler reads a new version as a change of the job."""
    broker, orders = Broker(), parts("orders", 1)
    job = alone(broker)
    versions = set()
    for minute in range(3):
        broker.ends[orders[0]] = 100 * minute
        broker.group({orders[0]: 10 * minute}, orders)
        versions.add(job.look().topology.version)
    assert len(versions) == 1


def test_workers_are_shown_with_how_they_fail() -> None:
    """Beside the members, of which a worker that does not run is none."""
    broker, orders = Broker(), parts("orders", 1)
    job = alone(broker)
    runs = GroupWorker(index=0, pid=4711, started_ms=1, log="/var/lib/surescale/0.log")
    fails = replace(runs, index=1, pid=None, started_ms=None, failures=3, failure="ended after 1 s with exit code 2")
    job.workers["g"] = (runs, fails)
    broker.ends[orders[0]] = 1
    broker.group({orders[0]: 1}, orders)
    assert shown(job).workers == (fails, runs)
