"""Who takes part in a tournament: ``sure`` with a few settings, rules calibrated on the job's own days, and the best constant.

All of them keep the limits of the job's owner. Rules and the constant are calibrated in one draw of what strays
(``TUNING_DRAW``), and judged in others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial

import numpy as np

from contracts.job_settings import JobSettings
from contracts.messages import JobTopology, Tuned
from policies.answer import Float64
from policies.graph import Int64
from policies.limits import Limits
from policies.policy import Policy
from policies.rules.fixed import Static
from policies.rules.forecast import ForecastRule
from policies.sure.policy import SurePolicy
from policies.tuned import tuned_policy
from simulation.evaluation import tune
from simulation.evaluation.protocol import Split
from simulation.evaluation.spaces import SHIPPED, spaces
from simulation.evaluation.static import sizes_scores
from simulation.evaluation.tune import Space
from simulation.tournament.score import Aim
from simulation.what_if.ground import HOUR_MINUTES, Ground, PlayedJob

TUNING_DRAW = 1_000
"""Far from those that judge, which count from 0."""
PLACES = 12
"""Settings of a rule that are tried at a time, in three rounds."""
CALIBRATED = ("forecast", "target-utilisation", "ds2-gate")
AS_IT_SHIPS = Tuned()
SETTINGS_OF_SURE = (
    AS_IT_SHIPS,
    Tuned(constants={"margin": 0.6}),
    Tuned(constants={"margin": 1.6}),
    Tuned(constants={"hurdle": 4.0}),
)
CONSTANTS_MOST = 32
BUSIEST_LEAST = 0.3  # of the widest constant tried, at the highest load of an hour

Told = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that takes part: what a release would name, and the policy itself."""

    name: str
    sha256: str
    tuned: Tuned
    policy: Policy

    @classmethod
    def of(cls, policy: Policy, tuned: Tuned = AS_IT_SHIPS) -> "Candidate":
        """Return a policy with constants as a candidate."""
        return cls(policy.name, policy.sha256, tuned, tuned_policy(policy, tuned))

    @property
    def version(self) -> tuple[str, str, Tuned]:
        """Return what tells candidates apart."""
        return self.name, self.sha256, self.tuned


def candidates(
    ground: Ground, settings: JobSettings, aim: Aim, shipped: Sequence[Policy], first: Sequence[Candidate], told: Told
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
    calibration = _calibration(ground, settings, aim)
    for each in (*first, *_others(calibration, shipped, told)):
        found.setdefault((each.name, each.sha256, repr(each.tuned)), each)
    return list(found.values())


def _others(calibration: tune.Ground, shipped: Sequence[Policy], told: Told) -> Iterator[Candidate]:
    by_name = {policy.name: policy for policy in shipped}
    for policy in shipped:
        if isinstance(policy, SurePolicy):
            yield from (Candidate.of(policy, tuned) for tuned in SETTINGS_OF_SURE)
    forecast = by_name.get("forecast")
    rules = _spaces(forecast if isinstance(forecast, ForecastRule) else None, calibration)
    for name in CALIBRATED:
        if name not in rules or name not in by_name:
            continue
        stage = f"calibrates {name}"
        told(stage, 0.0)
        tuned = tune.tune(rules[name], calibration, partial(told, stage), PLACES)
        constants: dict[str, float | str] = {key: value for key, value in tuned.constants.items() if key != "weights"}
        yield Candidate.of(by_name[name], Tuned(constants=constants))
    told("looks for the best constant sizes", 0.0)
    job = calibration.job
    assert isinstance(job, _BoundedJob)
    best = _best_constant(calibration, job)
    sizes = {spec.task: int(size) for spec, size, real in zip(job.specs(), best, job.scalable, strict=True) if real}
    yield Candidate.of(Static(span_minutes=calibration.span_minutes), Tuned(sizes=sizes))


def _spaces(forecast: ForecastRule | None, calibration: tune.Ground) -> dict[str, Space]:
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


def _calibration(ground: Ground, settings: JobSettings, aim: Aim) -> tune.Ground:
    """Return the played hours as the calibration part of ``simulation.evaluation``."""
    job, last_ms = ground.job, ground.recorded.last_ms
    topology = JobTopology(
        job=ground.recorded.job, version=0, at_ms=0, tasks=job.recorded_specs, engine=ground.recorded.topology.engine
    )
    limits = Limits.of(settings, topology, last_ms)
    fixed = ~job.scalable | (np.zeros(job.size, dtype=np.bool_) if limits.pinned is None else limits.pinned)
    least, most = (np.where(fixed, job.start_parallelism, each) for each in (limits.least, limits.most))
    bounds = replace(limits, least=least, most=np.maximum(least, most), pinned=None, freeze="none")
    given = {field.name: getattr(job, field.name) for field in fields(PlayedJob)}
    terms = replace(ground.terms(TUNING_DRAW, 10), latency_weight=aim.latency_weight, latency_bound=aim.bound)
    part = Split(ground.first_minute - HOUR_MINUTES, ground.first_minute + ground.hours * HOUR_MINUTES)
    return tune.Ground.of(_BoundedJob(**given, bounds=bounds), ground.workload, terms, part)


def _best_constant(calibration: tune.Ground, job: _BoundedJob) -> Int64:
    """Return the proportional sizes [N] with the best reward on the played hours."""
    tried = _proportional(calibration, job)
    best: Int64 = tried[int(np.argmax(sizes_scores(tried, calibration)))]
    return best


def _proportional(calibration: tune.Ground, job: _BoundedJob) -> Int64:
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
