"""The ceiling: the best path through proportional vectors with the coming minutes known, by dynamic programming. Never ranked.

In mode ``clean`` a capacity c needs p_i = ceil(c x d_i), so sizes form a family of some 40 vectors. At every decision of the
policies' own span each vector may follow each other one; of all ways to a vector the one with the best reward so far is kept,
with the queues that it left (Viterbi's algorithm on the simulator itself). Keeping one state per vector is exact while queues are
empty, and a lower bound of the optimum elsewhere. Steps of any size are allowed, unlike for policies.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.policies.policy import SPAN_MINUTES
from surescale.simulation.evaluation.closed_loop import LoopOutcome, Trial
from surescale.simulation.evaluation.hours import HOUR_MINUTES, Hours, hours_of
from surescale.simulation.evaluation.static import family
from surescale.simulation.loops.terms import Span

NAME = "ceiling"


@dataclass(frozen=True, slots=True)
class _Step:
    """One decision: the vector before each vector [F], and the span that led to it."""

    before: Int64
    span: Span


def follow_ceiling(trial: Trial, told: Callable[[float], None]) -> LoopOutcome:
    """Return the best path of each run."""
    trial = trial.at_span(SPAN_MINUTES)
    runs = len(trial.first_minutes)
    found = []
    for run in range(runs):
        alone = replace(trial, first_minutes=trial.first_minutes[run : run + 1])
        found.append(_best_path(alone, lambda share, run=run: told((run + share) / runs)))  # type: ignore[misc]
    return LoopOutcome(hours=Hours.joined(found), decisions=trial.hours * HOUR_MINUTES // trial.terms.span_minutes)


def _best_path(trial: Trial, told: Callable[[float], None]) -> Hours:
    vectors = np.unique(np.vstack([family(trial.job), trial.job.start_parallelism[None]]), axis=0)
    count, steps = len(vectors), trial.hours * HOUR_MINUTES // trial.terms.span_minutes
    every, rows, total = np.arange(count), trial.rows(), np.zeros(1)
    made: list[_Step] = []
    for done in range(steps):
        here = len(total)
        branches = rows.chosen(np.tile(np.arange(here), count))  # row v * here + b: from b to vector v
        span = branches.step(np.repeat(vectors, here, axis=0))
        scores = (np.tile(total, count) + branches.reward(span) * span.counted_minutes).reshape(count, here)
        before = scores.argmax(axis=1)
        taken = every * here + before
        rows, total = branches.chosen(taken), scores[every, before]
        made.append(_Step(before, _rows_of(span, taken)))
        told((done + 1) / steps)
    return hours_of(_walked_back(made, total), trial.terms, trial.first_minutes, trial.job)


def _walked_back(made: list[_Step], total: Float64) -> list[Span]:
    at, spans = int(total.argmax()), []
    for step in reversed(made):
        spans.append(_rows_of(step.span, np.array([at])))
        at = int(step.before[at])
    return spans[::-1]


def _rows_of(span: Span, rows: Int64) -> Span:
    values: dict[str, Any] = {field.name: getattr(span, field.name) for field in fields(span)}
    values.update({name: value[rows] for name, value in values.items() if value is not None})
    return Span(**values)
