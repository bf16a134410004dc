"""The outbox, with a real client and no broker: what was not delivered is said."""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import cast

import pytest
from confluent_kafka import Producer

from surescale.contracts.topics import JOB_TOPOLOGY, TopicNames
from surescale.monitor.delivery import DeliveryFailed, Outbox, Reports
from surescale.runtime.backoff import Stopped
from surescale.runtime.ports import free_port
from tests.support.builders import JOB, topology

MakesOutbox = Callable[..., Outbox]


@pytest.fixture
def outbox(stop: threading.Event) -> MakesOutbox:
    """Makes an outbox whose broker does not exist."""
    quiet = logging.getLogger("test.librdkafka")
    quiet.disabled = True

    def make(*, give_up_after_ms: int = 200, queue_records: int = 100) -> Outbox:
        client = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{free_port()}",
                "message.timeout.ms": give_up_after_ms,
                "queue.buffering.max.messages": queue_records,
                "logger": quiet,
            },
        )
        return Outbox(Reports(client, stop), TopicNames(""), stop=stop, log=quiet)

    return make


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Ends what waits, at the latest with the test."""
    event = threading.Event()
    yield event
    event.set()


def test_a_record_that_was_not_delivered_is_said_once(outbox: MakesOutbox) -> None:
    """Who sent it must know; after that the outbox can be used again."""
    box = outbox()
    box.send(JOB_TOPOLOGY, JOB, topology())
    with pytest.raises(DeliveryFailed, match="timed out"):
        box.await_acknowledged()
    assert box.await_acknowledged()


def test_waiting_ends_when_told_to_stop(outbox: MakesOutbox, stop: threading.Event) -> None:
    """Then nothing counts as acknowledged."""
    box = outbox(give_up_after_ms=60_000)
    box.send(JOB_TOPOLOGY, JOB, b"{}")
    stop.set()
    assert not box.await_acknowledged()


def test_a_record_that_the_client_does_not_take_counts_as_not_delivered(outbox: MakesOutbox) -> None:
    """It is larger than any record may be; nobody waits for it, and the outbox can be used again."""
    box = outbox()
    with pytest.raises(DeliveryFailed, match="MSG_SIZE_TOO_LARGE"):
        box.send(JOB_TOPOLOGY, JOB, b" " * 2_000_000)
    assert box.await_acknowledged()


def test_a_full_queue_does_not_hold_up_the_end(outbox: MakesOutbox, stop: threading.Event) -> None:
    """Told to stop, what finds no place is not waited for."""
    box = outbox(give_up_after_ms=60_000, queue_records=1)
    box.send(JOB_TOPOLOGY, JOB, b"{}")
    stop.set()
    with pytest.raises(Stopped):
        box.send(JOB_TOPOLOGY, JOB, b"{}")


def test_each_outbox_of_a_producer_hears_of_its_own_records_alone(stop: threading.Event) -> None:
    """A thousand share one: whoever has nothing under way waits for nobody, and one thread takes all reports."""

    class Client:
        """Acknowledges what it is told to; notes who asks it for reports."""

        def __init__(self) -> None:
            self.waiting: list[Callable[[], None]] = []
            self.asked = set[int]()

        def produce(self, topic: str, *, on_delivery: Callable[..., None], **_: object) -> None:
            self.waiting.append(lambda: on_delivery(None, Record()))

        def poll(self, _: float) -> None:
            self.asked.add(threading.get_ident())
            stop.wait(0.01)

    class Record:
        """An acknowledged one."""

        topic = staticmethod(lambda: JOB_TOPOLOGY)
        timestamp = staticmethod(lambda: (1, 0))
        latency = staticmethod(lambda: None)

    client = Client()
    reports = Reports(cast(Producer, client), stop)
    one, other = (Outbox(reports, TopicNames(""), stop=stop, log=logging.getLogger("test")) for _ in range(2))
    one.send(JOB_TOPOLOGY, JOB, b"{}")
    assert other.await_acknowledged()
    threading.Timer(0.05, client.waiting.pop()).start()
    assert one.await_acknowledged()
    assert len(client.asked) == 1
    assert threading.get_ident() not in client.asked
