"""Policies in the closed loop as on the road: windows in, ``policies.decide`` with its guardrails, restarts paid for.

Here maximum step, bounds and total limit bind every policy; the load floor, and the lift of the step limit that comes with it,
binds ``sure`` alone. (On the road it binds every policy but ``static`` and ``hold``.)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from contracts.messages import Decision, JobSettings, JobTopology
from contracts.windows import Window
from policies.decide import decide
from policies.graph import Int64
from policies.policy import Policy
from policies.proposal import Answer
from simulation.cores import Span, Terms
from simulation.evaluation.scoring import HOUR_MINUTES, Hours, hours_of
from simulation.jobs import PARALLELISM_MAX, SizedJob
from simulation.loop import LoopRows, Observed
from simulation.workload import Workload

FLOORED = ("sure",)  # policies that the load floor binds here


@dataclass(frozen=True, slots=True)
class Trial:
    """Where and how runs take place: R runs of ``hours`` scored hours, the first decision of each at ``first_minutes`` [R]."""

    job: SizedJob
    workload: Workload
    terms: Terms
    first_minutes: Int64
    seeds: tuple[int, ...]
    hours: int
    span_minutes: int | None = None  # for all policies, in place of their own

    def at_span(self, own_minutes: int) -> "Trial":
        """Return the trial at a policy's own time between decisions, unless one was set for all."""
        return self.every_minutes(self.span_minutes or own_minutes)

    def every_minutes(self, minutes: int) -> "Trial":
        """Return the trial with so many minutes between decisions."""
        return replace(self, terms=replace(self.terms, span_minutes=minutes))

    def rows(self, copies: int = 1) -> LoopRows:
        """Return the runs at their start, each ``copies`` times in a row."""
        first = np.repeat(self.first_minutes, copies)
        return LoopRows(self.job, self.workload, first, np.tile(self.job.start_parallelism, (len(first), 1)), self.terms)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a policy did in all runs: its hours, decisions of each run, and how many were a stand-in's, with one reason."""

    hours: Hours
    decisions: int
    stand_ins: int = 0
    stand_in_reason: str = ""


@dataclass(frozen=True, slots=True)
class WithoutFloor:
    """A policy that the load floor does not bind."""

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

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return the policy's answer."""
        return self.policy.answer(window, settings, seed)


def drive(trial: Trial, rows: LoopRows, choose: Callable[[LoopRows], Int64], told: Callable[[float], None]) -> list[Span]:
    """Step rows through the trial by what ``choose`` desires; ``told`` hears the share that is done."""
    spans: list[Span] = []
    count = trial.hours * HOUR_MINUTES // trial.terms.span_minutes
    for done in range(count):
        spans.append(rows.step(choose(rows)))
        told((done + 1) / count)
    return spans


def follow(policy: Policy, trial: Trial, told: Callable[[float], None]) -> Outcome:
    """Run a policy through the code that serves it on the road."""
    served = policy if policy.name in FLOORED else WithoutFloor(policy)
    trial = trial.at_span(policy.span_minutes)
    reasons: list[str] = []

    def choose(rows: LoopRows) -> Int64:
        seen = rows.observe()
        decisions = [decide(window, served, settings, seed=seed) for window, seed in zip(windows(seen), trial.seeds, strict=True)]
        reasons.extend(made.policy.fallback_reason for made in decisions if made.policy.fallback_reason)
        return _desired(decisions)

    settings = _settings(trial.job)
    windows = _Windows(trial.job, settings.job)
    rows = trial.rows()
    spans = drive(trial, rows, choose, told)
    return Outcome(
        hours=hours_of(spans, trial.terms, trial.first_minutes, trial.job),
        decisions=len(spans),
        stand_ins=len(reasons),
        stand_in_reason=reasons[0] if reasons else "",
    )


def _settings(job: SizedJob) -> JobSettings:
    return JobSettings(job=f"sim/{job.name}", parallelism_max=PARALLELISM_MAX, total_limit=job.total_limit)


@dataclass(frozen=True, slots=True)
class _Windows:
    """Makes the windows that the road would send."""

    job: SizedJob
    name: str

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
                    topology=JobTopology(job=self.name, version=0, at_ms=0, tasks=tasks),
                    hourly_load=seen.hourly_load[row].astype(np.float32),
                    hourly_peak=seen.hourly_peak[row].astype(np.float32),
                )
            )
        return found


def _desired(decisions: Sequence[Decision]) -> Int64:
    return np.array([[task.desired for task in decision.tasks] for decision in decisions], dtype=np.int64)
