"""How much raw counters grew from look to look: resets are seen, the figures of another replica are not taken for one. Pure."""

from dataclasses import dataclass

from surescale.engines.prometheus.readings import Reading

WOBBLE_MS = 1_000.0
"""A time that falls by no more than this has not started over: Flink computes busy time as a remainder, and it wobbles."""
FORGOTTEN_MS = 3_600_000
"""A series that was away for longer counts from where it comes back."""


@dataclass(slots=True)
class Counter:
    """One series. ``value`` and ``at_ms`` are of its newest scrape that was counted."""

    value: float
    at_ms: int

    def grown(self, reading: Reading, *, is_time: bool, is_offset: bool, is_other: bool) -> tuple[float, bool]:
        """Return by how much it grew since it was last counted, and whether it started over.

        Args:
            reading: what Prometheus shows now; its value is known.
            is_time: it counts milliseconds.
            is_offset: it is a position, which somebody may set back; then nothing was done.
            is_other: another replica was asked before, which may have scraped later without saying so.
        """
        assert reading.value is not None, "an unknown value says nothing about growth"
        if reading.at_ms <= self.at_ms:
            return 0.0, False  # the same scrape, or an earlier one that another replica made
        before, self.at_ms = self.value, reading.at_ms
        if reading.value >= before:
            self.value = reading.value
            return reading.value - before, False
        if is_other or (is_time and before - reading.value <= WOBBLE_MS):
            return 0.0, False  # the higher value stays, so that nothing is counted twice
        self.value = reading.value
        return (0.0, False) if is_offset else (reading.value, True)
