"""Records that a consumer may not read yet: a transaction before them is still open, though its writer may have hung long ago."""

import json
import threading
import time
from typing import Any

STATISTICS_EVERY_MS = 5_000


class StableOffsetLag:
    """For how long records have waited behind the last stable offset of a partition, from the statistics of a client.

    Thread-safe. Open transactions are normal; one that holds everything back for minutes is not, and no lag shows it.
    """

    def __init__(self) -> None:
        self._since: dict[tuple[str, str], tuple[int, float]] = {}
        """Per partition where something waits, the last stable offset and since when it has stood there."""
        self._lock = threading.Lock()

    def options(self) -> dict[str, object]:
        """Return the settings of a client whose statistics are watched."""
        return {"stats_cb": self.on_statistics, "statistics.interval.ms": STATISTICS_EVERY_MS}

    def on_statistics(self, document: str) -> None:
        """Take in the statistics of a client (librdkafka's JSON); they show each partition that it reads."""
        now_s = time.monotonic()
        topics: dict[str, Any] = json.loads(document).get("topics", {})
        with self._lock:
            before, self._since = self._since, {}
            for topic, shown in topics.items():
                for partition, offsets in shown.get("partitions", {}).items():
                    stable, end = offsets.get("ls_offset", -1), offsets.get("hi_offset", -1)
                    if 0 <= stable < end:
                        was = before.get((topic, partition), (stable, now_s))
                        self._since[topic, partition] = was if was[0] == stable else (stable, now_s)

    def forget(self) -> None:
        """Forget a client that was closed."""
        with self._lock:
            self._since = {}

    def seconds(self) -> float:
        """Return the longest time; 0 while nothing is held back."""
        now_s = time.monotonic()
        with self._lock:
            return max((now_s - since_s for _, since_s in self._since.values()), default=0.0)
