"""The limits of one job as arrays: what guardrails and plan read of settings, topology and calendar."""

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from surescale.contracts.job_limits import (
    Bounds,
    Freeze,
    all_bounds,
    at_time,
    backlog_hold_minutes,
    freeze_at,
    minimum_within,
    span_ahead_ms,
    step_down,
    step_up,
    total_limit,
)
from surescale.contracts.job_settings import JobSettings, effective
from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.policies.graph import Bool, Int64

ANY_TOTAL = 2**53
"""More subtasks than a job can have."""
SLACK = 1.3
"""How much busier a task may be than its owner wants before the floor widens it: the gates of rules leave as much alone."""
PLANNED = 0.75
"""How busy plans and rules leave tasks where nobody says otherwise."""
Ties = tuple[Int64, ...]
"""Positions of tasks that keep one parallelism, for each such group of two and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a job may be changed to.

    Attributes:
        least, most: int64 [N], bounds of each task; tied tasks have the same ones.
        within: the least of every task in a period that begins or goes on; 0: there is none. ``least`` is at least that.
        total: of the scalable tasks' subtasks.
        step_up, step_down: largest factors of one decision.
        leaps_up, leaps_down: whether what is known to come lifts them, since the owner set none.
        pinned: bool [N], tasks that stay as they are; None: none.
        ties: tasks that keep one parallelism.
        align: sizes of tasks whose work is dealt out become even (``policies.dealt.aligned``).
        backlog_hold_minutes: no task shrinks while one has more work than this waiting; 0: never held.
        gc_most, heap_most: shares of its time and of its heap above which a process is short of memory.
        utilisation: how busy the owner wants tasks to be; None: as the policy has it.
        freeze: what the calendar excludes now.
    """

    least: Int64
    most: Int64
    total: int
    within: int = 0
    step_up: float = 2.0
    step_down: float = 2.0
    leaps_up: bool = False
    leaps_down: bool = False
    pinned: Bool | None = None
    ties: Ties = ()
    align: bool = False
    backlog_hold_minutes: float = 0.0
    gc_most: float = 1.0
    heap_most: float = 1.0
    utilisation: float | None = None
    freeze: Freeze = "none"

    @property
    def busy_most(self) -> float:
        """Return the share of their time that the floor lets tasks be busy."""
        return 1.0 if self.utilisation is None else min(1.0, SLACK * self.utilisation)

    @property
    def caution(self) -> float:
        """Return the factor by which a plan takes service times longer, so that tasks end up as busy as their owner wants."""
        return 1.0 if self.utilisation is None else PLANNED / self.utilisation

    @classmethod
    def of(cls, settings: JobSettings, topology: JobTopology, at_ms: int) -> "Limits":
        """Return the limits of a job at a time (milliseconds of the epoch)."""
        engine = topology.engine
        within = minimum_within(settings, at_ms, span_ahead_ms(settings, topology.restart_ms))
        settings = at_time(settings, engine, at_ms)
        bounds, ties = all_bounds(settings, topology.tasks, engine, within), _ties(topology.tasks)
        pinned = _pinned(bounds, topology.tasks, ties)
        ties = tuple(members for members in ties if not pinned[members].any())
        return cls(
            least=_least(bounds, ties),
            most=_most(bounds, ties),
            within=within,
            total=total_limit(settings, engine) or ANY_TOTAL,
            step_up=step_up(settings, engine),
            step_down=step_down(settings),
            leaps_up=settings.step_up_max is None,
            leaps_down=settings.step_down_max is None,
            pinned=pinned if pinned.any() else None,
            ties=ties,
            align=effective(settings, "align"),
            backlog_hold_minutes=backlog_hold_minutes(settings, engine),
            gc_most=effective(settings, "gc_pressure_max"),
            heap_most=effective(settings, "heap_usage_max"),
            utilisation=settings.utilisation,
            freeze=freeze_at(settings.excluded or (), at_ms),
        )


def _ties(tasks: tuple[TaskSpec, ...]) -> Ties:
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for index, spec in enumerate(tasks):
        if spec.tied:
            groups[spec.tied].append(index)
    return tuple(np.array(members, dtype=np.int64) for members in groups.values() if len(members) > 1)


def _least(bounds: list[Bounds], ties: Ties) -> Int64:
    least = np.array([max(1, each.least) for each in bounds], dtype=np.int64)
    for members in ties:
        least[members] = least[members].max()
    return least


def _most(bounds: list[Bounds], ties: Ties) -> Int64:
    most = np.array([each.most for each in bounds], dtype=np.int64)
    for members in ties:
        most[members] = most[members].min()
    return most


def _pinned(bounds: list[Bounds], tasks: tuple[TaskSpec, ...], ties: Ties) -> Bool:
    """Return bool [N], the tasks that are pinned, and those tied to a task that is pinned or cannot be scaled."""
    pinned = np.array([each.pinned for each in bounds], dtype=np.bool_)
    fixed = np.array([not spec.scalable for spec in tasks], dtype=np.bool_)
    for members in ties:
        pinned[members] |= (pinned | fixed)[members].any()
    return pinned
