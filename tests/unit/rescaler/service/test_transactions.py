"""A transaction whose client hangs is given up, so that the next session can fence it."""

import gc
import threading
import weakref
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from surescale.rescaler.control.effects import Effects
from surescale.rescaler.service import transactions
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.traces import Traces
from surescale.rescaler.service.transactions import Transactions
from surescale.runtime.kafka_transactions import Fenced, TransactionLost
from tests.support.waiting import wait_until


class HangingProducer:
    """A client whose offsets are never answered, whatever timeout it is given."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.calls: list[str] = []

    def init_transactions(self, _timeout_s: float) -> None:
        """Succeed."""

    def begin_transaction(self) -> None:
        """Succeed."""

    def send_offsets_to_transaction(self, *_: Any) -> None:
        """Wait far beyond the timeout, and be refused in the end."""
        self.released.wait()
        raise KafkaException(KafkaError(KafkaError._FENCED))

    def commit_transaction(self, _timeout_s: float) -> None:
        """Note that it was called."""
        self.calls.append("commit")


def test_offsets_that_are_never_answered_end_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """`TransactionLost` is raised in place of waiting for ever, nothing is committed, and nothing keeps the client open."""
    hanging = HangingProducer()
    released, calls, client = hanging.released, hanging.calls, weakref.ref(hanging)
    clients, members = [hanging], SimpleNamespace(consumer_group_metadata=object)
    del hanging
    monkeypatch.setattr(transactions, "producer", lambda *_, **__: clients.pop())
    monkeypatch.setattr(transactions, "partitions_of", lambda *_: [0])
    monkeypatch.setattr(transactions, "HANGS_AFTER_S", 0.05)
    gc.disable()
    try:
        with pytest.raises(TransactionLost, match="did not send offsets"):
            written(members)
        released.set()
        wait_until(lambda: client() is None, 10, "the client to be freed")
    finally:
        released.set()
        gc.enable()
    assert calls == []


class FencedProducer(HangingProducer):
    """A client that learns that it is fenced only when it gives up what it began."""

    def send_offsets_to_transaction(self, *_: Any) -> None:
        """Be refused for a reason that does not tell."""
        raise KafkaException(KafkaError(KafkaError.INVALID_TXN_STATE))

    def abort_transaction(self, _timeout_s: float) -> None:
        """Be refused, as by a coordinator that knows a newer one."""
        raise KafkaException(KafkaError(KafkaError._FENCED))


def test_who_learns_only_at_the_end_that_it_is_fenced_does_not_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken for a lost transaction, its next session would fence whoever has taken over."""
    monkeypatch.setattr(transactions, "producer", lambda *_, **__: FencedProducer())
    monkeypatch.setattr(transactions, "partitions_of", lambda *_: [0])
    with pytest.raises(Fenced, match="another process is the rescaler"):
        written(SimpleNamespace(consumer_group_metadata=object))


def written(members: Any) -> None:
    """Commit the offset of one decision."""
    Transactions(RescalerSettings(), members, threading.Event()).write(
        Effects(), [], [TopicPartition("decisions", 0, 1)], None, Traces()
    )
