"""`surescale dev bench rescale`: the same rescale by restart, cold, and with learners, in the simulator."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from surescale.runtime import options

if TYPE_CHECKING:
    from benchmarks.rescale_three_ways.rescale import Comparison, WayResult

P99_RATIO_MAX = 1.1
"""How far the 99th percentile of latency may grow during a rescale with learners, as a multiple of that before it."""


@click.command("rescale")
@options.jobs()
@click.option(
    "--scenario",
    "scenarios",
    type=click.Choice(["wider", "drain"]),
    multiple=True,
    help="What to do; repeatable (default: both).",
)
@options.workload()
@options.restore_mib_per_s
@options.restart_ms
@options.as_json
def command(
    *,
    jobs: tuple[str, ...],
    scenarios: tuple[str, ...],
    workload: str,
    restore_mib_per_s: float,
    restart_ms: int | None,
    as_json: bool,
) -> None:
    """One rescale in three ways: restart, cold, learners.

    Compares pause, delayed records, state moved and latency.

    Exit code 1 if learners make any task wait for state, or let the 99th percentile grow beyond its bound. Nothing is random:
    every run prints the same.
    """
    from benchmarks.archive import load_job
    from benchmarks.machine import conditions, conditions_line
    from benchmarks.rescale_three_ways.rescale import SCENARIOS, compare
    from surescale.simulation.load.workload import load_workload
    from surescale.simulation.model.costs import chosen_cost

    load = load_workload(workload)
    cost = chosen_cost("learners", restart_ms, restore_mib_per_s)
    found = [
        compare(load_job(job, load), load, scenario, cost)
        for job in jobs
        for scenario in SCENARIOS
        if not scenarios or scenario in scenarios
    ]
    if as_json:
        document = {"conditions": conditions(), "rescales": [_document(each) for each in found]}
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo(conditions_line(conditions()))
        _show(found)
    sys.exit(0 if all(map(holds, found)) else 1)


def holds(found: Comparison) -> bool:
    """Return whether, with learners, no task waited for state and latency stayed within its bound."""
    learners = next(outcome for outcome in found.outcomes if outcome.way == "learners")
    return not learners.own_ms and found.p99_s(learners) <= P99_RATIO_MAX * found.path_s


def _figures(found: Comparison, outcome: WayResult) -> dict[str, Any]:
    p99_s = found.p99_s(outcome)
    own_s = [own / 1000 for own in outcome.own_ms]
    return {
        "pause_s": outcome.pause_ms / 1000,
        "own_restore_s_mean": round(sum(own_s) / len(own_s), 1) if own_s else 0.0,
        "own_restore_s_max": round(max(own_s, default=0.0), 1),
        "records_delayed": round(outcome.delays.delayed),
        "record_seconds_waited": round(outcome.delays.record_seconds, 1),
        "state_moved_mib": round(outcome.moved_bytes / 2**20, 1),
        "p99_s": round(p99_s, 2),
        "p99_ratio": round(p99_s / found.path_s, 2),
        "worst_minute_s": round(outcome.worst_minute_s, 2),
        "asked_to_done_s": outcome.asked_to_done_ms / 1000,
    }


def _document(found: Comparison) -> dict[str, Any]:
    return {
        "job": found.job,
        "tasks": found.tasks,
        "scenario": found.scenario,
        "p99_s_before": round(found.path_s, 2),
        "change_s": found.settled_ms / 1000,
        "ways": {outcome.way: _figures(found, outcome) for outcome in found.outcomes},
    }


def _show(comparisons: list[Comparison]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 150, highlight=False)
    head = ("pause of a task, s", "own state: mean, max s", "records delayed", "waited, record s", "state moved, MiB",
            "p99 of the change, s", "times before", "worst minute, s", "done after, s")  # fmt: skip
    for found in comparisons:
        table = Table("way", *head, title=f"{found.job}, {found.tasks} tasks: {found.scenario}", title_justify="left")
        for outcome in found.outcomes:
            shown = _figures(found, outcome)
            own = f"{shown['own_restore_s_mean']:g}, {shown['own_restore_s_max']:g}"
            names = ("records_delayed", "record_seconds_waited", "state_moved_mib", "p99_s", "p99_ratio", "worst_minute_s",
                     "asked_to_done_s")  # fmt: skip
            table.add_row(outcome.way, f"{shown['pause_s']:g}", own, *(f"{shown[name]:,g}" for name in names))
        console.print(table)
    console.print(f"bound for learners: p99 at most {P99_RATIO_MAX:g} x that before; no task waits for state")
