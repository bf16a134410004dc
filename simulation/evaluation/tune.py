"""Calibrates rules on the calibration part: many settings of one rule side by side in the simulator.

The workload passed in ends where calibration ends, so nothing after it can leak.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

import numpy as np
from msgspec import structs

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import is_simulated
from surescale.policies.answer import Answer, Float64
from surescale.policies.graph import Int64
from surescale.policies.guardrails import guard_rows, situation
from surescale.policies.latency_budget import spent_rows
from surescale.policies.policy import SPAN_MINUTES, Policy
from surescale.policies.question import Question
from surescale.policies.rules.reading import Reading, Rule, SizingRule, parts_of, read_figures, wanted_by
from surescale.simulation.evaluation.closed_loop import Serving, drive, settings_of
from surescale.simulation.evaluation.hours import Hours, hours_of
from surescale.simulation.evaluation.protocol import DAY, HOUR, Split
from surescale.simulation.evaluation.search import ROUNDS, Axis, Constant, constants, flat_optimum
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import LoopRows, Observed
from surescale.simulation.loops.terms import Terms

STRETCHES_MAX = 4
SETTLING_HOURS = 1  # from the starting sizes to the rule's own; not counted
PLACES = 20  # settings in a round
LATE_SLOPE = 20.0  # of utilisation, per share of minutes above a bound that is not allowed: nobody buys more of them


class BatchPolicy(Policy, Rule, Protocol):
    """A policy whose arithmetic works on many rows at once."""


@dataclass(frozen=True, slots=True)
class Unheeding:
    """A rule calibrated for a bound on latency: its constants leave the room that it would leave once more if it were told.

    What the day's budget keeps from shrinking stays, as for every policy.
    """

    rule: Policy

    @property
    def name(self) -> str:
        """Return the rule's name."""
        return self.rule.name

    @property
    def sha256(self) -> str:
        """Return the rule's hash."""
        return self.rule.sha256

    @property
    def span_minutes(self) -> int:
        """Return the rule's minutes between decisions."""
        return self.rule.span_minutes

    @property
    def floor_applies(self) -> bool:
        """Return whether the load floor binds the rule."""
        return self.rule.floor_applies

    def answer(self, question: Question) -> Answer:
        """Return the rule's answer as if the job had no bound."""
        return self.rule.answer(replace(question, settings=structs.replace(question.settings, objective=None)))


