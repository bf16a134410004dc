"""``surescale demo flink`` and ``demo consumers``: jobs on a real engine, from nothing to a table, leaving nothing behind."""

import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from surescale.runtime import options
from surescale.services.local_stack.demo_run import run_demo

if TYPE_CHECKING:
    from rich.table import Table

    from surescale.services.local_stack.comparison.comparison_pipeline import ComparisonPipeline, ComparisonReport
    from surescale.services.local_stack.errors import Say

F = TypeVar("F", bound=Callable[..., object])

SAY_EVERY_S: Final = 5.0
LOOK_EVERY_S: Final = 1.0
WIDTH_WITHOUT_TERMINAL: Final = 110
FLINK_ROWS: Final = {
    "backlog_record_seconds": "backlog-seconds (records waiting x seconds)",
    "backlog_records_max": "most records waiting",
    "late": "records later than a minute",
    "subtask_minutes": "subtask-minutes",
    "rescales": "rescales",
    "stillness_s": "longest stall of the output, s",
    "records_in": "records in",
    "records_out": "records out",
    "waiting": "not read before the end",
    "missing": "missing",
    "doubled": "duplicated",
    "state_wrong": "keys with a wrong count",
}
CONSUMERS_ROWS: Final = {
    "backlog_record_seconds": "backlog-seconds (records waiting x seconds)",
    "backlog_records_max": "most records waiting",
    "late": "records later than half a minute, or never out",
    "member_minutes": "member-minutes",
    "rebalances": "rebalances",
    "stillness_s": "longest stall of the output, s",
    "records_in": "records in",
    "records_out": "records out",
    "waiting": "not through before the end",
    "missing": "missing",
    "doubled": "duplicated",
}


def _load_options(*, seconds: int, seconds_min: int, mean: float) -> Callable[[F], F]:
    """Return the options of the load, given its usual length and rate."""
    return options.grouped(
        options.workload("clarknet"),
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


_seed = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of every decision and of the keys."
)
_record = click.option(
    "--record", type=click.Path(path_type=Path, dir_okay=False), help="Write a recording of the run to this file."
)
_out = click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file, as JSON.")
_keep = click.option("--keep", is_flag=True, help="Stay up after the run, until Ctrl-C.")
_outcome_options = options.grouped(_record, _out, _keep)


