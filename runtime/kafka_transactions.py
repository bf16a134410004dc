"""Calls of a transactional producer, repeated while they may be. Of several with one id, the newest fences the others."""

import threading
import time
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Producer

from surescale.contracts.errors import SurescaleError
from surescale.runtime.beats import beat
from surescale.runtime.kafka_clock import steady_ms

ATTEMPT_S = 10.0
PATIENCE_S = 120.0
PAUSE_S = 0.1  # a call may be refused now and succeed a moment later
TRANSACTION_MS = 60_000
"""After so long Kafka aborts a transaction whose producer is silent; readers wait behind it."""
_FENCED = frozenset({KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH})


class Fenced(SurescaleError):
    """Another process has taken over the transactional id."""


class TransactionLost(Exception):
    """A transaction was not committed. ``is_aborted``: and the producer can begin the next one."""

    def __init__(self, why: str, *, is_aborted: bool = False) -> None:
        super().__init__(why)
        self.is_aborted = is_aborted


class TransactionalCalls:
    """Calls of one producer."""

    def __init__(
        self,
        producer: Producer,
        who: str,
        stop: threading.Event,
        *,
        patience_s: float = PATIENCE_S,
        abort_patience_s: float = 0.0,
    ) -> None:
        """Call nothing yet.

        Args:
            producer: a transactional one.
            who: what the process was, for the line that says that another one is.
            stop: ends all waiting.
            patience_s: how long a call is repeated.
            abort_patience_s: how long it is tried to abort what is given up.
        """
        self._producer, self._who, self._stop = producer, who, stop
        self._patience_s, self._abort_patience_s = patience_s, abort_patience_s
        self._began_ms: int | None = None

    def begin(self) -> None:
        """Begin a transaction; raises what the client does."""
        self._began_ms = steady_ms()
        self._producer.begin_transaction()

    def persist(self, call: Callable[[], object]) -> None:
        """Repeat a call until it succeeds, as far as it may be repeated.

        Raises:
            Fenced: another process has taken over.
            TransactionLost: the transaction was given up, or it is unknown whether it was committed.
            KafkaException: this producer cannot be used any more.
        """
        patient_until = time.monotonic() + self._patience_s
        while True:
            beat()
            try:
                call()
                return
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                if error.code() in _FENCED:
                    raise self._fenced() from None
                if error.fatal():
                    raise
                again = error.retriable() and not error.txn_requires_abort()
                if not again or self._stop.is_set() or time.monotonic() > patient_until:
                    raise self.given_up(error.str()) from None
                self._stop.wait(PAUSE_S)

    def given_up(self, why: str) -> Fenced | TransactionLost:
        """Abort what was begun. An error that only asks for that may hide that another one has taken over; this one tells."""
        patient_until = time.monotonic() + self._abort_patience_s
        while True:
            beat()
            try:
                self._producer.abort_transaction(ATTEMPT_S)
                return TransactionLost(why, is_aborted=True)
            except KafkaException as problem:
                error: KafkaError = problem.args[0]
                if error.code() in _FENCED:
                    return self._fenced()
                if not error.retriable() or self._stop.is_set() or time.monotonic() >= patient_until:
                    # The broker aborts it after its timeout, or when it is fenced.
                    return TransactionLost(f"{why}; {error.str()}")
                self._stop.wait(PAUSE_S)

    def _fenced(self) -> Fenced:
        """Say why this process may not send any more. Kafka says the same of two reasons, the second of which takes its time."""
        another = f"another process is {self._who} now"
        open_ms = 0 if self._began_ms is None else steady_ms() - self._began_ms
        if open_ms < TRANSACTION_MS:
            return Fenced(another)
        return Fenced(
            f"Kafka ended a transaction of {self._who}, which had been open for {open_ms // 1000} s; "
            f"{TRANSACTION_MS // 1000} s are allowed. This process stood still or was cut off from Kafka: start it again. Or "
            f"{another}"
        )
