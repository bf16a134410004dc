"""The ends of topics at a time in the past."""

import time
from concurrent.futures import Future
from itertools import pairwise
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, TopicCollection, TopicPartition
from hypothesis import given, settings
from hypothesis import strategies as st

from surescale.contracts.settings import PipelineSettings
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.kafka.positions import POINTS_MAX, EndLog, Extent, Partition
from surescale.runtime.ports import free_port

P0, P1 = ("orders", 0), ("orders", 1)


def test_between_two_known_ends_a_partition_grew_evenly() -> None:
    """A figure that is seconds old is held against the ends of its own time."""
    log = EndLog()
    log.add(60_000, {P0: 100, P1: 0})
    log.add(120_000, {P0: 700, P1: 60})
    assert log.at(90_000) == {P0: 400, P1: 30}
    assert log.at(119_900) == {P0: 699, P1: 60}


def test_outside_of_what_is_known_the_nearest_end_holds() -> None:
    """Nothing is made up."""
    log = EndLog()
    assert log.at(5) == {}
    log.add(60_000, {P0: 100})
    log.add(120_000, {P0: 700})
    assert log.at(0) == {P0: 100}
    assert log.at(60_000) == {P0: 100}
    assert log.at(130_000) == {P0: 700}


def test_a_partition_that_was_added_has_the_end_it_had_when_first_seen() -> None:
    """Its growth before is not known."""
    log = EndLog()
    log.add(60_000, {P0: 100})
    log.add(120_000, {P0: 700, P1: 50})
    assert log.at(90_000) == {P0: 400, P1: 50}


def test_memory_is_bounded() -> None:
    """The oldest points give way."""
    log = EndLog()
    for minute in range(1, 10 * POINTS_MAX):
        log.add(minute * 60_000, {P0: minute})
    assert len(log._points) == POINTS_MAX
    assert log.at(10**12) == {P0: 10 * POINTS_MAX - 1}


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(0, 10**9)), min_size=1, max_size=20), st.lists(st.integers(0, 10**8))
)
def test_what_arrived_never_falls(steps: list[tuple[int, int]], times: list[int]) -> None:
    """Later is never less, and never more than the last known end."""
    log, at_ms, end = EndLog(), 0, 0
    for passed_ms, grown in steps:
        at_ms, end = at_ms + passed_ms, end + grown
        log.add(at_ms, {P0: end})
    found = [log.at(each)[P0] for each in sorted(times)]
    assert all(early <= late for early, late in pairwise(found))
    assert all(each <= end for each in found)


def test_a_broker_that_does_not_answer_is_not_asked_again_at_once() -> None:
    """Each question takes the whole timeout, and every job and source has one at the end of a minute."""
    broker = TopicOffsets(PipelineSettings(bootstrap=f"127.0.0.1:{free_port()}"), timeout_s=0.5)
    with pytest.raises(OffsetsUnavailable, match=r"does not answer .*; set SURESCALE_SOURCE_BOOTSTRAP"):
        broker.ends(["orders"])
    began_s = time.monotonic()
    for ask in (lambda: broker.ends(["clicks"]), broker.topics):
        with pytest.raises(OffsetsUnavailable, match="does not answer"):
            ask()
    assert time.monotonic() - began_s < 0.4


@pytest.mark.parametrize("code", [KafkaError.LEADER_NOT_AVAILABLE, KafkaError._TIMED_OUT])
def test_a_topic_without_a_leader_does_not_keep_others_from_being_asked_about(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Its only broker is down. All jobs share one client, and ask at the end of a minute."""
    broker = TopicOffsets(PipelineSettings(bootstrap="k:9092"))

    class Admin:
        def describe_topics(self, topics: TopicCollection, **_: object) -> dict[str, Future[object]]:
            found: dict[str, Future[object]] = {topic: Future() for topic in topics.topic_names}
            for future in found.values():
                future.set_result(SimpleNamespace(partitions=[SimpleNamespace(id=0)], topic_id="one"))
            return found

    def bounds(_: object, partitions: list[TopicPartition], __: float) -> dict[Partition, tuple[int, int] | KafkaError]:
        return {(each.topic, each.partition): KafkaError(code) if each.topic == "lost" else (0, 7) for each in partitions}

    monkeypatch.setattr(broker, "_admin", Admin())
    monkeypatch.setattr("surescale.engines.kafka.offsets.log_bounds", bounds)
    with pytest.raises(OffsetsUnavailable, match="does not answer"):
        broker.look(["lost"])
    assert broker.look(["orders"]).extents == {P0: Extent(0, 7, "one")}
