"""Who takes part in a tournament: ``sure`` with a few settings, rules calibrated on the job's own days, and the best constant.

All of them keep the limits of the job's owner. Rules and the constant are calibrated in one draw of what varies
(``TUNING_DRAW``) and judged in others, on the other half of the days.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial

import msgspec
import numpy as np

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology, Tuning
from surescale.contracts.releases import in_words
from surescale.policies.answer import Float64
from surescale.policies.graph import Int64
from surescale.policies.limits import Limits
from surescale.policies.policy import Policy
from surescale.policies.rules.fixed import Static
from surescale.policies.rules.forecast import ForecastRule
from surescale.policies.sure.policy import SurePolicy
from surescale.policies.tuned import tuned_policy
from surescale.simulation.evaluation import tune
from surescale.simulation.evaluation.protocol import Split
from surescale.simulation.evaluation.spaces import SHIPPED, spaces
from surescale.simulation.evaluation.static import sizes_scores
from surescale.simulation.evaluation.tune import Space
from surescale.simulation.tournament.score import Aim
from surescale.simulation.what_if.scenario import HOUR_MINUTES, PlayedJob, Scenario

TUNING_DRAW = 1_000
"""Far from those that judge, which count from 0."""
PLACES = 12
"""Settings of a rule that are tried at a time, in three rounds."""
CALIBRATED = ("forecast", "target-utilisation", "ds2-gate")
AS_IT_SHIPS = Tuning()
SETTINGS_OF_SURE = (
    AS_IT_SHIPS,
    Tuning(constants={"margin": 0.6}),
    Tuning(constants={"margin": 1.6}),
    Tuning(constants={"hurdle": 4.0}),
)
CONSTANTS_MOST = 32
BUSIEST_LEAST = 0.3  # of the widest constant tried, at the highest load of an hour

OnProgress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that takes part.

    Attributes:
        name, sha256, tuned: what a release would name.
        policy: the policy itself.
        halves: what is judged in its place if its constants were calibrated on these very days: in the first half of the hours
            the policy calibrated on the second half, and the other way round. Nobody is judged on what it was calibrated on.
    """

    name: str
    sha256: str
    tuned: Tuning
    policy: Policy
    halves: tuple[Policy, Policy] | None = None

    @classmethod
    def of(cls, policy: Policy, tuned: Tuning = AS_IT_SHIPS, halves: tuple[Tuning, Tuning] | None = None) -> "Candidate":
        """Return a policy with constants as a candidate."""
        judged = None if halves is None else (tuned_policy(policy, halves[0]), tuned_policy(policy, halves[1]))
        return cls(policy.name, policy.sha256, tuned, tuned_policy(policy, tuned), judged)

    @property
    def version(self) -> tuple[str, str, Tuning]:
        """Return what tells candidates apart."""
        return self.name, self.sha256, self.tuned

    @property
    def words(self) -> str:
        """Return it for people."""
        return self.name if self.tuned == AS_IT_SHIPS else f"{self.name} ({in_words(self.tuned)})"

    @property
    def judged(self) -> tuple[Policy, ...]:
        """Return the policies to play."""
        return self.halves or (self.policy,)


def candidates(
    ground: Scenario, settings: JobSettings, aim: Aim, shipped: Sequence[Policy], first: Sequence[Candidate], told: OnProgress
) -> list[Candidate]:
    """Return who takes part: ``first`` (what serves the job now, and what would without a tournament), then the others.

    Args:
        ground: the twin.
        settings: of the job.
        aim: what its owner wants.
        shipped: the policies to try settings and constants of; those that are missing are left out.
        first: they come first, each once.
        told: receives the stage and the share of it that is done.
    """
    found: dict[tuple[str, str, str], Candidate] = {}
    for each in (*first, *_others(_Days.of(ground, settings, aim), shipped, told)):
        found.setdefault((each.name, each.sha256, repr(each.tuned)), each)
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Days:
    """All played hours to calibrate on, and for the judgement of each half the other one."""

    whole: tune.CalibrationPart
    for_first: tune.CalibrationPart
    for_second: tune.CalibrationPart

    @classmethod
    def of(cls, ground: Scenario, settings: JobSettings, aim: Aim) -> "_Days":
        """Return the hours of a ground."""
        middle = first_half_hours(ground.hours)
        whole, first, second = (
            _calibration(ground, settings, aim, *part) for part in ((0, ground.hours), (0, middle), (middle, ground.hours))
        )
        return cls(whole, second, first)

    def calibrated(self, policy: Policy, find: Callable[[tune.CalibrationPart], Tuning]) -> Candidate:
        """Return a policy with what is found on all hours, to be judged by what is found on the other half."""
        return Candidate.of(policy, find(self.whole), (find(self.for_first), find(self.for_second)))


def first_half_hours(hours: int) -> int:
    """Return how many of the played hours are the first half."""
    return hours // 2


