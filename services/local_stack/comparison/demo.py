"""What the demos on a real engine share: options, progress, recording, report and table."""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from runtime import options

if TYPE_CHECKING:
    from rich.table import Table

    from services.local_stack.comparison.pipeline import ComparisonPipeline, Report
    from services.local_stack.errors import Say

F = TypeVar("F", bound=Callable[..., object])

SAY_EVERY_S: Final = 5.0
LOOK_EVERY_S: Final = 1.0
WIDTH_WITHOUT_TERMINAL: Final = 110


def load_options(*, seconds: int, seconds_min: int, mean: float) -> Callable[[F], F]:
    """Return the options of the load, given its usual length and rate."""
    return options.grouped(
        options.workload(),
        options.start_minute,
        click.option("--seconds", type=click.IntRange(seconds_min, 86_400), default=seconds, show_default=True,
                     help="Length of the load; each second is a minute of the trace."),
        click.option("--rate", "mean", type=options.FiniteRange(min=1.0, max=100_000.0), default=mean, show_default=True,
                     help="Records a second that the trace is scaled to."),
        click.option("--step", type=options.FiniteRange(min=0.01, max=100.0), default=4.0, show_default=True,
                     help="Factor of the load from 20 % to 65 % of the run."),
        click.option("--steps", metavar="MINUTE:FACTOR,...",
                     help="Instead of --step: the load is multiplied by each factor from its minute on, like 2:4,9:1."),
    )  # fmt: skip


seed = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of every decision and of the keys."
)
_record = click.option(
    "--record", type=click.Path(path_type=Path, dir_okay=False), help="Write a recording of the run to this file."
)
_out = click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file, as JSON.")
_keep = click.option("--keep", is_flag=True, help="Stay up after the run, until Ctrl-C.")
outcome_options = options.grouped(_record, _out, _keep)


