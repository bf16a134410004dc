"""Sums a window up. Apart from the summary itself (`contracts.summaries`), which can be read without the figures and numpy."""

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology
from surescale.contracts.rent import slots_configured
from surescale.contracts.source_load import SourceMinute, source_loads
from surescale.contracts.summaries import JobMinute, SummaryHeader, TaskMinutes, WindowSummary
from surescale.contracts.topology import RESTING, longest_paths, slots_needed
from surescale.contracts.windows import FIGURE, Float32, Window

Float64 = npt.NDArray[np.float64]

BUSY_FROM = 0.99
"""A task whose subtasks are busy for this share of their time has nothing left."""
WAITING_MINUTES_MAX = 2.0
"""A task with more of its own work waiting is overloaded; as in ``TaskDecision.overloaded``."""
RUNNING = [FIGURE[name] for name in ("busy_ms", "idle_ms", "backpressured_ms")]
"""An engine accounts for all the time in which a subtask runs."""
RESTARTS_MINUTES = 10


def task_minutes(windows: Sequence[Window]) -> list[TaskMinutes]:
    """Return each window's newest minute by task. All are computed in one go: NumPy's calls cost more than the work on one."""
    newest = np.concatenate([window.figures[-1] for window in windows]).astype(np.float64)
    subtasks = newest[:, FIGURE["parallelism"]]
    whole_ms = np.where(subtasks > 0, subtasks, np.nan) * MINUTE_MS * newest[:, FIGURE["coverage"]]
    records = newest[:, FIGURE["records_in"]]
    with np.errstate(divide="ignore", invalid="ignore"):
        busy = np.clip(newest[:, FIGURE["busy_ms"]] / whole_ms, 0.0, 1.0)
        held = np.clip(newest[:, FIGURE["backpressured_ms"]] / whole_ms, 0.0, 1.0)
        ran = np.clip(newest[:, RUNNING].sum(axis=1) / whole_ms, 0.0, 1.0)
        latency_ms = np.where(records > 0, newest[:, FIGURE["latency_record_ms"]] / records, np.nan)
    columns = {
        "parallelism": subtasks,
        "ran": ran,
        "utilisation": busy,
        "backpressured": held,
        "records": records,
        "backlog": newest[:, FIGURE["queued_records_last"]],
        "latency_ms": latency_ms,
    }
    known = dict(zip(columns, _known(np.stack(list(columns.values()))), strict=True))
    edges = pairwise(accumulate((len(window.topology.tasks) for window in windows), initial=0))
    return [
        TaskMinutes(
            tasks=tuple([spec.task for spec in window.topology.tasks]),
            **{name: tuple(column[begin:end]) for name, column in known.items()},
        )
        for window, (begin, end) in zip(windows, edges, strict=True)
    ]


