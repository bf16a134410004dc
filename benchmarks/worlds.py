"""``surescale dev bench worlds``: the shipped policy beside calibrated rules and the best constant, in every world.

Rules and the constant are calibrated on the first week (or third) of a load, in each world, for each job and draw; what follows
judges. The best rival of a world is the one with the highest mean reward in these very hours, picked with hindsight. So is the
best one under each load, which nobody has who runs one policy for all jobs. Errors are clustered by half-days of a load and by
job (``benchmarks.clustered``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from benchmarks.machine import conditions
from benchmarks.markdown import table
from benchmarks.report import say, show
from benchmarks.world_cells import Cell, CellGrid, hours_in

if TYPE_CHECKING:
    from benchmarks.clustered import Difference
    from surescale.simulation.evaluation.hours import Hours

WORLDS = (
    "calm", "drift", "slow", "skew", "skew+drift", "restart@180", "restart@300", "starved", "dealt", "nights", "waves", "blind"
)  # fmt: skip
LOADS = ("clarknet", "nasa", "twitter")
JOBS = ("j_756953", "j_242616")
DRAWS = (101,)
QUICK_WORLDS, QUICK_DAYS = ("calm", "drift", "skew", "restart@180"), 1
FIGURES = ("subtask_hours_per_day", "late_minutes_per_day", "rescales_per_day")
OURS, RIVALS = "sure", ("forecast", "ds2-gate", "static")

Found = dict[Cell, "dict[str, Hours]"]  # hours by policy


@click.command("worlds")
@click.option("--world", "worlds", multiple=True, default=WORLDS, help="A world, repeatable; restart@300 sets the seconds.")
@click.option("--load", "loads", multiple=True, default=LOADS[:1], show_default=True, help="A load, repeatable.")
@click.option("--job", "jobs", multiple=True, default=JOBS, show_default=True, help="A job, repeatable.")
@click.option(
    "--draw", "draws", type=int, multiple=True, default=DRAWS, show_default=True, help="A seed of the world, repeatable."
)
@click.option("--rounds", type=click.IntRange(min=1),
              help="Each job so many times, under another load and in another draw each time, instead of in all.")  # fmt: skip
@click.option("--served", type=click.Choice(["world", "told", "measured"]), default="world", show_default=True,
              help="With a real engine's defaults, where a restart's length is told or has to be measured.")  # fmt: skip
@click.option("--as-shipped", is_flag=True, help="No calibration: rules with shipped constants, static as configured.")
@click.option("--days", type=click.IntRange(1, 7), default=7, show_default=True, help="How many days judge.")
@click.option("--ceiling", is_flag=True, help="Also the best path with the coming minutes known; takes minutes a cell.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path),
              help="Folder of results; what is there is not run again. Empty it after a change to code.")  # fmt: skip
@click.option("--policy", "only", multiple=True, help="Run only these, into --keep, and print no table. Repeatable.")
@click.option("--quick", is_flag=True, help="One job, four worlds, one day.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    days: int,
    as_shipped: bool,
    quick: bool,
    ceiling: bool,
    keep: Path | None,
    only: tuple[str, ...],
    as_json: bool,
    **named: Any,
) -> None:
    """Judge policies and the best constant in every world."""
    from surescale.simulation.evaluation.judge import usable

    for policy in only:
        usable(policy, "")
    grid = CellGrid(**named, tuned=not as_shipped)
    if quick:
        grid, days = CellGrid(QUICK_WORLDS, LOADS[:1], JOBS[:1], DRAWS, served=grid.served, tuned=grid.tuned), QUICK_DAYS
    if only and keep is None:
        raise click.UsageError("--policy: needs --keep, the folder that its results go to")
    policies = only or (OURS, *RIVALS, *(["ceiling"] if ceiling else []))
    found, cells = {}, list(grid.cells())
    for done, cell in enumerate(cells):
        found[cell] = {policy: hours_in(cell, policy, days, keep) for policy in policies}
        own = {policy: figures_of(hours) for policy, hours in found[cell].items()}
        say(f"{done + 1} of {len(cells)}: {cell.world}, {cell.load}, {cell.job}, draw {cell.draw}: {told(own)}")
    if only:
        return
    judged = {world: figures({cell: each for cell, each in found.items() if cell.world == world}) for world in grid.worlds}
    if as_json:
        show("worlds", {"conditions": conditions(None), "days": days, "cells": len(cells), "worlds": judged}, as_json=True)
        return
    click.echo(_table(judged, policies))


def figures(found: Found) -> dict[str, Any]:
    """Return each policy's rent, late minutes, rescales, reward and difference to ours, and the best rival, in all and by load.

    ``difference`` is ours less the policy's; ``cells_ahead``: in how many cells ours had the higher reward than the best rival.
    Under each load the best rival is its own; ``best_of_each_load`` is the difference to these over all cells.
    """
    from surescale.simulation.evaluation.hours import Hours

    policies = list(next(iter(found.values())))
    joined = {policy: Hours.joined([each[policy] for each in found.values()]) for policy in policies}
    best = _best_rival(found)
    by_policy = {
        policy: {**figures_of(hours), **_difference(_apart(found, dict.fromkeys(found, policy)))}
        for policy, hours in joined.items()
    }
    loads = {load: {cell: each for cell, each in found.items() if cell.load == load} for load in sorted({c.load for c in found})}
    best_of = {load: _best_rival(cells) for load, cells in loads.items()}
    rivals = {cell: best_of[cell.load] for cell in found}
    return {
        "policies": by_policy,
        "best_rival": best,
        "best_of_each_load": _difference(_apart(found, rivals)),
        "cells": len(found),
        "cells_ahead": sum(each[OURS].reward > each[best].reward for each in found.values()),
        "by_load": {load: {"best_rival": best_of[load], **_difference(_apart(cells, rivals))} for load, cells in loads.items()},
    }


def _best_rival(found: Found) -> str:
    from surescale.simulation.evaluation.hours import Hours

    rivals = [policy for policy in next(iter(found.values())) if policy in RIVALS]
    return max(rivals, key=lambda rival: Hours.joined([each[rival] for each in found.values()]).reward)


def _apart(found: Found, rivals: Mapping[Cell, str]) -> Difference:
    from benchmarks.clustered import Pair, difference

    return difference([Pair(cell.load, cell.job, each[OURS], each[rivals[cell]]) for cell, each in found.items()])


def figures_of(hours: Hours) -> dict[str, float | None]:
    """Return what a policy cost and did, by name; late minutes are None where nobody counts them."""
    from surescale.contracts.objectives import DAY_MINUTES

    return {
        "subtask_hours_per_day": hours.rent,
        "late_minutes_per_day": None if hours.late_share is None else DAY_MINUTES * hours.late_share,
        "rescales_per_day": hours.rescales_per_day,
        "reward": hours.reward,
    }


def told(by_policy: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return what each policy cost and did, in a line, from its figures."""
    return "; ".join(
        f"{policy} {figure(of['subtask_hours_per_day'])} subtask-hours, {figure(of['late_minutes_per_day'], 1)} late minutes and "
        f"{figure(of['rescales_per_day'], 1)} rescales a day, reward {figure(of['reward'], 4)}"
        for policy, of in by_policy.items()
    )


