"""What most readers of a window ask for, without its figures: a small document that travels as a header beside the window.

A reader that has it need not unpack the figures, which takes many times as long. The window itself stays the truth: a record
without the header is summed up from its figures, to the same bytes.
"""

import math

import msgspec

from contracts.messages import Count, Identity, Share, TimeMs
from contracts.windows import Window, source_load
from contracts.wire import decode

SUMMARY_HEADER = "summary"

_encoder = msgspec.json.Encoder(order="sorted")


class WindowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A window's identity, how much of it is known, the load of its newest minute, and what was counted in that minute."""

    window_id: Identity
    window_end_ms: TimeMs
    window_minutes: Count
    completeness: Share
    minutes_known: Count
    tasks: Count
    load_records_per_minute: float | None  # None when no source reported
    samples: Count
    late: Count
    duplicates: Count
    closed_append_ms: TimeMs | None
    reached_wall_ms: TimeMs | None


def summary_of(window: Window) -> WindowSummary:
    """Sum a window up."""
    is_reported = window.reported[-1]
    newest = {
        spec.task: window.figures[-1, index]
        for index, spec in enumerate(window.topology.tasks)
        if not spec.upstream and is_reported[index]
    }
    load = source_load(newest, window.topology)
    return WindowSummary(
        window_id=window.id,
        window_end_ms=window.window_end_ms,
        window_minutes=window.window_minutes,
        completeness=window.completeness,
        minutes_known=window.minutes_known,
        tasks=len(window.topology.tasks),
        load_records_per_minute=None if math.isnan(load) else load,
        samples=window.counts.samples,
        late=window.counts.late,
        duplicates=window.counts.duplicates,
        closed_append_ms=window.closed_append_ms,
        reached_wall_ms=window.reached_wall_ms,
    )


def encode_summary(summary: WindowSummary) -> bytes:
    """Return the summary's bytes; the same summary gives the same bytes."""
    return _encoder.encode(summary)


def decode_summary(raw: bytes) -> WindowSummary:
    """Parse a summary.

    Raises:
        RecordRejected: it does not parse or validate.
    """
    return decode(raw, WindowSummary)
