"""``surescale job``: show and change what surescale may do to a job."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click

from runtime import options
from runtime.instants import to_the_second
from runtime.printable import printable
from services.tools.job_settings.limit_options import DEFAULT, limits

if TYPE_CHECKING:
    from contracts.settings import PipelineSettings
    from services.job_settings.snapshot import ChangeResult, SettingsSnapshot

FIRST = "the defaults, written for the first time"
UNCHANGED = "unchanged; written again"


@click.group("job")
def command() -> None:
    """Show and change what is allowed for a job.

    A change takes effect with the job's next span.
    """


@command.command("set")
@click.argument("job")
@click.option(
    "--mode",
    type=click.Choice(["observe", "advise", "act", DEFAULT]),
    help=f"Observe only, advise, or act; {DEFAULT} leaves it to the job's label, or else to its engine.",
)
@limits
@click.option("--priority", type=int, help="Priority; higher is more important.")
@click.option("--policy", help=f"Policy for this job; {DEFAULT} means the one released for its cluster.")
@options.by
@options.bootstrap
@options.prefix
def set_(job: str, by: str | None, bootstrap: str | None, topic_prefix: str | None, **wanted: object) -> None:
    """Change settings of JOB (cluster/name).

    The word default leaves a limit to the job's label, or else to its engine. The job need not be known yet.
    """
    from contracts.errors import SettingsError
    from services.job_settings.changes import OPTIONS
    from services.tools.job_settings.given import as_settings, with_tasks

    settings = options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix)
    given: dict[str, object] = {name: value for name, value in wanted.items() if value not in (None, ())}
    if not given:
        raise SettingsError(f"name what is to change: {', '.join(OPTIONS.values())}")
    read = as_settings(_checked_policy(given, settings.policy_folder))
    _change(settings, job, lambda snapshot: with_tasks(read, snapshot.settings, snapshot.known), by, may_be_new=True)
    if given.get("mode") in ("advise", "act"):
        _show_limits(settings, job)


@command.command("pause")
@click.argument("job")
@options.by
@options.bootstrap
@options.prefix
def pause(job: str, by: str | None, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Keep deciding on JOB, but carry out nothing (mode observe).

    `surescale pause` stops one direction, for a time, or a whole cluster.
    """
    from services.job_settings.changes import PAUSED

    _change(options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix), job, lambda _: {"mode": PAUSED}, by)


@command.command("pin")
@click.argument("job")
@options.by
@options.bootstrap
@options.prefix
def pin(job: str, by: str | None, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Keep JOB as it is: its policy becomes hold."""
    from services.job_settings.changes import PINNED

    _change(options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix), job, lambda _: {"policy": PINNED}, by)


@command.command("resume")
@click.argument("job")
@options.by
@options.bootstrap
@options.prefix
def resume(job: str, by: str | None, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Undo pause and pin of JOB.

    Its mode and its policy become what they were before.
    """
    from services.job_settings.changes import resumed

    _change(
        options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix),
        job,
        lambda snapshot: resumed(snapshot.history, job),
        by,
    )


@command.command("adopt")
@click.argument("job")
@options.by
@options.bootstrap
@options.prefix
def adopt(job: str, by: str | None, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Accept the parallelism that somebody else gave JOB.

    For real engines only. A job with condition Owned=False is acted on again from what runs now.
    """
    settings = options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix)
    _change(settings, job, lambda snapshot: {"adopted_at_ms": snapshot.now_ms}, by)


@command.command("reapply")
@click.argument("job")
@options.by
@options.bootstrap
@options.prefix
def reapply(job: str, by: str | None, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Give JOB the parallelism it had before it was submitted again.

    It concerns real engines, where an upgrade starts a job with its author's parallelism. It happens in mode act.
    """
    settings = options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix)
    _change(settings, job, lambda snapshot: {"reapplied_at_ms": snapshot.now_ms}, by)


