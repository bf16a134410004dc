"""The pipeline's clock at the time of a record."""

import numpy as np

from surescale.contracts.messages import ClockSegment
from surescale.spark_streaming.references import references


def segment(e0_ms: int, w0_ms: int, until_ms: int) -> ClockSegment:
    """Return a segment at sixty times the speed of the wall."""
    return ClockSegment(pipeline="main", sequence=0, e0_ms=e0_ms, w0_ms=w0_ms, speed=60.0, until_ms=until_ms)


FIRST, SECOND = (100, segment(1_000, 100, 31_000)), (900, segment(31_000, 900, 61_000))


def at(*append_ms: int) -> list[int]:
    """Return the references under both segments."""
    return references([FIRST, SECOND], np.array(append_ms)).tolist()


def test_the_clock_moves_with_its_speed_and_stops_at_its_end() -> None:
    """100 ms of wall time are 6 s of event time, until the segment's end."""
    assert at(200, 800) == [7_000, 31_000]


def test_a_replayed_record_is_judged_by_the_segment_of_its_own_time() -> None:
    """The second segment changes nothing for a record that the broker had taken before it."""
    assert at(899, 900) == [31_000, 31_000]
    assert references([FIRST], np.array([899])).tolist() == at(899)


def test_a_record_older_than_the_first_segment_is_judged_by_it() -> None:
    """The topic is compacted: what came before is gone."""
    assert at(50) == [1_000]


def test_a_pipeline_without_a_clock_uses_the_brokers_time() -> None:
    """Live, the reference is the append time itself."""
    assert references([], np.array([5, 9])).tolist() == [5, 9]
