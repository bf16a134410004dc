"""A job's real tasks in order of level, as slices and index tables: what both fast cores run along. Pure, knows no load.

Every real task without parents of its own reads from the virtual source, and no other task does; so the first level's tasks
depend on the arrivals alone, and those behind them on real tasks alone.
"""

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from contracts.topology import levels
from simulation.jobs import SizedJob

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Column = Int64 | slice
Number = TypeVar("Number", np.float32, np.float64)


@dataclass(frozen=True, slots=True)
class LevelOrder:
    """The R = N - 2 real tasks of a job, sorted by level; positions count in that order.

    Attributes:
        tasks: int64 [R], their index in the job.
        members: per level, the slice of its positions.
        parents: per level, columns of positions of their parents, the first repeated where a task has fewer; none for the first
            level. A column is a slice where it can be: that reads in place.
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
        """Return the largest value of each task's parents, from values [R, ..]: [n, ..]; not to be written to."""
        largest: Float64 = _over(np.maximum, of, self.parents[level])
        return largest

    def earliest(self, of: Float64, level: int) -> Float64:
        """Return the least value of each task's parents, from values [R, ..]: [n, ..]; not to be written to."""
        least: Float64 = _over(np.minimum, of, self.parents[level])
        return least

    def at_sink(self, of: Float64) -> Float64:
        """Return the largest value among the tasks that the sink waits for, from values [R, ..]; not to be written to."""
        largest: Float64 = _over(np.maximum, of, self.ends)[0]
        return largest


def _over(extreme: np.ufunc, of: npt.NDArray[Any], columns: tuple[Column, ...]) -> npt.NDArray[Any]:
    """Return the extreme of some columns of values; of a single one perhaps a view."""
    found = of[columns[0]]
    for number, column in enumerate(columns[1:]):
        found = extreme(found, of[column], out=found if number else None)  # the first may be a view: only later ones in place
    return found


def _columns(groups: list[list[int]]) -> tuple[Column, ...]:
    width = max(len(group) for group in groups)
    padded = np.array([group + group[:1] * (width - len(group)) for group in groups], dtype=np.int64)
    return tuple(_column(padded[:, at]) for at in range(width))


def _column(positions: Int64) -> Column:
    is_run = (np.diff(positions) == 1).all()
    return slice(int(positions[0]), int(positions[-1]) + 1) if is_run else np.ascontiguousarray(positions)


def in_order(parts: Float64) -> Float64:
    """Sum along axis 0 from first to last: numpy's own sum groups terms by memory layout, and so by the number of rows."""
    total: Float64 = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def in_lines(of: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return a view [.., B x m] of [.., B, m] in one piece: what lies one column back can be added in one run.

    In column 0, before which nothing lies, the result means nothing. (Slices [.., 1:] and [.., :-1] are B runs: half as fast.)
    """
    return of.reshape(*of.shape[:-2], -1)
