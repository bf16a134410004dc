"""What waits at a Kafka source, from the positions of its readers and the ends of its topics."""

from collections.abc import Mapping, Sequence

import pytest

from surescale.engines.flink.answers import Metric
from surescale.engines.flink.backlog import (
    Backlog,
    SourceBacklog,
    as_flink_writes,
    check_one_cluster,
    partitions_named,
    positions_named,
)
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.kafka.positions import Answer, Extent, Partition

NOW = 1_000_000


class Broker(TopicOffsets):
    """A broker whose topics begin and end where a test says."""

    def __init__(self, ends: Mapping[Partition, int], topics: Sequence[str] = ("orders.in",)) -> None:
        self.told, self.known = dict(ends), tuple(topics)
        self.starts: dict[Partition, int] = {}
        self.untold: dict[Partition, str] = {}
        self.topic_id = "a"

    def look(self, topics: Sequence[str]) -> Answer:
        """What they hold."""
        extents = {
            each: Extent(self.starts.get(each, 0), end, self.topic_id)
            for each, end in self.told.items()
            if each[0] in topics and each not in self.untold
        }
        return Answer(extents, self.untold, frozenset(topics) - {topic for topic, _ in self.told})

    def topics(self) -> tuple[str, ...]:
        """Their names."""
        return self.known


def metric(partition: int, offset: int, kind: str = "current", topic: str = "orders_in") -> Metric:
    """Return a position of a reader, as Flink tells it."""
    return Metric(id=f"Source__orders.KafkaSourceReader.topic.{topic}.partition.{partition}.{kind}Offset", max=float(offset))


def look(broker: Broker, *metrics: Metric, backlog: SourceBacklog | None = None, at_ms: int = NOW) -> Backlog:
    """Look at a source once."""
    followed = backlog or SourceBacklog(broker)
    followed.note_ends({topic for topic, _, _ in positions_named(each.id for each in metrics).values()}, at_ms)
    return followed.look({each.id: each for each in metrics}, at_ms)


def test_positions_are_told_apart_from_other_metrics() -> None:
    """A topic's name may itself look like a part of a metric's."""
    names = [
        "Source__a.KafkaSourceReader.topic.orders_in.partition.3.currentOffset",
        "Source__a.KafkaSourceReader.topic.x_partition_1.partition.12.committedOffset",
        "Source__a.KafkaSourceReader.KafkaConsumer.records-lag-max",
        "Source__a.pendingRecords",
    ]
    names += [f"Source__a.KafkaSourceReader.topic.x.partition.{'9' * 5_000}.committedOffset"]
    assert positions_named(names) == {names[0]: ("orders_in", 3, "current"), names[1]: ("x_partition_1", 12, "committed")}


def test_a_position_is_the_record_after_the_last_one_read() -> None:
    """Offsets 0 to 99 are a hundred records."""
    broker = Broker({("orders.in", 0): 100, ("orders.in", 1): 50})
    found = look(broker, metric(0, 99), metric(1, 9))
    assert (found.waiting, found.partitions, found.partly_unknown) == (40, 2, "")


def test_a_partition_from_which_nothing_was_read_makes_its_part_unknown() -> None:
    """What is known is the least; an empty partition has none, and one whose records are all gone neither."""
    broker = Broker({("orders.in", 0): 110, ("orders.in", 1): 50, ("orders.in", 2): 0, ("orders.in", 3): 900})
    broker.starts[("orders.in", 3)] = 900
    found = look(broker, metric(0, 99), metric(1, -1), metric(2, -1), metric(3, -1))
    assert (found.waiting, found.partitions) == (10, 4)
    assert found.partly_unknown.startswith("what waits in 1 partition is unknown and not counted: orders.in[1]: ")
    broker.told = {("orders.in", 1): 50}
    assert look(broker, metric(1, -1)).waiting is None


def grown(broker: Broker, *steps: Mapping[Partition, int]) -> int | None:
    """Return how many arrivals are counted while the topics grow as given."""
    followed, counts = SourceBacklog(broker), []
    for minute, ends in enumerate([broker.told, *steps]):
        broker.told = dict(ends)
        counts.append(look(broker, metric(0, 0), backlog=followed, at_ms=NOW + 60_000 * minute).arrived)
    return None if counts[-1] is None or counts[0] is None else counts[-1] - counts[0]


def test_what_arrived_is_the_growth_of_what_was_seen_before() -> None:
    """Of a partition that is added all; a topic that is cut short or made anew does not take away."""
    orders = Broker({("orders.in", 0): 2_000_000_000})
    assert grown(orders, {("orders.in", 0): 2_000_000_010}, {("orders.in", 0): 2_000_000_010, ("orders.in", 1): 5}) == 15


