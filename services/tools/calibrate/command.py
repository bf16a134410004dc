"""``surescale calibrate``: a recording in, a world out."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runtime import options

if TYPE_CHECKING:
    from simulation.load.workload import Workload


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
    """Fit a world to a recorded job, for evaluate.

    Prints what was fitted, and how well the first three quarters of RECORDING predict the last one.
    """
    from contracts.errors import PATH_SHOWN_MAX, SettingsError, reason_of
    from runtime import terminal
    from runtime.atomic_files import check_apart, write_atomically
    from runtime.printable import printable
    from services.tools.calibrate.tables import show
    from services.tools.calibrate.windows import chosen_job, windows_of
    from services.tools.recording.format import Recording
    from simulation.calibration.fit import PRIOR_RESTART_S, fit
    from simulation.calibration.load import as_csv, recorded_load
    from simulation.calibration.recorded import put_together
    from simulation.load.workload import load_workload
    from simulation.model.world_file import encoded, is_world_file

    if not is_world_file(out.name):
        raise SettingsError(f"--out: {str(out)[:PATH_SHOWN_MAX]} must end in .json, so that evaluate --world knows it for a file")
    check_apart(out, option="--out", others={"RECORDING": recording})
    _check(out, option="--out", force=force)
    if load_out is not None:
        check_apart(load_out, option="--load-out", others={"RECORDING": recording, "--out": out})
        _check(load_out, option="--load-out", force=force)
    try:
        opened = Recording(recording)
    except OSError as error:
        raise SettingsError(f"{str(recording)[:PATH_SHOWN_MAX]} cannot be read ({reason_of(error)}); name a recording") from None
    chosen = chosen_job(opened, job)
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
    from simulation.evaluation.protocol import ProtocolError, place_runs, split

    if load is None:
        return f"surescale evaluate --world {out} --workload clarknet"
    for given, calibrate, runs in (("", None, 5), (" --runs 1 --calibrate 0:240", "0:240", 1)):
        try:
            place_runs(load, split(load, calibrate), runs, seed=0)
        except ProtocolError:
            continue
        return f"surescale evaluate --world {out} --workload {load_out} --load literal{given}"
    return (
        f"its own load is too short for evaluate ({load.minutes} minutes): surescale what-if {recording} --try POLICY "
        f"(plays it), or surescale evaluate --world {out} --workload clarknet"
    )


def _check(path: Path, *, option: str, force: bool) -> None:
    """Check before the work that a file can be written.

    Raises:
        SettingsError: it cannot, or there is one.
    """
    from contracts.errors import SettingsError
    from runtime.atomic_files import check_folder

    check_folder(path, option=option)
    if path.exists() and not force:
        raise SettingsError(f"{option}: {path} exists; name another file or pass --force")
