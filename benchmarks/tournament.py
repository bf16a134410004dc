"""``surescale dev bench tournament``: what a tournament on a job's last days is worth on the days that follow, in every world.

A job lives in a world under ``sure`` for three days and three hours. A tournament is held on these days. From the same moment on,
the following days are lived again under its winner (with its rule to fall back), under ``sure``, and under each single policy as
calibrated on the earlier days. The best single policy is picked with hindsight, so the tournament cannot be above it for sure.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from benchmarks.machine import conditions
from benchmarks.markdown import table
from benchmarks.report import say, show
from benchmarks.world_cells import DAY, WEEK, Cell, CellGrid, judging_in
from benchmarks.worlds import DRAWS, FIGURES, JOBS, LOADS, WORLDS, figure, figures_of, told
from surescale.runtime.atomic_files import write_atomically

if TYPE_CHECKING:
    from surescale.services.tools.tournament.tournament_report import TournamentReport
    from surescale.simulation.evaluation.hours import Hours

KNOWN_HOURS = 75
FIRST_MINUTE = 4 * DAY
WINNER, OURS = "winner", "sure"


@click.command("tournament")
@click.option("--world", "worlds", multiple=True, default=WORLDS, help="A world, repeatable; restart@300 sets the seconds.")
@click.option("--load", "loads", multiple=True, default=LOADS[:1], show_default=True, help="A load, repeatable.")
@click.option("--job", "jobs", multiple=True, default=JOBS[:1], show_default=True, help="A job, repeatable.")
@click.option(
    "--draw", "draws", type=int, multiple=True, default=DRAWS, show_default=True, help="A seed of the world, repeatable."
)
@click.option("--days", type=click.IntRange(1, 4), default=3, show_default=True, help="How many days judge.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path),
              help="Folder of results; what is there is not run again. Empty it after a change to code.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, days: int, keep: Path | None, as_json: bool, **named: Any) -> None:
    """Judge winners of tournaments on the days that follow."""
    grid = CellGrid(**named)
    found = []
    for cell in grid.cells():
        each = _kept(cell, days, keep)
        found.append((cell, each))
        say(f"{cell.world}, {cell.load}, {cell.job}, draw {cell.draw}: {each['serves']}; {told(each['figures'])}")
    if as_json:
        cells = [{"world": cell.world, "load": cell.load, "job": cell.job, "draw": cell.draw, **each} for cell, each in found]
        show("tournament", {"conditions": conditions(None), "days": days, "cells": cells}, as_json=True)
        return
    click.echo(_table(found))


def _kept(cell: Cell, days: int, keep: Path | None) -> dict[str, Any]:
    file = None if keep is None else keep / f"{cell.world}~{cell.load}~{cell.job}~{cell.draw}~{days}.json"
    if file is not None and file.exists():
        kept: dict[str, Any] = msgspec.json.decode(file.read_bytes())
        return kept
    found = judged(cell, days)
    if file is not None:
        write_atomically(file, msgspec.json.encode(found).decode(), option="--keep")
    return found


def judged(cell: Cell, days: int) -> dict[str, Any]:
    """Return what serves after a tournament in a cell, figures of the following days, and the winner's lead over others."""
    from benchmarks.archive import load_graph, load_workload
    from benchmarks.clustered import Pair, difference
    from benchmarks.lived_days import life_of
    from surescale.policies.departure import departure
    from surescale.policies.registry import load_policy
    from surescale.services.tools.tournament.hold import Ask, hold, policy_of
    from surescale.services.tools.tournament.tournament_report import PolicyVersion
    from surescale.simulation.evaluation.judge import setting_of

    trial = setting_of(load_graph(cell.job), load_workload(cell.load), judging_in(cell, WEEK)).trial
    life, ours = life_of(trial, FIRST_MINUTE), load_policy(OURS)
    life.serve(ours, KNOWN_HOURS)
    since_ms = life.windows[-1].window_end_ms
    with tempfile.TemporaryDirectory() as folder:
        recording = life.record(Path(folder) / "days.ssrec")
        served = PolicyVersion(policy=OURS, sha256=ours.sha256)
        report = hold(
            Ask(
                recording=str(recording),
                job=life.settings.job,
                days=3,
                draws=4,
                folder="",
                span_minutes=10,
                seed=0,
                serving=served,
                own=served,
                seconds=7_200.0,
                memory_mb=1_024,
                checks_who_decided=False,
            ),
            lambda stage, share: None,
        )
    hours: dict[str, Hours] = {OURS: life.fork().serve(ours, 24 * days)}
    for row in report.rows:
        if row.version.policy != OURS:
            hours[row.version.policy] = life.fork().serve(policy_of(row.version, "", 10), 24 * days)
    left = 0.0
    if report.change == "wins":
        later, expected = life.fork(), report.expected
        assert expected is not None
        winner = policy_of(report.winner, "", 10)
        hours[WINNER] = later.serve(winner, 24 * days, former=ours, leaves=lambda window: departure(window, expected, since_ms))
        left = later.left / (later.decisions - life.decisions)
    else:
        hours[WINNER] = hours[OURS]
    apart = {
        other: difference([Pair(cell.load, cell.job, hours[WINNER], found)]) for other, found in hours.items() if other != WINNER
    }
    return {
        "serves": report.winner.words,
        "change": report.change,
        "predicted": _foretold(report),
        "left": left,
        "figures": {name: figures_of(each) for name, each in hours.items()},
        "difference": {name: each.mean for name, each in apart.items()},
        "standard_error": {
            name: each.standard_error if each.standard_error == each.standard_error else None for name, each in apart.items()
        },
    }


def _foretold(report: TournamentReport) -> float | None:
    """Return by how much the winner was to be ahead."""
    return next((row.difference for row in report.rows if row.version == report.winner), None)


def _table(found: Sequence[tuple[Cell, Mapping[str, Any]]]) -> str:
    """Return the table; figures are subtask-hours, late minutes and rescales a day, differences are of reward, which decides."""
    head = ["world, job", "serves", "predicted lead", "figures", "`sure`", "- `sure`", "best single", "- best single", "left out"]
    rows = []
    for cell, each in found:
        of = each["figures"]
        best = max((name for name in of if name != WINNER), key=lambda name: of[name]["reward"])
        rows.append(
            [
                f"{cell.world}, {cell.job}",
                each["serves"],
                "" if each["predicted"] is None else f"{each['predicted']:+.4f}",
                _figures(of[WINNER]),
                _figures(of[OURS]),
                _text(each, OURS),
                f"{best} {_figures(of[best])}",
                _text(each, best),
                f"{each['left']:.1%}",
            ]
        )
    return table(head, rows)


def _figures(of: Mapping[str, float | None]) -> str:
    return " / ".join(figure(of[name], 1) for name in FIGURES)


def _text(each: Mapping[str, Any], name: str) -> str:
    error = each["standard_error"][name]
    return f"{each['difference'][name]:+.4f}" + ("" if error is None else f" ± {error:.4f}")


if __name__ == "__main__":
    command()
