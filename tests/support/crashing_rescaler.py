"""A rescaler that dies inside its second write: ``python -m tests.support.crashing_rescaler`` does one write and no more.

A write is a transaction of the rescaler or a report of its actuator. The second one is begun: a transaction with all its records
sent and not committed, a report not sent at all. ``CRASH_AFTER_WRITES`` says how many writes come through (default: one).
Nothing of this is in the product.
"""

import os
import threading
from collections.abc import Sequence
from typing import Any

from rescaler.commands.service import command
from rescaler.service.actuator import ActuatorThread
from rescaler.service.transactions import Transactions

EXIT_CODE = 9
_ALLOWED = int(os.environ.get("CRASH_AFTER_WRITES", "1"))
_lock = threading.Lock()
_writes = 0


def _is_last() -> bool:
    """Count a write; the one after those allowed is the last thing that this process does."""
    global _writes
    with _lock:
        _writes += 1
        return _writes > _ALLOWED


_write, _report = Transactions.write, ActuatorThread._report


def _write_or_die(self: Transactions, effects: Any, letters: Sequence[Any], consumed: Sequence[Any]) -> None:
    if _is_last():
        self._producer.begin_transaction()
        self._produce(effects, letters)
        self._producer.flush(5)
        os._exit(EXIT_CODE)
    _write(self, effects, letters, consumed)


def _report_or_die(self: ActuatorThread, reports: list[Any]) -> None:
    if reports and _is_last():
        os._exit(EXIT_CODE)
    _report(self, reports)


if __name__ == "__main__":
    Transactions.write = _write_or_die  # type: ignore[method-assign]
    ActuatorThread._report = _report_or_die  # type: ignore[method-assign]
    command()