def job_minute(tasks: TaskMinutes, topology: JobTopology) -> JobMinute:
    """Return the same minute of the whole job."""
    sizes = [size for size, spec in zip(tasks.parallelism, topology.tasks, strict=True) if spec.scalable and size is not None]
    worked = [busy for busy, spec in zip(tasks.utilisation, topology.tasks, strict=True) if spec.scalable and busy is not None]
    waiting = [records for records in tasks.backlog if records is not None]
    ran = [share for share, spec in zip(tasks.ran, topology.tasks, strict=True) if spec.scalable and share is not None]
    return JobMinute(
        backlog=_rounded(math.fsum(waiting)) if waiting else None,
        latency_ms=_slowest_path_ms(tasks.latency_ms, topology),
        overloaded=_overloaded(tasks, topology),
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


def _overloaded(tasks: TaskMinutes, topology: JobTopology) -> int:
    figures = zip(topology.tasks, tasks.utilisation, tasks.backlog, tasks.records, strict=True)
    return sum(
        (busy is not None and busy >= BUSY_FROM)
        or (waiting is not None and taken is not None and waiting > WAITING_MINUTES_MAX * taken)
        for spec, busy, waiting, taken in figures
        if spec.scalable
    )


def _slowest_path_ms(latency_ms: Sequence[float | None], topology: JobTopology) -> float | None:
    """Return the longest sum along the graph's edges; a task without records adds nothing."""
    if all(each is None for each in latency_ms):
        return None
    return _rounded(max(longest_paths([each or 0.0 for each in latency_ms], topology.tasks)))


def _known(values: Float64) -> list[list[float | None]]:
    """Return the rows of figures [.., n]: rounded, none below 0, None where unknown."""
    known = _all_rounded(np.where(np.isfinite(values), np.maximum(values, 0.0), np.nan))
    rows: list[list[float | None]] = known.tolist()
    for at in np.flatnonzero(np.isnan(known).any(axis=1)).tolist():
        rows[at] = [None if value != value else value for value in rows[at]]
    return rows


def _rounded(value: float) -> float:
    """Return a figure with four significant digits: for people, and so that a thousand tasks stay small."""
    return float(f"{value:.4g}")


_TENS = np.array([float(f"1e{digits}") for digits in range(23)])  # larger powers are no exact numbers


def _all_rounded(values: Float64) -> Float64:
    """Return figures [..], none below 0, each as ``_rounded`` does it.

    A whole number times or by an exact power of ten is the number nearest to those digits. Only what lies near the middle of two
    roundings is rounded by its digits.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = 3.0 - np.floor(np.log10(values))
        is_plain = np.abs(shift) < len(_TENS)  # False where 0 or unknown
        shift = np.where(is_plain, shift, 0.0).astype(np.int64)
        up, down = _TENS[np.maximum(shift, 0)], _TENS[np.maximum(-shift, 0)]
        scaled = values * up / down
        is_plain &= (scaled >= 1000.0) & (scaled < 10_000.0) & (np.abs(scaled % 1.0 - 0.5) > 1e-6)
    rounded: Float64 = np.where(is_plain, np.rint(scaled) / up * down, values)
    by_digits = ~is_plain & (values > 0.0)
    rounded[by_digits] = [_rounded(value) for value in values[by_digits].tolist()]
    return rounded


def header_of(window: Window) -> SummaryHeader:
    """Return what a window's header carries."""
    return headers_of([window])[0]


def headers_of(windows: Sequence[Window]) -> list[SummaryHeader]:
    """Return what the headers of windows carry; of many, in a fraction of the time that one after the other would take."""
    if not windows:
        return []
    loads = source_loads([_sources_of(window) for window in windows])
    return [
        SummaryHeader(summary=_summary_of(window, tasks, load), tasks=tasks)
        for window, tasks, load in zip(windows, task_minutes(windows), loads, strict=True)
    ]


def _sources_of(window: Window) -> SourceMinute:
    """Return the newest minute of the sources that reported in it."""
    tasks = window.topology.tasks
    sources = [at for at, spec in enumerate(tasks) if not spec.upstream]
    newest = window.figures[-1, sources]
    queued = window.figures[-2, sources, FIGURE["queued_records_last"]] if window.window_minutes > 1 else newest[:, 0] * np.nan
    is_part = np.array([bool(tasks[at].backlog_partly_unknown) for at in sources], dtype=np.bool_)
    is_reported = ~np.isnan(newest[:, FIGURE["coverage"]])
    if is_reported.all():
        return SourceMinute(newest, queued, is_part)
    return SourceMinute(newest[is_reported], queued[is_reported], is_part[is_reported])


def _summary_of(window: Window, by_task: TaskMinutes, load: float) -> WindowSummary:
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
    if not began.any():
        return 0
    sizes = lately[..., FIGURE["parallelism"]]
    return int((began & ~_changed(sizes[:-1], sizes[1:])).sum())


def _changed(before: Float32, after: Float32) -> npt.NDArray[np.bool_]:
    """Return [M], whether any task of the minutes [M, N] had another size in the minute before."""
    differs: npt.NDArray[np.bool_] = ((before != after) & (before > 0) & (after > 0)).any(axis=-1)  # False where unknown
    return differs
