"""``surescale tournament``: let the policies play a job's last days again, and release the one that would have done best."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runtime import options

if TYPE_CHECKING:
    from contracts.settings import PipelineSettings
    from services.tools.tournament.pipeline import Terms
    from services.tools.tournament.report import Report


@click.command("tournament")
@click.argument("recording", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--job", "jobs", metavar="CLUSTER/NAME", multiple=True, help="Hold it for this job; repeatable.")
@click.option("--all-jobs", is_flag=True, help="Hold it for each job of the cluster.")
@click.option("--dry-run", is_flag=True, help="Print the table, and release nothing.")
@click.option("--daily", metavar="HH:MM", help="Keep running, and hold it every day at this time (UTC).")
@click.option("--days", type=click.IntRange(3, 7), default=3, show_default=True, help="How many of the last days are played.")
@click.option("--draws", type=click.IntRange(2, 20), default=4, show_default=True, help="Random draws of the twin's world.")
@click.option(
    "--time-limit", type=options.FiniteRange(10.0, 7_200.0), default=1_800.0, show_default=True, help="Seconds for one job."
)
@click.option("--memory-mb", type=click.IntRange(256, 65_536), default=1_024, show_default=True, help="Memory for one job.")
@click.option("--again", is_flag=True, help="Even if somebody took back what the last tournament released.")
@options.by
@options.as_json
@options.cluster
@options.policy_folder
@options.bootstrap
@options.prefix
def command(
    *,
    recording: Path | None,
    jobs: tuple[str, ...],
    all_jobs: bool,
    dry_run: bool,
    daily: str | None,
    days: int,
    draws: int,
    time_limit: float,
    memory_mb: int,
    again: bool,
    by: str | None,
    as_json: bool,
    cluster: str | None,
    policy_folder: str | None,
    bootstrap: str | None,
    topic_prefix: str | None,
) -> None:
    """Release to a job what would have served its last days best.

    A world is fitted to the job. In it, candidates play the last days again. The best one is released if it is ahead of what
    serves now by more than the twin's error. With a RECORDING, the table is printed and nothing is released.
    """
    from contracts.errors import SettingsError
    from runtime.signals import end_in_order
    from services.tools.tournament.daily import time_of_day
    from services.tools.tournament.pipeline import Terms

    settings = options.pipeline_settings(
        bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster, policy_folder=policy_folder
    )
    terms = Terms(days=days, draws=draws, seconds=time_limit, memory_mb=memory_mb, again=again, by=options.author(by))
    if recording is not None:
        if all_jobs or daily or len(jobs) > 1:
            raise SettingsError("RECORDING: a tournament on a recording is for one job, once; leave out --all-jobs and --daily")
        end_in_order()
        _print(_on_recording(recording, jobs[0] if jobs else None, settings, terms), as_json=as_json)
        return
    if jobs and all_jobs:
        raise SettingsError("--job, --all-jobs: give one of them, not both; --all-jobs holds it for each job of the cluster")
    if not jobs and not all_jobs:
        raise SettingsError("--job: name the jobs to hold a tournament for, or --all-jobs; none is held unless you say so")
    if daily is None:
        end_in_order()
        if not _hold_all(settings, jobs, terms, publishes=not dry_run, as_json=as_json) and jobs:
            raise SystemExit(1)
        return
    from services.tools.tournament.daily import every_day

    at = time_of_day(daily)
    every_day(at, lambda: _hold_all(settings, jobs, terms, publishes=not dry_run, as_json=as_json), _say)


def _hold_all(settings: "PipelineSettings", jobs: tuple[str, ...], terms: "Terms", *, publishes: bool, as_json: bool) -> bool:
    """Hold tournaments one after the other; return whether each could be held. What hinders one hinders no other."""
    from contracts.errors import SurescaleError
    from services.tools.tournament.pipeline import hold_for, jobs_of

    is_held = True
    for job in jobs or jobs_of(settings):
        try:
            report = hold_for(settings, job, terms, publishes=publishes, say=_say)
        except (SurescaleError, ConnectionError) as error:
            _say(f"surescale: {error}")
            is_held = False
            continue
        _print(report, as_json=as_json)
    return is_held


def _on_recording(recording: Path, job: str | None, settings: "PipelineSettings", terms: "Terms") -> "Report":
    from contracts.errors import PATH_SHOWN_MAX, SettingsError, reason_of
    from services.tools.calibrate.windows import chosen_job
    from services.tools.recording.format import Recording
    from services.tools.recording.replay import learn
    from services.tools.recording.sources import FileSource
    from services.tools.tournament.limited import hold_limited
    from services.tools.tournament.report import Version
    from services.tools.tournament.run import Ask

    try:
        opened = Recording(recording)
    except OSError as error:
        raise SettingsError(f"{str(recording)[:PATH_SHOWN_MAX]} cannot be read ({reason_of(error)}); name a recording") from None
    chosen = chosen_job(opened, job)
    known = learn(FileSource(opened), frozenset((chosen,)))
    served = Version(policy=(known.policy() if known.asked else None) or settings.policy)
    ask = Ask(
        recording=str(recording),
        job=chosen,
        days=terms.days,
        draws=terms.draws,
        folder=settings.policy_folder,
        span_minutes=known.span_minutes(settings.span_minutes),
        seed=known.seed(settings.seed),
        serving=served,
        own=served,
        seconds=terms.seconds,
        checks_who_decided=False,
    )
    return hold_limited(ask, terms.memory_mb)


def _print(report: "Report", *, as_json: bool) -> None:
    import json

    import msgspec

    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(report), allow_nan=False))
        return
    from runtime import terminal
    from services.tools.tournament.table import show

    show(report, terminal.console())


def _say(line: str) -> None:
    click.echo(line, err=True)
