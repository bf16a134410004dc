"""What a stretch of a recording says about each task: service time, how it wanders, visits, the hottest key's share. Pure."""

from dataclasses import dataclass

import numpy as np

from contracts.clock import MINUTE_MS
from policies.dealt import carried
from policies.measure import measure
from simulation.calibration.drift import ServiceDrift, fit_drift
from simulation.calibration.recorded import CalibrationError, Float64, Recorded

UNEVEN_LEAST = 1.05  # the busiest subtask over the mean; less is ordinary unevenness
_ATTEMPT_MINUTES_LEAST = 5  # telling ones, of an attempt that says how keys fall


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """Figures of N tasks.

    Attributes:
        level: float64 [N], log of the busy minutes per record, its median over minutes; -inf for a task that takes no time.
        drift: how that log varies from its level.
        visits: float64 [N], records that reach the task per record that comes to the job.
        hot_share: float64 [N], share of its work on its hottest key.
        load: float64 [T], records that came to the job per minute.
    """

    level: Float64
    drift: ServiceDrift
    visits: Float64
    hot_share: Float64
    load: Float64


def task_figures(recorded: Recorded) -> TaskFigures:
    """Return the figures of a stretch.

    Raises:
        CalibrationError: a task that works has no busy time, or what reaches it is unknown.
    """
    wanders = fit_drift(service_logs(recorded))
    level = np.where(np.isnan(wanders.level), _coarse_level(recorded), wanders.level)
    measured = measure(recorded.figures, recorded.graph)
    unknown = np.isnan(measured.visits) & np.isfinite(level)
    if unknown.any():
        raise CalibrationError(
            f"{recorded.job}: it is unknown how many records reach task {recorded.topology.tasks[int(unknown.argmax())].task!r}, "
            "since a source before it never reported; record while all sources report"
        )
    return TaskFigures(level, wanders, np.nan_to_num(measured.visits), hot_shares(recorded), measured.load)


def service_logs(recorded: Recorded) -> Float64:
    """Return the log of busy minutes per record [T, N], NaN in minutes that do not tell it."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(recorded.figure("busy_ms") / MINUTE_MS / recorded.processed())
    told: Float64 = np.where(recorded.telling(), logs, np.nan)
    return told


def hot_shares(recorded: Recorded) -> Float64:
    """Return the share [N] of each task's work on its hottest key; at p subtasks the busiest has 1 + h (p - 1) times the mean.

    Where partitions or key groups are dealt out, the fullest subtask has more than the mean without any hot key: only what is
    beyond that counts.
    Wide attempts tell more than narrow ones, and weigh more. A share that would make no more than ordinary unevenness at the
    widest one counts as none.
    """
    parts = uneven_parts(recorded)
    peak, usual, beside = parts.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(beside > 0, (peak - usual) / beside, 0.0)
        others = np.where(parts[:, 1] > 0, parts[:, 2] / parts[:, 1], 0.0).max(axis=0)  # p - 1 where work divides
    found: Float64 = np.where(1.0 + share * others >= UNEVEN_LEAST, np.clip(share, 0.0, 0.999), 0.0)
    return found


def uneven_parts(recorded: Recorded) -> Float64:
    """Return [A, 3, N] per attempt: p times the busy time of the busiest subtask, that of the fullest by the deal, and the rest.

    Where work divides, the second is the busy time. The rest is up to p times the busy time: what a hot key can add.
    """
    busy, subtasks = recorded.figure("busy_ms"), recorded.figure("parallelism")
    peak = recorded.figure("busy_ms_max") * subtasks
    with np.errstate(divide="ignore", invalid="ignore"):
        fair = subtasks / carried(subtasks, recorded.graph.dealt)
    told = recorded.telling() & ~np.isnan(peak) & (subtasks > 1)
    attempts = np.cumsum(recorded.began())
    parts = []
    for attempt in np.unique(attempts).tolist():
        counted = told & (attempts == attempt)[:, None]
        counted &= counted.sum(axis=0) >= _ATTEMPT_MINUTES_LEAST
        each = (peak, busy * fair, busy * (subtasks - fair))
        parts.append([np.where(counted, values, 0.0).sum(axis=0) for values in each])
    return np.array(parts)


def _coarse_level(recorded: Recorded) -> Float64:
    """Return the log of busy minutes per record [N] over all minutes together, for tasks that are hardly ever busy."""
    busy, records = recorded.figure("busy_ms"), recorded.processed()
    known = ~np.isnan(busy) & ~np.isnan(records) & recorded.warm()[:, None]
    silent = (np.nan_to_num(records).sum(axis=0) > 0) & recorded.graph.scalable & ~known.any(axis=0)
    if silent.any():
        raise CalibrationError(
            f"{recorded.job}: task {recorded.topology.tasks[int(silent.argmax())].task!r} has records but no busy time; "
            "without it there is no service time to fit"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        spent, done = (np.where(known, values, 0.0).sum(axis=0) for values in (busy, records))
        level: Float64 = np.where((spent > 0) & (done > 0), np.log(spent / done / MINUTE_MS), -np.inf)
    return level
