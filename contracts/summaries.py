"""The summary of a window: a small document that travels as a record header, for readers that do not need the figures.

Unpacking the figures takes many times as long as reading the header. The window stays the truth: without the header, the same
summary is computed from its figures, to the same bytes.

``JobMinute`` has the few figures that people ask for first of the window's newest minute. ``TaskMinutes`` has them by task, in
columns, since the names of the figures would take more room than the figures.
"""

import math
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import Count, Identity, JobTopology, Share, Text, TimeMs
from surescale.contracts.rent import slots_configured
from surescale.contracts.source_load import source_load
from surescale.contracts.topology import RESTING, slots_needed
from surescale.contracts.windows import FIGURE, Float32, Window
from surescale.contracts.wire import decode, encode

BUSY_FROM = 0.99
"""A task whose subtasks are busy for this share of their time has nothing left."""
WAITING_MINUTES_MAX = 2.0
"""A task with more of its own work waiting is overloaded; as in ``TaskDecision.overloaded``."""
RUNNING = [FIGURE[name] for name in ("busy_ms", "idle_ms", "backpressured_ms")]
"""An engine accounts for all the time in which a subtask runs."""

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


def task_minutes(window: Window) -> TaskMinutes:
    """Return the window's newest minute by task."""
    newest = window.figures[-1].astype(np.float64)
    subtasks = newest[:, FIGURE["parallelism"]]
    whole_ms = np.where(subtasks > 0, subtasks, np.nan) * MINUTE_MS * newest[:, FIGURE["coverage"]]
    records = newest[:, FIGURE["records_in"]]
    with np.errstate(divide="ignore", invalid="ignore"):
        busy = np.clip(newest[:, FIGURE["busy_ms"]] / whole_ms, 0.0, 1.0)
        held = np.clip(newest[:, FIGURE["backpressured_ms"]] / whole_ms, 0.0, 1.0)
        ran = np.clip(newest[:, RUNNING].sum(axis=1) / whole_ms, 0.0, 1.0)
        latency_ms = np.where(records > 0, newest[:, FIGURE["latency_record_ms"]] / records, np.nan)
    return TaskMinutes(
        tasks=tuple(spec.task for spec in window.topology.tasks),
        parallelism=_column(subtasks),
        ran=_column(ran),
        utilisation=_column(busy),
        backpressured=_column(held),
        records=_column(records),
        backlog=_column(newest[:, FIGURE["queued_records_last"]]),
        latency_ms=_column(latency_ms),
    )


def job_minute(tasks: TaskMinutes, topology: JobTopology) -> JobMinute:
    """Return the same minute of the whole job."""
    sizes = [size for size, spec in zip(tasks.parallelism, topology.tasks, strict=True) if spec.scalable and size is not None]
    worked = [busy for busy, spec in zip(tasks.utilisation, topology.tasks, strict=True) if spec.scalable and busy is not None]
    waiting = [records for records in tasks.backlog if records is not None]
    ran = [share for share, spec in zip(tasks.ran, topology.tasks, strict=True) if spec.scalable and share is not None]
    return JobMinute(
        backlog=_rounded(math.fsum(waiting)) if waiting else None,
        latency_ms=_slowest_path_ms(tasks.latency_ms, topology),
        overloaded=sum(_is_overloaded(tasks, at) for at, spec in enumerate(topology.tasks) if spec.scalable),
        parallelism=round(sum(sizes)) if sizes else None,
        ran=_rounded(math.fsum(ran) / len(ran)) if ran else None,
        slots=_slots(tasks, topology),
        slots_configured=slots_configured(topology),
        utilisation=max(worked, default=None),
    )


def _slots(tasks: TaskMinutes, topology: JobTopology) -> int | None:
    """Return what the sizes of the minute need; None where one is unknown. A task that has finished needs none."""
    if topology.state == RESTING:
        return 0
    running = [spec for spec in topology.tasks if spec.state != "finished"]
    sizes = dict(zip(tasks.tasks, tasks.parallelism, strict=True))
    known = {spec.task: round(size) for spec in running if (size := sizes.get(spec.task)) is not None}
    return slots_needed(running, known) if len(known) == len(running) else None


def _is_overloaded(tasks: TaskMinutes, at: int) -> bool:
    busy, waiting, taken = tasks.utilisation[at], tasks.backlog[at], tasks.records[at]
    return (busy is not None and busy >= BUSY_FROM) or (
        waiting is not None and taken is not None and waiting > WAITING_MINUTES_MAX * taken
    )


def _slowest_path_ms(latency_ms: Sequence[float | None], topology: JobTopology) -> float | None:
    """Return the longest sum along the graph's edges; a task without records adds nothing."""
    if all(each is None for each in latency_ms):
        return None
    own_ms = {spec.task: each or 0.0 for spec, each in zip(topology.tasks, latency_ms, strict=True)}
    upstream = {spec.task: tuple(task for task in spec.upstream if task in own_ms) for spec in topology.tasks}
    reached: dict[str, float] = {}
    waiting = list(own_ms)
    while waiting:  # the graph has no cycle (`contracts.topology`); tasks may come in any order
        task = waiting[-1]
        missing = [each for each in upstream[task] if each not in reached]
        if missing:
            waiting += missing
            continue
        waiting.pop()
        reached[task] = own_ms[task] + max((reached[each] for each in upstream[task]), default=0.0)
    return _rounded(max(reached.values()))


def _column(values: npt.NDArray[np.float64] | Float32) -> tuple[float | None, ...]:
    known = np.where(np.isfinite(values), np.maximum(values, 0.0), np.nan).tolist()
    return tuple([None if math.isnan(value) else _rounded(value) for value in known])


def _rounded(value: float) -> float:
    """Return a figure with four significant digits: for people, and so that a thousand tasks stay small."""
    return float(f"{value:.4g}")


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
    minute: JobMinute  # how the newest minute went
    restarts: Count  # of its last ten minutes: in which an attempt began although no task changed its size


class SummaryHeader(msgspec.Struct, frozen=True, kw_only=True):
    """What the header carries: the summary, and the newest minute task by task."""

    summary: WindowSummary
    tasks: TaskMinutes


def header_of(window: Window) -> SummaryHeader:
    """Return what a window's header carries."""
    tasks = task_minutes(window)
    return SummaryHeader(summary=_summary_of(window, tasks), tasks=tasks)


def _summary_of(window: Window, by_task: TaskMinutes) -> WindowSummary:
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


def encode_header(header: SummaryHeader) -> bytes:
    """Return the header's bytes; the same window gives the same bytes."""
    return encode(header)


def decode_header(raw: bytes) -> SummaryHeader:
    """Parse a header.

    Raises:
        RecordRejected: it does not parse or validate.
    """
    return decode(raw, SummaryHeader)
