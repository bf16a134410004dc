"""Policies in the closed loop as in the pipeline: windows in, ``policies.decide`` with its guardrails, restarts paid for.

Here maximum step, bounds and total limit apply to every policy. The load floor, with the higher step limit that it brings,
applies only to ``sure``. (In the pipeline it applies to every policy but ``static`` and ``hold``.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from msgspec import UNSET

from contracts.decisions import Decision
from contracts.job_settings import JobSettings, Objective
from contracts.messages import JobTopology
from contracts.windows import Window
from policies.answer import Answer
from policies.decide import decide
from policies.graph import Int64
from policies.policy import Policy
from policies.question import Question
from simulation.evaluation.hours import HOUR_MINUTES, Hours, hours_of
from simulation.load.jobs import PARALLELISM_MAX, SizedJob
from simulation.load.workload import Workload
from simulation.loops.rows import LoopRows, Observed
from simulation.loops.terms import Span, Terms

FLOORED = ("sure",)  # policies that the load floor applies to here


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
class Outcome:
    """A policy's result in all runs: its hours, decisions per run, and how many came from a stand-in, with one reason."""

    hours: Hours
    decisions: int
    stand_ins: int = 0
    stand_in_reason: str = ""


@dataclass(frozen=True, slots=True)
class WithoutFloor:
    """A policy that the load floor does not apply to."""

    policy: Policy
    floor_applies: bool = False

    @property
    def name(self) -> str:
        """Return the policy's name."""
        return self.policy.name

    @property
    def sha256(self) -> str:
        """Return the hash of the policy's package."""
        return self.policy.sha256

    @property
    def span_minutes(self) -> int:
        """Return the policy's span."""
        return self.policy.span_minutes

    def answer(self, question: Question) -> Answer:
        """Return the policy's answer."""
        return self.policy.answer(question)


def drive(trial: Trial, rows: LoopRows, choose: Callable[[LoopRows], Int64], told: Callable[[float], None]) -> list[Span]:
    """Step rows through the trial as ``choose`` decides; ``told`` receives the share that is done."""
    spans: list[Span] = []
    count = trial.hours * HOUR_MINUTES // trial.terms.span_minutes
    for done in range(count):
        spans.append(rows.step(choose(rows)))
        told((done + 1) / count)
    return spans


def follow(policy: Policy, trial: Trial, told: Callable[[float], None]) -> Outcome:
    """Run a policy through the code that serves it in the pipeline and return its result."""
    served = policy if policy.name in FLOORED else WithoutFloor(policy)
    trial = trial.at_span(policy.span_minutes)
    reasons: list[str] = []

    def choose(rows: LoopRows) -> Int64:
        seen = rows.observe()
        decisions = [decide(window, served, settings, seed=seed) for window, seed in zip(windows(seen), trial.seeds, strict=True)]
        reasons.extend(made.policy.fallback_reason for made in decisions if made.policy.fallback_reason)
        return _desired(decisions)

    settings = _settings(trial)
    windows = _Windows(trial.job, settings.job, trial.terms.told_restart_ms, trial.terms.world.engine)
    rows = trial.rows()
    spans = drive(trial, rows, choose, told)
    return Outcome(
        hours=hours_of(spans, trial.terms, trial.first_minutes, trial.job),
        decisions=len(spans),
        stand_ins=len(reasons),
        stand_in_reason=reasons[0] if reasons else "",
    )


def _settings(trial: Trial) -> JobSettings:
    return JobSettings(
        job=f"sim/{trial.job.name}",
        parallelism_max=PARALLELISM_MAX,
        total_limit=trial.job.total_limit,
        objective=trial.objective,
        latency_bound=trial.terms.latency_bound if trial.terms.latency_bound and trial.is_bound_told else UNSET,
    )


@dataclass(frozen=True, slots=True)
class _Windows:
    """Builds the windows that the pipeline would send."""

    job: SizedJob
    name: str
    restart_ms: int | None
    engine: str

    def __call__(self, seen: Observed) -> list[Window]:
        specs = self.job.specs()
        found = []
        for row, current in enumerate(seen.current.tolist()):
            tasks = tuple(msgspec.structs.replace(spec, parallelism=size) for spec, size in zip(specs, current, strict=True))
            found.append(
                Window(
                    job=self.name,
                    window_end_ms=int(seen.ends_ms[row]),
                    figures=seen.figures[row],
                    topology=JobTopology(
                        job=self.name, version=0, at_ms=0, tasks=tasks, engine=self.engine, restart_ms=self.restart_ms
                    ),
                    hourly_load=seen.hourly_load[row].astype(np.float32),
                    hourly_peak=seen.hourly_peak[row].astype(np.float32),
                )
            )
        return found


def _desired(decisions: Sequence[Decision]) -> Int64:
    return np.array([[task.desired for task in decision.tasks] for decision in decisions], dtype=np.int64)
