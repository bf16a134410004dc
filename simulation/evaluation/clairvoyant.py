"""The clairvoyant rule: DS2 behind a restart gate, with the true mean load of the coming hour. An upper end, never ranked.

It shows the value of a perfect forecast of the hour's mean; bursts within the hour still surprise it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.policies.guardrails import guard_rows, unmeasured
from surescale.policies.policy import SPAN_MINUTES
from surescale.simulation.evaluation.closed_loop import LoopOutcome, Trial, drive
from surescale.simulation.evaluation.hours import Hours, hours_of
from surescale.simulation.evaluation.protocol import HOUR
from surescale.simulation.evaluation.tune import CalibrationPart
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import LoopRows

NAME = "clairvoyant"


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
