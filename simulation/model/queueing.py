"""The queueing model: records flow through a job's tasks as a fluid, in many independent environments at once.

Within a step (a quarter of a minute) arrivals are even, and a task of parallelism p serves at most p / d records a minute, where
one record takes d minutes. With K(t) = p/d * t, arrivals A(t) (the least that any parent has served) and served records D(t),
D_i(t) = K(t) + min(D_i(0), min over u <= t of (A_i(u) - K(u))).

Here the same recursion runs on *lags*: lag_i(t) = records that entered the job minus records that task i has served, so that

    lag_i(t+1) = max(lag_i(t) + entered - served at most, max over parents of lag(t+1)),

which stays bounded, is exactly 0 whenever a task keeps up, and does not depend on how calls divide time. A task's queue is its
lag minus the largest lag of its parents. Joins wait for all parents; every record of a parent reaches every child.

Not modelled: single records (``ceil`` effects of a few records), random service times, network delays; back pressure
is ``simulation.model.pressure``.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.topology import levels
from surescale.simulation.load.jobs import SizedJob

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

STEPS = 4  # in a minute
STEP_MS = MINUTE_MS // STEPS


@dataclass(frozen=True, slots=True)
class FlowTables:
    """A job's graph as index tables.

    Attributes:
        members: per level after the sources, int64 [n]: its tasks.
        parents: per level, int64 [n, P]: their parents; the first is repeated if a task has fewer than P.
        first: int64: tasks without parents.
        all_parents: int64 [N, P]: parents of every task; a task without parents is its own.
        service_minutes: float64 [N, 1].
        scalable: bool [N, 1], the real tasks.
    """

    members: tuple[Int64, ...]
    parents: tuple[Int64, ...]
    first: Int64
    all_parents: Int64
    service_minutes: Float64
    scalable: Bool

    @classmethod
    def of(cls, job: SizedJob) -> "FlowTables":
        """Return the tables of a job."""
        level = np.array(levels(job.graph.specs()))
        by_level = [np.flatnonzero(level == depth) for depth in range(1, int(level.max()) + 1)]
        return cls(
            members=tuple(by_level),
            parents=tuple(padded([job.graph.upstream[task] for task in members]) for members in by_level),
            first=np.flatnonzero(level == 0),
            all_parents=padded([parents or (task,) for task, parents in enumerate(job.graph.upstream)]),
            service_minutes=job.service_minutes[:, None].copy(),
            scalable=job.scalable[:, None].copy(),
        )


def served_at_most(tables: FlowTables, parallelism: Int64) -> Float64:
    """Return the records [N, B] that parallelism [N, B] can serve in one step; infinite where a record takes no time."""
    with np.errstate(divide="ignore"):
        most: Float64 = parallelism / (tables.service_minutes * STEPS)
    return most


def run_minute(tables: FlowTables, lag: Float64, arrivals: Float64, most: Float64, up: Float64 | None = None) -> Float64:
    """Let one minute pass.

    Args:
        tables: of the job.
        lag: float64 [N, B] at the start.
        arrivals: float64 [B], records that enter the job in this minute.
        most: float64 [N, B], ``served_at_most``.
        up: float64 [STEPS, B], share of each step in which the job runs; None: it always runs. While it is down, its real tasks
            serve nothing.

    Returns:
        float64 [STEPS + 1, N, B]: lags at the ends of the steps, after ``lag`` itself.
    """
    lags = np.zeros((STEPS + 1, *lag.shape))
    lags[0] = lag
    entered = arrivals / STEPS
    busy = np.asarray(lag.any(axis=0) | (entered > most).any(axis=0))
    if up is not None:
        busy |= (up < 1.0).any(axis=0)
    rows = np.flatnonzero(busy)  # in other rows every task keeps up and all lags stay exactly 0
    if len(rows) == len(busy):
        _run_steps(tables, lags, entered, most, up)
    elif len(rows):
        part = np.ascontiguousarray(lags[:, :, rows])
        _run_steps(tables, part, entered[rows], most[:, rows], None if up is None else up[:, rows])
        lags[:, :, rows] = part
    return lags


def queues(tables: FlowTables, lags: Float64) -> Float64:
    """Return the records waiting at each task, shaped as lags [.., N, B]; records waiting for a join count at no task."""
    waiting: Float64 = lags - largest(lags, tables.all_parents)
    return waiting


def largest(values: Float64, columns: Int64) -> Float64:
    """Return the largest [.., n, B] of the values [.., N, B] at each row of places [n, P]."""
    found: Float64 = values[..., columns[:, 0], :]
    for column in range(1, columns.shape[1]):
        np.maximum(found, values[..., columns[:, column], :], out=found)
    return found


def _run_steps(tables: FlowTables, lags: Float64, entered: Float64, most: Float64, up: Float64 | None) -> None:
    """Fill ``lags[1:]`` from ``lags[0]``."""
    running = entered - most
    for step in range(STEPS):
        change = running if up is None else _partly(tables, entered, most, running, up[step])
        grown, new = lags[step] + change, lags[step + 1]
        new[tables.first] = np.maximum(grown[tables.first], 0.0)
        for members, parents in zip(tables.members, tables.parents, strict=True):
            new[members] = np.maximum(grown[members], largest(new, parents))


def _partly(tables: FlowTables, entered: Float64, most: Float64, running: Float64, share: Float64) -> Float64:
    """Return the change of lags in a step in which the job runs only for a share [B]; source and sink are never down."""
    with np.errstate(invalid="ignore"):  # a task that takes no time: infinitely many records times zero
        part = np.where(share > 0.0, most * share, 0.0)
    slowed = np.where(tables.scalable, entered - part, -np.inf)
    change: Float64 = np.where(share < 1.0, slowed, running)
    return change


def padded(groups: Iterable[Sequence[int]]) -> Int64:
    """Return groups as the rows of a table; the first of a group is repeated until it is as long as the longest."""
    rows = [list(group) for group in groups]
    width = max(map(len, rows))
    return np.array([row + row[:1] * (width - len(row)) for row in rows], dtype=np.int64)
