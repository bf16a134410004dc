"""``surescale job settings``, ``set`` and what else shows and changes what surescale may do to a job."""

import json
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import TYPE_CHECKING

import click

from surescale.runtime import options
from surescale.runtime.printable import printable
from surescale.services.job_settings.changes import DEFAULT
from surescale.services.tools.job_settings.options import limits

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings
    from surescale.services.job_settings.snapshot import ChangeResult, SettingsSnapshot

FIRST = "the defaults, written for the first time"
UNCHANGED = "unchanged; written again"


@click.command("set")
@click.argument("job")
@limits
@options.by
@options.connected()
def set_(settings: "PipelineSettings", job: str, by: str | None, **wanted: object) -> None:
    """Change settings of JOB (cluster/name).

    The word default leaves a limit to the job's label, or else to its engine. The job need not be known yet.
    """
    from surescale.contracts.errors import SettingsError
    from surescale.contracts.job_settings import SETTINGS
    from surescale.services.tools.job_settings.options import as_settings, with_tasks

    given: dict[str, object] = {name: value for name, value in wanted.items() if value not in (None, ())}
    if not given:
        raise SettingsError(f"name what is to change: {', '.join(f'--{each.option}' for each in SETTINGS.values())}")
    read = as_settings(_checked_policy(given, settings.policy_folder))
    _change(settings, job, lambda snapshot: with_tasks(read, snapshot.settings, snapshot.known), by, may_be_new=True)
    if given.get("mode") in ("advise", "act"):
        _show_limits(settings, job)


@click.command("pin")
@click.argument("job")
@options.by
@options.connected()
def pin(settings: "PipelineSettings", job: str, by: str | None) -> None:
    """Keep JOB as it is: its policy becomes hold.

    `surescale job set JOB --policy default` ends that.
    """
    _change(settings, job, lambda _: {"policy": "hold"}, by)


@click.command("adopt")
@click.argument("job")
@options.by
@options.connected()
def adopt(settings: "PipelineSettings", job: str, by: str | None) -> None:
    """Accept the parallelism that somebody else gave JOB.

    For real engines only. A job with condition Owned=False is acted on again from what runs now.
    """
    _change(settings, job, lambda snapshot: {"adopted_at_ms": snapshot.now_ms}, by)


@click.command("reapply")
@click.argument("job")
@options.by
@options.connected()
def reapply(settings: "PipelineSettings", job: str, by: str | None) -> None:
    """Give JOB the parallelism it had before it was submitted again.

    It concerns real engines, where an upgrade starts a job with its author's parallelism. It happens in mode act.
    """
    _change(settings, job, lambda snapshot: {"reapplied_at_ms": snapshot.now_ms}, by)


@click.command("settings")
@click.argument("job")
@options.as_json
@options.connected()
def show_settings(settings: "PipelineSettings", job: str, as_json: bool) -> None:
    """Show what is allowed for JOB, and which policy decides on it.

    What somebody set comes first, with who and when (by the pipeline's clock, in UTC); then the defaults in force.
    """
    from surescale.runtime import terminal
    from surescale.services.job_settings.snapshot import read_snapshot
    from surescale.services.tools.job_settings.options import overview, overview_in_lines

    require_single(job)
    snapshot = read_snapshot(settings, job)
    document = overview(snapshot, settings.policy)
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        for line in overview_in_lines(document, snapshot):
            click.echo(terminal.hanging(printable(line), margin=4))


@click.command("history")
@click.argument("job")
@options.as_json
@options.connected()
def history(settings: "PipelineSettings", job: str, as_json: bool) -> None:
    """Show every change of JOB's settings: when, by whom, what.

    When: by the pipeline's clock, in UTC, as everywhere. --json also has the broker's time (at_ms).
    """
    import msgspec

    from surescale.services.job_settings.changes import change_in_words
    from surescale.services.job_settings.snapshot import read_snapshot
    from surescale.services.tools.job_settings.options import changes_of

    changes = changes_of(read_snapshot(settings, job))
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(changes), indent=2))
        return
    if not changes:
        click.echo(f"{job} was never changed: it has the defaults")
    for number, change in enumerate(changes):
        fields = (change_in_words(name, *values) for name, values in change.changed.items())
        passed = "" if change.in_force else " (never in force: a higher version was there)"
        what = ", ".join(fields) or (UNCHANGED if number else FIRST)
        click.echo(printable(f"{change.version:>4}  {change.when}  {change.who}  {what}{passed}"))