@command.command("show")
@click.argument("job")
@options.as_json
@options.bootstrap
@options.prefix
def show(job: str, as_json: bool, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Show what is allowed for JOB, and which policy decides on it."""
    import msgspec

    from services.job_settings.snapshot import read_snapshot
    from services.tools.job_settings.overview import overview

    _require_single(job)
    settings = options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix)
    document = msgspec.to_builtins(overview(read_snapshot(settings, job), settings.policy))
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        sources = document.pop("sources")
        words = {name: f" ({source})" if source == "label" else "" for name, source in sources.items()}
        lines = (f"{name:<24} {_in_words(value)}{words.get(name, '')}" for name, value in document.items())
        click.echo("\n".join(map(printable, lines)))


@command.command("history")
@click.argument("job")
@options.as_json
@options.bootstrap
@options.prefix
def history(job: str, as_json: bool, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Show every change of JOB's settings: when, by whom, what."""
    import msgspec

    from services.job_settings.changes import OPTIONS
    from services.job_settings.snapshot import read_snapshot
    from services.tools.job_settings.overview import changes_of

    changes = changes_of(read_snapshot(options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix), job))
    if as_json:
        click.echo(json.dumps(msgspec.to_builtins(changes), indent=2))
        return
    if not changes:
        click.echo(f"{job} was never changed: it has the defaults")
    for number, change in enumerate(changes):
        fields = (_changed(name, *values, OPTIONS.get(name, "")[2:]) for name, values in change.changed.items())
        passed = "" if change.in_force else " (never in force: a higher version was there)"
        what = ", ".join(fields) or (UNCHANGED if number else FIRST)
        click.echo(printable(f"{change.version:>4}  {to_the_second(change.at_ms)}  {change.set_by}  {what}{passed}"))


def _change(
    settings: "PipelineSettings",
    job: str,
    wanted: "Callable[[SettingsSnapshot], Mapping[str, object]]",
    by: str | None,
    *,
    may_be_new: bool = False,
) -> None:
    from services.job_settings.snapshot import change

    _require_single(job)
    done = change(settings, job, wanted, options.author(by), may_be_new=may_be_new)
    click.echo(_summary(job, done))


def _show_limits(settings: "PipelineSettings", job: str) -> None:
    """Print what holds for a job that is about to be acted on, or advised, and what that changes now."""
    from services.job_settings.snapshot import read_snapshot
    from services.tools.job_settings.overview import limits_in_force, overview

    snapshot = read_snapshot(settings, job, may_be_new=True)
    if snapshot.known is not None:
        shown = limits_in_force(overview(snapshot, settings.policy), snapshot.known, snapshot.settings)
        click.echo("\n".join(map(printable, shown)))


def _require_single(job: str) -> None:
    from contracts.errors import SettingsError
    from contracts.pauses import is_of_all_jobs

    if is_of_all_jobs(job):
        raise SettingsError(f"JOB: {job} is not a single job; name one, or `surescale pause CLUSTER` for all of them")


def _summary(job: str, done: "ChangeResult") -> str:
    from services.job_settings.changes import OPTIONS

    if not done.differences:
        return f"{job}: settings version {done.before.version} already say so; nothing was written"
    what = ", ".join(_changed(name, *values, OPTIONS.get(name, "")[2:]) for name, values in done.differences.items())
    line = f"{job}: {what}; settings version {done.after.version}, from the next span on"
    overtaken = f"{done.overtaken_by} changed them at the same time and wrote last" if done.overtaken_by else None
    return "\n".join(printable(each) for each in (line, done.note, overtaken) if each)


def _changed(name: str, before: object, after: object, shown: str = "") -> str:
    """Return one change for people; ``shown``: the name to show, if not the field's."""
    from contracts.job_settings import Approval, Pause
    from services.job_settings.changes import REQUESTS
    from services.tools.job_settings.given import choice_in_words

    if name == "pause":
        return f"paused: {after.direction}, {after.why}" if isinstance(after, Pause) else "resumed"
    if isinstance(after, Approval):
        return f"approved {after.decision_id}"
    if name in REQUESTS and isinstance(after, int):
        return f"{REQUESTS[name]} what was there until {to_the_second(after)}"
    was, now = (choice_in_words(name, each) or _in_words(each) for each in (before, after))
    return f"{shown or name} {was} -> {now}"


def _checked_policy(given: dict[str, object], folder: str) -> dict[str, object]:
    from services.tools.policy_releases.folder import verified

    name = given.get("policy")
    if isinstance(name, str) and name != DEFAULT:
        verified(name, folder)
    return given


def _in_words(value: object) -> str:
    """Return a setting for people. A job without a mode, policy or limit of its own has what the options call ``default``."""
    from contracts.job_settings import LatencyBound
    from contracts.limits_in_words import NONE, in_words
    from contracts.objectives import in_words as objective_in_words

    if isinstance(value, LatencyBound):
        return objective_in_words(value) or NONE
    if isinstance(value, dict | tuple | list):
        return ", ".join(in_words(value)) or NONE
    return DEFAULT if value is None else str(value)
