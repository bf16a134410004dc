"""Policies that know the future: the clairvoyant rule, the oracle and the ceiling. Upper ends, never ranked.

The clairvoyant rule is DS2 behind a restart gate, with the true mean load of the coming hour. It shows the value of a perfect
forecast of the hour's mean; bursts within the hour still surprise it.

The oracle searches sizes on the simulator itself. At every decision of every run, it tries candidates on copies of the run over
the next two hours: one hour with the candidate, one with the better of holding it and the clairvoyant rule. It carries out the
best candidate. Candidates are holding, the static vector, sizes proportional to service times at many capacities, and then
neighbours of the best one.

The search is greedy, so it finds a strong lower bound of the optimum. At the end it takes, for each run, the best trajectory
among its own searches, the clairvoyant rules, both static vectors (chosen and configured) and holding. So it never loses to any
of them.

The ceiling is the best path through proportional vectors with the coming minutes known, by dynamic programming. In mode ``clean``
a capacity c needs p_i = ceil(c x d_i), so sizes form a family of some 40 vectors. At every decision of the policies' own span
each vector may follow each other one; of all ways to a vector the one with the best reward so far is kept, with the queues that
it left (Viterbi's algorithm on the simulator itself). Keeping one state per vector is exact while queues are empty, and a lower
bound of the optimum elsewhere. Steps of any size are allowed, unlike for policies.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.policies.guardrails import guard_rows, unmeasured
from surescale.policies.policy import SPAN_MINUTES
from surescale.simulation.evaluation.closed_loop import LoopOutcome, Trial, drive
from surescale.simulation.evaluation.hours import HOUR_MINUTES, Hours, hours_of
from surescale.simulation.evaluation.protocol import HOUR
from surescale.simulation.evaluation.static import family
from surescale.simulation.evaluation.tune import CalibrationPart
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import LoopRows
from surescale.simulation.loops.terms import Span

RULE, ORACLE, CEILING = "clairvoyant", "oracle", "ceiling"
CLAIRVOYANT = (ORACLE, RULE, CEILING)


@dataclass(frozen=True, slots=True)
class Foresight:
    """The coming means of a workload; near its end, the mean of the minutes that are left."""

    cumulated: Float64

    @classmethod
    def of(cls, workload: Workload) -> "Foresight":
        """Return the foresight of a workload."""
        return cls(np.concatenate([[0.0], np.cumsum(workload.requests.astype(np.float64))]))

    def mean(self, minutes: Int64, first: int = 0) -> Float64:
        """Return records per minute [B] over the hour that starts ``first`` minutes after each minute [B]."""
        last = len(self.cumulated) - 1
        begin = np.minimum(minutes + first, last - 1)
        end = np.minimum(begin + HOUR, last)
        mean: Float64 = (self.cumulated[end] - self.cumulated[begin]) / (end - begin)
        return mean


@dataclass(frozen=True, slots=True)
class ClairvoyantRule:
    """p' = ceil(true rate x d / u) if some task lacks more than ``need`` or more than a share ``saving`` can be removed."""

    utilisation: float
    need: float
    saving: float

    def wanted(self, load: Float64, current: Int64, job: SizedJob) -> Int64:
        """Return wanted parallelism [B, N] under a load [B], within the guardrails."""
        exact = load[:, None] * job.service_minutes / self.utilisation
        wanted = np.where(job.scalable, np.maximum(1, np.ceil(exact - 1e-9)), 1).astype(np.int64)
        lacks = (np.where(job.scalable, exact / current, 0.0)).max(axis=1) - 1.0
        goes = 1.0 - wanted.sum(axis=1) / current.sum(axis=1)
        opened = (lacks > self.need) | (goes > self.saving)
        return granted(np.where(opened[:, None], wanted, current), current, job)


def granted(wanted: Int64, current: Int64, job: SizedJob) -> Int64:
    """Return what serving grants of wanted parallelism [.., N] to a policy that the load floor does not bind."""
    return guard_rows(wanted, unmeasured(job.tables, current), job.limits, floor_applies=False)


SETTINGS = tuple(
    ClairvoyantRule(utilisation, need, saving)
    for utilisation in (0.6, 0.68, 0.74, 0.8, 0.86, 0.92)
    for need, saving in ((0.0, 0.0), (0.08, 0.08), (0.16, 0.12))
)


