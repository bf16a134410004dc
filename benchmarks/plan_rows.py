"""Many closed loops of the plan of ``sure`` side by side, without a network: what benchmarks of its margins share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from contracts.job_settings import Objective

if TYPE_CHECKING:
    from policies.sure.base import Base
    from policies.sure.plan import Planned
    from policies.sure.planning_input import Planning, PlanningInput
    from simulation.load.jobs import SizedJob
    from simulation.load.workload import Workload
    from simulation.loops.rows import LoopRows, Observed, Terms

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Place:
    """Where loops run: ``world`` may name its restart (``restart@300``); minutes of the load from ``first`` to ``end``."""

    world: str
    load: str
    job: str
    draw: int
    objective: Objective
    first: int
    end: int
    load_parallelism: float


@dataclass(frozen=True, slots=True)
class Ground:
    """A place made ready: the shipped ``base``, its plan for this restart and objective, job, load and terms."""

    base: Base
    planning: Planning
    job: SizedJob
    load: Workload
    terms: Terms

    @classmethod
    def of(cls, place: Place) -> Ground:
        """Return the ground of a place; the job is sized by the load up to its end."""
        from policies.registry import load_policy
        from policies.sure.planning_input import with_objective, with_restart
        from policies.sure.policy import SurePolicy
        from simulation.load.jobs import load_job
        from simulation.load.workload import load_workload
        from simulation.loops.rows import Terms
        from simulation.model.worlds import world_named

        name, _, seconds = place.world.partition("@")
        world = world_named(name, seed=place.draw, restart_s=float(seconds) if seconds else None)
        shipped = load_policy("sure")
        assert isinstance(shipped, SurePolicy)
        base, load = shipped.card.base, load_workload(place.load)
        planning = with_objective(base.planning, place.objective)
        terms = Terms(world=world, restart_ms=world.restart_ms, latency_weight=planning.latency_weight)
        told = terms.told_restart_ms
        planning = with_restart(planning, None if told is None else told / 1000.0)
        return cls(base, planning, load_job(place.job, load, place.load_parallelism, minutes=(0, place.end)), load, terms)

    def rows(self, first: Int64, start: Int64, copies: int) -> LoopRows:
        """Return loops that begin at minutes [B] with sizes [B, N], one whole set after another, ``copies`` times."""
        from simulation.loops.rows import LoopRows

        return LoopRows(self.job, self.load, np.tile(first, copies), np.tile(start, (copies, 1)), self.terms)


def given_in(base: Base, observed: Observed, rows: LoopRows) -> PlanningInput:
    """Return what a plan is made from in observed rows."""
    from policies.measure import measure, restarts_seen
    from policies.sure.planning_input import PlanningInput

    measured = measure(observed.figures, rows.graph)
    return PlanningInput(
        expected=base.outlook.expect(measured.load, observed.hourly_load, observed.ends_ms, observed.hourly_peak),
        measured=measured,
        current=observed.current,
        graph=rows.graph,
        limits=rows.job.limits,
        restarts=restarts_seen(observed.figures),
    )


def planned_in(planning: Planning, given: PlanningInput, factors: Float64 | None = None) -> tuple[Planned, Int64]:
    """Return plans, and their sizes [B, N] after the guardrails; ``factors`` [B, 2] are those of caution and hurdle."""
    from policies.guardrails import guard_rows, situation
    from policies.sure.correction import EASE_MAX, RESIDUAL_MAX, Correction
    from policies.sure.plan import plan

    jobs, tasks = given.current.shape
    correction = Correction.none(jobs, tasks)
    if factors is not None:
        residual = np.arctanh(np.log(factors[:, 0]) / RESIDUAL_MAX)
        correction = Correction(np.repeat(residual[:, None], tasks, axis=1), np.arctanh(-np.log(factors[:, 1]) / EASE_MAX))
    planned = plan(planning, given, correction)
    at = situation(given.measured, given.graph, given.current)
    return planned, guard_rows(planned.wanted, at, given.limits, floor_applies=True)


def some_of(observed: Observed, rows: slice | Int64) -> Observed:
    """Return some observed rows."""
    from simulation.loops.rows import Observed

    return Observed(*(getattr(observed, name)[rows] for name in Observed.__slots__))
