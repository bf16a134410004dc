"""``surescale job apply`` and ``surescale job export``: settings of many jobs as files."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from surescale.runtime import options
from surescale.runtime.printable import printable

if TYPE_CHECKING:
    from surescale.contracts.settings import PipelineSettings
    from surescale.services.job_settings.files import Entry, Plan

WOULD_CHANGE = 3


@click.command("apply")
@click.option(
    "--file", "-f", "path", required=True, type=click.Path(exists=True, path_type=Path), help="File, or folder of files."
)
@click.option("--dry-run", is_flag=True, help=f"Write nothing; exit code {WOULD_CHANGE} if there is something to write.")
@click.option("--prune", is_flag=True, help="Take back what these files once set for jobs that they no longer name.")
@click.option("--name", help="What the files are known by (default: the name of the file or folder).")
@options.by
@options.connected()
@click.pass_context
def apply(
    ctx: click.Context, settings: "PipelineSettings", path: Path, dry_run: bool, prune: bool, name: str | None, by: str | None
) -> None:
    """Set jobs as a file or a folder says.

    A folder stands for all its files that end in .toml. Everything is checked before anything is written. A setting that a job's
    entry leaves out is left to the job's label, or else to its engine.
    """
    changes = apply_files(settings, path, click.echo, name=name, by=by, dry_run=dry_run, prune=prune)
    if dry_run and changes:
        ctx.exit(WOULD_CHANGE)


def apply_files(
    settings: "PipelineSettings",
    path: Path,
    say: Callable[[str], None],
    *,
    name: str | None = None,
    by: str | None = None,
    dry_run: bool = False,
    prune: bool = False,
) -> int:
    """Set jobs as a file or a folder says, tell ``say`` what changes, line by line, and return how many jobs do.

    Raises:
        SettingsError: a file is wrong or does not go with the jobs, or somebody else changed a job at the same time.
        ConnectionError: Kafka does not answer, or did not take all changes.
    """
    from surescale.contracts.free_text import checked_text
    from surescale.services.job_settings.files import plans
    from surescale.services.job_settings.snapshot import read_jobs, write_all

    known = checked_text("--name", name or path.resolve().name)
    entries = checked_entries(settings, path)
    found = plans(entries, read_jobs(settings), known, options.author(by), prune=prune)
    changes = [plan for plan in found if plan.is_change]
    for plan in changes:
        say("\n".join(map(printable, _lines(plan, known))))
    if not dry_run:
        write_all(settings, [plan.after for plan in changes])
    say(f"{len(changes)} {'would change' if dry_run else 'changed'}, {len(found) - len(changes)} as they are")
    return len(changes)


@click.command("export")
@click.argument("patterns", nargs=-1, metavar="[JOB|PATTERN]...")
@options.connected()
def export(settings: "PipelineSettings", patterns: tuple[str, ...]) -> None:
    """Print what is set, as a file for `job apply`.

    Without names, of all jobs. A job for which nothing is set is left out.
    """
    from fnmatch import fnmatchcase

    from surescale.contracts.errors import SettingsError
    from surescale.contracts.suggestions import near
    from surescale.services.job_settings.changes import newest
    from surescale.services.job_settings.files import exported
    from surescale.services.job_settings.snapshot import read_jobs

    for pattern in patterns:
        if "/" not in pattern:
            raise SettingsError(f"JOB: {pattern!r} is no name of a job; write CLUSTER/NAME, or a pattern like CLUSTER/*")
    known = read_jobs(settings)
    for pattern in patterns:
        if not any(fnmatchcase(job, pattern) for job in known.names):
            like = ", ".join(near(pattern, sorted(known.names))) or "none yet"
            raise SettingsError(f"JOB: no job fits {pattern!r}; known: {like}")
    chosen = [job for job in known.names if not patterns or any(fnmatchcase(job, pattern) for pattern in patterns)]
    click.echo(exported(newest(known.records.get(job, ()), job) for job in chosen), nl=False)


def checked_entries(settings: "PipelineSettings", path: Path) -> "list[Entry]":
    """Return the entries of a file or a folder, as far as they can be checked without Kafka.

    Raises:
        SettingsError: a file cannot be read, or has something unknown; names the file and the entry.
    """
    from surescale.services.job_settings.files import read_entries

    entries = read_entries(path)
    _check_policies(entries, settings.policy_folder)
    return entries


def _check_policies(entries: "list[Entry]", folder: str) -> None:
    """Refuse policies that are not there, each by the first entry that names it."""
    from surescale.contracts.errors import SettingsError, SurescaleError
    from surescale.services.job_settings.files import read_all
    from surescale.services.tools.policy_releases.folder import verified

    named = dict[str, "Entry"]()
    for entry in entries:
        if entry.wanted["policy"] is not None:
            named.setdefault(str(entry.wanted["policy"]), entry)

    def check(policy: str) -> None:
        try:
            verified(policy, folder)
        except SurescaleError as error:
            raise SettingsError(f"{named[policy].where}: {error}") from None

    read_all(check, named)


def _lines(plan: "Plan", name: str) -> list[str]:
    """Return what changes for one job, for people."""
    from surescale.services.job_settings.changes import change_in_words

    what = ", ".join(change_in_words(field, *pair) for field, pair in plan.differences.items())
    hand = ", ".join(change_in_words(field, *pair) for field, pair in plan.by_hand.items())
    return [
        f"{plan.after.job}: {what or f'is as it should be, and {name} owns it from now on'} ({plan.why})",
        *([f"  changed by hand since it was applied, last by {plan.before.set_by}: {hand}"] if hand else []),
        *([f"  {plan.note}"] if plan.note else []),
    ]
