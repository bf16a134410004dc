"""What waits at a Kafka source, from the positions of its readers and the ends of its topics."""

from collections.abc import Mapping, Sequence

import pytest

from engines.flink.answers import Metric
from engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from engines.kafka.positions import Partition
from monitor.sources.flink.backlog import Backlog, SourceBacklog, as_flink_writes, positions_named

NOW = 1_000_000


class Broker(TopicOffsets):
    """A broker whose topics end where a test says."""

    def __init__(self, ends: Mapping[Partition, int], topics: Sequence[str] = ("orders.in",)) -> None:
        self.told, self.known = dict(ends), tuple(topics)

    def ends(self, topics: Sequence[str]) -> dict[Partition, int]:
        """The ends."""
        return {partition: end for partition, end in self.told.items() if partition[0] in topics}

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
    assert positions_named(names) == {names[0]: ("orders_in", 3, "current"), names[1]: ("x_partition_1", 12, "committed")}


def test_a_position_is_the_record_after_the_last_one_read() -> None:
    """Offsets 0 to 99 are a hundred records."""
    broker = Broker({("orders.in", 0): 100, ("orders.in", 1): 50})
    assert look(broker, metric(0, 99), metric(1, 9)) == Backlog(arrived=150, waiting=40, partitions=2)


def test_a_partition_from_which_nothing_was_read_makes_the_lag_unknown() -> None:
    """An unknown lag is not none; an empty partition has none."""
    broker = Broker({("orders.in", 0): 100, ("orders.in", 1): 50, ("orders.in", 2): 0})
    assert look(broker, metric(0, 99), metric(1, -1), metric(2, -1)) == Backlog(arrived=150, waiting=None, partitions=3)


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
