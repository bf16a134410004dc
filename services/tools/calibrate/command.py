"""``surescale recording calibrate``: a recording in, a world out."""

import math
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from surescale.contracts.plurals import counted
from surescale.runtime import options
from surescale.runtime.terminal import Column, fitting
from surescale.simulation.calibration.fit import Fitted
from surescale.simulation.model.world_file import HoldoutErrors, WorldFile

if TYPE_CHECKING:
    from surescale.simulation.load.workload import Workload


@click.command("calibrate")
@click.argument("recording", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--job", metavar="CLUSTER/NAME", help="Job of the recording (default: its only one).")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="World to write, a .json file.")
@click.option(
    "--load-out",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the recorded load too, a .csv file for evaluate --workload.",
)
@click.option("--force", is_flag=True, help="Replace the files if they exist.")
@click.option(
    "--restart-s",
    type=options.FiniteRange(0.0, 3_600.0),
    help="Seconds of a restart, if the recording has none (default: 60, and says so).",
)
def command(*, recording: Path, job: str | None, out: Path, load_out: Path | None, force: bool, restart_s: float | None) -> None:
    """Fit a world to a recorded job, for `policy evaluate`.

    Prints what was fitted, and how well the first three quarters of RECORDING predict the last one.
    """
    from surescale.contracts.errors import PATH_SHOWN_MAX, SettingsError
    from surescale.runtime import terminal
    from surescale.runtime.atomic_files import check_new, write_atomically
    from surescale.runtime.printable import printable
    from surescale.services.tools.recording.sources import opened_for, windows_of
    from surescale.simulation.calibration.fit import PRIOR_RESTART_S, fit
    from surescale.simulation.calibration.recorded import as_csv, put_together, recorded_load
    from surescale.simulation.load.workload import load_workload
    from surescale.simulation.model.world_file import encoded, is_world_file

    if not is_world_file(out.name):
        raise SettingsError(f"--out: {str(out)[:PATH_SHOWN_MAX]} must end in .json, so that evaluate --world knows it for a file")
    check_new(out, option="--out", force=force, others={"RECORDING": recording})
    if load_out is not None:
        check_new(load_out, option="--load-out", force=force, others={"RECORDING": recording, "--out": out})
    opened, chosen = opened_for(recording, job)
    recorded = put_together(chosen, windows_of(opened, chosen))
    fitted = fit(recorded, PRIOR_RESTART_S if restart_s is None else restart_s)
    write_atomically(out, encoded(fitted.world), option="--out")
    if load_out is not None:
        write_atomically(load_out, as_csv(recorded_load(recorded)), option="--load-out")
    show(fitted, terminal.console())
    for note in fitted.notes:
        click.echo(printable(f"note: {note}"), err=True)
    if restart_s is not None and fitted.world.restart.seen:
        click.echo(
            "note: --restart-s is not used, since restarts were recorded; evaluate has an option --restart-s too", err=True
        )
    load = None if load_out is None else load_workload(str(load_out))
    click.echo(f"written to {out}: {_next_step(recording, out, load_out, load)}")


def _next_step(recording: Path, out: Path, load_out: Path | None, load: "Workload | None") -> str:
    """Return the command that plays the world; under its own load if that is long enough to tune on and to judge."""
    from surescale.simulation.evaluation.protocol import ProtocolError, place_runs, split

    if load is None:
        return f"surescale policy evaluate --world {out} --workload clarknet"
    for given, calibrate, runs in (("", None, 5), (" --runs 1 --calibrate 0:240", "0:240", 1)):
        try:
            place_runs(load, split(load, calibrate), runs, seed=0)
        except ProtocolError:
            continue
        return f"surescale policy evaluate --world {out} --workload {load_out} --load literal{given}"
    return (
        f"its own load is too short for evaluate ({load.minutes} minutes): surescale recording what-if {recording} --try POLICY "
        f"(plays it), or surescale policy evaluate --world {out} --workload clarknet"
    )


_UNKNOWN = "-"


def show(fitted: Fitted, console: Console) -> None:
    """Print the world, its tasks, and the errors over the part held back."""
    say = partial(console.print, markup=False, emoji=False)  # names may hold brackets and colons
    world, errors = fitted.world, fitted.errors
    if world.recorded is not None:
        part = world.recorded
        say(f"{world.job}: {part.minutes} minutes from {part.first} to {part.last} UTC, {counted(part.rescales, 'restart')}")
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
