"""The outbox, with a real client and no broker: what was not delivered is said."""

import logging
import threading

import pytest
from confluent_kafka import Producer

from contracts.topics import JOB_TOPOLOGY, TopicNames
from monitor.outbox import DeliveryFailed, Outbox
from services.stack.ports import free_port
from tests.support.builders import JOB, topology


def outbox(stop: threading.Event | None = None, *, give_up_after_ms: int = 200) -> Outbox:
    """Return an outbox whose broker does not exist."""
    quiet = logging.getLogger("test.librdkafka")
    quiet.disabled = True
    client = Producer(
        {"bootstrap.servers": f"127.0.0.1:{free_port()}", "message.timeout.ms": give_up_after_ms, "logger": quiet},
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
