"""Cells of ``dev bench worlds``: a policy judged on one job, under one load, in one draw of a world. Kept and resumable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from surescale.runtime.atomic_files import write_atomically

if TYPE_CHECKING:
    from surescale.simulation.evaluation.closed_loop import Trial
    from surescale.simulation.evaluation.hours import Hours
    from surescale.simulation.evaluation.judge import EvaluationRequest, Setting
    from surescale.simulation.loops.terms import Served

DAY = 24 * 60
WEEK = 7 * DAY
LOAD_PARALLELISM = 5.0  # so that ten subtasks can carry skew and drift together


@dataclass(frozen=True, slots=True)
class Cell:
    """Where policies are judged; ``world`` may name its restart: ``restart@300``.

    ``served``: as in `Terms`. ``tuned``: rules and the constant are calibrated, and not judged as they ship.
    """

    world: str
    load: str
    job: str
    draw: int
    served: Served = "world"
    tuned: bool = True


@dataclass(frozen=True, slots=True)
class CellGrid:
    """All cells of a table: the product of these, or with ``rounds`` so many of the pairs of load and draw for each job."""

    worlds: tuple[str, ...]
    loads: tuple[str, ...]
    jobs: tuple[str, ...]
    draws: tuple[int, ...]
    rounds: int | None = None
    served: Served = "world"
    tuned: bool = True

    def cells(self) -> Iterator[Cell]:
        """Yield the cells, a round of all worlds and loads before the next: an unfinished table is a smaller one.

        What is named twice counts once.
        """
        worlds, loads, jobs = (tuple(dict.fromkeys(each)) for each in (self.worlds, self.loads, self.jobs))
        draws = tuple(dict.fromkeys(self.draws))
        if self.rounds is not None:
            for turn, (at, job) in product(range(self.rounds), enumerate(jobs)):
                # With three loads and three draws, three jobs meet all nine pairs in three rounds.
                load, draw = loads[(at + turn) % len(loads)], draws[(at + 2 * turn) % len(draws)]
                yield from (Cell(world, load, job, draw, self.served, self.tuned) for world in worlds)
            return
        for job in jobs:
            for draw in draws:
                yield from (Cell(world, load, job, draw, self.served, self.tuned) for world in worlds for load in loads)


def hours_in(cell: Cell, policy: str, days: int, kept: Path | None) -> Hours:
    """Return a policy's hours in a cell, from the folder of earlier runs if they are there, and keep them there.

    Raises:
        SettingsError: the folder cannot be written.
    """
    world = cell.world if cell.served == "world" else f"{cell.world}~{cell.served}"
    world += "" if cell.tuned else "~shipped"
    file = None if kept is None else kept / f"{policy}~{world}~{cell.load}~{cell.job}~{cell.draw}~{days}.json"
    if file is not None and file.exists():
        return _read(file)
    found = _judged(cell, policy, days)
    if file is not None:
        arrays = {field.name: getattr(found, field.name) for field in fields(found)}
        plain = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in arrays.items()}
        write_atomically(file, msgspec.json.encode(plain).decode(), option="--keep")
    return found


def _read(file: Path) -> Hours:
    from surescale.simulation.evaluation.hours import Hours

    kept: dict[str, Any] = msgspec.json.decode(file.read_bytes())
    arrays: dict[str, Any] = {name: np.array(value) if isinstance(value, list) else value for name, value in kept.items()}
    return Hours(**arrays)


def _judged(cell: Cell, policy: str, days: int) -> Hours:
    """Judge a policy over the days after the calibration part."""
    from surescale.simulation.evaluation.judge import judge

    return judge(policy, _setting(cell, days), lambda stage, share: None).outcome.hours


def trial_of(cell: Cell, days: int) -> Trial:
    """Return the runs that judge in a cell."""
    return _setting(cell, days).trial


def _setting(cell: Cell, days: int) -> Setting:
    """Return a cell's setting; the calibration part is the first week, or the first third of a longer file."""
    from benchmarks.archive import load_graph, load_workload
    from surescale.simulation.evaluation.judge import setting_of

    whole = load_workload(cell.load)
    end = max(WEEK, whole.minutes // 3 // 60 * 60)
    load = replace(whole, requests=whole.requests[: end + days * DAY])
    return setting_of(load_graph(cell.job), load, judging_in(cell, end))


def judging_in(cell: Cell, calibrated: int) -> EvaluationRequest:
    """Return what is asked of the simulation in a cell's world; so many minutes of the load are the calibration part."""
    from surescale.simulation.evaluation.judge import EvaluationRequest

    return EvaluationRequest(
        world=cell.world,
        world_seed=cell.draw,
        load_parallelism=LOAD_PARALLELISM,
        runs=1,
        calibrate=f"0:{calibrated}",
        served=cell.served,
        tuned=cell.tuned,
    )
