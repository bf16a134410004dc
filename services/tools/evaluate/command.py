"""``surescale evaluate``: options in, report out."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime import options

if TYPE_CHECKING:
    from rich.progress import Progress

    from simulation.evaluation.judge import EvaluationRequest, Setting
    from simulation.evaluation.report import EvaluationReport
    from simulation.model.world_file import WorldFile

POLICIES = ("sure", "forecast", "ds2-gate", "target-utilisation", "static", "oracle")
EVERY_POLICY = "all"
SPANS = ("10", "12", "15", "20", "30", "60")
WORKERS_MAX = 2
WIDTH_WITHOUT_TERMINAL = 190


@click.command("evaluate")
@click.option("--job", help="Job by name, or a CSV of a graph, FILE or FILE#JOB; left out where --world is a file.")
@options.workload(required=True)
@options.policies(*POLICIES, help=f"Policy by name; repeatable. {EVERY_POLICY}: every one but the ceiling.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file, as JSON.")
@click.option("--mode", type=click.Choice(["clean", "slo", "compat"]), default="clean", show_default=True,
              help="clean: records flow; slo: minute batches against an SLO; compat: the SURE paper's code.")  # fmt: skip
@options.world_or_file
@options.world_seed
@options.restart_s
@click.option("--lambda", "latency_weight", type=options.FiniteRange(0, 1), default=0.5, show_default=True,
              help="Weight of latency in the reward; utilisation has the rest.")  # fmt: skip
@click.option("--objective", type=options.OBJECTIVE,
              help="What the job's owner asks, as in job set; --lambda still judges (default: balanced).")  # fmt: skip
@click.option("--load", type=click.Choice(["calibrated", "literal"]), default="calibrated", show_default=True,
              help="Scale durations to the workload, or take them as they are (in a world's file: as measured).")  # fmt: skip
@options.load_parallelism
@click.option("--runs", type=click.IntRange(1, 100), default=5, show_default=True, help="Number of runs, at different offsets.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**31),
    default=0,
    show_default=True,
    help="Seed of the runs' offsets, and of the policy random.",
)
@click.option("--calibrate", metavar="A:B", help="Minutes that rules and static may be tuned on (default: first third).")
@options.span_minutes("each policy's own; compat: 60", SPANS)
@click.option("--as-shipped", is_flag=True, help="No calibration: rules with shipped constants, static as configured.")
@options.policy_folder
@click.option("--workers", type=click.IntRange(1, 64), help=f"Processes (default: cores, at most {WORKERS_MAX}).")
@click.option("--json", "as_json", is_flag=True, help="Print the report on standard output instead of the table.")
def command(
    *,
    job: str | None,
    workload: str,
    world: str,
    policies: tuple[str, ...],
    out: Path | None,
    latency_weight: float,
    as_shipped: bool,
    workers: int | None,
    span_minutes: str | None,
    policy_folder: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Judge policies on a job under a workload, in the simulator.

    Runs each policy in a closed loop and reports its reward, latency and cost.
    """
    import msgspec

    from contracts.errors import SurescaleError
    from runtime.atomic_files import check_apart, check_folder, write_atomically
    from simulation.evaluation.judge import EvaluationRequest, check_played

    fitted = _world_of_file(world)
    if (job is None) == (fitted is None):
        raise click.UsageError("Missing option '--job'." if job is None else f"--job: leave it out; {world} brings its own job")
    span = int(span_minutes) if span_minutes else None
    folder = options.pipeline_settings(policy_folder=policy_folder).policy_folder
    asked = EvaluationRequest(
        latency_weight=latency_weight,
        tuned=not as_shipped,
        span_minutes=span,
        policy_folder=folder,
        world=world,
        fitted=fitted,
        **given,
    )
    names = _names(policies, asked.policy_folder)
    if out is not None:
        check_apart(
            out, option="--out", others={"--world": world, "--workload": workload, "--job": job and job.partition("#")[0]}
        )
        check_folder(out, option="--out")
    setting = _setting(job, workload, asked)
    check_played(names, setting)
    report = _report(names, setting, workers or min(WORKERS_MAX, os.cpu_count() or 1))
    text, failure = json.dumps(msgspec.to_builtins(report), indent=1, allow_nan=False) + "\n", None
    if out is not None:
        try:
            write_atomically(out, text, option="--out")
        except SurescaleError as error:  # the disk is full by now: show what took hours all the same
            failure = error
    _show(report, text if as_json else None)
    if failure is not None:
        raise failure


def _show(report: "EvaluationReport", text: str | None) -> None:
    """Print the report's JSON text if given, else its table."""
    if text is not None:
        click.echo(text, nl=False)
        return
    from runtime import terminal
    from services.tools.evaluate.table import show

    show(report, terminal.console(WIDTH_WITHOUT_TERMINAL))


def _names(policies: tuple[str, ...], folder: str) -> list[str]:
    from policies.registry import check_policy
    from simulation.evaluation.ceiling import NAME as CEILING
    from simulation.evaluation.judge import EvaluationError, known_names, usable

    if folder and not Path(folder).is_dir():
        raise EvaluationError(f"SURESCALE_POLICY_FOLDER: there is no folder {folder}; name another with --policy-folder")
    known = known_names(folder)
    names = [name for name in known if name != CEILING] if EVERY_POLICY in policies else list(policies)
    for name in names:
        if names.count(name) > 1:
            raise EvaluationError(f"--policy: {name} is named twice; name it once")
        check_policy(name, known)
        usable(name, folder)
    return names


def _world_of_file(world: str) -> "WorldFile | None":
    from simulation.model.world_file import is_world_file, read_world

    file, at, seconds = world.rpartition("@")
    if at and is_world_file(file):
        raise click.UsageError(f"--world: a file takes no seconds after it; leave out @{seconds} and give --restart-s")
    return read_world(Path(world)) if is_world_file(world) else None


def _setting(job: str | None, workload: str, asked: "EvaluationRequest") -> "Setting":
    from simulation.evaluation.judge import setting_of
    from simulation.load.graphs import load_graph
    from simulation.load.workload import load_workload

    graph = asked.fitted.graph() if asked.fitted is not None else load_graph(job or "")
    return setting_of(graph, load_workload(workload), asked)


def _report(names: list[str], setting: "Setting", workers: int) -> "EvaluationReport":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from services.tools.evaluate.workers import judge_all
    from simulation.evaluation.report import report_of

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description:<20}"), BarColumn(), TextColumn("{task.fields[stage]:<10}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        bars_or_lines = _ProgressShown(bars, names)
        found = judge_all(names, setting, workers, bars_or_lines)
    return report_of(setting, [each.judged for each in found], {each.judged.name: each.wall_s for each in found})


class _ProgressShown:
    """Shows a bar per policy on a terminal; elsewhere prints a line when a policy is done."""

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
