"""Closed loops of the plan alone: where they start and what they want. Needs no torch."""

import numpy as np

from policies.graph import Int64
from policies.guardrails import guard_rows, situation
from policies.measure import Measured, restarts_seen
from policies.sure.base import Base
from policies.sure.correction import Correction
from policies.sure.plan import plan
from policies.sure.planning_input import PlanningInput
from simulation.load.jobs import PARALLELISM_MAX, SizedJob
from simulation.load.workload import Workload
from simulation.loops.rows import LoopRows, Observed


def starting_parallelism(job: SizedJob, workload: Workload, minutes: Int64, generator: np.random.Generator) -> Int64:
    """Return sizes [B, N] for a random utilisation of .6 to .8 under the load of the hour before each minute [B]."""
    cumulated = np.concatenate([[0], np.cumsum(workload.requests)])
    load = (cumulated[minutes] - cumulated[minutes - 60]) / 60.0
    utilisation = generator.uniform(0.6, 0.8, size=len(minutes))
    wanted = np.ceil(load[:, None] / utilisation[:, None] * job.service_minutes)
    sizes: Int64 = np.where(job.scalable, np.clip(wanted, 1, PARALLELISM_MAX), 1).astype(np.int64)
    return sizes


def desired(base: Base, observed: Observed, measured: Measured, rows: LoopRows, correction: Correction) -> Int64:
    """Return the sizes [B, N] of the corrected plan after the guardrails."""
    given = PlanningInput(
        expected=base.outlook.expect(measured.load, observed.hourly_load, observed.ends_ms, observed.hourly_peak),
        measured=measured,
        current=observed.current,
        graph=rows.graph,
        limits=rows.job.limits,
        restarts=restarts_seen(observed.figures),
    )
    planned = plan(base.planning, given, correction)
    return guard_rows(planned.wanted, situation(measured, rows.graph, observed.current), rows.job.limits, floor_applies=True)
