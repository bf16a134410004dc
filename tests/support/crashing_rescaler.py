"""A rescaler that dies inside its second write: ``python -m tests.support.crashing_rescaler`` does one write and no more.

A write is a transaction. The second one is only started: all its records are sent, reports of the actuator among them, and it is
not committed. ``CRASH_AFTER_WRITES`` says how many writes come through (default: one).
"""

import os
from collections.abc import Sequence
from functools import partial

from confluent_kafka import TopicPartition

from surescale.contracts.messages import DeadLetter
from surescale.contracts.settings import from_environment
from surescale.engines.simulated.actuator import EngineHttp
from surescale.rescaler.control.effects import Effects
from surescale.rescaler.service.active import activate
from surescale.rescaler.service.loop import run
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.traces import Traces
from surescale.rescaler.service.transactions import ActuatorPosition, Transactions
from surescale.runtime.logs import set_up_logs
from surescale.runtime.signals import stop_event

EXIT_CODE = 9


class Lifetime:
    """How many writes this process does."""

    def __init__(self, writes: int) -> None:
        self._left = writes

    def is_over(self) -> bool:
        """Count a write; the one after those allowed is the last thing that this process does."""
        self._left -= 1
        return self._left < 0


LIFETIME = Lifetime(int(os.environ.get("CRASH_AFTER_WRITES", "1")))


class DyingTransactions(Transactions):
    """Dies with everything sent and nothing committed."""

    def write(
        self,
        effects: Effects,
        letters: Sequence[tuple[bytes | None, DeadLetter]],
        consumed: Sequence[TopicPartition],
        carried_out: ActuatorPosition | None,
        traces: Traces,
    ) -> None:
        """Write, or die."""
        if LIFETIME.is_over():
            self._producer.begin_transaction()
            self._produce(effects, letters, traces)
            self._producer.flush(5)
            os._exit(EXIT_CODE)
        super().write(effects, letters, consumed, carried_out, traces)


if __name__ == "__main__":
    settings = from_environment(RescalerSettings)
    engine = EngineHttp(settings.engine_url, settings.engine_timeout_ms)
    connect = partial(activate, transactions=DyingTransactions)
    run(settings, engine, stop_event(), set_up_logs("rescaler"), activate=connect)
