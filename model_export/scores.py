"""Judges an exported package as `surescale policy evaluate` would, on jobs and a week it was not trained on; writes its scores.

`gains` says what a trained network gains over its plan alone where it was neither trained nor chosen: on graphs that training and
validation never see, in the week after the part of each load that they may see, and in other draws of each world. Both live
through the same minutes, so a difference is the network's doing. Errors are clustered by half-days of a load and by job
(``simulation.evaluation.clustered``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surescale.model_export.export import opened
from surescale.model_export.plan_loops import Ground
from surescale.model_export.rollout import hours_of_loops
from surescale.model_export.train import WEEK_MINUTES, Run
from surescale.policies.scores import JobScores, Lead, PolicyScore, Scores, write_scores
from surescale.simulation.evaluation.clustered import Pair, difference
from surescale.simulation.evaluation.hours import Hours, paired
from surescale.simulation.evaluation.judge import EvaluationRequest, judge, judge_policy, setting_of
from surescale.simulation.load.graphs import job_names, load_graph
from surescale.simulation.load.jobs import load_job
from surescale.simulation.load.workload import load_workload
from surescale.simulation.model.worlds import world_named

BESIDE = ("ds2-gate", "flink", "forecast", "oracle", "static", "target-utilisation")
RIVALS = ("forecast", "target-utilisation")  # rules that the package's lead is computed over
ASKED = EvaluationRequest(runs=1, calibrate=f"0:{WEEK_MINUTES}")
WORKLOAD = "clarknet"


def score_package(
    folder: Path,
    tell: Callable[[str], object],
    jobs: Sequence[str] = (),
    beside: tuple[str, ...] = BESIDE,
    asked: EvaluationRequest = ASKED,
) -> None:
    """Judge the package in a folder on some jobs, or all shipped ones, and write ``scores.json`` there; card and hash stay."""
    policy = opened(folder)
    workload = load_workload(WORKLOAD)
    table = {}
    for name in jobs or job_names():
        setting = setting_of(load_graph(name), workload, asked)
        judged = [judge_policy(policy, setting, _quiet), *(judge(rule, setting, _quiet) for rule in beside)]
        hours = {each.name: each.outcome.hours for each in judged}
        table[name] = JobScores(
            tasks=setting.job.size,
            policies={each: _score(own) for each, own in hours.items()},
            leads={rival: _lead(hours[policy.name], hours[rival]) for rival in RIVALS if rival in hours},
        )
        line = ", ".join(f"{each} {own.reward:.4f}" for each, own in hours.items())
        tell(f"{name} ({setting.job.size} tasks): {line}")
    write_scores(Scores(policy=policy.name, terms=_terms(asked), jobs=table), folder)


def _terms(asked: EvaluationRequest) -> dict[str, str | int | float]:
    return {
        "command": f"surescale policy evaluate --workload {WORKLOAD} --calibrate {asked.calibrate} --runs {asked.runs}",
        "latency_weight": asked.latency_weight,
        "rules": "calibrated on week 1 for each job",
        "week": 2,
        "workload": WORKLOAD,
    }


def _quiet(stage: str, share: float) -> None:
    """Report no progress within a job."""


def _score(hours: Hours) -> PolicyScore:
    return PolicyScore(
        reward=round(hours.reward, 4),
        latency_minutes=round(hours.mean(hours.latency), 4),
        utilisation=round(hours.mean(hours.utilisation), 4),
        rescales_per_day=round(hours.rescales_per_day, 2),
        worst_hour=round(hours.worst, 4),
    )


def _lead(own: Hours, rival: Hours) -> Lead:
    mean, error = paired(own, rival)
    return Lead(mean=round(mean, 4), standard_error=round(error, 4))


JOBS = ("clicks", "orders", "payments", "delivery")
LOADS = ("clarknet", "nasa", "twitter")
LOAD_PARALLELISM = 5.0
FIRST_DRAW = 7_000
STARTS = 120 + np.arange(5) * 33 * 60  # minutes of the week at which loops begin
DECISIONS = 60


@dataclass(frozen=True, slots=True)
class Gain:
    """Mean reward of the network less that of its plan alone, its standard error, and in how many cells the network was ahead."""

    mean: float
    standard_error: float
    ahead: int
    cells: int

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> "Gain":
        """Return the gain over cells, network first."""
        found = difference(pairs)
        ahead = sum(pair.first.reward > pair.second.reward for pair in pairs)
        return cls(found.mean, found.standard_error, ahead, len(pairs))


def gains(run: Run, tell: Callable[[str, Gain], object]) -> None:
    """Tell the gain of a run's best network in each world of its training, then over all of them as ``all``."""
    run.network.load_state_dict(run.best_state)
    every: list[Pair] = []
    for world in run.settings.worlds:
        pairs = [_pair(run, world, load, job, FIRST_DRAW + at) for load in LOADS for at, job in enumerate(unseen_jobs(run))]
        tell(world, Gain.of(pairs))
        every.extend(pairs)
    if len(run.settings.worlds) > 1:
        tell("all", Gain.of(every))


def unseen_jobs(run: Run) -> tuple[str, ...]:
    """Return those of ``JOBS`` that took no part in the training."""
    seen = {*run.settings.jobs, *run.settings.validation_jobs}
    return tuple(job for job in JOBS if job not in seen)


def _pair(run: Run, world: str, load: str, job: str, draw: int) -> Pair:
    """Return the hours with the network and those of the plan alone, in one cell."""
    whole = load_workload(load)
    end = max(WEEK_MINUTES, whole.minutes // 3 // 60 * 60)
    sized = load_job(job, whole, LOAD_PARALLELISM, minutes=(0, end))
    ground = Ground.of(run.base, sized, whole, world_named(world, seed=draw))
    with_network, alone = (hours_of_loops(each, ground, end + STARTS, DECISIONS) for each in (run.network, None))
    return Pair(load, job, with_network, alone)
