"""Turns an expected load into wanted parallelism, and says whether the change is worth a restart. Used by several rules."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from surescale.policies.answer import Float64
from surescale.policies.dealt import carried, lasting, most_carried, needed
from surescale.policies.graph import Bool, Int64, JobGraph
from surescale.policies.measure import Measured

TARGET_MAX = 1e9  # subtasks, far beyond any bound; a broken counter could ask for more than an integer holds


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of the sizing, calibrated once, on the training week, for all jobs together."""

    utilisation: Annotated[float, Meta(gt=0.0)]  # how busy a task should be under the expected load
    catch_up_minutes: Annotated[float, Meta(gt=0.0)]  # time to drain the backlog
    need: float  # restart when a task needs more than (1 + need) times its subtasks
    saving: float  # restart when more than this share of all subtasks is not needed
    backlog_minutes: float  # restart when a task that wants more has this much backlog


CALIBRATED = Sizing(utilisation=0.75, catch_up_minutes=30.0, need=0.27, saving=0.14, backlog_minutes=1.0)
"""Of the rule ``target-utilisation``: on ClarkNet's first week, over the training jobs."""


@dataclass(frozen=True, slots=True)
class SizingRows:
    """A sizing for each of B rows: those of tasks (``utilisation``, ``catch_up_minutes``) are [B, 1], those of the gate [B]."""

    utilisation: Float64
    catch_up_minutes: Float64
    need: Float64
    saving: Float64
    backlog_minutes: Float64

    @classmethod
    def of(cls, sizings: Sequence[Sizing], rows: int) -> "SizingRows":
        """Return the rows of several sizings, each for so many rows in a row."""
        constants = np.array([msgspec.structs.astuple(each) for each in sizings]).repeat(rows, axis=0).T
        utilisation, catch_up_minutes, *of_gate = constants
        return cls(utilisation[:, None], catch_up_minutes[:, None], *of_gate)


Constants = Sizing | SizingRows


@dataclass(frozen=True, slots=True)
class TargetSize:
    """The subtasks a load needs; leading batch axes stand for ``..``.

    Attributes:
        exact: float64 [.., N], even subtasks before rounding up; NaN for tasks whose demand is unknown and for virtual ones.
        wanted: int64 [.., N], 1 to ``TARGET_MAX``, the least that carry ``exact``; the present parallelism where that is NaN.
    """

    exact: Float64
    wanted: Int64


def exact_subtasks(
    measured: Measured, load: Float64, graph: JobGraph, sizing: Constants, target: Float64 | float | None = None
) -> Float64:
    """Return ``(rate x d + waiting x d / catch-up) / utilisation`` [.., N], widened: DS2's demand with Flink's catch-up term.

    ``target`` takes the place of the sizing's utilisation. What waits at the sources counts for every task it
    will reach. The busiest subtask has to keep up, so its share counts.
    """
    waiting = measured.waiting_records * measured.service_minutes / sizing.catch_up_minutes
    exact = measured.widened((measured.demand(load) + waiting) / (sizing.utilisation if target is None else target))
    return np.where(graph.scalable, exact, np.nan)


def target_size(exact: Float64, current: Int64, graph: JobGraph, steady: Float64 | None = None) -> TargetSize:
    """Return the whole subtasks that carry ``exact`` [.., N] even ones; a shrink leaves room for noise (``policies.dealt``).

    ``steady``: what it leaves that room above, where ``exact`` is for a load of few minutes and has most of the noise itself.
    """
    known = ~np.isnan(exact)
    asked = np.where(known, exact, 1.0)
    whole = np.clip(needed(asked, graph.deal), 1.0, TARGET_MAX)
    whole = lasting(whole, asked if steady is None else np.where(known, steady, 1.0), current, graph.deal)
    return TargetSize(exact=exact, wanted=np.where(known, whole, current).astype(np.int64))


def urgency(asked: TargetSize, current: Int64, graph: JobGraph) -> tuple[Float64, Float64]:
    """Return (need, saving), each [..]: the largest relative shortage of a task, and the share of subtasks not needed.

    What no size can carry is no shortage: a task with as many subtasks as partitions cannot be helped.
    """
    exact, have = asked.exact, carried(current, graph.deal)
    if graph.deal.any():
        exact = np.minimum(exact, most_carried(graph.deal))
    ratio = np.where(np.isnan(exact), 0.0, exact / have)
    need = ratio.max(axis=-1) - 1.0
    now = np.where(graph.scalable, current, 0).sum(axis=-1)
    want = np.where(graph.scalable, asked.wanted, 0).sum(axis=-1)
    return need, 1.0 - want / np.maximum(now, 1)


def worth_a_restart(
    asked: TargetSize,
    measured: Measured,
    current: Int64,
    graph: JobGraph,
    sizing: Constants,
    *,
    is_patient: bool = False,
) -> Bool:
    """Return [..] whether the job should change at all: a restart stops every task, so small changes are not made.

    Enough backlog at a task that wants more always opens the gate. With ``is_patient``, as after a restart, not one that the
    present size works off in the catch-up time: another restart would leave as much again.
    """
    need, saving = urgency(asked, current, graph)
    waits = asked.wanted > current
    if is_patient:
        waits &= ~(asked.exact * sizing.utilisation <= carried(current, graph.deal))  # True where NaN
    waiting = np.where(waits, measured.backlog_minutes(current), 0.0).max(axis=-1)
    opened: Bool = (need > sizing.need) | (saving > sizing.saving) | (waiting >= sizing.backlog_minutes)
    return opened
