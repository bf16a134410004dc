"""The road's clock: one per road, in integer milliseconds, carried by the topic ``clock``.

A simulated engine owns it and publishes segments; a live road has none and the clock is the wall clock.
"""

from dataclasses import dataclass
from typing import Protocol

from contracts.messages import ClockSegment

MINUTE_MS = 60_000


class Clock(Protocol):
    """What control logic is given instead of a wall clock."""

    def now_ms(self) -> int:
        """Return the current time of the road in milliseconds since the epoch."""
        ...


@dataclass(slots=True)
class ManualClock:
    """A clock that moves only when told to: an hour of cooldown passes in no time."""

    at_ms: int = 0

    def now_ms(self) -> int:
        """Return the time it was last set to."""
        return self.at_ms

    def advance(self, by_ms: int) -> int:
        """Move forward and return the new time."""
        assert by_ms >= 0, "the road's clock never goes back"
        self.at_ms += by_ms
        return self.at_ms


def road_time_ms(segment: ClockSegment | None, wall_ms: int) -> int:
    """Event time at a wall time: ``min(e0 + speed * (wall - w0), until)``; the wall time itself without a segment."""
    if segment is None:
        return wall_ms
    elapsed_ms = max(0, wall_ms - segment.w0_ms)
    return min(segment.e0_ms + int(segment.speed * elapsed_ms), segment.until_ms)


def wall_time_ms(segment: ClockSegment | None, event_ms: int) -> int:
    """Wall time at which the road's clock reaches an event time (inverse of ``road_time_ms`` below ``until``)."""
    if segment is None:
        return event_ms
    return segment.w0_ms + int((event_ms - segment.e0_ms) / segment.speed)


def minute_end_ms(at_ms: int) -> int:
    """End of the minute that an instant belongs to; a sample taken exactly at a minute's end belongs to that minute."""
    return -(-at_ms // MINUTE_MS) * MINUTE_MS
