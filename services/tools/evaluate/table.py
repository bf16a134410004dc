"""The report of an evaluation as a table for people."""

from functools import partial

from rich.console import Console
from rich.table import Table

from runtime.terminal import Column, fitting
from simulation.evaluation.report import EvaluationReport, RewardDifference
from simulation.loops.terms import Mode

MINUTE_S = 60.0
"""A restart in the world calm, which the heading leaves out."""
LATENCY: dict[Mode, str] = {
    "clean": "minutes, at most 10",
    "slo": "time beyond the SLO over the SLO",
    "compat": "minutes a request",
}
"""What latency counts, per mode."""


def show(report: EvaluationReport, console: Console) -> None:
    """Print the table, best reward first, clairvoyant policies last and apart."""
    say = partial(console.print, markup=False, emoji=False)  # names may hold brackets and colons
    seed = f" (seed {report.world_seed})" if report.world_seed else ""
    restart = f"restart {report.restart_s:.4g} s, " if report.restart_s != MINUTE_S else ""
    objective = f"objective {report.objective}, " if report.objective else ""
    say(
        f"{report.job} ({report.tasks} tasks) under {report.workload}, mode {report.mode}, "
        f"world {report.world}{seed}, {restart}lambda {report.latency_weight:g}, {objective}load factor {report.load_factor:.3g}"
    )
    part = report.calibration
    how = "calibrated on" if part.tuned else "rules as shipped; kept free:"
    say(
        f"{how} minutes {part.first_minute} to {part.end_minute}; {len(report.runs)} run{'s' if len(report.runs) > 1 else ''} of "
        f"{report.scored_hours} scored hours from minutes {', '.join(str(run.offset) for run in report.runs)}"
    )
    for gap in report.gaps:
        say(f"gap: minutes {gap.first_minute} to {gap.last_minute} that nobody counted, left out")
    table = _table(report, console.width)
    console.print(table)
    _notes(report, {str(column.header) for column in table.columns}, console)


def _table(report: EvaluationReport, width: int) -> Table:
    comparison = report.comparison
    best, shares = comparison.best_rule, comparison.static_to_oracle.shares if comparison.static_to_oracle else {}
    ranked = sorted(report.policies.items(), key=lambda item: (item[1].clairvoyant, -item[1].reward_mean))
    every = [figures for _, figures in ranked]
    minus_best = [_difference(comparison.to_best_rule.get(name)) if best else "" for name, _ in ranked]
    regret = [_difference(comparison.regret_to_ceiling.get(name)) for name, _ in ranked]
    columns = (
        Column("policy", [f"{name} *" if figures.clairvoyant else name for name, figures in ranked], rank=1),
        Column("reward", [f"{each.reward_mean:.4f}" for each in every], right=True, rank=1),
        Column("95 %", ["{:.4f} .. {:.4f}".format(*each.reward_ci95) for each in every], right=True, rank=3),
        Column("latency", [f"{each.latency_mean:.3f}" for each in every], right=True, rank=1),
        Column("above", [_share(each.share_above_bound) for each in every], right=True, rank=1),
        Column("utilisation", [f"{each.utilisation:.3f}" for each in every], right=True, rank=1),
        Column("rescales/day", [f"{each.rescales_per_day:.1f}" for each in every], right=True, rank=2),
        Column("worst hour", [f"{each.worst_hour:.3f}" for each in every], right=True, rank=4),
        Column("task minutes", [f"{each.task_minutes:.0f}" for each in every], right=True, rank=4),
        Column(f"minus {best}", minus_best, right=True, rank=3),
        Column("below ceiling", regret, right=True, rank=3),
        Column("static to oracle", [f"{shares[name]:.0%}" if name in shares else "" for name, _ in ranked], right=True, rank=5),
    )
    return fitting(columns, width)


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.2%}"


def _difference(found: RewardDifference | None) -> str:
    if found is None:
        return ""
    error = found.standard_error
    return f"{found.mean:+.4f}" + ("" if error is None else f" ± {error:.4f}")


def _units(report: EvaluationReport, shown: set[str]) -> str:
    """Return what the columns count, of those that are shown: a narrow terminal has fewer."""
    weight = report.latency_weight
    counted = {
        "reward": f"{1 - weight:g} x utilisation - {weight:g} x latency, mean over hours",
        "latency": LATENCY[report.mode],
        "above": "share of the minutes above the bound",
        "worst hour": "its reward",
        "task minutes": "subtask-minutes of one run",
    }
    return "; ".join(f"{title}: {what}" for title, what in counted.items() if title in shown)


def _notes(report: EvaluationReport, shown: set[str], console: Console) -> None:
    console.print(_units(report, shown))
    if any(figures.clairvoyant for figures in report.policies.values()):
        console.print("* knows the coming minutes; an upper end, not ranked")
    gap = report.comparison.static_to_oracle
    if gap is not None:
        console.print(f"static to oracle: {gap.width:.4f}")
    for name, figures in report.policies.items():
        if figures.stand_ins:
            line = f"{name}: the stand-in rule answered {figures.stand_ins} times: {figures.stand_in_reason}"
            console.print(line, markup=False, emoji=False)
