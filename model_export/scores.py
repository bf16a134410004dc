"""Judges an exported package on graphs and a week that nobody trained on, beside the shipped rules; fills the card's table."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from model_export.evaluate import Score, judge, paired
from model_export.export import opened, write_card
from model_export.train import JUDGED_JOBS, WEEK_MINUTES
from policies.learned import Base
from policies.policy import Policy
from policies.rules.fixed import Hold, Static
from policies.rules.forecast import ForecastRule
from policies.rules.target_utilisation import TargetUtilisation
from simulation.jobs import load_job
from simulation.workload import load_workload

DAYS = 7
SPANS_PER_DAY = 144


def score_package(
    folder: Path,
    tell: Callable[[str], object],
    jobs: tuple[str, ...] = JUDGED_JOBS,
    days: int = DAYS,
) -> None:
    """Judge and rewrite the card; the package's hash changes with its card."""
    policy = opened(folder)
    rivals: tuple[Policy, ...] = (
        policy,
        _rule_under(policy.card.base),
        TargetUtilisation(),
        Static(),
        Hold(),
    )
    workload = load_workload("clarknet")
    # A row per day: the last span's effect may run into the next day, so every row starts and ends a little earlier.
    first = WEEK_MINUTES + 60 + np.arange(days) * SPANS_PER_DAY * 10
    table: dict[str, object] = {}
    for name in jobs:
        job = load_job(name, workload)
        scores = {rival.name: judge(rival, job, workload, first, SPANS_PER_DAY - 6) for rival in rivals}
        rows: dict[str, object] = {rival: score.row() for rival, score in scores.items()}
        for rival in ("forecast", "target-utilisation"):
            rows[f"{policy.name} - {rival}"] = _difference(scores[policy.name], scores[rival])
        table[name] = {"tasks": job.size, **rows}
        line = ", ".join(f"{rival} {score.reward:.4f}" for rival, score in scores.items())
        tell(f"{name} ({job.size} tasks): {line}")
    terms = {
        "workload": "clarknet",
        "week": 2,
        "latency_weight": 0.5,
        "restart_minutes": 1,
        "effect_minutes": 1,
    }
    write_card(
        msgspec.structs.replace(policy.card, scores={"terms": terms, "jobs": table}),
        folder,
    )


def _rule_under(base: Base) -> Policy:
    return ForecastRule(base)


def _difference(first: Score, second: Score) -> dict[str, float]:
    mean, error = paired(first, second)
    return {"mean": round(mean, 4), "standard_error": round(error, 4)}
