"""``surescale policy``: list and check policies, and choose which one a cluster, a job or a share of jobs uses from when on."""

import json
from typing import TYPE_CHECKING

import click

from runtime import options
from runtime.instants import to_the_minute
from runtime.printable import printable
from services.tools.policy_releases import scope
from services.tools.policy_releases.shadow_commands import promote, shadow, shadows

if TYPE_CHECKING:
    from contracts.releases import ScopedRelease
    from services.tools.policy_releases.catalog import ReleaseCatalog


@click.group("policy")
def command() -> None:
    """List, check, try, release and roll back policies."""


@command.command("list")
@options.as_json
@options.cluster
@options.policy_folder
@options.bootstrap
@options.prefix
def list_(as_json: bool, cluster: str | None, policy_folder: str | None, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Show the folder's policies and the cluster's releases."""
    import msgspec

    from contracts.releases import Slot
    from runtime import terminal
    from services.tools.policy_releases.catalog import read_catalog
    from services.tools.policy_releases.folder import policies_in

    settings = options.pipeline_settings(
        bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster, policy_folder=policy_folder
    )
    catalog, rows = read_catalog(settings), policies_in(settings.policy_folder)
    slots = catalog.releases.slots(settings.cluster)
    shown = [
        (release, catalog.releases.in_force(slot, catalog.now_ms))
        for slot in slots
        for release in catalog.releases.timeline(slot)
    ]
    if as_json:
        releases = [_document(release, in_force=release == now) for release, now in shown]
        document = {"policies": msgspec.to_builtins(rows), "cluster": settings.cluster, "releases": releases}
        click.echo(json.dumps(document, indent=2))
        return
    for row in rows:
        note = row.unusable or (row.scores.line() if row.scores else "")
        span = f"every {row.span_minutes} min"
        line = printable(f"{row.policy:<20} {row.sha256[:12] or 'rule':<12}  {span:<13} {note}".rstrip())
        click.echo(terminal.hanging(line, margin=49))
    for release, now in shown:
        click.echo(terminal.hanging(printable(_line(release, now, catalog)), margin=4))
    if catalog.releases.in_force(Slot(settings.cluster, "serve", "cluster"), catalog.now_ms) is None:
        click.echo(f"{settings.cluster}: no release in force; agents use their own policy (SURESCALE_POLICY)")


@command.command("verify")
@click.argument("name")
@options.policy_folder
def verify(name: str, policy_folder: str | None) -> None:
    """Check that the policy NAME can be used.

    Checks its files, checksums and features, and runs it once on a blank window.
    """
    from services.tools.policy_releases.folder import verified

    policy = verified(name, options.pipeline_settings(policy_folder=policy_folder).policy_folder)
    what = f"package {policy.sha256}" if policy.sha256 else "rule"
    click.echo(f"{policy.name}: {what}, decides every {policy.span_minutes} minutes; sound")


@command.command("release")
@click.argument("name")
@scope.starts
@scope.job
@scope.share
@options.by
@options.cluster
@options.policy_folder
@options.bootstrap
@options.prefix
def release(
    name: str,
    start: str,
    job: str | None,
    canary: float | None,
    by: str | None,
    cluster: str | None,
    policy_folder: str | None,
    bootstrap: str | None,
    topic_prefix: str | None,
) -> None:
    """Release the policy NAME.

    It serves a cluster, one job (--job), or a share of the cluster's jobs (--canary). Agents use it for every span that ends
    at or after the event minute --from. The most specific release serves a job: its own, else a canary that it falls into,
    else the cluster's.
    """
    from services.tools.policy_releases.catalog import publish, read_catalog
    from services.tools.policy_releases.folder import verified
    from services.tools.policy_releases.start import start_ms

    settings = options.pipeline_settings(
        bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster, policy_folder=policy_folder
    )
    policy, catalog = verified(name, settings.policy_folder), read_catalog(settings)
    wanted = scope.release_to(
        "serve",
        policy.name,
        policy.sha256,
        cluster=settings.cluster,
        job=job,
        canary=canary,
        start_ms=start_ms(start, catalog.now_ms),
        by=options.author(by),
    )
    scope.check_scope(wanted, catalog.clusters, catalog.jobs)
    publish(settings, wanted)
    scope.say_reach(wanted, catalog.jobs)


@command.command("rollback")
@scope.job
@scope.of_share
@options.by
@options.cluster
@options.policy_folder
@options.bootstrap
@options.prefix
def rollback(
    job: str | None,
    canary: bool,
    by: str | None,
    cluster: str | None,
    policy_folder: str | None,
    bootstrap: str | None,
    topic_prefix: str | None,
) -> None:
    """Undo the newest release.

    That of a cluster, of one job (--job), or of a canary (--canary). The policy released there before it is used again from
    the next minute on. If it was the first, the scope has no release then: the next wider one counts, at last the agents' own
    policy.
    """
    from contracts.errors import SettingsError
    from policies.registry import Unavailable
    from policies.released_policy import released_policy
    from services.tools.policy_releases.catalog import publish, read_catalog
    from services.tools.policy_releases.rollback import rolled_back
    from services.tools.policy_releases.start import next_minute_ms

    settings = options.pipeline_settings(
        bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster, policy_folder=policy_folder
    )
    catalog, slot = read_catalog(settings), scope.slot_of(settings.cluster, job, canary)
    wanted = rolled_back(catalog.releases, slot, next_minute_ms=next_minute_ms(catalog.now_ms), by=options.author(by))
    policy = released_policy(wanted.policy, wanted.sha256, settings.policy_folder)
    if isinstance(policy, Unavailable) and not wanted.withdrawn:
        raise SettingsError(f"policy {wanted.policy}: {policy.reason}")
    publish(settings, wanted)


@command.command("withdraw")
@scope.job
@scope.of_share
@options.by
@options.cluster
@options.bootstrap
@options.prefix
def withdraw(
    job: str | None, canary: bool, by: str | None, cluster: str | None, bootstrap: str | None, topic_prefix: str | None
) -> None:
    """End a release from the next minute on.

    That of a cluster, of one job (--job), or of a canary (--canary). The next wider release counts then, at last the agents'
    own policy.
    """
    from services.tools.policy_releases.catalog import publish, read_catalog
    from services.tools.policy_releases.rollback import withdrawn
    from services.tools.policy_releases.start import next_minute_ms

    settings = options.pipeline_settings(bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster)
    catalog, slot = read_catalog(settings), scope.slot_of(settings.cluster, job, canary)
    publish(settings, withdrawn(catalog.releases, slot, next_minute_ms=next_minute_ms(catalog.now_ms), by=options.author(by)))


for each in (shadow, shadows, promote):
    command.add_command(each)


def _line(release: "ScopedRelease", now: "ScopedRelease | None", catalog: "ReleaseCatalog") -> str:
    from services.tools.policy_releases.catalog import named, reached

    here = "  <- in force" if release == now else "  to come" if release.valid_from_ms > catalog.now_ms else ""
    what = f"{named(release)} {'ends' if release.withdrawn else ''}".rstrip()
    return f"{reached(release)}: from {to_the_minute(release.valid_from_ms)} {what}, by {release.set_by}{here}"


def _document(release: "ScopedRelease", *, in_force: bool) -> dict[str, object]:
    from msgspec import UNSET

    return {
        "policy": release.policy,
        "sha256": release.sha256,
        "role": release.role,
        "scope": release.scope,
        "job": release.job,
        "share": None if release.share_permille is None else release.share_permille / 1000,
        "valid_from_ms": release.valid_from_ms,
        "withdrawn": release.withdrawn,
        "set_by": release.set_by,
        "set_at_ms": None if release.set_at_ms is UNSET else release.set_at_ms,
        "note": None if release.note is UNSET else release.note,
        "in_force": in_force,
    }
