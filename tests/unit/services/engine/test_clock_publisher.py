"""Publishing the clock while the broker is away, or refuses it."""

import threading
from collections.abc import Callable

import msgspec
import pytest
from confluent_kafka import KafkaError

from surescale.contracts.messages import ClockPrerequisites, ClockSegment
from surescale.runtime.backoff import Stopped
from surescale.runtime.kafka import producer
from surescale.runtime.ports import free_port
from surescale.services.engine.pipeline_client import ClockPublisher, ClockRefused
from surescale.services.engine.settings import EngineSettings

SEGMENT = ClockSegment(pipeline="main", sequence=1, e0_ms=0, w0_ms=0, speed=1.0, until_ms=60_000)


def test_a_segment_that_the_client_gave_up_does_not_count_as_published() -> None:
    """After five minutes without a broker librdkafka drops a record; the roles would wait forever for that segment."""
    settings, stop = EngineSettings(bootstrap=f"127.0.0.1:{free_port()}"), threading.Event()
    publisher = ClockPublisher(producer(settings, **{"message.timeout.ms": 300}), settings, stop)
    ended: list[str] = []

    def publish() -> None:
        try:
            publisher.publish(SEGMENT)
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
    """It would be too large again: one line says what to do."""
    settings = EngineSettings(bootstrap=f"127.0.0.1:{free_port()}")
    publisher = ClockPublisher(producer(settings, **{"message.max.bytes": 1_000}), settings, threading.Event())
    told = ClockPrerequisites(hosts=1, events=0, jobs={f"sim/job-{number}": number for number in range(1_000)})
    with pytest.raises(ClockRefused, match=r"clock: .*too large"):
        publisher.publish(msgspec.structs.replace(SEGMENT, told=told))


class Refusing:
    """A producer whose broker refuses a record several times with the same error, and then accepts it."""

    def __init__(self, error: KafkaError, times: int) -> None:
        self.sent, self._error, self._times = 0, error, times

    def produce(self, _: str, *, key: str, value: bytes, on_delivery: Callable[[KafkaError | None, object], None]) -> None:
        """Refuse or accept a record."""
        self.sent += 1
        on_delivery(self._error if self.sent <= self._times else None, None)

    def flush(self, _: float) -> int:
        """Return 0: nothing is being sent."""
        return 0


def published(error: KafkaError, times: int) -> Refusing:
    """Publish a segment to a broker that refuses it this many times."""
    broker = Refusing(error, times)
    ClockPublisher(broker, EngineSettings(), threading.Event()).publish(SEGMENT)
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
    """It would be refused forever, and the pipeline would stand still without a word."""
    with pytest.raises(ClockRefused, match=r"clock: "):
        published(error, times=3)


@pytest.mark.parametrize("code", [KafkaError._MSG_TIMED_OUT, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.UNKNOWN_TOPIC_OR_PART])
def test_a_segment_that_is_refused_for_now_is_sent_again(code: int, caplog: pytest.LogCaptureFixture) -> None:
    """The log says why."""
    assert published(KafkaError(code), times=2).sent == 3
    assert "Kafka did not take the clock's segment" in caplog.text