def _difference(found: Difference) -> dict[str, Any]:
    error = found.standard_error
    return {"difference": found.mean, "standard_error": None if error != error else error}


def _table(judged: Mapping[str, Mapping[str, Any]], policies: Sequence[str]) -> str:
    loads = list(next(iter(judged.values()))["by_load"])
    with_ceiling = "ceiling" in policies
    head = ["world", "best rival", "subtask-hours/day of sure, of it", "late minutes/day of sure, of it"]
    head += ["rescales/day of sure, of it", "cells ahead", *policies, "sure - best rival"]
    head += ["sure - best of each load", *(f"on {load}" for load in loads)] if len(loads) > 1 else []
    head += ["sure - ceiling"] if with_ceiling else []
    rows = []
    for world, each in judged.items():
        of, best = each["policies"], each["best_rival"]
        row = [world, best, *(", ".join(figure(of[name][which]) for name in (OURS, best)) for which in FIGURES)]
        row += [f"{each['cells_ahead']} of {each['cells']}"]
        row += [*(f"{of[name]['reward']:.4f}" for name in policies), _text(of[best])]
        if len(loads) > 1:
            row += [_text(each["best_of_each_load"])]
            row += [f"{each['by_load'][load]['best_rival']} {_text(each['by_load'][load])}" for load in loads]
        row += [_text(of["ceiling"])] if with_ceiling else []
        rows.append(row)
    return table(head, rows)


def figure(value: float | None, digits: int = 0) -> str:
    """Return a figure for people; a dash where it is unknown."""
    return "-" if value is None else f"{value:,.{digits}f}"


def _text(found: Mapping[str, Any]) -> str:
    error = found["standard_error"]
    return f"{found['difference']:+.4f}" + ("" if error is None else f" ± {error:.4f}")


if __name__ == "__main__":
    command()
