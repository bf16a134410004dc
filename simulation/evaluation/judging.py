"""One policy on one setting: calibrate it where that is allowed, run it, keep what it did. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from contracts.errors import SurescaleError
from policies.policy import Policy
from policies.registry import FORECAST, RULES, Unavailable, load_policy, policy_names
from policies.rules.fixed import Static
from policies.rules.forecast import ForecastRule
from simulation.cores import Mode, Terms
from simulation.evaluation import clairvoyant, oracle
from simulation.evaluation.closed_loop import Outcome, Trial, follow
from simulation.evaluation.protocol import Runs, Split, place_runs, split
from simulation.evaluation.scoring import HOUR_MINUTES
from simulation.evaluation.spaces import spaces
from simulation.evaluation.static import best_static
from simulation.evaluation.tuning import Ground, Tuned, tune
from simulation.graphs import JobGraph
from simulation.jobs import Load, SizedJob, size_job
from simulation.workload import Workload

CLAIRVOYANT = (oracle.NAME, clairvoyant.NAME)  # know the future; never ranked
STATIC = "static"

Told = Callable[[str, float], None]  # stage, share done


class EvaluationError(SurescaleError):
    """A policy cannot be evaluated; the message names it and the fix."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What shall be evaluated, apart from job and workload themselves."""

    mode: Mode = "clean"
    latency_weight: float = 0.5
    load: Load = "calibrated"
    load_parallelism: float = 7.0
    runs: int = 5
    seed: int = 0
    calibrate: str | None = None
    tuned: bool = True
    span_minutes: int | None = None
    policy_folder: str = ""


@dataclass(frozen=True, slots=True)
class Setting:
    """A job under a workload, the minutes that tune and those that judge."""

    job: SizedJob
    workload: Workload
    asked: Asked
    part: Split
    runs: Runs

    @property
    def terms(self) -> Terms:
        """Return the simulator's terms; each policy brings its own span."""
        return Terms(mode=self.asked.mode, latency_weight=self.asked.latency_weight)

    @property
    def span_minutes(self) -> int | None:
        """Return the minutes between decisions of all policies; None: each its own.

        In ``compat`` every decision restarts the job, so there it is the paper's hour.
        """
        return self.asked.span_minutes or (HOUR_MINUTES if self.asked.mode == "compat" else None)

    @property
    def trial(self) -> Trial:
        """Return the runs that judge."""
        seeds = tuple(self.asked.seed + index for index in range(len(self.runs.offsets)))
        return Trial(self.job, self.workload, self.terms, self.runs.first_decisions, seeds, self.runs.hours, self.span_minutes)

    @property
    def ground(self) -> Ground:
        """Return the part that tunes."""
        return Ground.of(self.job, self.workload, self.terms, self.part, self.span_minutes)


@dataclass(frozen=True, slots=True)
class Judged:
    """A policy's outcome; ``tuned`` says what calibration chose, ``sizes`` the static vector, None where there is none."""

    name: str
    outcome: Outcome
    sha256: str = ""
    constants: dict[str, object] | None = None
    tuned: Tuned | None = None
    sizes: dict[str, int] | None = None


def setting_of(graph: JobGraph, workload: Workload, asked: Asked) -> Setting:
    """Return the setting; the job is sized at the P99 load of the calibration part alone.

    Raises:
        ProtocolError: too few minutes to tune or to judge.
        JobError: the job cannot be sized.
    """
    part = split(workload, asked.calibrate)
    runs = place_runs(workload, part, asked.runs, asked.seed)
    job = size_job(graph, workload, asked.load_parallelism, minutes=(part.first, part.end), load=asked.load)
    return Setting(job, workload, asked, part, runs)


def known_names(folder: str = "") -> tuple[str, ...]:
    """Return every name that can be evaluated."""
    return tuple(dict.fromkeys((*RULES, FORECAST, *policy_names(folder), *CLAIRVOYANT)))


def usable(name: str, folder: str) -> None:
    """Check that a policy can be evaluated.

    Raises:
        EvaluationError: no such policy, a model that cannot be loaded, or a span that does not divide an hour.
    """
    if name in CLAIRVOYANT:
        return
    policy = load_policy(name, folder)
    if isinstance(policy, Unavailable):
        others = ", ".join(other for other in known_names(folder) if other != name)
        raise EvaluationError(f"--policies: {name}: {policy.reason}; others here: {others}")
    if HOUR_MINUTES % policy.span_minutes:
        raise EvaluationError(f"--policies: {name} decides every {policy.span_minutes} minutes; a divisor of 60 is needed")


def judged(name: str, setting: Setting, told: Told) -> Judged:
    """Calibrate a policy on the calibration part, if it is one that may be, and run it on what follows."""
    ground, trial = setting.ground, setting.trial
    running: Callable[[float], None] = lambda share: told("runs", share)  # noqa: E731
    if name == oracle.NAME:
        return Judged(name, oracle.follow_oracle(trial, best_static(ground).sizes, running))
    if name == clairvoyant.NAME:
        rule = clairvoyant.tuned_clairvoyant(ground)
        return Judged(name, clairvoyant.follow_clairvoyant(rule, trial, running), constants=_fields(rule))
    if name == STATIC and setting.asked.tuned:
        sizes = dict(zip(setting.job.graph.tasks, best_static(ground).sizes.tolist(), strict=True))
        return Judged(name, follow(Static(sizes=tuple(sizes.items())), trial, running), sizes=sizes)
    policy = load_policy(name, setting.asked.policy_folder)
    tuned = _tuned(name, policy, setting, ground, told)
    chosen = tuned.policy if tuned else policy
    outcome = follow(chosen, trial, running)
    return Judged(name, outcome, chosen.sha256, constants=tuned.constants if tuned else None, tuned=tuned)


def _tuned(name: str, policy: Policy, setting: Setting, ground: Ground, told: Told) -> Tuned | None:
    if not setting.asked.tuned:
        return None
    forecast = policy if isinstance(policy, ForecastRule) else None
    space = spaces(forecast, ground.workload, setting.part.first).get(name)
    if space is None:
        return None
    return tune(space, ground, lambda share: told("calibrates", share))


def _fields(rule: clairvoyant.ClairvoyantRule) -> dict[str, object]:
    return {name: getattr(rule, name) for name in ("utilisation", "need", "saving")}
