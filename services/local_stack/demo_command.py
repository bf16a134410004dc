"""``surescale demo``: run the whole pipeline on this machine, from nothing to a summary, and leave nothing behind."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from surescale.runtime import options
from surescale.services.local_stack.comparison.demo import consumers, flink
from surescale.services.local_stack.demo_run import run_demo
from surescale.services.local_stack.errors import Say
from surescale.services.tools.shipped_jobs import command as jobs

if TYPE_CHECKING:
    from rich.table import Table

    from surescale.services.local_stack.demo_report import DemoReport
    from surescale.services.local_stack.local_pipeline import LocalPipeline

SAY_EVERY_S = 3.0
LOOK_EVERY_S = 0.25
WIDTH_WITHOUT_TERMINAL = 110
PAYS = {"task_minutes": "subtask\nminutes"}
SUFFERS = {
    "overload_minutes": "minutes over\ncapacity",
    "latency_mean_s": "latency s\nmean",
    "latency_p99_s": "latency s\np99",
    "rescales": "rescales\n",
}


@click.group("demo", invoke_without_command=True, subcommand_metavar="[COMMAND]")
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
@click.pass_context
def command(context: click.Context, /, *, out: Path | None, keep: bool, **given: Any) -> None:
    """Run everything on this machine, with a simulated engine.

    Starts Kafka, Redis, Spark, Faust, the rescaler and a simulated engine, and ends with a summary of the trace. The
    commands below do the same with a real engine, and have options of their own.
    """
    if context.invoked_subcommand:
        _refuse_options_before_a_command(context)
        return

    from surescale.contracts.addresses import without_password
    from surescale.services.local_stack.local_pipeline import LocalPipeline, PipelineOptions

    chosen = PipelineOptions(**{name: value for name, value in given.items() if value is not None})

    def play(pipeline: LocalPipeline, say: Say) -> "DemoReport":
        say(f"trace starts; the page is at {pipeline.http_url}")
        at = pipeline.settings
        say(
            f"for commands in another terminal: export SURESCALE_BOOTSTRAP={at.bootstrap} "
            f"SURESCALE_REDIS_URL={without_password(at.redis_url)} SURESCALE_ENGINE_URL={at.engine_url}"
        )
        _follow(pipeline, say)
        say("trace ended; counting what went over the topics")
        return pipeline.report()

    run_demo(lambda say: LocalPipeline(chosen, say), play, _print_summary, out=out, keep=keep)


def _refuse_options_before_a_command(context: click.Context) -> None:
    """Raise click's error if options of the simulated demo stand before the name of another, which would not heed them."""
    named = [
        option.opts[0]
        for option in context.command.params
        if option.name and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    ]
    if named:
        demo = context.invoked_subcommand
        remedy = f"put the options of `demo {demo}` after {demo}"
        raise click.UsageError(f"{named[0]} is an option of the simulated demo; {remedy}", context)


command.add_command(flink)
command.add_command(consumers)
command.add_command(jobs)


def _follow(pipeline: "LocalPipeline", say: Say) -> None:
    """Print progress until the trace ends."""
    from surescale.services.local_stack.demo_report import host_lines, progress_line

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
    from surescale.runtime import terminal
    from surescale.services.local_stack.demo_report import incident_lines, result_lines

    console = terminal.console(WIDTH_WITHOUT_TERMINAL)
    for line in result_lines(report):
        console.print(line)
    console.print(_table(report))
    for line in incident_lines(report.rescaling, report.counts):
        console.print(line)
    fresh = report.freshness_s.pipeline
    if fresh.samples:
        console.print(f"Decisions came {fresh.p50} s after their minute's last figures, 99% of them within {fresh.p99} s.")
    console.print(f"The run took {report.wall_s} s; --out FILE writes every figure, by job.")


def _table(report: "DemoReport") -> "Table":
    """Return what each policy pays and what the jobs suffer; the first row is the pipeline itself."""
    from rich.box import SIMPLE
    from rich.table import Table

    from surescale.services.local_stack.demo_report import acting, together

    table = Table(box=SIMPLE)
    table.add_column("policy", no_wrap=True, vertical="bottom")
    for heading in ("hosts\n$", *PAYS.values(), *SUFFERS.values()):
        table.add_column(heading, justify="right")
    for at, (policy, figures) in enumerate(together(report.jobs).items()):
        rent = report.rent.get(policy)
        cells = [_cell(getattr(figures, name)) for name in (*PAYS, *SUFFERS)]
        name = policy if at else acting(report.decided_by.values(), policy)
        table.add_row(name, f"{rent.dollars:.2f}" if rent else "-", *cells)
    return table


def _cell(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.1f}" if value >= 10.0 else f"{value:.2g}"