def _change(
    settings: "PipelineSettings",
    job: str,
    wanted: "Callable[[SettingsSnapshot], Mapping[str, object]]",
    by: str | None,
    *,
    may_be_new: bool = False,
) -> None:
    from surescale.services.job_settings.snapshot import change

    require_single(job)
    done = change(settings, job, wanted, options.author(by), may_be_new=may_be_new)
    click.echo(_summary(job, done))


def _show_limits(settings: "PipelineSettings", job: str) -> None:
    """Print what holds for a job that is about to be acted on, or advised, and what that changes now."""
    from surescale.services.job_settings.snapshot import read_snapshot
    from surescale.services.tools.job_settings.options import limits_in_force, overview

    snapshot = read_snapshot(settings, job, may_be_new=True)
    if snapshot.known is not None:
        shown = limits_in_force(overview(snapshot, settings.policy), snapshot.known, snapshot.settings, snapshot.now_ms)
        click.echo("\n".join(map(printable, (*shown, _decided_now(settings, snapshot)))))


def _decided_now(settings: "PipelineSettings", snapshot: "SettingsSnapshot") -> str:
    """Return what the newest decision would be under the settings that hold now, decided again on the same window."""
    from surescale.contracts.errors import SurescaleError
    from surescale.contracts.topics import EXPLAIN_GROUP
    from surescale.runtime.kafka_errors import readable_errors
    from surescale.runtime.limited_graphs import opener_for
    from surescale.services.recomputation.counterfactual import question_of
    from surescale.services.recomputation.records import Log, find_window
    from surescale.services.tools.explain.lookup import find_decision
    from surescale.services.tools.job_settings.options import sizes_in_words

    try:
        with readable_errors(settings), closing(Log(settings, EXPLAIN_GROUP)) as log:
            found = find_decision(log, snapshot.job)
            window = find_window(log, found)
        folder = settings.policy_folder
        asked = question_of(found.decision, window, snapshot.settings, folder, settings.span_minutes, opener=opener_for(folder))
        return f"now: {sizes_in_words(asked.answer(asked.window))}"
    except (SurescaleError, ConnectionError) as error:
        return f"now: what would be decided is not known: {error}"


def require_single(job: str) -> None:
    """Refuse what stands for all jobs of a cluster.

    Raises:
        SettingsError: it does.
    """
    from surescale.contracts.errors import SettingsError
    from surescale.contracts.pauses import is_of_all_jobs

    if is_of_all_jobs(job):
        raise SettingsError(
            f"JOB: {job} is not a single job; name one, or `surescale cluster pause CLUSTER` stops rescales of all of them"
        )


def _summary(job: str, done: "ChangeResult") -> str:
    from surescale.services.job_settings.changes import change_in_words

    if not done.differences:
        return f"{job}: settings version {done.before.version} already say so; nothing was written"
    what = ", ".join(change_in_words(name, *values) for name, values in done.differences.items())
    line = f"{job}: {what}; settings version {done.after.version}, from the next span on"
    overtaken = f"{done.overtaken_by} changed them at the same time and wrote last" if done.overtaken_by else None
    return "\n".join(printable(each) for each in (line, done.note, overtaken) if each)


def _checked_policy(given: dict[str, object], folder: str) -> dict[str, object]:
    from surescale.services.tools.policy_releases.folder import verified

    name = given.get("policy")
    if isinstance(name, str) and name != DEFAULT:
        verified(name, folder)
    return given
