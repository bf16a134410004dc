"""``surescale job``: show and change what is allowed for a job."""

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from runtime.options import FiniteRange
from services import options
from services.event_time import to_the_second

if TYPE_CHECKING:
    from contracts.messages import JobSettings
    from contracts.settings import RoadSettings
    from services.job_settings.book import Book, Changed

NO_POLICY = "default"
NOTHING_NEW = "written anew, nothing else than before"


@click.group("job")
def command() -> None:
    """Show and change what is allowed for a job. A change holds from the job's next span on."""


@command.command("set")
@click.argument("job")
@click.option("--mode", type=click.Choice(["observe", "advise", "act"]), help="Only look; say what would be done; do it.")
@click.option("--min", "parallelism_min", type=click.IntRange(1, 1_000_000), help="Least parallelism of a task.")
@click.option("--max", "parallelism_max", type=click.IntRange(1, 1_000_000), help="Highest parallelism of a task.")
@click.option("--total", "total_limit", type=click.IntRange(1, 1_000_000), help="Limit of the sum over the job's scalable tasks.")
@click.option(
    "--step", "step_ratio_max", type=FiniteRange(1, 2, min_open=True), help="Factor by which a decision changes a task."
)
@click.option("--priority", type=int, help="The higher, the more important.")
@click.option("--policy", help=f"Policy of this job; {NO_POLICY}: the one released for its cluster.")
@options.by
@options.bootstrap
@options.prefix
def set_(job: str, by: str | None, bootstrap: str | None, prefix: str | None, **wanted: object) -> None:
    """Change settings of JOB (cluster/name)."""
    from contracts.errors import SettingsError

    settings = options.road_settings(bootstrap=bootstrap, prefix=prefix)
    given: dict[str, object] = {name: value for name, value in wanted.items() if value is not None}
    if not given:
        raise SettingsError("name what is to change: --mode, --min, --max, --total, --step, --priority or --policy")
    _change(settings, job, lambda _: _checked_policy(given, settings.policy_folder), by)


@command.command("pause")
@click.argument("job")
@options.by
@options.bootstrap
@options.prefix
def pause(job: str, by: str | None, bootstrap: str | None, prefix: str | None) -> None:
    """Go on deciding on JOB, but carry nothing out (mode observe)."""
    from services.job_settings.changes import PAUSED

    _change(options.road_settings(bootstrap=bootstrap, prefix=prefix), job, lambda _: {"mode": PAUSED}, by)


@command.command("pin")
@click.argument("job")
@options.by
@options.bootstrap
@options.prefix
def pin(job: str, by: str | None, bootstrap: str | None, prefix: str | None) -> None:
    """Keep JOB as it is: its policy becomes ``hold``."""
    from services.job_settings.changes import PINNED

    _change(options.road_settings(bootstrap=bootstrap, prefix=prefix), job, lambda _: {"policy": PINNED}, by)


@command.command("resume")
@click.argument("job")
@options.by
@options.bootstrap
@options.prefix
def resume(job: str, by: str | None, bootstrap: str | None, prefix: str | None) -> None:
    """Undo pause and pin of JOB: mode and policy become what they were before."""
    from services.job_settings.changes import resumed

    _change(options.road_settings(bootstrap=bootstrap, prefix=prefix), job, lambda book: resumed(book.history, job), by)


@command.command("show")
@click.argument("job")
@options.as_json
@options.bootstrap
@options.prefix
def show(job: str, as_json: bool, bootstrap: str | None, prefix: str | None) -> None:
    """Show what is allowed for JOB, and which policy answers for it."""
    from services.job_settings.book import read_book

    settings = options.road_settings(bootstrap=bootstrap, prefix=prefix)
    document = _shown(read_book(settings, job), settings.policy)
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        click.echo("\n".join(f"{name:<18} {_told(value)}" for name, value in document.items()))


@command.command("history")
@click.argument("job")
@options.as_json
@options.bootstrap
@options.prefix
def history(job: str, as_json: bool, bootstrap: str | None, prefix: str | None) -> None:
    """Show every change of JOB's settings: when, by whom, what."""
    from services.job_settings.book import read_book

    changes = _changes(read_book(options.road_settings(bootstrap=bootstrap, prefix=prefix), job))
    if as_json:
        click.echo(json.dumps(changes, indent=2))
        return
    if not changes:
        click.echo(f"{job} was never changed: it has the defaults")
    for change in changes:
        what = (
            ", ".join(f"{name} {_told(before)} -> {_told(after)}" for name, (before, after) in change["changed"].items())
            or NOTHING_NEW
        )
        passed = "" if change["in_force"] else " (never in force: a higher version was there)"
        click.echo(f"{change['version']:>4}  {to_the_second(change['at_ms'])}  {change['set_by']}  {what}{passed}")


def _change(settings: "RoadSettings", job: str, wanted: "Callable[[Book], Mapping[str, object]]", by: str | None) -> None:
    from services.job_settings.book import change

    done = change(settings, job, wanted, options.whoever(by))
    click.echo(_said(job, done))


def _said(job: str, done: "Changed") -> str:
    from services.job_settings.changes import OPTIONS

    if not done.differences:
        return f"{job}: settings version {done.before.version} are like that already; nothing was written"
    what = ", ".join(
        f"{OPTIONS[name][2:]} {_told(before)} -> {_told(after)}" for name, (before, after) in done.differences.items()
    )
    line = f"{job}: {what}; settings version {done.after.version}, from the next span on"
    return f"{line}\n{done.overtaken_by} changed them at the same time and was last" if done.overtaken_by else line


def _checked_policy(given: dict[str, object], folder: str) -> dict[str, object]:
    from services.policy_releases.folder import verified

    name = given.get("policy")
    if name == NO_POLICY:
        return given | {"policy": None}
    if isinstance(name, str):
        verified(name, folder)
    return given


def _shown(book: "Book", road_policy: str) -> dict[str, Any]:
    from services.job_settings.changes import CHANGEABLE

    settings, scalable = book.settings, [task for task in book.topology.tasks if task.scalable]
    answers = settings.policy or (book.release.policy if book.release else road_policy)
    source = "job" if settings.policy else "release" if book.release else "agents' own"
    return {
        "job": book.job,
        **{name: getattr(settings, name) for name in CHANGEABLE},
        "version": settings.version,
        "set_by": settings.set_by,
        "set_at": _when_set(settings),
        "policy_in_use": f"{answers} ({source})",
        "scalable_tasks": len(scalable),
        "parallelism": sum(task.parallelism for task in scalable),
        "state": book.topology.state,
    }


def _changes(book: "Book") -> list[dict[str, Any]]:
    from contracts.messages import JobSettings
    from services.job_settings.changes import differences

    before, found = JobSettings(job=book.job), []
    for recorded in book.history:
        settings = recorded.settings
        counts = settings.version >= before.version
        found.append(
            {
                "version": settings.version,
                "at_ms": recorded.append_ms,
                "road_time_ms": settings.set_at_ms,
                "set_by": settings.set_by,
                "changed": differences(before, settings),
                "in_force": counts,
            }
        )
        before = settings if counts else before
    return found


def _told(value: object) -> str:
    """Return a setting for people; no policy of its own is what --policy calls ``default``."""
    return NO_POLICY if value is None else str(value)


def _when_set(settings: "JobSettings") -> str:
    if not settings.version:
        return "never"
    return to_the_second(settings.set_at_ms) if settings.set_at_ms else "before the road's clock ran"