@dataclass(frozen=True, slots=True)
class CalibrationPart:
    """The calibration part, split into S stretches that run side by side; ``workload`` ends with it.

    ``is_bound_heeded``: rules leave room for a bound on latency by themselves, on top of what calibration finds.
    """

    job: SizedJob
    workload: Workload
    terms: Terms
    first_minutes: Int64
    hours: int
    span_minutes: int = SPAN_MINUTES
    is_bound_heeded: bool = False

    @classmethod
    def of(
        cls, job: SizedJob, workload: Workload, terms: Terms, part: Split, span_minutes: int | None = None
    ) -> "CalibrationPart":
        """Split the part into stretches of about a day or more."""
        count = int(np.clip((part.end - part.first) // DAY, 1, STRETCHES_MAX))
        hours = (part.end - part.first) // HOUR // count
        first = part.first + HOUR + hours * HOUR * np.arange(count, dtype=np.int64)
        known = replace(workload, requests=workload.requests[: part.end])
        return cls(job, known, terms, first, hours - 1, span_minutes or SPAN_MINUTES)

    def rows(self, start: Int64, span_minutes: int) -> LoopRows:
        """Return rows for sizes [C, N] at the start, each at every stretch: row c * S + s."""
        terms = replace(self.terms, span_minutes=span_minutes)
        count = len(self.first_minutes)
        return LoopRows(self.job, self.workload, np.tile(self.first_minutes, len(start)), np.repeat(start, count, axis=0), terms)

    def scores(self, hours: Hours, candidates: int) -> Float64:
        """Return the mean reward [C] of each candidate's hours after settling.

        Under a bound on latency it is the utilisation, less ``LATE_SLOPE`` times the share of minutes above it beyond the allowed
        one. A score that is no number is the worst.
        """
        settled = slice(min(SETTLING_HOURS, hours.weight.shape[1] - 1), None)
        weight = hours.weight[:, settled].reshape(candidates, -1)

        def mean(values: Float64) -> Float64:
            own = values[:, settled].reshape(candidates, -1)
            means: Float64 = (own * weight).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-12)
            return means

        if hours.late is None or hours.late_most is None:
            found = mean(hours.rewards)
        else:
            found = mean(hours.utilisation) - LATE_SLOPE * np.maximum(mean(hours.late) - hours.late_most, 0.0)
        return np.where(np.isnan(found), -np.inf, found)


@dataclass(frozen=True, slots=True)
class Space:
    """The constants of a rule that calibration may set, their shipped values, and how to make a rule from them."""

    axes: tuple[Axis, ...]
    shipped: dict[str, Constant]
    make: Callable[[dict[str, Constant]], BatchPolicy]


@dataclass(frozen=True, slots=True)
class TunedPolicy:
    """A policy as calibrated, its constants, and its reward on the calibration part next to that of the shipped constants."""

    policy: Policy
    constants: dict[str, Constant]
    reward: float
    shipped_reward: float


def tune(space: Space, ground: CalibrationPart, told: Callable[[float], None], places: int = PLACES) -> TunedPolicy:
    """Return the rule at a flat optimum of its space (``simulation.evaluation.search``)."""
    known: list[float] = []

    def scores(units: Float64) -> Float64:
        rules = [space.make(constants(space.axes, unit)) for unit in units]
        done, part = len(known), len(rules)
        found = rule_scores(rules, ground, lambda share: told(min(1.0, (done + share * part) / (ROUNDS * places))))
        known.extend(found.tolist())
        return found

    start = np.array([axis.place(space.shipped[axis.name]) for axis in space.axes])
    best = flat_optimum(scores, start, [len(axis.values) for axis in space.axes], places)
    chosen = constants(space.axes, best.place)
    return TunedPolicy(_served(space.make(chosen), ground), chosen, best.score, known[0])


def rule_scores(
    rules: Sequence[BatchPolicy], ground: CalibrationPart, told: Callable[[float], None] = lambda share: None
) -> Float64:
    """Return the mean reward [C] of rules on the calibration part, served as those that are judged are."""
    start, stretches = np.tile(ground.job.start_parallelism, (len(rules), 1)), len(ground.first_minutes)
    rows = ground.rows(start, ground.span_minutes)
    each = [_served(rule, ground) for rule in rules for _ in range(stretches)]
    settings = settings_of(ground.job, rows.terms.latency_bound)
    serving = Serving(each, settings, ground.job, rows.terms, [0] * len(each))
    choose = serving.sizes
    if serving.step_minutes < ground.span_minutes:
        rows = ground.rows(start, serving.step_minutes)
    elif is_simulated(rows.terms.engine):
        choose = partial(_sizes_at_once, rules, ground)
    spans = drive(rows, ground.hours, choose, told)
    return ground.scores(hours_of(spans, rows.terms, np.tile(ground.first_minutes, len(rules)), ground.job), len(rules))


def _served(rule: Policy, ground: CalibrationPart) -> Policy:
    return rule if ground.is_bound_heeded or ground.terms.latency_bound is None else Unheeding(rule)


def _sizes_at_once(rules: Sequence[BatchPolicy], ground: CalibrationPart, rows: LoopRows) -> Int64:
    """Return what rows get where nothing but the guardrails acts on what rules want: many times as fast as one by one."""
    observed, terms, limits = rows.observe(), rows.terms, ground.job.limits
    bound = terms.latency_bound if ground.is_bound_heeded else None
    reading, together = replace(_reading_of(observed, rows), latency_bound=bound), _of_one_kind(rules)
    wanted = wanted_by(together, reading) if together else _each_wanted(rules, reading)
    seen = situation(reading.measured, rows.graph, reading.current)
    sizes = guard_rows(wanted, seen, limits, floor_applies=True)
    would_shrink = (sizes < reading.current).any(axis=-1)
    if terms.latency_bound is None or not would_shrink.any():
        return sizes
    assert observed.waits_s is not None, "there is a bound"
    restart_s = None if terms.told_restart_ms is None else terms.told_restart_ms / 1000.0
    spent = would_shrink & spent_rows(terms.latency_bound, reading.measured, rows.graph, observed.waits_s, restart_s)
    held = spent[:, None] & rows.graph.scalable
    held = held if seen.unproven is None else held | seen.unproven
    return guard_rows(wanted, replace(seen, unproven=held), limits, floor_applies=True)


def _of_one_kind(rules: Sequence[BatchPolicy]) -> Sequence[SizingRule]:
    """Return the rules if they can be asked together, else none."""
    sizing = [rule for rule in rules if isinstance(rule, SizingRule)]
    return sizing if len(sizing) == len(rules) and len({type(rule) for rule in rules}) == 1 else []


def _each_wanted(rules: Sequence[BatchPolicy], reading: Reading) -> Int64:
    """Return what rules want, [B, N]; each has its part of the rows, one after another."""
    parts = parts_of(reading, len(rules))
    return np.concatenate([rule.wanted(reading.rows(own)) for rule, own in zip(rules, parts, strict=True)])


def _reading_of(seen: Observed, rows: LoopRows) -> Reading:
    """Return the reading of what is seen of rows on the simulated engine."""
    reading = read_figures(seen.figures, rows.graph, seen.current, seen.hourly_load, seen.ends_ms)
    restart_ms = rows.terms.told_restart_ms
    return reading if restart_ms is None else replace(reading, restart_minutes=restart_ms / MINUTE_MS)