def _load_given(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a demo as those of its pipeline: steps read.

    Raises:
        SettingsError: ``--steps`` does not parse, or none of them falls into the run.
    """
    from surescale.contracts.errors import SettingsError
    from surescale.services.local_stack.comparison.load import read_steps

    given = dict(given)
    steps = given.pop("steps")
    if steps is not None:
        given["steps"] = read_steps(steps)
        if given["steps"][-1][0] >= given["seconds"]:
            raise SettingsError(
                f"--steps: the last one comes after the {given['seconds']} s of the run; give a longer --seconds too"
            )
    return given


@click.command("flink")
@_load_options(seconds=210, seconds_min=60, mean=220.0)
@click.option("--policy", "policies", multiple=True, default=("target-utilisation", "static"), show_default=True,
              help="Policy that scales a job of its own under the same load; static: nobody does; upstream: Flink's own "
              "autoscaler. Repeatable.")  # fmt: skip
@click.option("--span-minutes", type=click.IntRange(1, 60), default=1, show_default=True,
              help="Minutes between the decisions of a rule; sure has its own, 10.")  # fmt: skip
@click.option("--slow-vertex", type=click.Choice(["parse", "count"]), default="parse", show_default=True,
              help="Vertex that does the work of a record. count is keyed, so the hottest key keeps one of its subtasks busier "
              "than the others.")  # fmt: skip
@click.option("--job-setting", "job_settings", multiple=True, metavar="NAME=VALUE",
              help="Setting of Flink for each job, like execution.checkpointing.unaligned.enabled=true. Repeatable.")  # fmt: skip
@_seed
@click.option("--flink", "version", type=click.Choice(["2.3.0", "2.2.1", "1.20.5"]), default="2.3.0", show_default=True,
              help="Version of Flink.")  # fmt: skip
@_outcome_options
def flink(*, record: Any, out: Any, keep: bool, **given: Any) -> None:
    """Scale a real Flink job on this machine under a real trace.

    Fetches Flink once, starts Kafka, Redis, a Flink session cluster, a job for each policy, and surescale. Ends by
    itself with a table.
    """
    from surescale.services.local_stack.flink.flink_pipeline import FlinkPipeline, FlinkPipelineOptions, read_job_settings

    given["job_settings"] = read_job_settings(given["job_settings"])
    chosen = FlinkPipelineOptions(**_load_given(given))
    _run(
        lambda say: FlinkPipeline(chosen, say),
        FLINK_ROWS,
        "subtasks (source-parse-count-sink)",
        f"Flink {given['version']}",
        record=record,
        out=out,
        keep=keep,
    )


@click.command("consumers")
@_load_options(seconds=105, seconds_min=30, mean=14.0)
@click.option("--policy", "policies", multiple=True, default=("target-utilisation", "static"), show_default=True,
              help="Policy that scales a chain of its own under the same load; static: nobody does; keda: KEDA's rule, 10 "
              "records waiting for each member, keda-N: N; hpa-cpu: HorizontalPodAutoscaler on CPU. Repeatable.")  # fmt: skip
@click.option("--clock-speed", "speed", type=options.FiniteRange(min=1.0, max=20.0), default=6.0, show_default=True,
              help="Minutes of the pipeline, and of the rivals, in one minute: how often they decide.")  # fmt: skip
@_seed
@_outcome_options
def consumers(*, record: Any, out: Any, keep: bool, **given: Any) -> None:
    """Scale real consumer groups on this machine by workers.

    Starts Kafka, Redis, a chain of three consumer groups for each policy, all on the same topic, and surescale, which
    starts and drains worker processes. Ends by itself with a table.
    """
    from surescale.services.local_stack.consumers.consumers_pipeline import ConsumersPipeline, ConsumersPipelineOptions

    chosen = ConsumersPipelineOptions(**_load_given(given))
    _run(
        lambda say: ConsumersPipeline(chosen, say),
        CONSUMERS_ROWS,
        "members (parse-enrich-deliver)",
        f"clock x{given['speed']:g}",
        record=record,
        out=out,
        keep=keep,
    )


def _run(
    pipeline_of: "Callable[[Say], ComparisonPipeline]",
    rows: Mapping[str, str],
    sizes: str,
    by: str,
    *,
    record: Path | None,
    out: Path | None,
    keep: bool,
) -> None:
    """Run a pipeline from nothing to a table.

    Args:
        pipeline_of: makes the pipeline.
        rows: the figures of the table, and what they are called.
        sizes: what the sizes of a job count, e.g. ``members (parse-enrich-deliver)``.
        by: what scales or runs the jobs.
        record: where to write a recording.
        out: where to write the report.
        keep: stay up at the end.
    """
    from surescale.runtime.atomic_files import check_folder

    if record:
        check_folder(record, option="--record")

    def play(pipeline: "ComparisonPipeline", say: "Say") -> "ComparisonReport":
        say(f"load starts: {pipeline.options.seconds} s of {pipeline.options.workload}; the page is at {pipeline.http_url}")
        _follow(pipeline, say)
        say("load ended; the jobs finish what they have in hand and stop")
        pipeline.stop_jobs()
        if record:
            _record_to(pipeline, record, say)
        return pipeline.report()

    run_demo(pipeline_of, play, lambda report: _print(report, rows, sizes, by), out=out, keep=keep)


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
    from surescale.contracts.topics import CLOCK
    from surescale.runtime.topic_records import pipeline_now_ms, read_topics
    from surescale.services.tools.recording.record import RecordingRequest, record

    now_ms = pipeline_now_ms(pipeline.settings, read_topics(pipeline.settings, [CLOCK])[CLOCK])
    written = record(pipeline.settings, RecordingRequest(), path, now_ms=now_ms, say=say)
    say(f"{written.records:,} records of the run in {path}")


def _print(report: "ComparisonReport", rows: Mapping[str, str], sizes: str, by: str) -> None:
    from surescale.runtime import terminal

    console = terminal.console(WIDTH_WITHOUT_TERMINAL)
    console.print(_table(report, rows))
    console.print(_phases(report))
    if report.waits:
        console.print(_waits(report))
    for job, figures in report.jobs.items():
        console.print(f"{job}: {' → '.join(figures.sizes)} {sizes}")
    console.print(f"{by}, {report.seconds} s of load, {report.wall_s:.0f} s in all")


def _empty(title: str, columns: Iterable[str]) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE)
    table.add_column("")
    for each in columns:
        table.add_column(each, justify="right")
    return table


def _table(report: "ComparisonReport", rows: Mapping[str, str]) -> "Table":
    steps = ", ".join(f"x{factor:g} from {at_s:.0f} s" for at_s, factor in report.steps)
    table = _empty(f"{report.workload}, {steps}", report.jobs)
    for name, words in rows.items():
        table.add_row(words, *(f"{getattr(figures, name):,}" for figures in report.jobs.values()))
    return table


def _phases(report: "ComparisonReport") -> "Table":
    """Return the table of what followed each step: seconds until nothing waited, rescales, backlog-seconds."""
    table = _empty("after each step: seconds until settled / rescales / backlog-seconds", report.phases)
    for each in zip(*report.phases.values(), strict=True):
        cells = (
            f"{'never' if phase.settled_s is None else f'{phase.settled_s:.0f}'} / {phase.rescales} / "
            f"{phase.backlog_record_seconds:,}"
            for phase in each
        )
        table.add_row(f"{each[0].from_s:.0f} s, x{each[0].factor:g}, {each[0].records_per_s:.0f} records/s", *cells)
    return table


def _waits(report: "ComparisonReport") -> "Table":
    """Return the table of what each rescale waited for."""
    from surescale.services.local_stack.comparison.phases import PARTS

    table = _empty("what each rescale waited for, s", [wait.command_id.partition("/")[2] for wait in report.waits])
    for name, words in PARTS.items():
        cells = (getattr(wait, name) for wait in report.waits)
        table.add_row(words, *("" if seconds is None else f"{seconds:.1f}" for seconds in cells))
    table.add_row("spans held since the step", *(str(wait.spans_held) for wait in report.waits))
    table.add_row("gate waited for", *(", ".join(wait.gate_reasons) for wait in report.waits))
    table.add_row("decided as an emergency", *("yes" if wait.emergency else "no" for wait in report.waits))
    return table