def clairvoyant_hours(trial: Trial, rules: tuple[ClairvoyantRule, ...], told: Callable[[float], None]) -> list[Hours]:
    """Return the hours of each rule over the trial, run side by side."""
    trial = trial.at_span(SPAN_MINUTES)
    foresight, count = Foresight.of(trial.workload), len(rules)

    def choose(rows: LoopRows) -> Int64:
        current = rows.parallelism
        load = foresight.mean(rows.minutes)
        return _each(rules, load, current, trial.job)

    spans = drive(trial.rows(count), trial.hours, choose, told)
    hours = hours_of(spans, trial.terms, np.repeat(trial.first_minutes, count), trial.job)
    return [hours.every(index, count) for index in range(count)]


def tuned_clairvoyant(ground: CalibrationPart) -> ClairvoyantRule:
    """Return the rule with the best mean reward on the calibration part."""
    trial = Trial(ground.job, ground.workload, ground.terms, ground.first_minutes, (), ground.hours, ground.span_minutes)
    found = clairvoyant_hours(trial, SETTINGS, lambda share: None)
    scores = [float(ground.scores(hours, 1)[0]) for hours in found]
    return SETTINGS[int(np.argmax(scores))]


def follow_clairvoyant(rule: ClairvoyantRule, trial: Trial, told: Callable[[float], None]) -> LoopOutcome:
    """Run one clairvoyant rule over the trial."""
    (hours,) = clairvoyant_hours(trial, (rule,), told)
    return LoopOutcome(hours=hours, decisions=trial.hours * HOUR // trial.at_span(SPAN_MINUTES).terms.span_minutes)


def _each(rules: tuple[ClairvoyantRule, ...], load: Float64, current: Int64, job: SizedJob) -> Int64:
    """Return wanted parallelism; every ``len(rules)``-th row follows the same rule."""
    wanted = np.empty_like(current)
    for index, rule in enumerate(rules):
        own = slice(index, None, len(rules))
        wanted[own] = rule.wanted(load[own], current[own], job)
    return wanted


SPANS_MINUTES = (60, 30)  # of its searches; more frequent decisions lose: two hours are too short to repay that many restarts
UTILISATIONS = (0.5, 0.58, 0.64, 0.7, 0.74, 0.78, 0.82, 0.86, 0.9, 0.94, 0.98, 1.03)
AROUND = (0.8, 0.86, 0.91, 0.95, 0.975, 1.025, 1.05, 1.1, 1.16, 1.25)  # capacities of the second round, relative to the best one
SECOND_HOUR = ClairvoyantRule(utilisation=0.82, need=0.05, saving=0.08)
WIDTH, WIDTH_OF_TASKS = 18, 24  # candidates of one round
STEPS_TRIED = 12  # number of busiest and of idlest tasks whose single steps are tried, where single tasks matter


def follow_oracle(trial: Trial, static: Int64, told: Callable[[float], None]) -> LoopOutcome:
    """Return the oracle's runs; ``static`` [N] is the best known constant vector."""
    spans = [trial.span_minutes] if trial.span_minutes else list(SPANS_MINUTES)
    found = []
    for done, minutes in enumerate(spans):
        found.append(_searched(trial.every_minutes(minutes), static, partial(_part, told, done, len(spans) + 1)))
    found += clairvoyant_hours(trial, SETTINGS, partial(_part, told, len(spans), len(spans) + 1))
    found += [_fixed_hours(trial, sizes) for sizes in (static, trial.job.configured_parallelism, trial.job.start_parallelism)]
    return LoopOutcome(hours=best_of(found), decisions=trial.hours * HOUR // spans[0])


def _part(told: Callable[[float], None], done: int, parts: int, share: float) -> None:
    told((done + share) / parts)


def _searched(trial: Trial, static: Int64, told: Callable[[float], None]) -> Hours:
    width = WIDTH if trial.terms.mode == "clean" else WIDTH_OF_TASKS
    search = _Search(trial, static, Foresight.of(trial.workload), width)
    spans = drive(trial.rows(width), trial.hours, search.choose, told)
    return hours_of(spans, trial.terms, np.repeat(trial.first_minutes, width), trial.job).every(0, width)


def best_of(trajectories: list[Hours]) -> Hours:
    """Return, for each run, the trajectory with the best mean reward, the first among equals."""
    runs = len(trajectories[0].first)
    means = np.array([[hours.run(run).reward for run in range(runs)] for hours in trajectories])
    return Hours.joined([trajectories[int(choice)].run(run) for run, choice in enumerate(means.argmax(axis=0))])


def _fixed_hours(trial: Trial, sizes: Int64) -> Hours:
    own = trial.at_span(SPAN_MINUTES)
    wanted = np.tile(sizes, (len(trial.first_minutes), 1))
    spans = drive(own.rows(), own.hours, lambda rows: granted(wanted, rows.parallelism, trial.job), lambda share: None)
    return hours_of(spans, own.terms, trial.first_minutes, trial.job)


@dataclass(frozen=True, slots=True)
class _Search:
    """Makes one decision of all runs at a time."""

    trial: Trial
    static: Int64
    foresight: Foresight
    width: int  # rows of each run, all in the same state, so that a copy holds one branch per candidate

    def choose(self, rows: LoopRows) -> Int64:
        """Return the best sizes found, the same for all rows of a run [R x width, N]."""
        current, job = rows.parallelism[:: self.width], self.trial.job
        minutes = rows.minutes[:: self.width]
        best, score = _best(self._first_round(minutes, current), rows, self)
        rounds = [around_capacity(best, current, job)]
        if self.trial.terms.mode != "clean":
            rounds.append(single_steps(best, current, job, self.foresight.mean(minutes)))
        for candidates in rounds:
            again, improved = _best(candidates, rows, self)
            better = improved > score
            best, score = np.where(better[:, None], again, best), np.where(better, improved, score)
        return np.repeat(best, self.width, axis=0)

    def _first_round(self, minutes: Int64, current: Int64) -> Int64:
        """Return candidates [R, C, N]: hold, static, and sizes for the true load of the next hour and the one after."""
        job = self.trial.job
        now, later = self.foresight.mean(minutes), self.foresight.mean(minutes, HOUR)
        targets = np.array(UTILISATIONS)
        loads = np.concatenate([np.outer(now, 1 / targets), np.outer(np.maximum(now, later), 1 / targets[::3])], axis=1)
        sized = np.maximum(1, np.ceil(loads[..., None] * job.service_minutes - 1e-9)).astype(np.int64)
        fixed = np.stack([current, np.broadcast_to(self.static, current.shape)], axis=1)
        return granted(np.concatenate([fixed, sized], axis=1), current[:, None], job)

    def scores(self, candidates: Int64, rows: LoopRows) -> Float64:
        """Return the reward of two hours [R, C] of candidates [R, C, N]."""
        runs, count, size = candidates.shape
        filled = np.concatenate([candidates, np.repeat(candidates[:, :1], self.width - count, axis=1)], axis=1)
        desired = filled.reshape(-1, size)
        branches = rows.copy()
        branches.terms = replace(branches.terms, span_minutes=HOUR)
        first = branches.reward(branches.step(desired))
        holding = branches.copy()
        held = holding.reward(holding.step(desired))
        following = SECOND_HOUR.wanted(self.foresight.mean(branches.minutes), desired, self.trial.job)
        followed = branches.reward(branches.step(following))
        return (first + np.maximum(held, followed)).reshape(runs, self.width)[:, :count]


def _best(candidates: Int64, rows: LoopRows, search: _Search) -> tuple[Int64, Float64]:
    scores = search.scores(candidates, rows)
    choice = scores.argmax(axis=1)
    every = np.arange(len(choice))
    return candidates[every, choice], scores[every, choice]


def around_capacity(best: Int64, current: Int64, job: SizedJob) -> Int64:
    """Return candidates [R, C, N]: least sizes for capacities near the best one's, and the best one only up or only down."""
    with np.errstate(divide="ignore"):
        capacity = np.where(job.scalable, best / job.service_minutes, np.inf).min(axis=1)
    capacities = np.outer(capacity, (1.0, *AROUND))
    sized = np.maximum(1, np.ceil(capacities[..., None] * job.service_minutes - 1e-9)).astype(np.int64)
    mixed = np.stack([np.maximum(best, current), np.minimum(best, current)], axis=1)
    return granted(np.concatenate([sized, mixed], axis=1), current[:, None], job)


def single_steps(best: Int64, current: Int64, job: SizedJob, load: Float64) -> Int64:
    """Return candidates [R, C, N]: one more at the busiest tasks, one fewer at the idlest ones."""
    busy = np.where(job.scalable, load[:, None] * job.service_minutes / best, np.nan)
    order = np.argsort(busy, axis=1)[:, : int(job.scalable.sum())]  # NaN last
    count = min(STEPS_TRIED, order.shape[1])
    runs = np.arange(len(best))[:, None]
    steps = np.repeat(best[:, None], 2 * count, axis=1)
    steps[runs, np.arange(count), order[:, -count:]] += 1
    steps[runs, np.arange(count, 2 * count), order[:, :count]] -= 1
    return granted(np.maximum(1, steps), current[:, None], job)


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
