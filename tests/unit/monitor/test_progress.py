"""How far back the monitor looks for its last markers, in front of a made-up topic."""

from collections.abc import Callable

import pytest

from surescale.contracts.messages import MinuteMarker
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.wire import encode
from surescale.monitor import progress
from surescale.monitor.progress import TAIL_RECORDS, TAIL_RECORDS_MAX, last_markers
from tests.support.engine_stub import MINUTE, job_chain

JOB, NEW = "sim/clicks", "sim/new"


class LongTopic:
    """A topic that goes back further than anybody should read: a marker of one job lies this deep."""

    asked: list[int]
    depth = 0

    def __init__(self, _settings: PipelineSettings, _names: list[str], *, last: int) -> None:
        self.asked.append(last)
        self._last = last
        self.began_at_beginning = False

    def read_to_end(self) -> list["LongTopic"]:
        """Return the marker, if the tail reaches it."""
        return [self] if self._last >= self.depth else []

    def value(self) -> bytes:
        """Return the marker's bytes."""
        return encode(MinuteMarker(job=JOB, minute_end_ms=7 * MINUTE, topology=job_chain(JOB)))

    def close(self) -> None:
        """Leave."""


def at(minute: int) -> Callable[[PipelineSettings], int]:
    """A clock that stands."""
    return lambda _: minute * MINUTE


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> type[LongTopic]:
    """The topic in Kafka's place."""
    kind = type("Topic", (LongTopic,), {"asked": []})
    monkeypatch.setattr(progress, "LogReader", kind)
    return kind


def test_a_job_that_never_had_a_marker_does_not_make_it_read_everything(topic: type[LongTopic]) -> None:
    """Seven days of samples fit into no memory; a new job begins with the oldest minute that its engine has."""
    assert last_markers(PipelineSettings(), [JOB, NEW], at(8)) == {JOB: 7 * MINUTE}
    assert topic.asked == [TAIL_RECORDS, TAIL_RECORDS_MAX]


def test_it_looks_further_back_for_a_job_that_lags(topic: type[LongTopic]) -> None:
    """Others have sent many records since its last marker."""
    topic.depth = TAIL_RECORDS + 1
    assert last_markers(PipelineSettings(), [JOB], at(8)) == {JOB: 7 * MINUTE}


@pytest.mark.parametrize(("now", "found"), [(8, {JOB: 7 * MINUTE}), (5, {JOB: 7 * MINUTE}), (4, {})])
def test_a_marker_ahead_of_the_clock_is_not_believed(topic: type[LongTopic], now: int, found: dict[str, int]) -> None:
    """It is nobody's but a forger's; up to two minutes ahead is what records may be."""
    assert last_markers(PipelineSettings(), [JOB], at(now)) == found
