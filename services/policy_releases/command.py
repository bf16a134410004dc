"""``surescale policy``: what policies there are, whether they are sound, and which one a cluster uses from when on."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from services import options
from services.event_time import to_the_minute

if TYPE_CHECKING:
    from contracts.messages import PolicyRelease
    from contracts.settings import RoadSettings
    from services.policy_releases.releases import Timeline

_CLUSTER = click.option("--cluster", help="Whose agents (default: SURESCALE_CLUSTER).")


@click.group("policy")
def command() -> None:
    """List, check, release and roll back policies."""


@command.command("list")
@options.as_json
@_CLUSTER
@options.policy_folder
@options.bootstrap
@options.prefix
def list_(as_json: bool, cluster: str | None, policy_folder: str | None, bootstrap: str | None, prefix: str | None) -> None:
    """Show the policies of the folder, and the releases of the cluster."""
    from services.policy_releases.folder import policies_in
    from services.policy_releases.releases import in_force

    settings = options.road_settings(bootstrap=bootstrap, prefix=prefix, cluster=cluster, policy_folder=policy_folder)
    releases, now_ms = _released(settings)
    rows, now = policies_in(settings.policy_folder), in_force(releases, now_ms)
    told = [_document(release) | {"in_force": release == now} for release in releases]
    if as_json:
        plain = [row | {"scores": asdict(row["scores"]) if row["scores"] else None} for row in rows]
        click.echo(json.dumps({"policies": plain, "cluster": settings.cluster, "releases": told}, indent=2))
        return
    for row in rows:
        said = row["unusable"] or (row["scores"].line() if row["scores"] else "")
        span = f"every {row['span_minutes']} min"
        click.echo(f"{row['policy']:<20} {row['sha256'][:12] or 'rule':<12}  {span:<13} {said}".rstrip())
    for release in releases:
        here = "  <- in force" if release == now else "  to come" if release.valid_from_ms > now_ms else ""
        click.echo(
            f"{settings.cluster}: from {to_the_minute(release.valid_from_ms)} {_named(release)}, by {release.set_by}{here}"
        )
    if now is None:
        click.echo(f"{settings.cluster}: no release in force; agents use their own policy (SURESCALE_POLICY)")


@command.command("verify")
@click.argument("name")
@options.policy_folder
def verify(name: str, policy_folder: str | None) -> None:
    """Check the policy NAME: files, checksums, features, one run on a blank window."""
    from services.policy_releases.folder import verified

    policy = verified(name, options.road_settings(policy_folder=policy_folder).policy_folder)
    what = f"package {policy.sha256}" if policy.sha256 else "rule"
    click.echo(f"{policy.name}: {what}, decides every {policy.span_minutes} minutes; sound")


@command.command("release")
@click.argument("name")
@click.option("--from", "start", default="now", show_default=True, help="Event minute: milliseconds, ISO time (UTC), or now.")
@options.by
@_CLUSTER
@options.policy_folder
@options.bootstrap
@options.prefix
def release(
    name: str,
    start: str,
    by: str | None,
    cluster: str | None,
    policy_folder: str | None,
    bootstrap: str | None,
    prefix: str | None,
) -> None:
    """Let a cluster's agents use the policy NAME for every span that ends at or after an event minute."""
    from contracts.messages import PolicyRelease
    from services.policy_releases.folder import verified
    from services.policy_releases.start import start_ms

    settings = options.road_settings(bootstrap=bootstrap, prefix=prefix, cluster=cluster, policy_folder=policy_folder)
    policy = verified(name, settings.policy_folder)
    _, now_ms = _released(settings)
    _publish(
        settings,
        PolicyRelease(
            cluster=settings.cluster,
            policy=policy.name,
            sha256=policy.sha256,
            valid_from_ms=start_ms(start, now_ms),
            set_by=options.whoever(by),
        ),
    )


@command.command("rollback")
@options.by
@_CLUSTER
@options.policy_folder
@options.bootstrap
@options.prefix
def rollback(by: str | None, cluster: str | None, policy_folder: str | None, bootstrap: str | None, prefix: str | None) -> None:
    """Undo the newest release: the policy released before it is used again from the next minute on."""
    from contracts.errors import SettingsError
    from policies.registry import Unavailable
    from services.policy_releases.folder import released_policy
    from services.policy_releases.releases import rolled_back
    from services.policy_releases.start import next_minute_ms

    settings = options.road_settings(bootstrap=bootstrap, prefix=prefix, cluster=cluster, policy_folder=policy_folder)
    releases, now_ms = _released(settings)
    wanted = rolled_back(releases, next_minute_ms=next_minute_ms(now_ms), by=options.whoever(by))
    policy = released_policy(wanted.policy, wanted.sha256, settings.policy_folder)
    if isinstance(policy, Unavailable):
        raise SettingsError(f"policy {wanted.policy}: {policy.reason}")
    _publish(settings, wanted)


def _released(settings: "RoadSettings") -> "tuple[Timeline, int]":
    """Return the cluster's releases and the road's time."""
    from contracts.messages import PolicyRelease
    from contracts.topics import CLOCK, POLICY_RELEASES
    from services.policy_releases.releases import timeline
    from services.road_topics import everything, parsed, road_now_ms

    found = everything(settings, [POLICY_RELEASES, CLOCK])
    return timeline(parsed(found[POLICY_RELEASES], PolicyRelease), settings.cluster), road_now_ms(settings, found[CLOCK])


def _publish(settings: "RoadSettings", release: "PolicyRelease") -> None:
    from contracts.topics import POLICY_RELEASES
    from services.road_topics import send

    send(settings, POLICY_RELEASES, release.cluster, release)
    click.echo(f"{release.cluster}: {_named(release)} from {to_the_minute(release.valid_from_ms)} ({release.valid_from_ms}) on")


def _document(release: "PolicyRelease") -> dict[str, object]:
    return {
        "policy": release.policy,
        "sha256": release.sha256,
        "valid_from_ms": release.valid_from_ms,
        "set_by": release.set_by,
    }


def _named(release: "PolicyRelease") -> str:
    return f"{release.policy} ({release.sha256[:12] or 'rule'})"
