"""The outbox, with a real client and no broker: what was not delivered is said."""

import logging
import threading

import pytest
from confluent_kafka import Producer

from surescale.contracts.topics import JOB_TOPOLOGY, TopicNames
from surescale.monitor.service import DeliveryFailed, Outbox
from surescale.runtime.backoff import Stopped
from surescale.runtime.ports import free_port
from tests.support.builders import JOB, topology


def outbox(stop: threading.Event | None = None, *, give_up_after_ms: int = 200, queue_records: int = 100) -> Outbox:
    """Return an outbox whose broker does not exist."""
    quiet = logging.getLogger("test.librdkafka")
    quiet.disabled = True
    client = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{free_port()}",
            "message.timeout.ms": give_up_after_ms,
            "queue.buffering.max.messages": queue_records,
            "logger": quiet,
        },
    )
    return Outbox(client, TopicNames(""), stop=stop or threading.Event(), log=quiet)


def test_a_record_that_was_not_delivered_is_said_once() -> None:
    """Who sent it must know; after that the outbox can be used again."""
    box = outbox()
    box.send(JOB_TOPOLOGY, JOB, topology())
    with pytest.raises(DeliveryFailed, match="timed out"):
        box.await_acknowledged()
    assert box.await_acknowledged()


def test_waiting_ends_when_told_to_stop() -> None:
    """Then nothing counts as acknowledged."""
    stop = threading.Event()
    box = outbox(stop, give_up_after_ms=60_000)
    box.send(JOB_TOPOLOGY, JOB, b"{}")
    stop.set()
    assert not box.await_acknowledged()


def test_a_record_that_the_client_does_not_take_counts_as_not_delivered() -> None:
    """It is larger than any record may be; nobody waits for it, and the outbox can be used again."""
    box = outbox()
    with pytest.raises(DeliveryFailed, match="MSG_SIZE_TOO_LARGE"):
        box.send(JOB_TOPOLOGY, JOB, b" " * 2_000_000)
    assert box.await_acknowledged()


def test_a_full_queue_does_not_hold_up_the_end() -> None:
    """Told to stop, what finds no place is not waited for."""
    stop = threading.Event()
    box = outbox(stop, give_up_after_ms=60_000, queue_records=1)
    box.send(JOB_TOPOLOGY, JOB, b"{}")
    stop.set()
    with pytest.raises(Stopped):
        box.send(JOB_TOPOLOGY, JOB, b"{}")
