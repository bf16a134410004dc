"""``surescale evaluate``: options in, report out. Errors are one line and exit code 2."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.options import FiniteRange
from services import options

if TYPE_CHECKING:
    from rich.progress import Progress

    from simulation.evaluation.judging import Asked, Setting

POLICIES = "sure,forecast,ds2-gate,target-utilisation,static,oracle"
WORKERS_MAX = 2
WIDTH_WITHOUT_TERMINAL = 190


class Refused(click.ClickException):
    """What was asked for cannot be done; one line says why and what would help."""

    exit_code = 2


@click.command("evaluate")
@click.option("--job", required=True, help="A shipped job by name, or a CSV of a graph, FILE or FILE#JOB.")
@click.option("--workload", required=True, help="clarknet, nasa, twitter, or a CSV with columns minute,requests.")
@click.option("--policies", default=POLICIES, show_default=True, help="Names, separated by commas; 'all' for every one.")
@click.option("--report", "report_file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report here (JSON).")
@click.option("--mode", type=click.Choice(["clean", "slo", "compat"]), default="clean", show_default=True,
              help="clean: records flow; slo: minute batches against an SLO; compat: the SURE paper's code.")  # fmt: skip
@click.option("--lambda", "latency_weight", type=FiniteRange(0, 1), default=0.5, show_default=True,
              help="Weight of latency in the reward; utilisation has the rest.")  # fmt: skip
@click.option("--load", type=click.Choice(["calibrated", "literal"]), default="calibrated", show_default=True,
              help="Scale the job's durations to the workload, or take them at their word.")  # fmt: skip
@click.option("--load-parallelism", type=FiniteRange(min=0.1, max=100), default=7.0, show_default=True,
              help="Subtasks that the heaviest task needs at the P99 load of the calibration part.")  # fmt: skip
@click.option("--runs", type=click.IntRange(1, 100), default=5, show_default=True, help="Runs at different offsets.")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Places the runs, drives random.")
@click.option("--calibrate", metavar="A:B", help="Minutes that rules and static may be tuned on. [first third]")
@click.option("--span", "span_minutes", type=click.Choice(["10", "12", "15", "20", "30", "60"]),
              help="Minutes between decisions of every policy. [each policy's own; compat: 60]")  # fmt: skip
@click.option("--as-shipped", is_flag=True, help="Calibrate nothing: rules with shipped constants, static as configured.")
@options.policy_folder
@click.option("--workers", type=click.IntRange(1, 64), help=f"Processes. [cores, at most {WORKERS_MAX}]")
@click.option("--json", "as_json", is_flag=True, help="Print the report on standard output instead of the table.")
def command(
    *,
    job: str,
    workload: str,
    policies: str,
    report_file: Path | None,
    latency_weight: float,
    as_shipped: bool,
    workers: int | None,
    span_minutes: str | None,
    policy_folder: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Run policies on a job under a workload, closed loop in the simulator, and report reward, latency and cost."""
    from contracts.errors import SurescaleError
    from runtime.whole_files import check_folder, write_whole
    from simulation.evaluation.judging import Asked

    span = int(span_minutes) if span_minutes else None
    folder = options.road_settings(policy_folder=policy_folder).policy_folder
    asked = Asked(latency_weight=latency_weight, tuned=not as_shipped, span_minutes=span, policy_folder=folder, **given)
    try:
        names = _names(policies, asked.policy_folder)
        if report_file is not None:
            check_folder(report_file, option="--report")
        setting = _setting(job, workload, asked)
        report = _report(names, setting, workers or min(WORKERS_MAX, os.cpu_count() or 1))
    except (SurescaleError, OSError) as error:
        raise Refused(" ".join(str(error).split())) from error
    text, failure = json.dumps(report, indent=1, allow_nan=False) + "\n", None
    if report_file is not None:
        try:
            write_whole(report_file, text, option="--report")
        except SurescaleError as error:  # a disk that is full by now: what took hours is shown all the same
            failure = error
    _show(report, text if as_json else None)
    if failure is not None:
        raise Refused(" ".join(str(failure).split())) from failure


def _show(report: dict[str, Any], text: str | None) -> None:
    """Print the report's text, or without one its table."""
    if text is not None:
        click.echo(text, nl=False)
        return
    from services import screens
    from services.evaluate.table import show

    show(report, screens.console(WIDTH_WITHOUT_TERMINAL))


def _names(policies: str, folder: str) -> list[str]:
    from simulation.evaluation.judging import EvaluationError, known_names, usable

    if folder and not Path(folder).is_dir():
        raise EvaluationError(f"SURESCALE_POLICY_FOLDER: there is no folder {folder}; name another with --policy-folder")
    known = known_names(folder)
    names = list(known) if policies == "all" else [name.strip() for name in policies.split(",")]
    for name in names:
        if not name:
            raise EvaluationError(f"--policies: {policies!r} has an empty name; give names separated by single commas")
        if names.count(name) > 1:
            raise EvaluationError(f"--policies: {name} is named twice; name it once")
        if name not in known:
            raise EvaluationError(f"--policies: there is no policy {name!r}; known: {', '.join(known)}")
        usable(name, folder)
    return names


def _setting(job: str, workload: str, asked: "Asked") -> "Setting":
    from simulation.evaluation.judging import setting_of
    from simulation.graphs import load_graph
    from simulation.workload import load_workload

    return setting_of(load_graph(job), load_workload(workload), asked)


def _report(names: list[str], setting: "Setting", workers: int) -> dict[str, Any]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from services.evaluate.workers import judge_all
    from simulation.evaluation.report import document

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description:<20}"), BarColumn(), TextColumn("{task.fields[stage]:<10}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        tell = _Telling(bars, names)
        found = judge_all(names, setting, workers, tell)
    return document(setting, [each.judged for each in found], {each.judged.name: each.wall_s for each in found})


class _Telling:
    """A bar per policy on a terminal; elsewhere a line per policy that is done."""

    def __init__(self, bars: "Progress", names: list[str]) -> None:
        self._bars = bars
        self._tasks = {name: bars.add_task(name, total=1.0, stage="waits", start=False) for name in names}
        self._done = 0

    def __call__(self, name: str, stage: str, share: float) -> None:
        task = self._tasks[name]
        if not self._bars.tasks[list(self._tasks).index(name)].started:
            self._bars.start_task(task)
        self._bars.update(task, completed=share, stage=stage)
        if stage == "done":
            self._bars.stop_task(task)
            self._done += 1
            if self._bars.disable:
                click.echo(f"{name}: done ({self._done} of {len(self._tasks)})", err=True)
