"""Sums a window up. Apart from the summary itself (`contracts.summaries`), which can be read without the figures and numpy."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology
from surescale.contracts.rent import slots_configured
from surescale.contracts.source_load import source_load
from surescale.contracts.summaries import JobMinute, SummaryHeader, TaskMinutes, WindowSummary
from surescale.contracts.topology import RESTING, slots_needed
from surescale.contracts.windows import FIGURE, Float32, Window

BUSY_FROM = 0.99
"""A task whose subtasks are busy for this share of their time has nothing left."""
WAITING_MINUTES_MAX = 2.0
"""A task with more of its own work waiting is overloaded; as in ``TaskDecision.overloaded``."""
RUNNING = [FIGURE[name] for name in ("busy_ms", "idle_ms", "backpressured_ms")]
"""An engine accounts for all the time in which a subtask runs."""
RESTARTS_MINUTES = 10


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
