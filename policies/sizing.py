"""From an expected load to wanted parallelism, and whether the change is worth a restart. Shared by rules and learned policy."""

from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from policies.graph import Bool, Int64, JobGraph
from policies.measure import Measured
from policies.proposal import Float64

WISH_MAX = 1e9  # subtasks, far beyond any bound; what a counter gone wild asks for would not fit a whole number
_EPSILON = 1e-9  # keeps a demand of 2.1 at 0.7 from becoming 3.0000000001 and then 4


class Sizing(msgspec.Struct, frozen=True, kw_only=True):
    """Constants of the sizing; calibrated once, on the training week, for all jobs together."""

    utilisation: Annotated[float, Meta(gt=0.0)]  # how busy a task shall be under the expected load
    catch_up_minutes: Annotated[float, Meta(gt=0.0)]  # time in which waiting work shall be gone
    need: float  # restart when some task needs more than (1 + need) times what it has
    saving: float  # restart when more than this share of all subtasks can go
    backlog_minutes: float  # restart when a task that wants more has this much work waiting


@dataclass(frozen=True, slots=True)
class Wish:
    """What a load asks for; leading batch axes stand for ``..``.

    Attributes:
        exact: float64 [.., N], subtasks before rounding up; NaN for tasks whose demand is unknown and for virtual ones.
        wanted: int64 [.., N], 1 to ``WISH_MAX``; the present parallelism where ``exact`` is NaN.
    """

    exact: Float64
    wanted: Int64


def exact_instances(measured: Measured, load: Float64, graph: JobGraph, sizing: Sizing) -> Float64:
    """Return ``(rate x d + waiting work / catch-up) / utilisation`` [.., N] (DS2's demand with Flink's catch-up term)."""
    waiting = measured.backlog_records * measured.service_minutes / sizing.catch_up_minutes
    exact = (measured.demand(load) + waiting) / sizing.utilisation
    return np.where(graph.scalable, exact, np.nan)


def wish(exact: Float64, current: Int64) -> Wish:
    """Round up to whole subtasks."""
    known = ~np.isnan(exact)
    whole = np.clip(np.ceil(np.where(known, exact, 1.0) - _EPSILON), 1.0, WISH_MAX)
    return Wish(exact=exact, wanted=np.where(known, whole, current).astype(np.int64))


def urgency(asked: Wish, current: Int64, graph: JobGraph) -> tuple[Float64, Float64]:
    """Return (need, saving), each [..]: the largest relative shortage of a task, and the share of subtasks that could go."""
    ratio = np.where(np.isnan(asked.exact), 0.0, asked.exact / current)
    need = ratio.max(axis=-1) - 1.0
    have = np.where(graph.scalable, current, 0).sum(axis=-1)
    want = np.where(graph.scalable, asked.wanted, 0).sum(axis=-1)
    return need, 1.0 - want / np.maximum(have, 1)


def worth_a_restart(
    asked: Wish, measured: Measured, current: Int64, graph: JobGraph, sizing: Sizing, ease: Float64 | float = 0.0
) -> Bool:
    """Return [..] whether the job should change at all: one restart stops every task, so small changes are left undone.

    ``ease`` shifts both thresholds: positive opens the gate sooner. Waiting work of a task that wants more opens it always.
    """
    need, saving = urgency(asked, current, graph)
    waiting = np.where(asked.wanted > current, measured.backlog_minutes(current), 0.0).max(axis=-1)
    opened: Bool = (need > sizing.need - ease) | (saving > sizing.saving - ease) | (waiting >= sizing.backlog_minutes)
    return opened
