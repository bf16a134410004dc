"""The summary of a window: a small document that travels as a record header, for readers that do not need the figures.

Unpacking the figures takes many times as long as reading the summary. The window stays the truth: without the header, the same
summary is computed from its figures, to the same bytes.
"""

import math

import msgspec
import numpy as np
import numpy.typing as npt

from contracts.messages import Count, Identity, Share, TimeMs
from contracts.minute_figures import JobMinute, TaskMinutes, job_minute, task_minutes
from contracts.source_load import source_load
from contracts.windows import FIGURE, Float32, Window
from contracts.wire import decode, encode

SUMMARY_HEADER = "summary"
RESTARTS_MINUTES = 10


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
    minute: JobMinute | None = None  # how the newest minute went; null: an older version wrote the summary
    minute_by_task: TaskMinutes | msgspec.UnsetType = msgspec.UNSET  # in the header alone
    restarts: Count = 0  # of its last ten minutes: in which an attempt began although no task changed its size


def summary_of(window: Window) -> WindowSummary:
    """Return the summary of a window."""
    is_reported = window.reported[-1]
    newest = {
        spec.task: window.figures[-1, index]
        for index, spec in enumerate(window.topology.tasks)
        if not spec.upstream and is_reported[index]
    }
    earlier = (
        dict(zip((spec.task for spec in window.topology.tasks), window.figures[-2], strict=True))
        if window.window_minutes > 1
        else {}
    )
    load = source_load(newest, window.topology, earlier)
    by_task = task_minutes(window)
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
        minute=job_minute(by_task, window.topology),
        minute_by_task=by_task,
        restarts=_restarts(window.figures),
    )


def _restarts(figures: Float32) -> int:
    """Return in how many of the last ten minutes the job restarted at the size it had: a rescale is no restart."""
    lately = figures[-RESTARTS_MINUTES - 1 :]
    began = (lately[1:, :, FIGURE["restarts"]] > 0).any(axis=-1)  # False where unknown
    sizes = lately[..., FIGURE["parallelism"]]
    return int((began & ~_changed(sizes[:-1], sizes[1:])).sum())


def _changed(before: Float32, after: Float32) -> npt.NDArray[np.bool_]:
    """Return [M], whether any task of the minutes [M, N] had another size in the minute before."""
    differs: npt.NDArray[np.bool_] = ((before != after) & (before > 0) & (after > 0)).any(axis=-1)  # False where unknown
    return differs


def encode_summary(summary: WindowSummary) -> bytes:
    """Return the summary's bytes; the same summary gives the same bytes."""
    return encode(summary)


def decode_summary(raw: bytes) -> WindowSummary:
    """Parse a summary.

    Raises:
        RecordRejected: it does not parse or validate.
    """
    return decode(raw, WindowSummary)
