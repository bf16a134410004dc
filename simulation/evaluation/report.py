"""The report of an evaluation: a stable document for other programs. Pure.

Keys keep their meaning once published. Figures of a policy: ``reward_mean`` is the mean over the scored minutes of all runs and
equals -lambda x ``latency_mean`` + (1 - lambda) x ``utilisation``; ``restart_s`` is how long a restart takes in the world, before
any draw; for ``reward_ci95`` see ``simulation.evaluation.hours``;
``share_above_bound`` is null without a bound on latency; ``late_minutes_per_day`` counts minutes with a latency above
``late_seconds``, and both are null where a batch a minute passes; ``dollars_per_day`` is null without a price; ``task_minutes``
and ``decisions`` are per run; ``wall_s`` covers calibration and runs.
"""

from collections.abc import Sequence

import msgspec

from surescale.contracts.objectives import DAY_MINUTES, in_words
from surescale.policies.registry import FORECAST, RULES
from surescale.simulation.evaluation.clairvoyant import CEILING, CLAIRVOYANT, ORACLE
from surescale.simulation.evaluation.hours import Hours, interval, paired
from surescale.simulation.evaluation.judge import STATIC, JudgedPolicy, Setting
from surescale.simulation.evaluation.search import Constant
from surescale.simulation.load.jobs import Load
from surescale.simulation.loops.terms import Mode

FORMAT = 1
DIGITS = 6
NO_RIVALS = ("static", "hold", "random")  # rules that ignore the load; any other may be the best rule


class Calibration(msgspec.Struct, frozen=True):
    """The minutes set aside for calibration; nothing was calibrated on them unless ``tuned``."""

    first_minute: int
    end_minute: int
    tuned: bool


class GapMinutes(msgspec.Struct, frozen=True):
    """Minutes whose requests nobody counted, which are left out."""

    first_minute: int
    last_minute: int


class RunFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How one policy did in one run."""

    reward_mean: float
    latency_mean: float
    utilisation: float
    task_minutes: float
    rescales_per_day: float
    subtask_hours_per_day: float
    dollars_per_day: float | None
    late_minutes_per_day: float | None
    worst_hour: float
    hours_at_latency_cap: float
    share_above_bound: float | None
    decisions: int


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run: its seed, the minute of the trace it starts at, and each policy's figures."""

    seed: int
    offset: int
    policies: dict[str, RunFigures]


class PolicyFigures(RunFigures, frozen=True, kw_only=True):
    """How one policy did over all runs, and how it was calibrated."""

    reward_ci95: list[float]
    wall_s: float
    clairvoyant: bool
    sha256: str
    constants: dict[str, Constant] | None
    sizes: dict[str, int] | None
    calibration_reward: float | None
    calibration_reward_as_shipped: float | None
    stand_ins: int
    stand_in_reason: str | None


class RewardDifference(msgspec.Struct, frozen=True):
    """One policy's reward minus another's, paired by hour; no error where there is only one run."""

    mean: float
    standard_error: float | None


class StaticToOracle(msgspec.Struct, frozen=True):
    """The distance from static to oracle, and the share of it that each other policy covers."""

    width: float
    shares: dict[str, float | None]


class PolicyComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Paired differences, to the best rule, to the ceiling and of all pairs."""

    best_rule: str | None
    to_best_rule: dict[str, RewardDifference]
    regret_to_ceiling: dict[str, RewardDifference]
    paired: dict[str, dict[str, RewardDifference]]
    static_to_oracle: StaticToOracle | None


class EvaluationReport(msgspec.Struct, frozen=True, kw_only=True):
    """The report as other programs read it."""

    format: int = FORMAT
    job: str
    tasks: int
    workload: str
    mode: Mode
    world: str
    world_seed: int
    restart_s: float
    latency_weight: float = msgspec.field(name="lambda")
    objective: str | None
    late_seconds: float | None
    price: float | None
    load: Load
    load_parallelism: float
    load_factor: float
    seed: int
    calibration: Calibration
    episode_minutes: int
    scored_hours: int
    span_minutes: int | None
    gaps: list[GapMinutes]
    policies: dict[str, PolicyFigures]
    runs: list[Run]
    comparison: PolicyComparison


def report_of(
    setting: Setting, results: Sequence[JudgedPolicy], wall_s: dict[str, float], price: float | None = None
) -> EvaluationReport:
    """Return the report; the same setting and seed give the same values, except ``wall_s``.

    ``price``: dollars per subtask and hour; None: unknown.
    """
    asked, runs = setting.asked, setting.runs
    return EvaluationReport(
        job=setting.job.name,
        tasks=setting.job.size,
        workload=setting.workload.name,
        mode=setting.terms.mode,
        world=asked.world,
        world_seed=asked.world_seed,
        restart_s=setting.terms.restart_ms / 1000.0,
        latency_weight=asked.latency_weight,
        objective=in_words(asked.objective),
        late_seconds=setting.terms.late_after_seconds if setting.terms.mode == "clean" else None,
        price=price,
        load=asked.load,
        load_parallelism=asked.load_parallelism,
        load_factor=float(setting.job.scale_factor),
        seed=asked.seed,
        calibration=Calibration(setting.part.first, setting.part.end, asked.tuned),
        episode_minutes=runs.minutes,
        scored_hours=runs.hours,
        span_minutes=setting.span_minutes,
        gaps=[GapMinutes(gap.first, gap.last) for gap in setting.workload.gaps],
        policies={result.name: _policy(result, asked.seed, wall_s[result.name], price) for result in results},
        runs=[_run(results, index, asked.seed + index, int(offset), price) for index, offset in enumerate(runs.offsets)],
        comparison=_comparison(results),
    )


def _run(results: Sequence[JudgedPolicy], index: int, seed: int, offset: int, price: float | None) -> Run:
    policies = {result.name: _figures(result.outcome.hours.run(index), result.outcome.decisions, price) for result in results}
    return Run(seed=seed, offset=offset, policies=policies)


def _figures(hours: Hours, decisions: int, price: float | None) -> RunFigures:
    return RunFigures(
        reward_mean=_round(hours.reward),
        latency_mean=_round(hours.mean(hours.latency)),
        utilisation=_round(hours.mean(hours.utilisation)),
        task_minutes=_round(float(hours.task_minutes.sum()) / len(hours.first)),
        rescales_per_day=_round(hours.rescales_per_day),
        subtask_hours_per_day=_round(hours.rent),
        dollars_per_day=None if price is None else _round(price * hours.rent),
        late_minutes_per_day=None if hours.late_share is None else _round(DAY_MINUTES * hours.late_share),
        worst_hour=_round(hours.worst),
        hours_at_latency_cap=_round(hours.hours_at_cap),
        share_above_bound=None if hours.late_share is None or hours.late_most is None else _round(hours.late_share),
        decisions=decisions,
    )


def _policy(result: JudgedPolicy, seed: int, wall_s: float, price: float | None) -> PolicyFigures:
    outcome, tuned = result.outcome, result.tuned
    return PolicyFigures(
        **msgspec.structs.asdict(_figures(outcome.hours, outcome.decisions, price)),
        reward_ci95=[_round(bound) for bound in interval(outcome.hours, seed)],
        wall_s=round(wall_s, 3),
        clairvoyant=result.name in CLAIRVOYANT,
        sha256=result.sha256,
        constants=result.constants,
        sizes=result.sizes,
        calibration_reward=_round(tuned.reward) if tuned else None,
        calibration_reward_as_shipped=_round(tuned.shipped_reward) if tuned else None,
        stand_ins=outcome.stand_ins,
        stand_in_reason=outcome.stand_in_reason or None,
    )


def _comparison(results: Sequence[JudgedPolicy]) -> PolicyComparison:
    """Return paired differences, to the best rule, to the ceiling and of all pairs, and shares of the way to the oracle.

    A regret is the ceiling's reward less the policy's.
    """
    hours = {result.name: result.outcome.hours for result in results}
    rewards = {name: own.reward for name, own in hours.items()}
    rules = [name for name in hours if name in (*RULES, FORECAST) and name not in NO_RIVALS]
    best = max(sorted(rules), key=lambda name: rewards[name]) if rules else None
    pairs = {name: {other: _difference(own, hours[other]) for other in hours if other != name} for name, own in hours.items()}
    return PolicyComparison(
        best_rule=best,
        to_best_rule={name: to[best] for name, to in pairs.items() if name != best} if best is not None else {},
        regret_to_ceiling=pairs.get(CEILING, {}),
        paired=pairs,
        static_to_oracle=_static_to_oracle(rewards) if STATIC in hours and ORACLE in hours else None,
    )


def _static_to_oracle(rewards: dict[str, float]) -> StaticToOracle:
    width = rewards[ORACLE] - rewards[STATIC]
    shares = {
        name: _round((reward - rewards[STATIC]) / width) if width > 1e-9 else None
        for name, reward in rewards.items()
        if name not in (STATIC, ORACLE)
    }
    return StaticToOracle(_round(width), shares)


def _difference(own: Hours, other: Hours) -> RewardDifference:
    mean, error = paired(own, other)
    return RewardDifference(_round(mean), None if error != error else _round(error))


def _round(value: float) -> float:
    return round(float(value), DIGITS)
