"""How long records have waited behind an open transaction, from a client's statistics."""

import json

import pytest

from surescale.runtime import kafka
from surescale.runtime.kafka import StableOffsetLag


def statistics(stable: int, end: int, partition: str = "0") -> str:
    """What librdkafka says of one partition."""
    return json.dumps({"topics": {"decisions": {"partitions": {partition: {"ls_offset": stable, "hi_offset": end}}}}})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, to be set by the test."""
    times = [100.0]
    monkeypatch.setattr(kafka.time, "monotonic", lambda: times[-1])
    return times


def test_time_counts_while_the_stable_offset_stands_behind_the_end(clock: list[float]) -> None:
    """And ends with the transaction."""
    of = StableOffsetLag()
    of.on_statistics(statistics(5, 7))
    clock.append(160.0)
    of.on_statistics(statistics(5, 9))
    assert of.seconds() == 60.0
    of.on_statistics(statistics(9, 9))
    assert of.seconds() == 0.0


def test_transactions_that_follow_each_other_hold_nothing_back(clock: list[float]) -> None:
    """One is always open on a busy topic."""
    of = StableOffsetLag()
    for at in range(10):
        clock.append(100.0 + 30 * at)
        of.on_statistics(statistics(at, at + 2))
    assert of.seconds() == 0.0


@pytest.mark.parametrize(
    "document", ['{"name": "rdkafka"}', statistics(-1001, -1001), statistics(-1001, 5), statistics(0, 0, "-1")]
)
def test_what_is_not_known_yet_is_not_held_back(clock: list[float], document: str) -> None:
    """Before the first answer of the broker there are no offsets."""
    of = StableOffsetLag()
    of.on_statistics(document)
    clock.append(200.0)
    assert of.seconds() == 0.0


def test_a_client_that_was_closed_is_forgotten(clock: list[float]) -> None:
    """Its last statistics say nothing of now."""
    of = StableOffsetLag()
    of.on_statistics(statistics(5, 7))
    of.forget()
    clock.append(200.0)
    assert of.seconds() == 0.0
