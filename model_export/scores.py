"""Judges a package as `surescale policy evaluate` would, on jobs and a week it was not fitted to, and writes its scores."""

from collections.abc import Callable, Sequence
from pathlib import Path

from surescale.model_export.outlook_fit import WEEK_MINUTES
from surescale.policies.scores import JobScores, Lead, PolicyScore, Scores, write_scores
from surescale.policies.sure.package import read_package
from surescale.policies.sure.policy import load_sure_policy
from surescale.simulation.evaluation.hours import Hours, paired
from surescale.simulation.evaluation.judge import EvaluationRequest, judge, judge_policy, setting_of
from surescale.simulation.load.graphs import job_names, load_graph
from surescale.simulation.load.workload import load_workload

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
    policy = load_sure_policy(read_package(folder))
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