def load_given(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a demo as those of its pipeline: steps read.

    Raises:
        SettingsError: ``--steps`` does not parse, or none of them falls into the run.
    """
    from contracts.errors import SettingsError
    from services.local_stack.comparison.load import read_steps

    given = dict(given)
    steps = given.pop("steps")
    if steps is not None:
        given["steps"] = read_steps(steps)
        if given["steps"][-1][0] >= given["seconds"]:
            raise SettingsError(
                f"--steps: the last one comes after the {given['seconds']} s of the run; give a longer --seconds too"
            )
    return given


def run(
    pipeline_of: "Callable[[Say], ComparisonPipeline]",
    rows: Mapping[str, str],
    sizes: str,
    by: str,
    *,
    record: Path | None,
    out: Path | None,
    keep: bool,
) -> None:
    """Run a pipeline from nothing to a table, and leave nothing behind.

    Args:
        pipeline_of: makes the pipeline.
        rows: the figures of the table, and what they are called.
        sizes: what the sizes of a job count, e.g. ``members (parse-enrich-deliver)``.
        by: what scales or runs the jobs.
        record: where to write a recording.
        out: where to write the report.
        keep: stay up at the end.
    """
    import msgspec

    from runtime.atomic_files import check_folder, write_atomically
    from runtime.signals import end_in_order
    from services.local_stack.demo_command import Lines
    from services.local_stack.supervisor import StopRequested

    for path, option in ((out, "--out"), (record, "--record")):  # checked before minutes of work, not after them
        if path:
            check_folder(path, option=option)
    say, is_kept = Lines(), False
    end_in_order()  # until the pipeline handles signals itself
    try:
        with pipeline_of(say) as pipeline:
            pipeline.start()
            say(f"load starts: {pipeline.options.seconds} s of {pipeline.options.workload}; the page is at {pipeline.http_url}")
            _follow(pipeline, say)
            say("load ended; the jobs finish what they have in hand and stop")
            pipeline.stop_jobs()
            if record:
                _record_to(pipeline, record, say)
            report = pipeline.report()
            if out:
                write_atomically(out, json.dumps(msgspec.to_builtins(report), indent=1) + "\n", option="--out")
            _print(report, rows, sizes, by)
            if keep:
                ends = pipeline.settings
                say(f"the pipeline stays up until Ctrl-C: Kafka {ends.bootstrap}, Redis {ends.redis_url}, {pipeline.http_url}")
                is_kept = True
                pipeline.supervisor.wait(lambda: False)
    except StopRequested as asked:
        click.echo("stopped; nothing is left running", err=True)
        sys.exit(0 if is_kept else asked.exit_code)  # what was asked for was done by then


def _follow(pipeline: "ComparisonPipeline", say: "Say") -> None:
    """Look once a second and print progress, until the load is over and no record waits at a job that is scaled."""
    next_line_s, over_since_s = 0.0, None

    def is_over() -> bool:
        nonlocal next_line_s, over_since_s
        pipeline.look()
        now_s = time.monotonic()
        if now_s >= next_line_s:
            say(_progress_line(pipeline))
            next_line_s = now_s + SAY_EVERY_S
        if over_since_s is None and pipeline.load.is_over:
            over_since_s = now_s
        return over_since_s is not None and (pipeline.is_drained() or now_s - over_since_s > pipeline.drain_s_max)

    pipeline.supervisor.wait(is_over, poll_s=LOOK_EVERY_S)


def _progress_line(pipeline: "ComparisonPipeline") -> str:
    second, gates = pipeline.load.second, pipeline.gates()
    now = pipeline.load.per_second[second] if second < pipeline.options.seconds else 0.0
    jobs = []
    for job in pipeline.jobs:
        gate = f" ({gates[job]})" if job in gates else ""
        jobs.append(f"{job}: {_sizes(pipeline.sizes(job))}, {pipeline.backlog(job):,} waiting{gate}")
    return f"second {second:>4} of {pipeline.options.seconds}  {now:5.0f} records/s   " + "   ".join(jobs)


def _sizes(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{task} {count}" for task, count in sizes.items() if count > 1) or "all 1"


def _record_to(pipeline: "ComparisonPipeline", path: Path, say: "Say") -> None:
    from contracts.topics import CLOCK
    from runtime.topic_records import pipeline_now_ms, read_topics
    from services.tools.recording.record import RecordingRequest, record

    now_ms = pipeline_now_ms(pipeline.settings, read_topics(pipeline.settings, [CLOCK])[CLOCK])
    written = record(pipeline.settings, RecordingRequest(), path, now_ms=now_ms, say=say)
    say(f"{written.records:,} records of the run in {path}")


def _print(report: "Report", rows: Mapping[str, str], sizes: str, by: str) -> None:
    from runtime import terminal

    console = terminal.console(WIDTH_WITHOUT_TERMINAL)
    console.print(_table(report, rows))
    console.print(_phases(report))
    if report.waits:
        console.print(_waits(report))
    for job, figures in report.jobs.items():
        console.print(f"{job}: {' → '.join(figures.sizes)} {sizes}")
    console.print(f"{by}, {report.seconds} s of load, {report.wall_s:.0f} s in all")


def _table(report: "Report", rows: Mapping[str, str]) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    steps = ", ".join(f"x{factor:g} from {at_s:.0f} s" for at_s, factor in report.steps)
    table = Table(title=f"{report.workload}, {steps}", title_justify="left", box=SIMPLE)
    table.add_column("")
    for job in report.jobs:
        table.add_column(job, justify="right")
    for name, words in rows.items():
        table.add_row(words, *(f"{getattr(figures, name):,}" for figures in report.jobs.values()))
    return table


def _phases(report: "Report") -> "Table":
    """Return the table of what followed each step: seconds until nothing waited, rescales, backlog-seconds."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(title="after each step: seconds until settled / rescales / backlog-seconds", title_justify="left", box=SIMPLE)
    table.add_column("")
    for job in report.phases:
        table.add_column(job, justify="right")
    for each in zip(*report.phases.values(), strict=True):
        cells = (
            f"{'never' if phase.settled_s is None else f'{phase.settled_s:.0f}'} / {phase.rescales} / "
            f"{phase.backlog_record_seconds:,}"
            for phase in each
        )
        table.add_row(f"{each[0].from_s:.0f} s, x{each[0].factor:g}, {each[0].records_per_s:.0f} records/s", *cells)
    return table


def _waits(report: "Report") -> "Table":
    """Return the table of what each rescale waited for."""
    from rich.box import SIMPLE
    from rich.table import Table

    from services.local_stack.comparison.delays import PARTS

    table = Table(title="what each rescale waited for, s", title_justify="left", box=SIMPLE)
    table.add_column("")
    for wait in report.waits:
        table.add_column(wait.command_id.partition("/")[2], justify="right")
    for name, words in PARTS.items():
        cells = (getattr(wait, name) for wait in report.waits)
        table.add_row(words, *("" if seconds is None else f"{seconds:.1f}" for seconds in cells))
    table.add_row("spans held since the step", *(str(wait.spans_held) for wait in report.waits))
    table.add_row("gate waited for", *(", ".join(wait.gate_reasons) for wait in report.waits))
    table.add_row("decided as an emergency", *("yes" if wait.emergency else "no" for wait in report.waits))
    return table
