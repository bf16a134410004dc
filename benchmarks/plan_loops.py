"""Closed loops of the plan in any world: where they run and start, what a plan is given, and what it wants."""

from dataclasses import dataclass

import numpy as np

from surescale.contracts.job_settings import Objective
from surescale.policies.graph import Int64
from surescale.policies.guardrails import guard_rows, situation
from surescale.policies.measure import Measured, measure, restarts_seen
from surescale.policies.sure.base import Base
from surescale.policies.sure.plan import Planned, plan
from surescale.policies.sure.planning_input import Planning, PlanningInput, with_objective, with_restart
from surescale.simulation.load.jobs import PARALLELISM_MAX, SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import LoopRows, Observed
from surescale.simulation.loops.terms import Mode, Terms
from surescale.simulation.model.worlds import CALM, World


@dataclass(frozen=True, slots=True)
class Ground:
    """Where loops run: a plan's base, its constants for this restart and objective, the job, its load, and the terms."""

    base: Base
    planning: Planning
    job: SizedJob
    load: Workload
    terms: Terms

    @classmethod
    def of(cls, base: Base, job: SizedJob, load: Workload, world: World = CALM, objective: Objective | None = None) -> "Ground":
        """Return a job's ground in a world; the plan knows as much about restart and objective as it would in the pipeline."""
        planning = with_objective(base.planning, objective)
        mode: Mode = "slo" if world.has_slo else "clean"
        terms = Terms(mode=mode, world=world, restart_ms=world.restart_ms, latency_weight=planning.latency_weight)
        told = terms.told_restart_ms
        return cls(base, with_restart(planning, None if told is None else told / 1000.0), job, load, terms)

    def rows(self, first: Int64, start: Int64, copies: int = 1) -> LoopRows:
        """Return loops that begin at minutes [B] with sizes [B, N], one whole set after another, ``copies`` times."""
        return LoopRows(self.job, self.load, np.tile(first, copies), np.tile(start, (copies, 1)), self.terms)


def starting_parallelism(job: SizedJob, workload: Workload, minutes: Int64, generator: np.random.Generator) -> Int64:
    """Return sizes [B, N] for a random utilisation of .6 to .8 under the load of the hour before each minute [B]."""
    cumulated = np.concatenate([[0], np.cumsum(workload.requests)])
    load = (cumulated[minutes] - cumulated[minutes - 60]) / 60.0
    utilisation = generator.uniform(0.6, 0.8, size=len(minutes))
    wanted = np.ceil(load[:, None] / utilisation[:, None] * job.service_minutes)
    sizes: Int64 = np.where(job.scalable, np.clip(wanted, 1, PARALLELISM_MAX), 1).astype(np.int64)
    return sizes


def given_in(base: Base, observed: Observed, rows: LoopRows, measured: Measured | None = None) -> PlanningInput:
    """Return what a plan is made from in observed rows; what was measured in them, if the caller already has it."""
    measured = measure(observed.figures, rows.graph) if measured is None else measured
    return PlanningInput(
        expected=base.outlook.expect(measured.load, observed.hourly_load, observed.ends_ms, observed.hourly_peak),
        measured=measured,
        current=observed.current,
        graph=rows.graph,
        limits=rows.job.limits,
        restarts=restarts_seen(observed.figures),
    )


def planned_in(planning: Planning, given: PlanningInput) -> tuple[Planned, Int64]:
    """Return plans, and their sizes [B, N] after the guardrails."""
    planned = plan(planning, given)
    at = situation(given.measured, given.graph, given.current)
    return planned, guard_rows(planned.wanted, at, given.limits, floor_applies=True)


def some_of(observed: Observed, rows: slice | Int64) -> Observed:
    """Return some observed rows."""
    return Observed(*(getattr(observed, name)[rows] for name in Observed.__slots__))