def _others(days: _Days, shipped: Sequence[Policy], told: OnProgress) -> Iterator[Candidate]:
    by_name = {policy.name: policy for policy in shipped}
    for policy in shipped:
        if isinstance(policy, SurePolicy):
            yield from (Candidate.of(policy, tuned) for tuned in SETTINGS_OF_SURE)
    forecast = by_name.get("forecast")
    rules = _spaces(forecast if isinstance(forecast, ForecastRule) else None, days.whole)
    for name in CALIBRATED:
        if name in rules and name in by_name:
            yield days.calibrated(by_name[name], partial(_constants, rules[name], partial(told, f"calibrates {name}")))
    told("looks for the best constant sizes", 0.0)
    yield days.calibrated(Static(span_minutes=days.whole.span_minutes), _constant)


def _constants(space: Space, told: Callable[[float], None], calibration: tune.CalibrationPart) -> Tuning:
    found = tune.tune(space, calibration, told, PLACES).constants
    return Tuning(constants={name: value for name, value in found.items() if name != "weights"})


def _constant(calibration: tune.CalibrationPart) -> Tuning:
    job = calibration.job
    assert isinstance(job, _BoundedJob)
    best = _best_constant(calibration, job)
    return Tuning(sizes={spec.task: int(size) for spec, size, real in zip(job.specs(), best, job.scalable, strict=True) if real})


def _spaces(forecast: ForecastRule | None, calibration: tune.CalibrationPart) -> dict[str, Space]:
    """Return the spaces of the rules; the weights of the forecast stay as shipped, since a release cannot carry others."""
    found = spaces(forecast, calibration.workload, calibration.workload.minutes)
    if "forecast" in found:
        space = found["forecast"]
        axes = tuple(axis for axis in space.axes if axis.name != "weights")
        found["forecast"] = Space(
            axes,
            {axis.name: space.shipped[axis.name] for axis in axes},
            lambda chosen: space.make({**chosen, "weights": SHIPPED}),
        )
    return found


@dataclass(frozen=True)
class _BoundedJob(PlayedJob):
    """A played job within the limits of its owner, which calibration keeps as well."""

    bounds: Limits | None = None

    @cached_property
    def limits(self) -> Limits:
        """Return the owner's limits."""
        assert self.bounds is not None
        return self.bounds


def _calibration(ground: Scenario, settings: JobSettings, aim: Aim, first_hour: int, end_hour: int) -> tune.CalibrationPart:
    """Return some of the played hours as the calibration part of ``simulation.evaluation``."""
    job, last_ms = ground.job, ground.recorded.last_ms
    topology = JobTopology(
        job=ground.recorded.job, version=0, at_ms=0, tasks=job.recorded_specs, engine=ground.recorded.topology.engine
    )
    limits = Limits.of(msgspec.structs.replace(settings, minimum_within=None), topology, last_ms)  # sizes for all hours
    fixed = ~job.scalable | (np.zeros(job.size, dtype=np.bool_) if limits.pinned is None else limits.pinned)
    least, most = (np.where(fixed, job.start_parallelism, each) for each in (limits.least, limits.most))
    bounds = replace(limits, least=least, most=np.maximum(least, most), pinned=None, freeze="none")
    given = {field.name: getattr(job, field.name) for field in fields(PlayedJob)}
    terms = replace(ground.terms(TUNING_DRAW, 10), latency_weight=aim.latency_weight, latency_bound=aim.bound)
    first, end = (ground.first_minute + hour * HOUR_MINUTES for hour in (first_hour, end_hour))
    part = Split(first - HOUR_MINUTES, end)
    found = tune.CalibrationPart.of(_BoundedJob(**given, bounds=bounds), ground.workload, terms, part)
    return replace(found, is_bound_heeded=True)  # as rules do where a release serves them


def _best_constant(calibration: tune.CalibrationPart, job: _BoundedJob) -> Int64:
    """Return the proportional sizes [N] with the best reward on the played hours."""
    tried = _proportional(calibration, job)
    best: Int64 = tried[int(np.argmax(sizes_scores(tried, calibration)))]
    return best


def _proportional(calibration: tune.CalibrationPart, job: _BoundedJob) -> Int64:
    """Return different sizes [C, N] for capacities from the mean load to far above the highest hour, within the limits."""
    first = int(calibration.first_minutes[0])
    load = calibration.workload.requests[first:].astype(np.float64)
    hourly = load[: len(load) // HOUR_MINUTES * HOUR_MINUTES].reshape(-1, HOUR_MINUTES).mean(axis=1)
    mean, highest = max(float(load.mean()), 1e-9), max(float(hourly.max()), 1e-9)
    capacities: Float64 = np.geomspace(0.7 * mean, highest / BUSIEST_LEAST, CONSTANTS_MOST)
    with np.errstate(invalid="ignore"):
        exact = np.ceil(capacities[:, None] * job.service_minutes - 1e-9)
    bounds, least = job.limits, np.maximum(job.limits.least, 1)
    wanted = np.clip(exact, least, bounds.most).astype(np.int64)
    for members in bounds.ties:
        wanted[:, members] = wanted[:, members].max(axis=1, keepdims=True)
    sizes: Int64 = np.unique(job.within_limits(wanted), axis=0)
    return sizes
