"""The pipeline's clock: one per pipeline, in integer milliseconds, carried by the topic ``clock``.

A simulated engine owns it and publishes segments. A live pipeline has no segments, and its clock is the wall clock.
"""

from surescale.contracts.messages import ClockSegment

MINUTE_MS = 60_000


def pipeline_time_ms(segment: ClockSegment | None, wall_ms: int) -> int:
    """Return the event time at a wall time: ``min(e0 + speed * (wall - w0), until)``; the wall time itself without a segment."""
    if segment is None:
        return wall_ms
    elapsed_ms = max(0, wall_ms - segment.w0_ms)
    return min(segment.e0_ms + int(segment.speed * elapsed_ms), segment.until_ms)


def wall_time_ms(segment: ClockSegment | None, event_ms: int) -> int:
    """Return the wall time when the pipeline's clock reaches an event time; inverse of ``pipeline_time_ms`` below ``until``."""
    if segment is None:
        return event_ms
    return segment.w0_ms + int((event_ms - segment.e0_ms) / segment.speed)


def minute_end_ms(at_ms: int) -> int:
    """Return the end of the minute an instant belongs to; a sample taken exactly at a minute's end belongs to that minute."""
    return -(-at_ms // MINUTE_MS) * MINUTE_MS
