"""``surescale demo``: the whole road on this machine, from nothing to a summary, and nothing left behind."""

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from runtime.options import FiniteRange

if TYPE_CHECKING:
    from services.stack.local_road import LocalRoad

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
@click.option(
    "--workload", default="clarknet", show_default=True, help="clarknet, nasa, twitter, or a CSV with columns minute,requests."
)
@click.option(
    "--job",
    "jobs",
    multiple=True,
    help="Job by name, or a CSV of a graph, FILE or FILE#JOB; repeatable (default: two of 16 and 46 tasks).",
)
@click.option("--minutes", type=click.IntRange(10, 20_160), default=240, show_default=True, help="Minutes of the trace.")
@click.option("--start-minute", type=click.IntRange(0), help="Minute of the trace to start at (default: a morning ramp).")
@click.option("--pace", type=click.Choice(["lockstep", "free"]), default="lockstep", show_default=True,
              help="Wait for the road's answers (the same decisions every time), or let the clock run.")  # fmt: skip
@click.option("--speed", type=FiniteRange(0.1, 100_000), help="Event seconds per second (free: 60; lockstep: 6000).")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of every decision.")
@click.option(
    "--policy", default="sure", show_default=True, help="A rule or a shipped package by name: sure, forecast, ds2, flink, ..."
)
@click.option(
    "--load-parallelism",
    type=FiniteRange(0.1, 100),
    default=7.0,
    show_default=True,
    help="Subtasks that the heaviest task needs at P99 load.",
)
@click.option("--rescale", type=click.Choice(["learners", "restart"]), default="learners", show_default=True,
              help="State is restored before it moves, or the job restarts.")  # fmt: skip
@click.option("--kill-host", "kill_host_minutes", type=click.IntRange(min=1), multiple=True, metavar="MINUTE",
              help="Take the busiest host away at this minute; repeatable.")  # fmt: skip
@click.option("--join-host", "join_host_minutes", type=click.IntRange(min=1), multiple=True, metavar="MINUTE",
              help="Another host joins at this minute; repeatable.")  # fmt: skip
@click.option("--standbys", type=click.IntRange(min=0), default=0, show_default=True,
              help="Copies of each unit's state kept on other hosts.")  # fmt: skip
@click.option("--report", "report_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report as JSON.")
@click.option("--keep", is_flag=True, help="Stay up after the trace, until Ctrl-C.")
def command(*, report_file: Path | None, keep: bool, **given: Any) -> None:
    """Run the whole road here: Kafka, Redis, Spark, Faust, rescaler and a simulated engine under a real trace."""
    from runtime.signals import end_in_order
    from runtime.whole_files import check_folder, write_whole
    from services.stack.local_road import LocalRoad, RoadOptions
    from services.stack.supervisor import StopRequested

    if not given["jobs"]:
        del given["jobs"]
    if report_file:  # before minutes of work, not behind them
        with contextlib.suppress(OSError):
            report_file.absolute().parent.mkdir(parents=True, exist_ok=True)
        check_folder(report_file, option="--report")
    say = _Lines()
    end_in_order()  # until the road is there, which then listens itself
    try:
        with LocalRoad(RoadOptions(**given), say) as road:
            road.start()
            say(f"trace starts; {road.http_url} serves the state")
            _follow(road, say)
            say("trace ended; counting what went over the topics")
            report = road.report()
            if report_file:
                write_whole(report_file, json.dumps(report, indent=1) + "\n", option="--report")
            _print_summary(report)
            if keep:
                ends = report["endpoints"]
                say(f"the road stays up until Ctrl-C: Kafka {ends['kafka']}, Redis {ends['redis']}, {ends['http']}")
                road.supervisor.wait(lambda: False)
    except StopRequested as asked:
        click.echo("stopped; nothing is left running", err=True)
        sys.exit(asked.exit_code)


class _Lines:
    """Progress as lines with the seconds since the start, on standard error."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()

    def __call__(self, line: str) -> None:
        click.echo(f"[{time.monotonic() - self._began_s:6.1f} s] {line}", err=True)


def _follow(road: "LocalRoad", say: _Lines) -> None:
    """Show the trace go by until its end."""
    from services.stack.lines import progress_line

    next_line_s = 0.0

    def is_over() -> bool:
        nonlocal next_line_s
        seen = road.engine_report()
        if not seen["finished"] and time.monotonic() >= next_line_s:
            say(progress_line(seen, road.gates()))
            next_line_s = time.monotonic() + SAY_EVERY_S
        return bool(seen["finished"])

    road.supervisor.wait(is_over, poll_s=LOOK_EVERY_S)


def _print_summary(report: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from services import screens
    from services.stack.lines import JOBS_SHOWN, together
    from services.stack.rescales import rescale_lines

    console = screens.console(WIDTH_WITHOUT_TERMINAL)
    many = len(report["jobs"]) > JOBS_SHOWN
    shown = {f"{len(report['jobs'])} jobs together": together(report["jobs"])} if many else report["jobs"]
    for job, policies in shown.items():
        table = Table(title=f"{job}, {report['minutes']} minutes", title_justify="left", box=SIMPLE)
        table.add_column("policy", no_wrap=True)
        for heading in (*HEADINGS.values(), "rent $"):
            table.add_column(heading, justify="right")
        for policy, figures in policies.items():
            rent = figures["rent"]
            cells = [_cell(figures[name]) for name in HEADINGS]
            table.add_row(policy, *cells, f"{rent['dollars']:.2f}" if rent else "-")
        console.print(table)
    if many:
        console.print("means over the jobs; subtask min, rescales, overload and rent are sums; --report FILE writes each job")
    for line in (*rent_lines(report, jobs_shown=not many), *rescale_lines(report["rescaling"], jobs_shown=not many)):
        console.print(line)
    counts, fresh = report["counts"], report["freshness_s"]["pipeline"]
    console.print(
        f"{counts['metrics']} samples → {counts['windows']} windows → {counts['decisions']['act']} act, "
        f"{counts['decisions']['hold']} hold → {counts['commands']} commands; "
        f"late {counts['late']}, duplicates {counts['duplicates']}, dead letters {counts['dead_letters']}"
    )
    console.print(
        f"freshness p50 {fresh['p50']} s, p99 {fresh['p99']} s over {fresh['samples']} decisions; {report['wall_s']} s in all"
    )


def rent_lines(report: dict[str, Any], *, jobs_shown: bool = True) -> list[str]:
    """Return what the road's jobs cost in money and what their placement saved; on the last line, each policy's cluster."""
    lines = []
    for job, policies in report["jobs"].items() if jobs_shown else ():
        rent = next(iter(policies.values()))["rent"]  # the policy that acted comes first
        if rent:
            lines.append(
                f"{job}: hosts for ${rent['per_day']:.2f} a day, ${rent['dollars']:.2f} in this run; "
                f"saved ${rent['saved_round_robin']:.2f} against round robin, "
                f"${rent['saved_default']:.2f} against Flink's default"
            )
    together = ", ".join(f"{policy} ${rent['dollars']:.2f}" for policy, rent in sorted(report["rent"].items()))
    return [*lines, f"all hosts in use, each paid once: {together}"]


def _cell(value: float) -> str:
    return f"{value:.3f}" if isinstance(value, float) else f"{value:,}"
