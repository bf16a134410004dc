"""The load of a comparison: a real trace, speeded up, with a step on top; and the thread that sends it to Kafka."""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from confluent_kafka import Producer

from surescale.contracts.errors import SettingsError, SurescaleError
from surescale.runtime.threads import background
from surescale.simulation.load.workload import Workload

TOPIC: Final = "orders"
PARTITIONS: Final = 8
"""Of every topic."""
KEYS: Final = 997
ZIPF_EXPONENT: Final = 1.1
FACTOR_MIN, FACTOR_MAX = 0.01, 100.0
STEP_FROM, STEP_UNTIL = 0.2, 0.65
"""The part of the run in which the load is multiplied, unless other steps are asked for."""

_TICK_S: Final = 0.02
_KEYS_DRAWN: Final = 65_536
_FLUSH_TIMEOUT_S: Final = 30.0


Steps = Sequence[tuple[float, float]]
"""Seconds of a run, ascending, with the factor of the load from each of them on."""


def one_step(seconds: int, factor: float) -> Steps:
    """Return the steps of a load that is multiplied between 20 % and 65 % of a run.

    >>> one_step(100, 4.0)
    ((20.0, 4.0), (65.0, 1.0))
    """
    return (STEP_FROM * seconds, factor), (STEP_UNTIL * seconds, 1.0)


def read_steps(text: str) -> Steps:
    """Return the steps that ``MINUTE:FACTOR,MINUTE:FACTOR`` means.

    Raises:
        SettingsError: it does not parse, minutes do not ascend, or a factor is out of range.

    >>> read_steps("2:4,9.5:1")
    ((120.0, 4.0), (570.0, 1.0))
    """
    steps: list[tuple[float, float]] = []
    for part in text.split(","):
        minute, _, factor = part.partition(":")
        try:
            at_s, times = 60.0 * float(minute), float(factor)
        except ValueError:
            raise SettingsError(
                f"--steps: {part!r} is not MINUTE:FACTOR, like 2:4,9:1 for four times the load from 2 to 9"
            ) from None
        if not 0.0 <= at_s < np.inf or (steps and at_s <= steps[-1][0]):
            raise SettingsError(f"--steps: minute {minute} must come after the one before it")
        if not FACTOR_MIN <= times <= FACTOR_MAX:
            raise SettingsError(f"--steps: the factor {factor} must be from {FACTOR_MIN:g} to {FACTOR_MAX:g}")
        steps.append((at_s, times))
    return tuple(steps)


def rates(
    workload: Workload, *, seconds: int, mean: float, steps: Steps, start_minute: int | None = None
) -> npt.NDArray[np.float64]:
    """Return the records per second [seconds]: each second is one minute of the trace.

    The trace is scaled to ``mean`` records a second; from each step on it is multiplied by that step's factor.

    Raises:
        SurescaleError: the trace is shorter than the run.
    """
    first = workload.default_start_minute if start_minute is None else start_minute
    minutes = workload.requests[first : first + seconds].astype(np.float64)
    if len(minutes) < seconds or not minutes.any():
        raise SurescaleError(
            f"trace {workload.name} has no {seconds} minutes of load after minute {first}: shorten the run or start earlier"
        )
    factor = np.ones(seconds)
    for at_s, times in steps:
        factor[np.arange(seconds) >= at_s - 1e-9] = times
    scaled: npt.NDArray[np.float64] = minutes / minutes.mean() * mean * factor
    return scaled


class Load:
    """Sends records ``KEY,NUMBER`` to a topic at given rates in a thread of its own.

    Numbers count from 0. Keys follow Zipf's law, or ``keys`` come in turn.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        per_second: npt.NDArray[np.float64],
        seed: int = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        self.per_second = per_second
        self._topic = topic
        self._keys = keys or _zipf_keys(seed)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 10, "log_level": 0})
        self._thread = background(self._run, "load")
        self._is_stopping = threading.Event()
        self._problem = ""
        self._acknowledged = 0
        self.began_s = 0.0
        self.began_ms = 0

    def start(self) -> None:
        """Start sending."""
        self.began_s, self.began_ms = time.monotonic(), time.time_ns() // 1_000_000
        self._thread.start()

    def stop(self) -> None:
        """Stop sending, and wait until what was sent is acknowledged."""
        self._is_stopping.set()
        self._thread.join(_FLUSH_TIMEOUT_S)

    @property
    def second(self) -> int:
        """Which second of the run it is; the length of the run when it is over."""
        return min(int(time.monotonic() - self.began_s), len(self.per_second))

    @property
    def is_over(self) -> bool:
        """Return whether everything was sent and acknowledged.

        Raises:
            SurescaleError: Kafka did not take a record.
        """
        if self._problem:
            raise SurescaleError(f"Kafka did not take the load: {self._problem}")
        return not self._thread.is_alive()

    @property
    def sent(self) -> int:
        """Records that Kafka has acknowledged."""
        return self._acknowledged

    def _run(self) -> None:
        due = np.concatenate([[0.0], np.cumsum(self.per_second)])
        number = 0
        while not self._is_stopping.is_set():
            at_s = min(time.monotonic() - self.began_s, float(len(self.per_second)))
            wanted = int(np.interp(at_s, np.arange(len(due)), due))
            while number < wanted:
                key = self._keys[number % len(self._keys)]
                self._producer.produce(self._topic, f"{key},{number}", on_delivery=self._delivered)
                number += 1
            self._producer.poll(0)
            if at_s >= len(self.per_second):
                break
            self._is_stopping.wait(_TICK_S)
        if self._producer.flush(_FLUSH_TIMEOUT_S):
            self._problem = self._problem or f"no answer within {_FLUSH_TIMEOUT_S:.0f} s"

    def _delivered(self, error: Any, _record: Any) -> None:
        if error is None:
            self._acknowledged += 1
        else:
            self._problem = str(error)


def _zipf_keys(seed: int) -> list[str]:
    weights = np.arange(1, KEYS + 1, dtype=np.float64) ** -ZIPF_EXPONENT
    drawn = np.random.default_rng(seed).choice(KEYS, size=_KEYS_DRAWN, p=weights / weights.sum())
    return [f"k{number}" for number in drawn]
