"""The paper's setting around the simulator: jobs, weeks, hourly decisions, and how actions become sizes. No networks here."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, Protocol

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.policies.answer import Float64
from surescale.policies.features import SURE_WIDTH, Encoded, encode
from surescale.policies.graph import Int64, JobGraph
from surescale.policies.measure import Measured, measure
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import LoopRows, Observed, Terms

WEEK_MINUTES = 7 * 24 * 60
SPAN_MINUTES = 60
DECISIONS = 167  # an episode of a week less the first hour
RUNS = 10  # offsets per job

JOBS = {
    "j_2521346": "Small-1",
    "j_1351665": "Small-2",
    "j_31537": "Medium-1",
    "j_867286": "Medium-2",
    "j_3380530": "Large-1",
    "j_3803524": "Large-2",
}

PaperMode = Literal["clean", "compat"]
MODES: tuple[PaperMode, ...] = ("clean", "compat")
LATENCY_WEIGHT: dict[str, float] = {"clean": 0.5, "compat": 0.7}
"""lambda: 0.5 in ``clean``; 0.7 in ``compat``, which follows the paper's code, as in that code."""


REACH = 0.9
"""The action that asks for a ratio of 2 in ``compat``. Less would never lead away from one subtask, and tanh stays below 1."""


def terms_of(mode: PaperMode, latency_weight: float | None = None) -> Terms:
    """Return the simulator's terms: one decision per hour, on one hour of snapshots."""
    weight = LATENCY_WEIGHT[mode] if latency_weight is None else latency_weight
    return Terms(mode=mode, latency_weight=weight, span_minutes=SPAN_MINUTES)


def week(workload: Workload, number: int) -> Workload:
    """Return week 1 or 2 of a workload, as a repeating workload."""
    first = (number - 1) * WEEK_MINUTES
    return replace(
        workload,
        requests=workload.requests[first : first + WEEK_MINUTES],
        trace_start_ms=workload.trace_start_ms + first * MINUTE_MS,
        default_start_minute=0,
    )


def offsets(runs: int) -> Int64:
    """Return the minutes of a week at which runs start: full hours, evenly spread. The hour before is the first observation.

    Decisions fall on full hours, as in the pipeline and in the paper's code. Only then does the encoded minute of the hour give
    the position of a minute in the window, and a sampler has nothing else to tell late minutes from early ones.
    """
    hours = WEEK_MINUTES // SPAN_MINUTES
    return SPAN_MINUTES * (1 + np.arange(runs, dtype=np.int64) * hours // runs)


def asked_for(action: Float64, current: Int64, terms: Terms) -> Int64:
    """Return parallelism [B, N] for actions a [B, N] in [-1, 1]: p (1 + a), or p (1 + a / REACH) in ``compat``, rounded."""
    ratio = 1.0 + (np.clip(action / REACH, -1.0, 1.0) if terms.mode == "compat" else action)
    return resized(current, ratio, terms)


def resized(current: Int64, ratio: Float64, terms: Terms) -> Int64:
    """Return whole subtasks [B, N] for ratios in (0, 2] of the current ones, rounded as the mode does.

    ``clean`` and ``slo`` round half up. ``compat`` truncates the change towards 0, as the paper's code does: from 1 subtask only
    a ratio of 2 changes anything, so tasks get stuck at 1.
    """
    if terms.mode == "compat":
        return current + np.trunc((ratio - 1.0) * current).astype(np.int64)
    return np.floor(current * ratio + 0.5).astype(np.int64)


def action_for(sizes: Int64, current: Int64, terms: Terms) -> Float64:
    """Return actions [B, N] that ask for sizes [B, N]."""
    return (sizes / current - 1.0) * (REACH if terms.mode == "compat" else 1.0)


def sizes_of(action: Float64, current: Int64, job: SizedJob, terms: Terms) -> Int64:
    """Return parallelism [B, N] for actions [B, N] in [-1, 1], within all limits."""
    return job.within_limits(asked_for(action, current, terms))


@dataclass(frozen=True)
class View:
    """The observation of B rows before a decision. Features are computed on first use."""

    observed: Observed
    graph: JobGraph
    job: SizedJob
    terms: Terms

    @property
    def seeds(self) -> list[int]:
        """Return a seed per row, from its minute, for samplers that draw at random."""
        minutes: list[int] = (self.observed.ends_ms // MINUTE_MS).tolist()
        return minutes

    @cached_property
    def measured(self) -> Measured:
        """Return load, service times and backlog."""
        return measure(self.observed.figures, self.graph)

    @cached_property
    def encoded(self) -> Encoded:
        """Return the features, from the encoder that training and serving share."""
        seen = self.observed
        return encode(seen.figures, self.graph, seen.ends_ms, seen.hourly_load, self.measured, width=SURE_WIDTH)


class Decider(Protocol):
    """A policy that sizes B rows at once."""

    def sizes(self, view: View) -> Int64:
        """Return wanted parallelism [B, N] within bounds and limit."""
        ...


@dataclass(frozen=True, slots=True)
class PolicyRuns:
    """Figures of R runs of one policy on one job; each array is [R].

    Attributes:
        reward: mean over the decisions.
        latency, utilisation: means of the two parts of the reward.
        rescales_per_day: restarts that changed something.
        decisions: number of decisions in each run.
    """

    reward: Float64
    latency: Float64
    utilisation: Float64
    rescales_per_day: Float64
    decisions: int


def start(job: SizedJob, rows: int) -> Int64:
    """Return the sizes every run starts with, [B, N]."""
    return np.tile(job.start_parallelism, (rows, 1))


def follow(decider: Decider, job: SizedJob, load: Workload, first: Int64, terms: Terms, decisions: int) -> PolicyRuns:
    """Run a policy for some decisions, from minutes ``first`` [R] of a repeating load."""
    rows = LoopRows(job, load, first, start(job, len(first)), terms)
    spans = []
    for _ in range(decisions):
        spans.append(rows.step(decider.sizes(View(rows.observe(), rows.graph, job, terms))))
    latency, utilisation = (np.mean([getattr(span, name) for span in spans], axis=0) for name in ("latency", "utilisation"))
    weight = terms.latency_weight
    return PolicyRuns(
        reward=-weight * latency + (1.0 - weight) * utilisation,
        latency=latency,
        utilisation=utilisation,
        rescales_per_day=np.mean([span.rescaled for span in spans], axis=0) * 24 * 60 / terms.span_minutes,
        decisions=decisions,
    )
