"""The engine's edges: a broker that stays away while the clock is published, parameters of its HTTP interface."""

import threading

import pytest
from aiohttp.test_utils import make_mocked_request

from contracts.errors import RecordRejected
from contracts.messages import ClockSegment
from runtime.backoff import Stopped
from runtime.kafka import producer
from services.engine.api import _number
from services.engine.kafka import RoadSide
from services.engine.settings import EngineSettings
from services.stack.ports import free_port

SEGMENT = ClockSegment(road="main", sequence=1, e0_ms=0, w0_ms=0, speed=1.0, until_ms=60_000)


def test_a_segment_that_the_client_gave_up_is_not_taken_for_published() -> None:
    """After five minutes without a broker librdkafka drops a record; the roles would wait for that segment for ever."""
    settings, stop = EngineSettings(bootstrap=f"127.0.0.1:{free_port()}"), threading.Event()
    side = RoadSide(settings, stop)
    side._producer = producer(settings, **{"message.timeout.ms": 300})
    ended: list[str] = []

    def publish() -> None:
        try:
            side.publish(SEGMENT)
            ended.append("published")
        except Stopped:
            ended.append("stopped")

    working = threading.Thread(target=publish)
    working.start()
    working.join(3.0)
    stop.set()
    working.join(10.0)
    assert ended == ["stopped"]


@pytest.mark.parametrize("said", ["x", "-1", "1.5", "9" * 5_000])
def test_a_parameter_that_is_no_number_is_a_refusal_with_its_name(said: str) -> None:
    """Also one that is longer than Python turns into a number."""
    with pytest.raises(RecordRejected, match=r"^after: .* is not a whole number"):
        _number(make_mocked_request("GET", f"/events?after={said}"), "after", 0)
