"""Judges one policy in one setting: calibrates it if that is allowed, then runs it. Pure.

`surescale policy evaluate` judges policies by name; the scores of an exported package judge the package beside the rules. Both
use the same setting, runs and scorer, so one policy has one figure.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.errors import SurescaleError
from surescale.contracts.job_settings import LatencyBound, Objective
from surescale.policies.onnx_sessions import Opener
from surescale.policies.policy import SPAN_MINUTES, Policy
from surescale.policies.registry import FORECAST, RULES, Unavailable, load_policy, policy_names
from surescale.policies.rules.fixed import Static
from surescale.policies.rules.forecast import ForecastRule
from surescale.simulation.evaluation.clairvoyant import (
    CEILING,
    CLAIRVOYANT,
    ORACLE,
    RULE,
    follow_ceiling,
    follow_clairvoyant,
    follow_oracle,
    tuned_clairvoyant,
)
from surescale.simulation.evaluation.closed_loop import LoopOutcome, Trial, follow
from surescale.simulation.evaluation.hours import HOUR_MINUTES
from surescale.simulation.evaluation.protocol import Runs, Split, place_runs, split
from surescale.simulation.evaluation.search import Constant
from surescale.simulation.evaluation.spaces import spaces
from surescale.simulation.evaluation.static import best_static
from surescale.simulation.evaluation.tune import CalibrationPart, TunedPolicy, tune
from surescale.simulation.load.graphs import JobGraph
from surescale.simulation.load.jobs import LITERAL_FACTOR, Load, SizedJob, size_job
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.terms import Mode, Served, Terms
from surescale.simulation.model.course import job_in, load_in
from surescale.simulation.model.world_file import SECOND_MINUTES, WorldFile
from surescale.simulation.model.worlds import CALM, World, world_named

BATCHES_RESTART_MS_MAX = (SPAN_MINUTES - 1) * MINUTE_MS
STATIC = "static"

OnProgress = Callable[[str, float], None]  # stage, share done


class EvaluationError(SurescaleError):
    """A policy cannot be evaluated; the message names it and the fix."""


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """What to evaluate, apart from job and workload; ``fitted`` is the world of a file, which ``world`` then names.

    ``opener``: of the graphs of the folder's packages, as in `open_graphs`. ``served``: as in `Terms`.
    """

    mode: Mode = "clean"
    world: str = CALM.name
    world_seed: int = 0
    restart_s: float | None = None
    latency_weight: float = 0.5
    load: Load = "calibrated"
    load_parallelism: float = 7.0
    runs: int = 5
    seed: int = 0
    calibrate: str | None = None
    tuned: bool = True
    span_minutes: int | None = None
    policy_folder: str = ""
    opener: Opener | None = None
    fitted: WorldFile | None = None
    objective: Objective | LatencyBound | None = None
    served: Served = "world"

    @property
    def latency_bound(self) -> LatencyBound | None:
        """Return the bound on latency, if that is the objective."""
        return self.objective if isinstance(self.objective, LatencyBound) else None

    @property
    def played(self) -> World:
        """Return the world.

        Raises:
            RunError: there is no such world.
        """
        if self.fitted is not None:
            return self.fitted.world(self.world, seed=self.world_seed, restart_s=self.restart_s)
        return world_named(self.world, seed=self.world_seed, restart_s=self.restart_s)


@dataclass(frozen=True, slots=True)
class Setting:
    """A job under a workload, with the minutes for tuning and the minutes for judging."""

    job: SizedJob
    workload: Workload
    asked: EvaluationRequest
    part: Split
    runs: Runs

    @property
    def terms(self) -> Terms:
        """Return the simulator's terms; each policy brings its own span."""
        world = self.asked.played
        mode: Mode = "slo" if world.has_slo else self.asked.mode
        return Terms(
            mode=mode,
            latency_weight=self.asked.latency_weight,
            restart_ms=world.restart_ms,
            latency_bound=self.asked.latency_bound,
            world=world,
            served=self.asked.served,
        )

    @property
    def span_minutes(self) -> int | None:
        """Return the minutes between decisions of all policies; None: each policy's own.

        In ``compat`` every decision restarts the job, so it is the paper's hour.
        """
        return self.asked.span_minutes or (HOUR_MINUTES if self.asked.mode == "compat" else None)

    @property
    def trial(self) -> Trial:
        """Return the runs that judge."""
        seeds = tuple(self.asked.seed + index for index in range(len(self.runs.offsets)))
        first, hours = self.runs.first_decisions, self.runs.hours
        objective = None if isinstance(self.asked.objective, LatencyBound) else self.asked.objective
        return Trial(self.job, self.workload, self.terms, first, seeds, hours, self.span_minutes, objective)

    @property
    def ground(self) -> CalibrationPart:
        """Return the part that tunes."""
        return CalibrationPart.of(self.job, self.workload, self.terms, self.part, self.span_minutes)


@dataclass(frozen=True, slots=True)
class JudgedPolicy:
    """A policy's outcome, what calibration chose (``tuned``) and the static vector (``sizes``); None if there is none."""

    name: str
    outcome: LoopOutcome
    sha256: str = ""
    constants: dict[str, Constant] | None = None
    tuned: TunedPolicy | None = None
    sizes: dict[str, int] | None = None


