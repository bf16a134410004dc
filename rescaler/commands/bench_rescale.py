"""`surescale bench rescale`: the same rescale by restart, cold, and by learners, in the simulator."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from runtime.options import FiniteRange

if TYPE_CHECKING:
    from rescaler.twins.rescale import Comparison, Outcome

JOBS = ("j_1351665", "j_3803524")
P99_RATIO_MAX = 1.1
"""What learners may let the 99th percentile of latency grow to during a rescale, times what it was before."""


@click.command("rescale")
@click.option("--job", "jobs", multiple=True, help=f"Job by name, or a CSV file of a graph; repeatable. [{', '.join(JOBS)}]")
@click.option("--scenario", "scenarios", type=click.Choice(["wider", "drain"]), multiple=True, help="Repeatable. [both]")
@click.option("--workload", default="clarknet", show_default=True, help="clarknet, nasa, or a CSV with columns minute,requests.")
@click.option("--restore-mib-per-s", type=FiniteRange(min=0.001), default=8.0, show_default=True, help="Of one host.")
@click.option("--restart-ms", type=int, default=60_000, show_default=True,
              help="What a restart takes beside restoring; a multiple of 15000.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def command(
    *,
    jobs: tuple[str, ...],
    scenarios: tuple[str, ...],
    workload: str,
    restore_mib_per_s: float,
    restart_ms: int,
    as_json: bool,
) -> None:
    """Carry out the same rescale in three ways and compare pause, delayed records, state moved and latency.

    Exit code 1 if learners make any task wait for state, or let the 99th percentile grow beyond its bound. Nothing is random:
    every run prints the same.
    """
    from rescaler.twins.rescale import SCENARIOS, compare
    from runtime.conditions import conditions, conditions_line
    from simulation.costs import with_learners
    from simulation.jobs import load_job
    from simulation.workload import load_workload

    load = load_workload(workload)
    cost = with_learners(restart_ms, restore_mib_per_s * 2**20)
    found = [
        compare(load_job(job, load), load, scenario, cost)
        for job in jobs or JOBS
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
    """Whether learners kept every task from waiting for state, and latency within its bound."""
    learners = next(outcome for outcome in found.outcomes if outcome.way == "learners")
    return not learners.own_ms and found.p99_s(learners) <= P99_RATIO_MAX * found.path_s


def _figures(found: Comparison, outcome: Outcome) -> dict[str, Any]:
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
    console.print(f"bound for learners: p99 {P99_RATIO_MAX:g} x before; no task waits for state")
