"""Policies in the closed loop as in the pipeline: windows in, ``policies.decide`` with its guardrails, restarts paid for.

Every policy is judged as the pipeline serves it: the same guardrails with the limits that jobs on this kind of engine have, and
between spans the same emergencies where that engine answers them. The rescaler's own waits are not played.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from msgspec import structs

from surescale.contracts.job_limits import answers_emergencies
from surescale.contracts.job_settings import JobSettings, Objective
from surescale.contracts.windows import Window
from surescale.policies.decide import decide_if_due
from surescale.policies.graph import Int64
from surescale.policies.policy import Policy
from surescale.simulation.evaluation.hours import HOUR_MINUTES, Hours, hours_of
from surescale.simulation.evaluation.topologies import Topologies
from surescale.simulation.load.jobs import PARALLELISM_MAX, SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import LoopRows, Observed
from surescale.simulation.loops.terms import Span, Terms


@dataclass(frozen=True, slots=True)
class Trial:
    """Where and how to run: R runs of ``hours`` scored hours, each with its first decision at ``first_minutes`` [R]."""

    job: SizedJob
    workload: Workload
    terms: Terms
    first_minutes: Int64
    seeds: tuple[int, ...]
    hours: int
    span_minutes: int | None = None  # for all policies, instead of their own
    objective: Objective | None = None  # of the job's owner, as policies are told
    is_bound_told: bool = True  # of latency; a rule whose constants were calibrated for it needs no telling

    def at_span(self, own_minutes: int) -> "Trial":
        """Return the trial with a policy's own time between decisions, unless one is set for all."""
        return self.every_minutes(self.span_minutes or own_minutes)

    def every_minutes(self, minutes: int) -> "Trial":
        """Return the trial with this many minutes between decisions."""
        return replace(self, terms=replace(self.terms, span_minutes=minutes))

    def rows(self, copies: int = 1) -> LoopRows:
        """Return the runs at their start, each repeated ``copies`` times."""
        first = np.repeat(self.first_minutes, copies)
        return LoopRows(self.job, self.workload, first, np.tile(self.job.start_parallelism, (len(first), 1)), self.terms)


@dataclass(frozen=True, slots=True)
class LoopOutcome:
    """A policy's result in all runs: its hours, decisions per run, and how many came from a stand-in, with one reason."""

    hours: Hours
    decisions: int
    stand_ins: int = 0
    stand_in_reason: str = ""


def drive(trial: Trial, rows: LoopRows, choose: Callable[[LoopRows], Int64], told: Callable[[float], None]) -> list[Span]:
    """Step rows through the trial as ``choose`` decides; ``told`` receives the share that is done."""
    spans: list[Span] = []
    count = trial.hours * HOUR_MINUTES // trial.terms.span_minutes
    for done in range(count):
        spans.append(rows.step(choose(rows)))
        told((done + 1) / count)
    return spans


def follow(policy: Policy, trial: Trial, told: Callable[[float], None]) -> LoopOutcome:
    """Run a policy through the code that serves it in the pipeline and return its result."""
    trial = trial.at_span(policy.span_minutes)
    settings, span_minutes = _settings(trial), trial.terms.span_minutes
    if policy.floor_applies and answers_emergencies(settings, trial.terms.engine):
        trial = trial.every_minutes(1)
    reasons: list[str] = []
    decided = 0

    def choose(rows: LoopRows) -> Int64:
        nonlocal decided
        seen = rows.observe()
        sizes = seen.current.copy()
        for row, (window, seed) in enumerate(zip(_windows(seen, topologies), trial.seeds, strict=True)):
            made = decide_if_due(window, policy, settings, seed=seed, span_minutes=span_minutes)
            if made is None:
                continue
            decided += 1
            sizes[row] = [task.desired for task in made.tasks]
            if made.policy.fallback_reason:
                reasons.append(made.policy.fallback_reason)
        return sizes

    topologies = Topologies(trial.job, settings.job, trial.terms)
    spans = drive(trial, trial.rows(), choose, told)
    return LoopOutcome(
        hours=hours_of(spans, trial.terms, trial.first_minutes, trial.job),
        decisions=round(decided / len(trial.seeds)),
        stand_ins=len(reasons),
        stand_in_reason=reasons[0] if reasons else "",
    )


def _settings(trial: Trial) -> JobSettings:
    return JobSettings(
        job=f"sim/{trial.job.name}",
        parallelism_max=PARALLELISM_MAX,
        total_limit=trial.job.total_limit,
        objective=(trial.terms.latency_bound if trial.is_bound_told else None) or trial.objective,
    )


def _windows(seen: Observed, topologies: Topologies) -> list[Window]:
    """Return the windows that the pipeline would send."""
    found = []
    for row, current in enumerate(seen.current):
        topology = structs.replace(topologies.of(current), restart_ms=topologies.restart_ms(seen, row))
        found.append(
            Window(
                job=topology.job,
                window_end_ms=int(seen.ends_ms[row]),
                figures=seen.figures[row],
                topology=topology,
                hourly_load=seen.hourly_load[row].astype(np.float32),
                hourly_peak=seen.hourly_peak[row].astype(np.float32),
                saturations=topologies.saturations(seen, row, topology),
            )
        )
    return found