def setting_of(graph: JobGraph, workload: Workload, asked: EvaluationRequest) -> Setting:
    """Return the setting; the job is sized at the P99 load of the calibration part, as it would be in the world ``calm``.

    Raises:
        EvaluationError: the mode is not played in the world asked for.
        RunError: there is no such world.
        ProtocolError: too few minutes to tune or to judge.
        JobError: the job cannot be sized.
    """
    world, flows = asked.played, asked.mode == "clean"
    if not flows and (world.has_pressure or world.varies or (world.has_slo and asked.mode != "slo")):
        own = "slo" if world.has_slo else "clean"
        raise EvaluationError(f"--world: {asked.world} is played in mode {own} only, not {asked.mode}; drop --mode or --world")
    if (world.has_slo or not flows) and world.restart_ms > BATCHES_RESTART_MS_MAX:
        raise EvaluationError(
            f"--restart-s: {world.restart_ms / 1000:g} s; where a batch a minute passes, a restart lasts at most "
            f"{BATCHES_RESTART_MS_MAX // 1000} s, so that it ends before the next decision"
        )
    if asked.latency_bound is not None and (not flows or world.has_slo):
        raise EvaluationError("--objective: minutes above a latency are counted in mode clean only, outside the world slo")
    part = split(workload, asked.calibrate)
    runs = place_runs(workload, part, asked.runs, asked.seed)
    minutes, literal = (part.first, part.end), LITERAL_FACTOR if asked.fitted is None else SECOND_MINUTES
    job = size_job(graph, workload, asked.load_parallelism, minutes=minutes, load=asked.load, literal_factor=literal)
    load = load_in(world, workload)
    return Setting(job_in(world, job, load), load, asked, part, runs)


def known_names(folder: str = "") -> tuple[str, ...]:
    """Return every name that can be evaluated."""
    return tuple(dict.fromkeys((*RULES, FORECAST, *policy_names(folder), *CLAIRVOYANT)))


def usable(name: str, folder: str, opener: Opener | None = None) -> None:
    """Check that a policy can be evaluated.

    Raises:
        EvaluationError: no such policy, a model that cannot be loaded, or a span that does not divide an hour.
    """
    if name in CLAIRVOYANT:
        return
    policy = load_policy(name, folder, opener=opener)
    if isinstance(policy, Unavailable):
        others = ", ".join(other for other in known_names(folder) if other != name)
        raise EvaluationError(f"--policy: {name}: {policy.reason}; others here: {others}")
    if HOUR_MINUTES % policy.span_minutes:
        raise EvaluationError(f"--policy: {name} decides every {policy.span_minutes} minutes; a divisor of 60 is needed")


def check_played(names: Sequence[str], setting: Setting) -> None:
    """Check before the work that the policies can be judged in a setting.

    Raises:
        EvaluationError: the ceiling is among them, and the mode is not the one that it is known in.
    """
    if CEILING in names and setting.terms.mode != "clean":
        raise EvaluationError("--policy: the ceiling is known in mode clean only, where sizes are one family; take oracle")


def judge(name: str, setting: Setting, told: OnProgress) -> JudgedPolicy:
    """Calibrate a policy on the calibration part, if it can be calibrated, and run it on what follows."""
    ground, trial = setting.ground, setting.trial
    running: Callable[[float], None] = lambda share: told("runs", share)  # noqa: E731
    if name == ORACLE:
        return JudgedPolicy(name, follow_oracle(trial, best_static(ground).sizes, running))
    if name == CEILING:
        check_played((name,), setting)
        return JudgedPolicy(name, follow_ceiling(trial, running))
    if name == RULE:
        rule = tuned_clairvoyant(ground)
        return JudgedPolicy(name, follow_clairvoyant(rule, trial, running), constants=asdict(rule))
    if name == STATIC and setting.asked.tuned:
        sizes = dict(zip(setting.job.graph.tasks, best_static(ground).sizes.tolist(), strict=True))
        return replace(judge_policy(Static(sizes=tuple(sizes.items())), setting, told), sizes=sizes)
    policy = load_policy(name, setting.asked.policy_folder, opener=setting.asked.opener)
    tuned = _tuned(name, policy, setting, ground, told)
    if tuned is None:
        return replace(judge_policy(policy, setting, told), name=name)
    return replace(judge_policy(tuned.policy, setting, told), name=name, constants=tuned.constants, tuned=tuned)


def judge_policy(policy: Policy, setting: Setting, told: OnProgress) -> JudgedPolicy:
    """Run a policy as it is, without calibration, on what follows the calibration part."""
    return JudgedPolicy(policy.name, follow(policy, setting.trial, lambda share: told("runs", share)), policy.sha256)


def _tuned(name: str, policy: Policy, setting: Setting, ground: CalibrationPart, told: OnProgress) -> TunedPolicy | None:
    if not setting.asked.tuned:
        return None
    forecast = policy if isinstance(policy, ForecastRule) else None
    space = spaces(forecast, ground.workload, setting.part.first).get(name)
    if space is None:
        return None
    return tune(space, ground, lambda share: told("calibrates", share))
