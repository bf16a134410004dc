"""``surescale bench worlds``: the shipped policy beside calibrated rules and the best constant, in every world.

Rules and the constant are calibrated on the first week, in each world, for each job and draw; what follows judges. Jobs and draws
under one load share its hours, so errors are those over blocks of twelve hours, each with the hours of all jobs and draws: six
jobs under one load are not six samples. The best rival is picked with hindsight, by the reward that is then compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from benchmarks.machine import conditions
from benchmarks.markdown import table
from benchmarks.report import show

if TYPE_CHECKING:
    from simulation.evaluation.hours import Hours

WORLDS = ("calm", "drift", "slow", "skew", "skew+drift", "restart@180", "restart@300", "starved")
JOBS = ("j_2521346", "j_1351665")
QUICK_WORLDS, QUICK_DAYS = ("calm", "drift", "skew", "restart@180"), 1
OURS, RIVALS = "sure", ("forecast", "ds2-gate", "static")
WEEK = 7 * 24 * 60
LOAD_PARALLELISM = 5.0  # so that ten subtasks can carry skew and drift together


@click.command("worlds")
@click.option("--world", "worlds", multiple=True, default=WORLDS, help="A world, repeatable; restart@300 sets the seconds.")
@click.option("--job", "jobs", multiple=True, default=JOBS, show_default=True, help="A job, repeatable.")
@click.option(
    "--draw", "draws", type=int, multiple=True, default=(101,), show_default=True, help="A seed of the world, repeatable."
)
@click.option("--days", type=click.IntRange(1, 7), default=7, show_default=True, help="How many days judge.")
@click.option("--quick", is_flag=True, help="One job, four worlds, one day.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *, worlds: tuple[str, ...], jobs: tuple[str, ...], draws: tuple[int, ...], days: int, quick: bool, as_json: bool
) -> None:
    """Judge policies and the best constant in every world."""
    if quick:
        worlds, jobs, days = QUICK_WORLDS, JOBS[:1], QUICK_DAYS
    found = {}
    for world in worlds:
        found[world] = _judged(world, jobs, draws, days)
        click.echo(" | ".join([world, *_cells(found[world], (OURS, *RIVALS))]), err=True)
    if as_json:
        show("worlds", {"conditions": conditions(0), "days": days, "jobs": jobs, "draws": draws, "worlds": found}, as_json=True)
        return
    names = (OURS, *RIVALS)
    head = ["world", *names, "best rival", "sure - best rival", "rescales/day of sure, of it"]
    click.echo(table(head, [[world, *_cells(each, names)] for world, each in found.items()]))


def _judged(world: str, jobs: tuple[str, ...], draws: tuple[int, ...], days: int) -> dict[str, dict[str, float]]:
    """Return what ``compared`` says of all jobs and draws in a world."""
    from simulation.evaluation.judge import Asked, judge, setting_of
    from simulation.load.graphs import load_graph
    from simulation.load.workload import load_workload

    name, _, seconds = world.partition("@")
    whole = load_workload("clarknet")
    load = replace(whole, requests=whole.requests[: WEEK + days * 24 * 60])
    found: dict[str, list[Hours]] = {policy: [] for policy in (OURS, *RIVALS)}
    for job in jobs:
        for draw in draws:
            asked = Asked(
                world=name,
                world_seed=draw,
                restart_s=float(seconds) if seconds else None,
                load_parallelism=LOAD_PARALLELISM,
                runs=1,
                calibrate=f"0:{WEEK}",
            )
            setting = setting_of(load_graph(job), load, asked)
            for policy, hours in found.items():
                hours.append(judge(policy, setting, lambda stage, share: None).outcome.hours)
    return compared(found)


def compared(found: Mapping[str, Sequence[Hours]]) -> dict[str, dict[str, float]]:
    """Return reward, rescales a day, and the difference of ours to it with its error, for the hours of each policy's runs."""
    from simulation.evaluation.hours import Hours, paired

    joined = {policy: Hours.joined(runs) for policy, runs in found.items()}
    figures = {}
    for policy, hours in joined.items():
        difference, error = paired(joined[OURS], hours)
        figures[policy] = {
            "reward": hours.reward,
            "rescales_per_day": hours.rescales_per_day,
            "difference": difference,
            "standard_error": error,
        }
    return figures


def _cells(found: dict[str, dict[str, float]], names: tuple[str, ...]) -> list[str]:
    best = max(RIVALS, key=lambda name: found[name]["reward"])
    own, rival = found[OURS], found[best]
    return [
        *(f"{found[name]['reward']:.4f}" for name in names),
        best,
        f"{rival['difference']:+.4f} ± {rival['standard_error']:.4f}",
        f"{own['rescales_per_day']:.0f}, {rival['rescales_per_day']:.0f}",
    ]


if __name__ == "__main__":
    command()
