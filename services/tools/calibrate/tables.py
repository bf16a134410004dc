"""What a calibration found, as tables for people."""

import math
from functools import partial

from rich.console import Console

from runtime.terminal import Column, fitting
from simulation.calibration.fit import Fitted
from simulation.model.world_file import HoldoutErrors, WorldFile

_UNKNOWN = "-"


def show(fitted: Fitted, console: Console) -> None:
    """Print the world, its tasks, and the errors over the part held back."""
    say = partial(console.print, markup=False, emoji=False)  # names may hold brackets and colons
    world, errors = fitted.world, fitted.errors
    if world.recorded is not None:
        part = world.recorded
        restarts = f"{part.rescales} restart{'' if part.rescales == 1 else 's'}"
        say(f"{world.job}: {part.minutes} minutes from {part.first} to {part.last} UTC, {restarts}")
    tasks = world.tasks
    columns = (
        Column("task", [each.task for each in tasks]),
        Column("ms a record", [f"{each.service_ms:.4g}" for each in tasks], right=True, rank=1),
        Column("error", [_share(each.service) for each in errors], right=True, rank=2),
        Column("visits", [f"{each.visits:.4g}" for each in tasks], right=True, rank=1),
        Column("error", [_share(each.visits) for each in errors], right=True, rank=3),
        Column("drift", [f"{each.drift:.3f}" for each in tasks], right=True, rank=1),
        Column("jitter", [f"{each.jitter:.3f}" for each in tasks], right=True, rank=2),
        Column("error", [_UNKNOWN if math.isnan(each.scatter) else f"{each.scatter:.3f}" for each in errors], right=True, rank=3),
        Column("hot key", [f"{each.hot_share:.2%}" for each in tasks], right=True, rank=1),
        Column("error", [_share(each.busiest) for each in errors], right=True, rank=3),
    )
    console.print(fitting(columns, console.width))
    say(_restart(world))
    if world.held_back is not None:
        say(_held_back(world.held_back))


def _restart(world: WorldFile) -> str:
    restart = world.restart
    how = f"{restart.seen} seen, deviation of the log {restart.spread:.2f}" if restart.seen else "none seen, assumed"
    return f"restart: {restart.seconds:.3g} s ({how}); drift wanders back within {world.drift_minutes:.0f} minutes"


def _held_back(part: HoldoutErrors) -> str:
    told = (
        ("busy time", part.busy_time),
        ("service time", part.service),
        ("scatter", part.scatter),
        ("visits", part.visits),
        ("busiest subtask", part.busiest),
        ("restart", part.restart),
    )
    figures = ", ".join(f"{name} {_UNKNOWN if value is None else f'{value:.1%}'}" for name, value in told)
    return f"errors over the last {part.minutes} minutes, predicted from those before: {figures}"


def _share(value: float) -> str:
    return f"{value:.1%}" if math.isfinite(value) else _UNKNOWN
