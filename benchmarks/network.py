"""``surescale bench network``: what a trained network gains over its plan alone, where it was neither trained nor chosen.

On graphs that training and validation never see, the week after the part of each load that they may see, and other draws of each
world. Both live through the same minutes, five times ten hours each, so a difference is the network's doing. Errors are clustered
by half-days of a load and by job (``simulation.evaluation.clustered``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from benchmarks.machine import conditions
from benchmarks.markdown import table
from benchmarks.report import say, show
from benchmarks.world_cells import LOAD_PARALLELISM, WEEK
from benchmarks.worlds import LOADS

if TYPE_CHECKING:
    from model_export.train import Run
    from simulation.evaluation.clustered import Pair

JOBS = ("j_756953", "j_242616", "j_2521346", "j_1351665")
DRAW = 7_000
STARTS = 120 + np.arange(5) * 33 * 60
DECISIONS = 60


@click.command("network")
@click.option("--run", "folder", type=click.Path(path_type=Path), default=Path("runs/sure"), show_default=True,
              help="Folder of the training run.")  # fmt: skip
@click.option("--world", "worlds", multiple=True,
              help="A world, repeatable; restart@300 sets the seconds (default: those of the training).")  # fmt: skip
@click.option("--load", "loads", multiple=True, default=LOADS, show_default=True, help="A load, repeatable.")
@click.option("--job", "jobs", multiple=True, default=JOBS, show_default=True, help="A job, repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, folder: Path, worlds: tuple[str, ...], loads: tuple[str, ...], jobs: tuple[str, ...], as_json: bool) -> None:
    """Judge a trained network next to its plan alone."""
    from contracts.errors import SurescaleError
    from model_export.checkpoints import CHECKPOINT
    from model_export.commands import need_libraries

    need_libraries()
    from model_export.train import resume

    if not (folder / CHECKPOINT).is_file():
        raise SurescaleError(f"--run: there is no training run in {folder}; start one with `surescale train`")
    run = resume(folder)
    run.network.load_state_dict(run.best_state)
    seen = {*run.settings.jobs, *run.settings.validation_jobs}.intersection(jobs)
    if seen:
        raise SurescaleError(f"--job: {min(seen)} took part in the training; name jobs that did not")
    found: dict[str, list[Pair]] = {}
    for world in worlds or run.settings.worlds:
        found[world] = [_pair(run, world, load, job, at) for load in loads for at, job in enumerate(jobs)]
        say(f"{world}: {_text(_figures(found[world]))}")
    judged = {world: _figures(pairs) for world, pairs in found.items()}
    judged["all"] = _figures([pair for pairs in found.values() for pair in pairs])
    if as_json:
        show("network", {"conditions": conditions(None), "worlds": judged}, as_json=True)
        return
    rows = [[world, _text(each), f"{each['cells_ahead']} of {each['cells']}"] for world, each in judged.items()]
    click.echo(table(["world", "network - plan alone", "cells ahead"], rows))


def _pair(run: Run, world: str, load: str, job: str, at: int) -> Pair:
    """Return the hours with the network and those of the plan alone, in the week after the part that training may see."""
    from model_export.plan_loops import Ground
    from model_export.rollout import hours_of_loops
    from simulation.evaluation.clustered import Pair
    from simulation.load.jobs import load_job
    from simulation.load.workload import load_workload
    from simulation.model.worlds import world_named

    whole = load_workload(load)
    end = max(WEEK, whole.minutes // 3 // 60 * 60)
    sized = load_job(job, whole, LOAD_PARALLELISM, minutes=(0, end))
    ground = Ground.of(run.base, sized, whole, world_named(world, seed=DRAW + at))
    with_network, alone = (hours_of_loops(each, ground, end + STARTS, DECISIONS) for each in (run.network, None))
    return Pair(load, job, with_network, alone)


def _figures(pairs: Sequence[Pair]) -> dict[str, Any]:
    from simulation.evaluation.clustered import difference

    found = difference(pairs)
    ahead = sum(pair.first.reward > pair.second.reward for pair in pairs)
    return {"difference": found.mean, "standard_error": found.standard_error, "cells_ahead": ahead, "cells": len(pairs)}


def _text(figures: Mapping[str, Any]) -> str:
    return f"{figures['difference']:+.4f} ± {figures['standard_error']:.4f}"
