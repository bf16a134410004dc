"""How far this machine's wall clock is from Kafka's. The brokers date each record, so theirs is the one clock that all roles see.

Whoever writes learns it with each acknowledgement: the record was appended after it was sent and before this is known. Whoever
reads at the end of a topic learns it with each record that comes: it was appended after the look before, which found none.
Between two of them a steady clock goes on, so a wall clock that jumps shows at once. Kafka itself is believed.
"""

import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_ANY_MS = 2**62
APART_MS = 60_000
"""A wall clock that is further from Kafka's dates nothing. The brokers of one cluster are not that far from each other."""


class Acknowledged(Protocol):
    """A record that was written, as the client reports it."""

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of its time, and the time."""

    def latency(self) -> float | None:
        """Return the seconds from sending it to this report."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Return the time of a clock that only goes forward, and also while the machine sleeps."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000


class KafkaClock:
    """What one process knows of Kafka's clock. Thread-safe; all times are milliseconds."""

    def __init__(self, wall_ms: Callable[[], int] = _wall_ms, steady_ms: Callable[[], int] = steady_ms) -> None:
        """Know nothing yet."""
        self._wall_ms, self._steady_ms = wall_ms, steady_ms
        self._lock = threading.Lock()
        self._least, self._most = -_ANY_MS, _ANY_MS  # of Kafka's time minus that of the steady clock

    def delivered(self, error: "KafkaError | None", record: Acknowledged) -> None:
        """Take note of a record; for a producer's ``on_delivery``."""
        if error is not None:
            return
        from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME  # whoever only asks for the time needs no client

        (kind, at_ms), took_s = record.timestamp(), record.latency()
        if kind == TIMESTAMP_LOG_APPEND_TIME and took_s is not None:
            self.appended(at_ms, took_s * 1000)

    def appended(self, at_ms: int, took_ms: float) -> None:
        """Take note of a record that Kafka appended at a time; it was sent ``took_ms`` ago."""
        now_ms = self._steady_ms()
        least, most = at_ms - now_ms, at_ms - now_ms + round(took_ms) + 1  # the clocks are cut to whole milliseconds
        with self._lock:
            if max(least, self._least) <= min(most, self._most):
                least, most = max(least, self._least), min(most, self._most)
            self._least, self._most = least, most

    def steady_ms(self) -> int:
        """Return the time of the steady clock, for ``read``."""
        return self._steady_ms()

    def read(self, at_ms: int, none_until_ms: int | None = None) -> None:
        """Take note of a record that somebody else wrote and Kafka appended at a time: Kafka's clock has come that far.

        So whoever reads old records learns when its own clock is behind, and not when it is ahead.

        Args:
            at_ms: Kafka's time.
            none_until_ms: by the steady clock, the last look at the end of the topic that did not find the record: it was
                appended later, so Kafka's clock had come no further by then. A broker that was away makes an old record look
                new; then it says less than what is known already, and counts for nothing.
        """
        least = at_ms - self._steady_ms()
        with self._lock:
            if least > self._most:
                self._most = _ANY_MS
            self._least = max(self._least, least)
            if none_until_ms is not None and (most := at_ms - none_until_ms + 1) >= self._least:
                self._most = min(self._most, most)

    def ahead_ms(self) -> int:
        """Return by how much at least this machine's clock is ahead of Kafka's, negative if it is behind; 0 if nobody knows."""
        differs_ms = self._wall_ms() - self._steady_ms()
        with self._lock:
            return max(0, differs_ms - self._most) + min(0, differs_ms - self._least)

    def now_ms(self, apart_ms: int = APART_MS) -> int:
        """Return the wall's time; Kafka's where this machine's clock is further apart from it than this."""
        ahead_ms = self.ahead_ms()
        return self._wall_ms() - (ahead_ms if abs(ahead_ms) > apart_ms else 0)

    @property
    def is_known(self) -> bool:
        """Say whether Kafka's time is known as well as any answer here needs it."""
        with self._lock:
            return self._most - self._least <= APART_MS

    def apart_in_words(self, apart_ms: int = APART_MS) -> str:
        """Return whose clock is apart, and what to do; empty if it is not further apart than this.

        >>> KafkaClock().apart_in_words()
        ''
        """
        ahead_ms = self.ahead_ms()
        if abs(ahead_ms) <= apart_ms:
            return ""
        where = "ahead of" if ahead_ms > 0 else "behind"
        return f"the clock of {socket.gethostname()} is {how_long(abs(ahead_ms))} {where} Kafka's; set it right (NTP)"


def how_long(ms: int) -> str:
    """Return a length of time for people.

    >>> how_long(3_400), how_long(30 * 60_000), how_long(26 * 3_600_000)
    ('3 s', '30 min', '26 h')
    """
    if ms < 120_000:
        return f"{ms / 1000:.0f} s"
    return f"{ms / 60_000:.0f} min" if ms < 3 * 3_600_000 else f"{ms / 3_600_000:.0f} h"


KAFKA_CLOCK = KafkaClock()
"""Of this process."""


def wall_ms() -> int:
    """Return the wall's time in milliseconds, by Kafka's clock where this machine's is known to be apart from it."""
    return KAFKA_CLOCK.now_ms()
