"""The report of an evaluation: a stable document that other programs read. Pure.

Keys once given keep their meaning. Figures of a policy: ``reward_mean`` is the mean over the minutes that count of all runs, and
equals -lambda x ``latency_mean`` + (1 - lambda) x ``utilisation``; ``reward_ci95`` see ``simulation.evaluation.scoring``;
``task_minutes`` and ``decisions`` are those of one run; ``wall_s`` covers calibration and runs.
"""

from collections.abc import Sequence
from typing import Any

from policies.registry import FORECAST, RULES
from simulation.evaluation.judging import CLAIRVOYANT, STATIC, Judged, Setting
from simulation.evaluation.oracle import NAME as ORACLE
from simulation.evaluation.scoring import Hours, interval, paired

FORMAT = 1
DIGITS = 6
NO_RIVALS = ("static", "hold", "random")  # rules without an idea of the load; any other may be the best rule


def document(setting: Setting, results: Sequence[Judged], wall_s: dict[str, float]) -> dict[str, Any]:
    """Return the report as plain JSON values; the same setting and seed give the same values but for ``wall_s``."""
    asked, runs = setting.asked, setting.runs
    return {
        "format": FORMAT,
        "job": setting.job.name,
        "tasks": setting.job.size,
        "workload": setting.workload.name,
        "mode": asked.mode,
        "lambda": asked.latency_weight,
        "load": asked.load,
        "load_parallelism": asked.load_parallelism,
        "load_factor": setting.job.scale_factor,
        "seed": asked.seed,
        "calibration": {"first_minute": setting.part.first, "end_minute": setting.part.end, "tuned": asked.tuned},
        "episode_minutes": runs.minutes,
        "scored_hours": runs.hours,
        "span_minutes": setting.span_minutes,
        "gaps": [{"first_minute": gap.first, "last_minute": gap.last} for gap in setting.workload.gaps],
        "policies": {result.name: _policy(result, asked.seed, wall_s[result.name]) for result in results},
        "runs": [
            {
                "seed": asked.seed + index,
                "offset": int(offset),
                "policies": {
                    result.name: _figures(result.outcome.hours.run(index), result.outcome.decisions) for result in results
                },
            }
            for index, offset in enumerate(runs.offsets)
        ],
        "comparison": _comparison(results),
    }


def _figures(hours: Hours, decisions: int) -> dict[str, Any]:
    return {
        "reward_mean": _round(hours.mean(hours.rewards)),
        "latency_mean": _round(hours.mean(hours.latency)),
        "utilisation": _round(hours.mean(hours.utilisation)),
        "task_minutes": _round(float(hours.task_minutes.sum()) / len(hours.first)),
        "rescales_per_day": _round(hours.rescales_per_day),
        "worst_hour": _round(hours.worst),
        "hours_at_latency_cap": _round(hours.hours_at_cap),
        "decisions": decisions,
    }


def _policy(result: Judged, seed: int, wall_s: float) -> dict[str, Any]:
    hours = result.outcome.hours
    figures = _figures(hours, result.outcome.decisions)
    tuned = result.tuned
    return {
        "reward_mean": figures.pop("reward_mean"),
        "reward_ci95": [_round(bound) for bound in interval(hours, seed)],
        **figures,
        "wall_s": round(wall_s, 3),
        "clairvoyant": result.name in CLAIRVOYANT,
        "sha256": result.sha256,
        "constants": result.constants,
        "sizes": result.sizes,
        "calibration_reward": _round(tuned.reward) if tuned else None,
        "calibration_reward_as_shipped": _round(tuned.shipped_reward) if tuned else None,
        "stand_ins": result.outcome.stand_ins,
        "stand_in_reason": result.outcome.stand_in_reason or None,
    }


def _comparison(results: Sequence[Judged]) -> dict[str, Any]:
    """Return paired differences, to the best rule and of all pairs, and each policy's share of the way from static to oracle."""
    hours = {result.name: result.outcome.hours for result in results}
    rewards = {name: own.mean(own.rewards) for name, own in hours.items()}
    rules = [name for name in hours if name in (*RULES, FORECAST) and name not in NO_RIVALS]
    best = max(sorted(rules), key=lambda name: rewards[name]) if rules else None
    pairs = {name: {other: _difference(own, hours[other]) for other in hours if other != name} for name, own in hours.items()}
    to_best = {name: to[best] for name, to in pairs.items() if name != best} if best is not None else {}
    found: dict[str, Any] = {"best_rule": best, "to_best_rule": to_best, "paired": pairs, "static_to_oracle": None}
    if STATIC in hours and ORACLE in hours:
        width = rewards[ORACLE] - rewards[STATIC]
        shares = {
            name: _round((reward - rewards[STATIC]) / width) if width > 1e-9 else None
            for name, reward in rewards.items()
            if name not in (STATIC, ORACLE)
        }
        found["static_to_oracle"] = {"width": _round(width), "shares": shares}
    return found


def _difference(own: Hours, other: Hours) -> dict[str, float | None]:
    mean, error = paired(own, other)
    return {"mean": _round(mean), "standard_error": None if error != error else _round(error)}


def _round(value: float) -> float:
    return round(float(value), DIGITS)
