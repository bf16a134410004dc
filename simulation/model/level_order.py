"""A job's real tasks in order of level, as slices and index tables for both fast cores. Pure.

The virtual source feeds exactly the real tasks without real parents. So tasks of the first level depend only on arrivals, and all
others only on real tasks.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from surescale.contracts.topology import levels
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.model.queueing import padded

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Column = Int64 | slice
Number = TypeVar("Number", np.float32, np.float64)


@dataclass(frozen=True, slots=True)
class LevelOrder:
    """The R = N - 2 real tasks of a job, sorted by level; positions refer to that order.

    Attributes:
        tasks: int64 [R], their index in the job.
        members: per level, the slice of its positions.
        parents: per level, columns with the positions of its tasks' parents; the first is repeated if a task has fewer. The first
            level has none. A column is a slice if possible, because a slice reads in place.
        ends: a column for each of the tasks that the sink waits for.
        service_minutes: float64 [R, 1].
    """

    tasks: Int64
    members: tuple[slice, ...]
    parents: tuple[tuple[Column, ...], ...]
    ends: tuple[Column, ...]
    service_minutes: Float64

    @classmethod
    def of(cls, job: SizedJob) -> "LevelOrder":
        """Return the order of a job."""
        level = np.array(levels(job.graph.specs()))[1:-1]
        tasks = np.argsort(level, kind="stable") + 1
        position = {int(task): at for at, task in enumerate(tasks)}
        first = np.searchsorted(np.sort(level), np.unique(level))
        members = tuple(slice(int(a), int(b)) for a, b in zip(first, [*first[1:], len(tasks)], strict=True))
        upstream = [[position[parent] for parent in job.graph.upstream[task] if parent] for task in tasks]
        return cls(
            tasks=tasks,
            members=members,
            parents=tuple(_columns(upstream[part]) for part in members),
            ends=_columns([sorted(position[task] for task in job.graph.upstream[-1])]),
            service_minutes=job.service_minutes[tasks][:, None].copy(),
        )

    def latest(self, of: Float64, level: int) -> Float64:
        """Return the largest value of each task's parents, [n, ..] from values [R, ..]; do not write to it."""
        largest: Float64 = _over(np.maximum, of, self.parents[level])
        return largest

    def earliest(self, of: Float64, level: int) -> Float64:
        """Return the least value of each task's parents, [n, ..] from values [R, ..]; do not write to it."""
        least: Float64 = _over(np.minimum, of, self.parents[level])
        return least

    def at_sink(self, of: Float64) -> Float64:
        """Return the largest value among the tasks that the sink waits for, from values [R, ..]; do not write to it."""
        largest: Float64 = _over(np.maximum, of, self.ends)[0]
        return largest


def _over(extreme: np.ufunc, of: npt.NDArray[Any], columns: tuple[Column, ...]) -> npt.NDArray[Any]:
    """Return the extreme over some columns of values; for a single column it may be a view."""
    found = of[columns[0]]
    for number, column in enumerate(columns[1:]):
        found = extreme(found, of[column], out=found if number else None)  # never in place on a view
    return found


def _columns(groups: list[list[int]]) -> tuple[Column, ...]:
    return tuple(map(_column, padded(groups).T))


def _column(positions: Int64) -> Column:
    is_run = (np.diff(positions) == 1).all()
    return slice(int(positions[0]), int(positions[-1]) + 1) if is_run else np.ascontiguousarray(positions)


def in_order(parts: Float64, axis: int = 0) -> Float64:
    """Return the sum along an axis from first to last: numpy's own sum groups terms by memory layout, and so by the rows."""
    first, *others = np.moveaxis(parts, axis, 0)
    total: Float64 = first.copy()
    for part in others:
        total += part
    return total


def in_lines(of: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return a contiguous view [.., B x m] of [.., B, m], so that the column before can be added in one run.

    Column 0 has no column before it, so its result is meaningless. (Slices [.., 1:] and [.., :-1] are B runs, half as fast.)
    """
    return of.reshape(*of.shape[:-2], -1)
