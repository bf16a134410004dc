"""The summary of a window: a small document that travels as a record header, for readers that do not need the figures.

Unpacking the figures takes many times as long as reading the header. The window stays the truth: without the header, the same
summary is computed from its figures, to the same bytes (`contracts.summing_up`).

``JobMinute`` has the few figures that people ask for first of the window's newest minute. ``TaskMinutes`` has them by task, in
columns, since the names of the figures would take more room than the figures.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from surescale.contracts.messages import Count, Identity, Share, Text, TimeMs
from surescale.contracts.wire import decode

Known = Annotated[float, Meta(ge=0.0)] | None
Column = Annotated[tuple[Known, ...], Meta(max_length=10_000)]


class TaskMinutes(msgspec.Struct, frozen=True, kw_only=True):
    """One minute of each task, [N] each, in the order of ``tasks``; null where the engine does not know or nobody reported."""

    # In the order of the bytes.
    backlog: Column  # records waiting at the end of the minute
    backpressured: Column  # share of the time in which its subtasks were held back, 0 to 1
    latency_ms: Column  # mean time of a record at the task, waiting and in work
    parallelism: Column  # at the end of the minute
    ran: Column  # share of the time in which its subtasks ran: busy, idle or held back
    records: Column  # taken in this minute
    tasks: Annotated[tuple[Text, ...], Meta(max_length=10_000)]
    utilisation: Column  # share of the time in which its subtasks were busy, 0 to 1

    def __post_init__(self) -> None:
        """Refuse columns of unequal length."""
        columns = (
            self.backlog,
            self.backpressured,
            self.latency_ms,
            self.parallelism,
            self.ran,
            self.records,
            self.utilisation,
        )
        if any(len(column) != len(self.tasks) for column in columns):
            raise ValueError("columns of unequal length")


class JobMinute(msgspec.Struct, frozen=True, kw_only=True):
    """One minute of a whole job; null where no task knows."""

    backlog: Known = None
    """Records waiting at all tasks."""
    latency_ms: Known = None
    """Mean time from the sources to the end of the slowest path."""
    overloaded: Count = 0
    """Tasks with nothing left: always busy, or with two minutes of their work waiting."""
    parallelism: Count | None = None
    """Subtasks of all scalable tasks."""
    ran: Known = None
    """Share of the time in which its scalable tasks ran, on average: 0 while it is down."""
    slots: Count | None = None
    """Slots that it needed at the end of the minute: tasks of one sharing group share them."""
    slots_configured: Count | None = None
    """Slots that it would have needed at the size that its author configured."""
    utilisation: Known = None
    """Busy share of the busiest task."""


SUMMARY_HEADER = "summary"
_encoder = msgspec.json.Encoder(order="deterministic")


class WindowSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A window's identity, how much of it is known, and the load and counts of its newest minute."""

    # In the order of the bytes.
    closed_append_ms: TimeMs | None
    completeness: Share
    duplicates: Count
    late: Count
    load_records_per_minute: float | None  # None when no source reported
    minutes_known: Count
    reached_wall_ms: TimeMs | None
    samples: Count
    tasks: Count
    window_end_ms: TimeMs
    window_id: Identity
    window_minutes: Count
    minute: JobMinute  # how the newest minute went
    restarts: Count  # of its last ten minutes: in which an attempt began although no task changed its size


class SummaryHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What the header carries: the summary, and the newest minute task by task."""

    summary: WindowSummary
    tasks: TaskMinutes


def encode_header(header: SummaryHeader) -> bytes:
    """Return the header's bytes; the same window gives the same bytes."""
    return _encoder.encode(header)  # without a search for NaN, as `encode` does: every figure of the header may be null


def decode_header(raw: bytes) -> SummaryHeader:
    """Parse a header.

    Raises:
        RecordRejected: it does not parse or validate.
    """
    return decode(raw, SummaryHeader)
