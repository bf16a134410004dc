"""``surescale record`` and ``surescale replay``: options in, one call, tables or JSON out. Holds no logic."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from services import options
from services.event_time import event_time_ms

if TYPE_CHECKING:
    from contracts.settings import RoadSettings
    from services.recording.format import Recording
    from services.recording.sources import Source


WIDTH_WITHOUT_TERMINAL = 110


class _EventTime(click.ParamType):
    """An instant of event time: ISO 8601 (UTC unless it says otherwise) or milliseconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return event_time_ms(str(value))
        except ValueError:
            self.fail(f"{value!r} is no time; write 1995-08-28T08:00 or milliseconds since the epoch", param, ctx)


@click.command("record")
@click.option("--topic", "topics", multiple=True, metavar="NAME", help="Topic to record whole; repeatable.")
@click.option("--job", "jobs", multiple=True, metavar="CLUSTER/NAME", help="Job to record from every topic it is on; repeatable.")
@click.option("--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="File to write.")
@click.option("--from", "from_ms", type=_EventTime(), help="Records after this event time.")
@click.option("--until", "until_ms", type=_EventTime(), help="Records up to this event time.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@options.bootstrap
@options.prefix
def record(
    *,
    topics: tuple[str, ...],
    jobs: tuple[str, ...],
    out: Path,
    from_ms: int | None,
    until_ms: int | None,
    force: bool,
    bootstrap: str | None,
    prefix: str | None,
) -> None:
    """Record topics or jobs to one file, with topology and settings, up to what is committed now."""
    import time

    from contracts.errors import SettingsError
    from runtime.signals import end_in_order
    from runtime.whole_files import check_folder
    from services.recording.record import Asked
    from services.recording.record import record as write

    if not topics and not jobs:
        raise click.UsageError("name what to record: --topic NAME or --job CLUSTER/NAME")
    check_folder(out, option="--out")
    if out.exists() and not force:
        raise SettingsError(f"--out: {out} exists; name another file or pass --force")
    asked = Asked(topics, jobs, from_ms, until_ms)
    settings = options.road_settings(bootstrap=bootstrap, prefix=prefix)
    end_in_order()
    written = write(settings, asked, out, now_ms=round(time.time() * 1000), say=_say)
    click.echo(f"{written.records:,} records in {out}, {out.stat().st_size:,} bytes")


@click.command("replay")
@click.option(
    "--from", "origin", required=True, metavar="FILE|TOPIC", help="A recording, or the topic snapshots or task-metrics."
)
@click.option("--policy", "policies", multiple=True, help="Policy to ask; repeatable (default: the one that was asked).")
@options.policy_folder
@click.option("--job", "jobs", multiple=True, metavar="CLUSTER/NAME", help="Only this job; repeatable.")
@click.option("--seed", type=int, help="Seed where no recorded decision tells one.")
@click.option(
    "--through",
    type=click.Choice(["windows", "spark"]),
    default="windows",
    show_default=True,
    help="Decide the recorded windows here, or send the recorded metrics through the Spark job and the agent (needs Kafka).",
)
@click.option("--full", is_flag=True, help="Show every span and every task.")
@options.as_json
@options.bootstrap
@options.prefix
def replay(
    *,
    origin: str,
    policies: tuple[str, ...],
    policy_folder: str | None,
    jobs: tuple[str, ...],
    seed: int | None,
    through: str,
    full: bool,
    as_json: bool,
    bootstrap: str | None,
    prefix: str | None,
) -> None:
    """Decide again what was recorded, by one policy or several, and show what each would have changed."""
    from dataclasses import asdict, replace

    from runtime.signals import end_in_order
    from services.recording import replay as replaying
    from services.recording.tables import document, print_answers, print_replay

    settings = options.road_settings(bootstrap=bootstrap, prefix=prefix, policy_folder=policy_folder, seed=seed)
    source = _source(origin, settings, through)
    chosen_jobs = frozenset(jobs)
    known = replaying.learn(source, chosen_jobs)
    chosen = replaying.chosen_policies(policies, known, settings.policy_folder)
    settings = replace(settings, seed=known.seed(settings.seed))
    answers = None
    if through == "spark":
        from services.recording.through_spark import replay_through_spark
        from services.stack.supervisor import StopRequested

        own = replace(settings, policy=chosen[0].name)
        end_in_order()  # topics are made before processes are, and taken away behind them
        try:
            found, answers = replay_through_spark(source, chosen, known, own, jobs=chosen_jobs, say=_say)
        except StopRequested as asked:
            click.echo("stopped; the replay's topics are removed", err=True)
            sys.exit(asked.exit_code)
    else:
        found = replaying.replay(source, chosen, known, seed=settings.seed, jobs=chosen_jobs)
    if as_json:
        _print_json(document(found, source=source.name, through=through) | ({"agent": asdict(answers)} if answers else {}))
        return
    from services import screens

    console = screens.console(WIDTH_WITHOUT_TERMINAL)
    print_replay(found, console, full=full)
    if answers is not None:
        print_answers(answers, console)


def _source(origin: str, settings: "RoadSettings", through: str) -> "Source":
    """Open what is replayed; a recording is read through once, so that a damaged one is refused before anything happens."""
    from contracts.errors import SettingsError
    from contracts.topics import CLOCK, DECISIONS, JOB_SETTINGS, SNAPSHOTS, TASK_METRICS
    from services.recording.sources import FileSource, RoadSource

    path = Path(origin)
    if path.is_file():
        return FileSource(_checked(path))
    wanted = TASK_METRICS if through == "spark" else SNAPSHOTS
    if origin.removeprefix(settings.topic_prefix) in (SNAPSHOTS, TASK_METRICS):
        return RoadSource(settings, [JOB_SETTINGS, CLOCK, DECISIONS, wanted], say=_say)
    raise SettingsError(f"--from: {origin!r} is neither a file nor one of the topics {SNAPSHOTS} and {TASK_METRICS}")


def _checked(path: Path) -> "Recording":
    from services.recording.format import Recording

    recording = Recording(path)
    recording.check()
    return recording


def _print_json(found: dict[str, Any]) -> None:
    import json

    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")


def _say(line: str) -> None:
    click.echo(line, err=True)