def test_a_topic_that_comes_into_view_brings_no_past() -> None:
    """A source that finds topics by a pattern has found one more, which was in use for long."""
    broker = Broker({("orders.in", 0): 100, ("orders.b", 0): 1_000_000}, topics=["orders.in", "orders.b"])
    followed = SourceBacklog(broker)
    first = look(broker, metric(0, 99), backlog=followed).arrived
    second = look(broker, metric(0, 99), metric(0, 5, topic="orders_b"), backlog=followed, at_ms=NOW + 60_000)
    assert second.arrived == first
    broker.told[("orders.b", 0)] += 70
    third = look(broker, metric(0, 99), metric(0, 5, topic="orders_b"), backlog=followed, at_ms=NOW + 120_000)
    assert (third.arrived or 0) - (first or 0) == 70


def test_a_topic_that_is_made_anew_counts_once() -> None:
    """From its start; a position past its end is unknown, and told."""
    broker = Broker({("orders.in", 0): 500})
    followed = SourceBacklog(broker)
    first = look(broker, metric(0, 449), backlog=followed)
    broker.told, broker.topic_id = {("orders.in", 0): 40}, "b"
    found = look(broker, metric(0, 449), backlog=followed, at_ms=NOW + 60_000)
    assert ((found.arrived or 0) - (first.arrived or 0), found.waiting) == (40, None)
    assert found.notes == ("orders.in[0]: made anew: counted from the start",)


def test_a_broker_that_tells_of_some_partitions_leaves_the_rest_known() -> None:
    """What arrived is unknown meanwhile, since the others' part is."""
    broker = Broker({("orders.in", 0): 100, ("orders.in", 1): 50})
    broker.untold = {("orders.in", 1): "no leader"}
    found = look(broker, metric(0, 89), metric(1, 9))
    assert (found.arrived, found.waiting, found.partitions) == (None, 10, 2)
    assert "orders.in[1]: no leader" in found.partly_unknown


CLUSTER = "Source__a.kafkaCluster.{}.KafkaSourceReader.topic.orders.partition.{}.currentOffset"


def test_partitions_of_two_clusters_are_two() -> None:
    """One broker cannot be asked about both, so what waits is unknown; how many there are is known."""
    names = [CLUSTER.format("east.1", number) for number in range(3)] + [CLUSTER.format("west", number) for number in range(3)]
    assert partitions_named(names) == 6
    with pytest.raises(OffsetsUnavailable, match=r"several Kafka clusters \(east.1, west\).* give each cluster a source"):
        check_one_cluster(names)
    check_one_cluster(names[:3])


def test_two_readers_of_one_topic_are_told_apart() -> None:
    """Their positions in it are not one."""
    names = [f"{source}.KafkaSourceReader.topic.orders.partition.0.currentOffset" for source in ("Source__a", "Source__b")]
    assert partitions_named(names) == 1
    with pytest.raises(OffsetsUnavailable, match=r"topic orders is read by 2 sources of one task \(Source__a, Source__b\)"):
        check_one_cluster(names)
    check_one_cluster([names[0], names[1].replace("orders", "clicks")])


def test_a_committed_offset_stands_in_until_something_is_read() -> None:
    """As after a restart, of a partition without news."""
    broker = Broker({("orders.in", 0): 100})
    assert look(broker, metric(0, -1), metric(0, 70, "committed")).waiting == 30
    assert look(broker, metric(0, 89), metric(0, 70, "committed")).waiting == 10


def test_what_was_reached_is_remembered_over_a_restart() -> None:
    """And goes back when records since the checkpoint are read again."""
    broker = Broker({("orders.in", 0): 100})
    followed = SourceBacklog(broker)
    assert look(broker, metric(0, 79), backlog=followed).waiting == 20
    assert look(broker, metric(0, -1), backlog=followed, at_ms=NOW + 1).waiting == 20
    assert look(broker, metric(0, 49), backlog=followed, at_ms=NOW + 2).waiting == 50


def test_figures_of_some_seconds_ago_are_held_against_the_ends_of_then() -> None:
    """Else records that have just come would seem to wait."""
    broker = Broker({("orders.in", 0): 1_000})
    followed = SourceBacklog(broker)
    look(broker, metric(0, 999), backlog=followed)
    broker.told = {("orders.in", 0): 2_000}
    followed.note_ends({"orders_in"}, NOW + 10_000)
    assert followed.look({"x": metric(0, 1_499)} | {metric(0, 1_499).id: metric(0, 1_499)}, NOW + 5_000).waiting == 0


def test_a_topic_that_the_broker_does_not_have_is_named() -> None:
    """It is another Kafka."""
    broker = Broker({}, topics=["clicks"])
    with pytest.raises(OffsetsUnavailable, match="has no topic orders_in; set SURESCALE_SOURCE_BOOTSTRAP"):
        look(broker, metric(0, 1))


def test_names_are_compared_as_flink_writes_them() -> None:
    """Dots are separators there."""
    assert as_flink_writes("a.b:c d,e-f_g") == "a_b_c_d_e-f_g"
