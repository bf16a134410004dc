"""``surescale demo``: run the whole pipeline on this machine, from nothing to a summary, and leave nothing behind."""

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime import options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.table import Table

    from services.local_stack.demo_report import DemoReport, JobFigures
    from services.local_stack.local_pipeline import LocalPipeline

SAY_EVERY_S = 3.0
LOOK_EVERY_S = 0.25
WIDTH_WITHOUT_TERMINAL = 110
HEADINGS = {
    "reward": "reward",
    "latency_mean_s": "latency s",
    "latency_p99_s": "p99 s",
    "utilisation": "in use",
    "task_minutes": "subtask min",
    "rescales": "rescales",
    "overload_minutes": "overload",
}


@click.command("demo")
@options.workload()
@options.jobs()
@options.minutes(10, 20_160)
@options.start_minute
@options.pace
@options.speed
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of every decision.")
@click.option(
    "--policy", default="sure", show_default=True, help="A rule or a shipped package by name: sure, forecast, ds2, flink, ..."
)
@options.load_parallelism
@options.world
@options.world_seed
@options.rescale
@options.kill_host
@options.join_host
@options.standbys
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file, as JSON.")
@click.option("--keep", is_flag=True, help="Stay up after the trace, until Ctrl-C.")
def command(*, out: Path | None, keep: bool, **given: Any) -> None:
    """Run everything on this machine under a real trace.

    Starts Kafka, Redis, Spark, Faust, the rescaler and a simulated engine, and ends with a summary of the trace.
    """
    import msgspec

    from contracts.addresses import without_password
    from runtime.atomic_files import check_folder, write_atomically
    from runtime.signals import end_in_order
    from services.local_stack.local_pipeline import LocalPipeline, PipelineOptions
    from services.local_stack.supervisor import StopRequested

    if out:  # checked before minutes of work, not after them
        check_folder(out, option="--out")
    chosen = {name: value for name, value in given.items() if value is not None}
    say, is_kept = Lines(), False
    end_in_order()  # until the pipeline handles signals itself
    try:
        with LocalPipeline(PipelineOptions(**chosen), say) as pipeline:
            pipeline.start()
            say(f"trace starts; the page is at {pipeline.http_url}")
            at = pipeline.settings
            say(
                f"for commands in another terminal: export SURESCALE_BOOTSTRAP={at.bootstrap} "
                f"SURESCALE_REDIS_URL={without_password(at.redis_url)} SURESCALE_ENGINE_URL={at.engine_url}"
            )
            _follow(pipeline, say)
            say("trace ended; counting what went over the topics")
            report = pipeline.report()
            if out:
                write_atomically(out, json.dumps(msgspec.to_builtins(report), indent=1) + "\n", option="--out")
            _print_summary(report)
            if keep:
                ends = report.endpoints
                say(f"the pipeline stays up until Ctrl-C: Kafka {ends.kafka}, Redis {ends.redis}, {ends.http}")
                is_kept = True
                pipeline.supervisor.wait(lambda: False)
    except StopRequested as asked:
        click.echo("stopped; nothing is left running", err=True)
        sys.exit(0 if is_kept else asked.exit_code)  # what was asked for was done by then


class Lines:
    """Prints progress on standard error, each line with the seconds since the start."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __call__(self, line: str) -> None:
        """Print a line."""
        click.echo(f"[{time.monotonic() - self._began_s:6.1f} s] {line}", err=True)


def _follow(pipeline: "LocalPipeline", say: Lines) -> None:
    """Print progress until the trace ends."""
    from services.local_stack.demo_lines import host_lines, progress_line

    next_line_s, told_minute, last_line = 0.0, 0, ""
    kills, joins = pipeline.options.kill_host_minutes, pipeline.options.join_host_minutes

    def is_over() -> bool:
        nonlocal next_line_s, told_minute, last_line
        seen = pipeline.engine_report()
        for line in host_lines(kills, joins, after=told_minute, until=seen.minutes_done):
            say(line)
        told_minute = seen.minutes_done
        if not seen.finished and time.monotonic() >= next_line_s:
            line = progress_line(seen, pipeline.gates())
            if line != last_line:  # in lockstep the clock stands while an answer is awaited
                say(line)
            last_line = line
            next_line_s = time.monotonic() + SAY_EVERY_S
        return seen.finished

    pipeline.supervisor.wait(is_over, poll_s=LOOK_EVERY_S)


def _print_summary(report: "DemoReport") -> None:
    from runtime import terminal
    from services.local_stack.demo_lines import JOBS_SHOWN, acting, rent_lines, rescale_lines
    from services.local_stack.demo_report import together

    console = terminal.console(WIDTH_WITHOUT_TERMINAL)
    many = len(report.jobs) > JOBS_SHOWN
    shown = {f"{len(report.jobs)} jobs together": together(report.jobs)} if many else report.jobs
    for job, policies in shown.items():
        decided_by = report.decided_by.values() if many else (report.decided_by.get(job, ()),)
        console.print(_table(f"{job}, {report.minutes} minutes", policies, acting(decided_by, report.policy.name)))
    if many:
        console.print("means over the jobs; subtask min, rescales, overload and rent are sums; --out FILE writes each job")
    for line in rent_lines(report.jobs, report.rent, jobs_shown=not many):
        console.print(line)
    for line in rescale_lines(report.rescaling, jobs_shown=not many):
        console.print(line)
    counts, fresh = report.counts, report.freshness_s.pipeline
    console.print(
        f"{counts.metrics} samples → {counts.windows} windows → {counts.decisions['act']} act, "
        f"{counts.decisions['hold']} hold → {counts.commands} commands; "
        f"late {counts.late}, duplicates {counts.duplicates}, dead letters {counts.dead_letters}"
    )
    console.print(f"freshness p50 {fresh.p50} s, p99 {fresh.p99} s over {fresh.samples} decisions; {report.wall_s} s in all")


def _table(title: str, policies: "Mapping[str, JobFigures]", acted: str) -> "Table":
    """Return the figures by policy; the first row is the pipeline itself, on which ``acted`` decided."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE)
    table.add_column("policy", no_wrap=True)
    for heading in (*HEADINGS.values(), "rent $"):
        table.add_column(heading, justify="right")
    for at, (policy, figures) in enumerate(policies.items()):
        cells = [_cell(getattr(figures, name)) for name in HEADINGS]
        table.add_row(policy if at else acted, *cells, f"{figures.rent.dollars:.2f}" if figures.rent else "-")
    return table


def _cell(value: float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"
