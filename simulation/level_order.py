"""A job's real tasks in order of level, as slices and index tables: what both fast cores run along. Pure, knows no load.

Every real task without parents of its own reads from the virtual source, and no other task does; so the first level's tasks
depend on the arrivals alone, and those behind them on real tasks alone.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts.topology import levels
from simulation.jobs import SizedJob

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LevelOrder:
    """The R = N - 2 real tasks of a job, sorted by level; positions count in that order.

    Attributes:
        tasks: int64 [R], their index in the job.
        members: per level, the slice of its positions.
        parents: per level, columns of int64 [n]: positions of their parents, the first repeated where a task has fewer; none for
            the first level.
        ends: int64, positions of the tasks that the sink waits for.
        service_minutes: float64 [R, 1].
    """

    tasks: Int64
    members: tuple[slice, ...]
    parents: tuple[tuple[Int64, ...], ...]
    ends: Int64
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
            ends=np.array(sorted(position[task] for task in job.graph.upstream[-1]), dtype=np.int64),
            service_minutes=job.service_minutes[tasks][:, None].copy(),
        )

    def latest(self, of: Float64, level: int) -> Float64:
        """Return the largest value of each task's parents, from values [R, ..]: a fresh array [n, ..], for later levels."""
        first, *others = self.parents[level]
        largest: Float64 = of[first]
        for column in others:
            np.maximum(largest, of[column], out=largest)
        return largest

    def earliest(self, of: Int64, level: int) -> Int64:
        """Return the least value of each task's parents, from whole values [R, ..]: a fresh array [n, ..]."""
        first, *others = self.parents[level]
        least: Int64 = of[first]
        for column in others:
            np.minimum(least, of[column], out=least)
        return least

    def at_sink(self, of: Float64) -> Float64:
        """Return the largest value among the tasks that the sink waits for, from values [R, ..]."""
        largest: Float64 = of[self.ends].max(axis=0)
        return largest


def _columns(groups: list[list[int]]) -> tuple[Int64, ...]:
    width = max(len(group) for group in groups)
    padded = np.array([group + group[:1] * (width - len(group)) for group in groups], dtype=np.int64)
    return tuple(np.ascontiguousarray(padded[:, at]) for at in range(width))


def in_order(parts: Float64) -> Float64:
    """Sum along axis 0 from first to last: numpy's own sum groups terms by memory layout, and so by the number of rows."""
    total: Float64 = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total
