"""Demand and backlog of a Flink source whose broker is away."""

import json
from collections.abc import Sequence
from urllib.parse import parse_qs, urlsplit

import pytest

from surescale.engines.flink.source import FlinkSource
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.kafka.positions import Answer, Extent, Partition
from tests.support import flink_source
from tests.support.fake_flink import FakeFlink
from tests.support.flink_source import ORDERS, SOURCE, job_of, look_at
from tests.support.stub_server import StubRequest, StubResponse

flink, source = flink_source.flink, flink_source.source


def let_it_read_orders(flink: FakeFlink) -> None:
    """Let the source show a position in a topic of Kafka."""
    name = "Source__numbers.KafkaSourceReader.topic.orders.partition.0.currentOffset"
    path = f"/jobs/{job_of(flink)}/vertices/{SOURCE}/subtasks/metrics"
    answer = json.dumps([{"id": name, "max": 5.0}]).encode()
    flink.instead = lambda asked: StubResponse(200, answer) if asked.path.startswith(path) else None


@pytest.mark.parametrize("reads_kafka", [True, False])
def test_without_the_broker_demand_is_unknown(
    flink: FakeFlink, source: FlinkSource, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, reads_kafka: bool
) -> None:
    """Never none; and the log says why, with the fix."""
    if reads_kafka:
        let_it_read_orders(flink)

    def away(*_: object) -> None:
        raise OffsetsUnavailable("Kafka at k:9092, which sources read, does not answer; set SURESCALE_SOURCE_BOOTSTRAP")

    monkeypatch.setattr(TopicOffsets, "topics", away)
    samples = look_at(source).samples
    assert [(each.queued_records, each.arrived_records) for each in samples if each.task == SOURCE] == [(None, None)]
    assert ("demand is unknown, so the job is held" in caplog.text) is reads_kafka


def test_a_broker_that_is_lost_makes_demand_unknown_until_it_is_back(
    flink: FakeFlink, source: FlinkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ends of an earlier look do not stand in: nothing would seem to arrive any more."""
    let_it_read_orders(flink)
    ends: dict[str, int] = {"orders": 10}

    def told(_: TopicOffsets, topics: Sequence[str] = ()) -> dict[Partition, int]:
        if not ends:
            raise OffsetsUnavailable("Kafka at k:9092, which sources read, does not answer; set SURESCALE_SOURCE_BOOTSTRAP")
        return {(topic, 0): end for topic, end in ends.items()}

    monkeypatch.setattr(TopicOffsets, "topics", lambda broker: tuple(topic for topic, _ in told(broker)))
    monkeypatch.setattr(
        TopicOffsets, "look", lambda broker, topics: Answer({each: Extent(0, at) for each, at in told(broker, topics).items()})
    )

    def figures() -> tuple[int | None, int | None]:
        (found,) = (each for each in look_at(source).samples if each.task == SOURCE)
        return found.arrived_records, found.queued_records

    arrived, waiting = figures()
    assert (arrived is not None, waiting) == (True, 4)
    ends.clear()
    assert [figures(), figures()] == [(None, None)] * 2
    ends["orders"] = 30
    assert figures()[0] == arrived  # as of the time of Flink's figures, which are of before


def test_a_topic_that_a_source_finds_while_it_runs_counts(
    flink: FakeFlink, source: FlinkSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that reads all topics of a pattern shows new positions, and nothing else says that there are some."""
    read, path = ["orders-1"], f"/jobs/{job_of(flink)}/vertices/{SOURCE}/subtasks/metrics"

    def give(asked: StubRequest) -> StubResponse | None:
        names = [f"Source__numbers.KafkaSourceReader.topic.{topic}.partition.0.currentOffset" for topic in read]
        chosen = parse_qs(urlsplit(asked.path).query).get("get", [",".join(names)])[0].split(",")
        answer = json.dumps([{"id": name, "max": 5.0} for name in chosen]).encode()
        return StubResponse(200, answer) if asked.path.startswith(path) else None

    flink.instead = give
    monkeypatch.setattr(TopicOffsets, "topics", lambda _: ("orders-1", "orders-2"))
    monkeypatch.setattr(TopicOffsets, "look", lambda _, topics: Answer({(topic, 0): Extent(0, 10) for topic in topics}))

    def partitions() -> list[int | None]:
        look_at(source)  # what is known of them shows at the next look
        return [spec.useful_max for spec in look_at(source).topology.tasks if spec.task == SOURCE]

    assert partitions() == [1]
    read.append("orders-2")
    clock = source.follow(ORDERS)._clock
    now_ms = clock.now_ms
    monkeypatch.setattr(clock, "now_ms", lambda: now_ms() + 600_000)
    assert partitions() == [2]
