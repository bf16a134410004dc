"""The engine's edges: a broker that stays away while the clock is published, parameters of its HTTP interface."""

import threading
from collections.abc import Callable

import msgspec
import pytest
from aiohttp.test_utils import make_mocked_request
from confluent_kafka import KafkaError

from contracts.errors import RecordRejected
from contracts.messages import ClockSegment, Told
from runtime.backoff import Stopped
from runtime.kafka import producer
from services.engine.api import _number
from services.engine.kafka import ClockRefused, RoadSide
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


def test_a_segment_that_is_too_large_for_the_client_ends_the_engine() -> None:
    """Sent again it would be too large again: one line says what to do."""
    settings = EngineSettings(bootstrap=f"127.0.0.1:{free_port()}")
    side = RoadSide(settings, threading.Event())
    side._producer = producer(settings, **{"message.max.bytes": 1_000})
    told = Told(hosts=1, events=0, jobs={f"sim/job-{number}": number for number in range(1_000)})
    with pytest.raises(ClockRefused, match=r"clock: .*too large"):
        side.publish(msgspec.structs.replace(SEGMENT, told=told))


class Refusing:
    """A producer whose broker refuses a record some times, by one and the same error, and then takes it."""

    def __init__(self, error: KafkaError, times: int) -> None:
        self.sent, self._error, self._times = 0, error, times

    def produce(self, *_: object, on_delivery: Callable[[KafkaError | None, object], None], **__: object) -> None:
        """Refuse or take a record."""
        self.sent += 1
        on_delivery(self._error if self.sent <= self._times else None, None)

    def flush(self, _timeout_s: float) -> int:
        """Nothing is on its way."""
        return 0


def published(error: KafkaError, times: int) -> Refusing:
    """Publish a segment to a broker that refuses it so often."""
    side = RoadSide(EngineSettings(), threading.Event())
    side._producer = broker = Refusing(error, times)  # type: ignore[assignment]  # the two methods that are used
    side.publish(SEGMENT)
    return broker


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(KafkaError.MSG_SIZE_TOO_LARGE),
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED),
        KafkaError(KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, fatal=True),
    ],
)
def test_a_segment_that_is_refused_for_good_ends_the_engine(error: KafkaError) -> None:
    """It would be refused for ever, and the road would stand without a word."""
    with pytest.raises(ClockRefused, match=r"clock: "):
        published(error, times=3)


@pytest.mark.parametrize("code", [KafkaError._MSG_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_a_segment_that_is_refused_for_now_is_sent_again(code: int, caplog: pytest.LogCaptureFixture) -> None:
    """And it is said why."""
    assert published(KafkaError(code), times=2).sent == 3
    assert "the clock's segment was not taken" in caplog.text


@pytest.mark.parametrize("said", ["x", "-1", "1.5", "9" * 5_000])
def test_a_parameter_that_is_no_number_is_a_refusal_with_its_name(said: str) -> None:
    """Also one that is longer than Python turns into a number."""
    with pytest.raises(RecordRejected, match=r"^after: .* is not a whole number"):
        _number(make_mocked_request("GET", f"/events?after={said}"), "after", 0)
