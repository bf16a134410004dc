"""How a job did in the newest minute of a window, in the few figures that people ask for first. Pure.

``TaskMinutes`` has them by task, in columns, since the names of the figures would take more room than the figures.
"""

import math
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec import Meta

from contracts.clock import MINUTE_MS
from contracts.messages import Count, JobTopology, Text
from contracts.windows import FIGURE, Float32, Window

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
    ran: Column = ()  # share of the time in which its subtasks ran: busy, idle or held back; empty: of an earlier version
    records: Column  # taken in this minute
    tasks: Annotated[tuple[Text, ...], Meta(max_length=10_000)]
    utilisation: Column  # share of the time in which its subtasks were busy, 0 to 1

    def __post_init__(self) -> None:
        """Refuse columns of unequal length."""
        columns = (self.backlog, self.backpressured, self.latency_ms, self.parallelism, self.records, self.utilisation)
        if any(len(column) != len(self.tasks) for column in columns) or len(self.ran) not in (0, len(self.tasks)):
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
    ran = [share for share, spec in zip(tasks.ran, topology.tasks, strict=False) if spec.scalable and share is not None]
    return JobMinute(
        backlog=_rounded(math.fsum(waiting)) if waiting else None,
        latency_ms=_slowest_path_ms(tasks.latency_ms, topology),
        overloaded=sum(_is_overloaded(tasks, at) for at, spec in enumerate(topology.tasks) if spec.scalable),
        parallelism=round(sum(sizes)) if sizes else None,
        ran=_rounded(math.fsum(ran) / len(ran)) if ran else None,
        utilisation=max(worked, default=None),
    )


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
