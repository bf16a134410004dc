"""``surescale policy tournament``: let the policies play a job's last days again, release what would have done best."""

import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from surescale.contracts.errors import SettingsError
from surescale.runtime import options
from surescale.runtime.signals import stop_event

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings
    from surescale.services.tools.tournament.pipeline_tournament import TournamentTerms
    from surescale.services.tools.tournament.tournament_report import TournamentReport


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
@options.connected(options.cluster, options.policy_folder)
def command(
    settings: "PipelineSettings",
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
) -> None:
    """Release to a job what would have served its last days best.

    A world is fitted to the job. In it, candidates play the last days again. The best one is released if it is ahead of what
    serves now by more than the twin's error. With a RECORDING, the table is printed and nothing is released.
    """
    from surescale.contracts.errors import SettingsError
    from surescale.runtime.signals import end_in_order
    from surescale.services.tools.tournament.pipeline_tournament import TournamentTerms

    terms = TournamentTerms(days=days, draws=draws, seconds=time_limit, memory_mb=memory_mb, again=again, by=options.author(by))
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

    at = time_of_day(daily)
    every_day(at, lambda: _hold_all(settings, jobs, terms, publishes=not dry_run, as_json=as_json), _say)


def _hold_all(
    settings: "PipelineSettings", jobs: tuple[str, ...], terms: "TournamentTerms", *, publishes: bool, as_json: bool
) -> bool:
    """Hold tournaments one after the other; return whether each could be held. What hinders one hinders no other."""
    from surescale.contracts.errors import SurescaleError
    from surescale.services.tools.tournament.pipeline_tournament import hold_for, jobs_of

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


def _on_recording(recording: Path, job: str | None, settings: "PipelineSettings", terms: "TournamentTerms") -> "TournamentReport":
    from surescale.services.tools.recording.replay import learn
    from surescale.services.tools.recording.sources import FileSource, opened_for
    from surescale.services.tools.tournament.hold import Ask
    from surescale.services.tools.tournament.hold_limited import hold_limited
    from surescale.services.tools.tournament.tournament_report import PolicyVersion

    opened, chosen = opened_for(recording, job)
    known = learn(FileSource(opened), frozenset((chosen,)))
    served = PolicyVersion(policy=(known.policy() if known.asked else None) or settings.policy)
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
        memory_mb=terms.memory_mb,
        checks_who_decided=False,
    )
    return hold_limited(ask)


def _print(report: "TournamentReport", *, as_json: bool) -> None:
    import json

    import msgspec

    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(report), allow_nan=False))
        return
    from surescale.runtime import terminal
    from surescale.services.tools.tournament.tournament_report import show

    show(report, terminal.console())


def _say(line: str) -> None:
    click.echo(line, err=True)


def time_of_day(text: str) -> dt.time:
    """Return a time of day as a user writes it.

    Raises:
        SettingsError: it is none.

    >>> time_of_day("03:30")
    datetime.time(3, 30)
    """
    hours, colon, minutes = text.partition(":")
    digits = hours + minutes
    if colon and len(minutes) == 2 and digits.isascii() and digits.isdigit() and int(hours) < 24 and int(minutes) < 60:
        return dt.time(int(hours), int(minutes))
    raise SettingsError(f"--daily: {text[:20]!r} is not a time of day; give HH:MM in UTC, such as 03:30")


def seconds_until(at: dt.time, now: dt.datetime) -> float:
    """Return the seconds from an instant (UTC) to the next time that a clock shows this time of day.

    >>> [seconds_until(dt.time(3, 30), dt.datetime(2026, 1, 1, 3, minute)) for minute in (29, 30)]
    [60.0, 86400.0]
    """
    then = dt.datetime.combine(now.date(), at, now.tzinfo)
    return ((then if then > now else then + dt.timedelta(days=1)) - now).total_seconds()


def every_day(at: dt.time, act: Callable[[], object], say: Callable[[str], None]) -> None:
    """Act every day until SIGTERM or SIGINT. A day that Kafka spoils is said and left out."""
    stop = stop_event()
    while True:
        say(f"the next tournaments begin at {at:%H:%M} UTC")
        if stop.wait(seconds_until(at, dt.datetime.now(dt.UTC))):
            return
        began_s = time.monotonic()
        try:
            act()
        except (OSError, SettingsError) as error:  # Kafka that does not answer is an OSError too
            say(f"surescale: {error}")
        say(f"done after {time.monotonic() - began_s:.0f} s")
        if stop.is_set():
            return
