"""``surescale policy evaluate``: options in, report out.

Policies are judged side by side, each in a process of its own. Workers end with the command, however it ends: each watches a pipe
whose other end only the command holds.
"""

import json
import multiprocessing
import os
import queue
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from surescale.contracts.errors import SurescaleError
from surescale.contracts.job_settings import LatencyBound
from surescale.contracts.objectives import read_objective
from surescale.contracts.plurals import counted
from surescale.policies.registry import check_policy
from surescale.runtime import options, terminal
from surescale.runtime.atomic_files import check_apart, check_folder, write_atomically
from surescale.runtime.limited_graphs import opener_for
from surescale.runtime.terminal import Column, fitting
from surescale.runtime.threads import background
from surescale.simulation.evaluation.clairvoyant import CEILING
from surescale.simulation.evaluation.judge import (
    EvaluationError,
    EvaluationRequest,
    JudgedPolicy,
    Setting,
    check_played,
    judge,
    known_names,
    setting_of,
    usable,
)
from surescale.simulation.evaluation.report import EvaluationReport, PolicyFigures, RewardDifference, report_of
from surescale.simulation.load.graphs import load_graph
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.terms import Mode
from surescale.simulation.model.world_file import WorldFile, is_world_file, read_world

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
@click.option("--price", type=options.FiniteRange(0, 1e9), help="Dollars per subtask and hour, for the rent.")
@click.option("--reward", "with_reward", is_flag=True, help="Also the reward, its interval and differences, in the table.")
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
    price: float | None,
    with_reward: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Judge policies on a job under a workload, in the simulator.

    Runs each policy in a closed loop and reports its rent, late minutes and rescales.
    """
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
        opener=opener_for(folder),
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
    report = _report(names, setting, workers or min(WORKERS_MAX, os.cpu_count() or 1), price)
    text, failure = json.dumps(msgspec.to_builtins(report), indent=1, allow_nan=False) + "\n", None
    if out is not None:
        try:
            write_atomically(out, text, option="--out")
        except SurescaleError as error:  # the disk is full by now: show what took hours all the same
            failure = error
    if as_json:
        click.echo(text, nl=False)
    else:
        show(report, terminal.console(WIDTH_WITHOUT_TERMINAL), with_reward=with_reward)
    if failure is not None:
        raise failure


def _names(policies: tuple[str, ...], folder: str) -> list[str]:
    if folder and not Path(folder).is_dir():
        raise EvaluationError(f"SURESCALE_POLICY_FOLDER: there is no folder {folder}; name another with --policy-folder")
    known = known_names(folder)
    names = [name for name in known if name != CEILING] if EVERY_POLICY in policies else list(policies)
    for name in names:
        if names.count(name) > 1:
            raise EvaluationError(f"--policy: {name} is named twice; name it once")
        check_policy(name, known)
        usable(name, folder, opener_for(folder))
    return names


def _world_of_file(world: str) -> WorldFile | None:
    file, at, seconds = world.rpartition("@")
    if at and is_world_file(file):
        raise click.UsageError(f"--world: a file takes no seconds after it; leave out @{seconds} and give --restart-s")
    return read_world(Path(world)) if is_world_file(world) else None


def _setting(job: str | None, workload: str, asked: EvaluationRequest) -> Setting:
    graph = asked.fitted.graph() if asked.fitted is not None else load_graph(job or "")
    return setting_of(graph, load_workload(workload), asked)


def _report(names: list[str], setting: Setting, workers: int, price: float | None) -> EvaluationReport:
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description:<20}"), BarColumn(), TextColumn("{task.fields[stage]:<10}"), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        bars_or_lines = _ProgressShown(bars, names)
        found = judge_all(names, setting, workers, bars_or_lines)
    return report_of(setting, [each.judged for each in found], {each.judged.name: each.wall_s for each in found}, price)


class _ProgressShown:
    """Shows a bar per policy on a terminal; elsewhere prints a line when a policy is done."""

    def __init__(self, bars: Progress, names: list[str]) -> None:
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


MINUTE_S = 60.0
"""A restart in the world calm, which the heading leaves out."""
LATENCY: dict[Mode, str] = {
    "clean": "minutes, at most 10",
    "slo": "time beyond the SLO over the SLO",
    "compat": "minutes a request",
}
"""What latency counts, per mode."""


def show(report: EvaluationReport, console: Console, *, with_reward: bool = False) -> None:
    """Print the table: rent, late minutes and rescales first, the cheapest policy on top, clairvoyant ones last and apart.

    Under a bound on latency the policies that keep it come before those that do not.
    """
    say = partial(console.print, markup=False, emoji=False)  # names may hold brackets and colons
    seed = f" (seed {report.world_seed})" if report.world_seed else ""
    restart = f", restart {report.restart_s:.4g} s" if report.restart_s != MINUTE_S else ""
    objective = f", objective {report.objective}" if report.objective else ""
    say(
        f"{report.job} ({counted(report.tasks, 'task')}) under {report.workload}, mode {report.mode}, "
        f"world {report.world}{seed}{restart}{objective}, load factor {report.load_factor:.3g}"
    )
    part = report.calibration
    how = "calibrated on" if part.tuned else "rules as shipped; kept free:"
    say(
        f"{how} minutes {part.first_minute} to {part.end_minute}; {counted(len(report.runs), 'run')} of "
        f"{report.scored_hours} scored hours from minutes {', '.join(str(run.offset) for run in report.runs)}"
    )
    for gap in report.gaps:
        say(f"gap: minutes {gap.first_minute} to {gap.last_minute} that nobody counted, left out")
    table = _table(report, console.width, with_reward=with_reward)
    console.print(table)
    _notes(report, {str(column.header) for column in table.columns}, console)


def _table(report: EvaluationReport, width: int, *, with_reward: bool) -> Table:
    ranked = sorted(report.policies.items(), key=lambda item: _place(item[1], report))
    every = [figures for _, figures in ranked]
    columns = [
        Column("policy", [f"{name} *" if figures.clairvoyant else name for name, figures in ranked], rank=1),
        Column("subtask-h/day" if report.price is None else "$/day", [_rent(each) for each in every], right=True, rank=1),
        Column("late min/day", [_or_blank(each.late_minutes_per_day, ".1f") for each in every], right=True, rank=1),
        Column("above", [_or_blank(each.share_above_bound, ".2%") for each in every], right=True, rank=2),
        Column("rescales/day", [f"{each.rescales_per_day:.1f}" for each in every], right=True, rank=1),
        Column("latency", [f"{each.latency_mean:.3f}" for each in every], right=True, rank=3),
        Column("busy", [f"{each.utilisation:.1%}" for each in every], right=True, rank=4),
    ]
    return fitting([*columns, *(_reward_columns(report, ranked) if with_reward else ())], width)


def _place(figures: PolicyFigures, report: EvaluationReport) -> tuple[bool, bool, float]:
    bound = read_objective(report.objective) if report.objective else None
    breaks = isinstance(bound, LatencyBound) and (figures.share_above_bound or 0.0) > bound.share
    return figures.clairvoyant, breaks, figures.subtask_hours_per_day


def _rent(figures: PolicyFigures) -> str:
    return f"{figures.subtask_hours_per_day if figures.dollars_per_day is None else figures.dollars_per_day:,.1f}"


def _or_blank(figure: float | None, how: str) -> str:
    return "" if figure is None else format(figure, how)


def _reward_columns(report: EvaluationReport, ranked: list[tuple[str, PolicyFigures]]) -> list[Column]:
    comparison = report.comparison
    best, shares = comparison.best_rule, comparison.static_to_oracle.shares if comparison.static_to_oracle else {}
    minus_best = [_difference(comparison.to_best_rule.get(name)) if best else "" for name, _ in ranked]
    regret = [_difference(comparison.regret_to_ceiling.get(name)) for name, _ in ranked]
    return [
        Column("reward", [f"{each.reward_mean:.4f}" for _, each in ranked], right=True, rank=2),
        Column("95 %", ["{:.4f} .. {:.4f}".format(*each.reward_ci95) for _, each in ranked], right=True, rank=5),
        Column("worst hour", [f"{each.worst_hour:.3f}" for _, each in ranked], right=True, rank=6),
        Column(f"minus {best}", minus_best, right=True, rank=5),
        Column("below ceiling", regret, right=True, rank=5),
        Column("static to oracle", [f"{shares[name]:.0%}" if name in shares else "" for name, _ in ranked], right=True, rank=7),
    ]


def _difference(found: RewardDifference | None) -> str:
    if found is None:
        return ""
    error = found.standard_error
    return f"{found.mean:+.4f}" + ("" if error is None else f" ± {error:.4f}")


def _units(report: EvaluationReport, shown: set[str]) -> str:
    """Return what the columns count, of those that are shown: a narrow terminal has fewer."""
    weight = report.latency_weight
    counted = {
        "late min/day": f"minutes with a latency above {report.late_seconds or 0.0:g} s",
        "above": "their share of all minutes",
        "latency": LATENCY[report.mode],
        "reward": f"{1 - weight:g} x utilisation - {weight:g} x latency, mean over hours",
        "worst hour": "its reward",
    }
    return "; ".join(f"{title}: {what}" for title, what in counted.items() if title in shown)


def _notes(report: EvaluationReport, shown: set[str], console: Console) -> None:
    if units := _units(report, shown):
        console.print(units)
    if any(figures.clairvoyant for figures in report.policies.values()):
        console.print("* knows the coming minutes; an upper end, not ranked")
    gap = report.comparison.static_to_oracle
    if gap is not None and "reward" in shown:
        console.print(f"static to oracle: {gap.width:.4f}")
    for name, figures in report.policies.items():
        if figures.stand_ins:
            line = f"{name}: the stand-in rule answered {figures.stand_ins} times: {figures.stand_in_reason}"
            console.print(line, markup=False, emoji=False)


TELL_SHARE = 0.02  # progress is reported in steps of this size
WAIT_S = 0.2
# The longest first, so that no process works on one alone at the end.
_LONG = ("sure", "sure-paper", "oracle", "drs", "forecast")

OnProgress = Callable[[str, str, float], None]  # policy, stage, share done


@dataclass(frozen=True, slots=True)
class Timed:
    """A judged policy and the seconds it took."""

    judged: JudgedPolicy
    wall_s: float


def judge_all(names: Sequence[str], setting: Setting, workers: int, progress: OnProgress) -> list[Timed]:
    """Judge policies and return them in the order of the names given. The number of workers does not change any figure."""
    if workers == 1 or len(names) == 1:
        return [_timed(name, setting, progress) for name in names]
    # Spawned, not forked, so that no thread of a model's runtime is copied; with one thread each.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    context = multiprocessing.get_context("spawn")
    news: Any = context.Queue()
    watched, held = context.Pipe(duplex=False)
    count = min(workers, len(names))
    with held, ProcessPoolExecutor(count, mp_context=context, initializer=_begin, initargs=(news, watched)) as pool:
        try:
            order = sorted(names, key=lambda name: (name not in _LONG, _LONG.index(name) if name in _LONG else 0))
            futures = {name: pool.submit(_in_worker, name, setting) for name in order}
            _relay(news, list(futures.values()), progress)
            return [futures[name].result() for name in names]
        except BrokenProcessPool:
            raise EvaluationError("--workers: a worker process died, perhaps out of memory; try --workers 1") from None
        except BaseException:
            held.close()  # the pool waits for its workers, which would otherwise finish what they have begun
            raise


def _relay(news: Any, futures: list[Future[Timed]], progress: OnProgress) -> None:
    while True:
        finished = all(future.done() for future in futures)
        failed = next((future for future in futures if future.done() and future.exception()), None)
        if failed is not None:
            failed.result()
        try:
            while True:
                progress(*news.get(timeout=WAIT_S))
        except queue.Empty:
            if finished:
                return


_news: Any = None


def _begin(news: Any, watched: Connection) -> None:
    global _news
    _news = news
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal signals the whole group; the command decides
    background(lambda: _end_with_command(watched), "end with the command").start()


def _end_with_command(watched: Connection) -> None:
    """End this process at once when the command gives up or is gone: its end of the pipe is then closed."""
    watched.poll(None)
    os._exit(1)


def _in_worker(name: str, setting: Setting) -> Timed:
    return _timed(name, setting, lambda *step: _news.put(step))


def _timed(name: str, setting: Setting, progress: OnProgress) -> Timed:
    began, last = time.perf_counter(), ("", -1.0)

    def report(stage: str, share: float) -> None:
        nonlocal last
        if stage != last[0] or share >= min(1.0, last[1] + TELL_SHARE):
            last = (stage, share)
            progress(name, stage, share)

    found = judge(name, setting, report)
    progress(name, "done", 1.0)
    return Timed(found, time.perf_counter() - began)
