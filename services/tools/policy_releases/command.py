"""``surescale policy``: list and check policies, and choose which one a cluster uses from which minute on."""

import json
from typing import TYPE_CHECKING

import click

from runtime import options
from runtime.instants import to_the_minute
from runtime.printable import printable

if TYPE_CHECKING:
    from contracts.messages import PolicyRelease
    from contracts.releases import ReleaseTimeline
    from contracts.settings import RoadSettings


@click.group("policy")
def command() -> None:
    """List, check, release and roll back policies."""


@command.command("list")
@options.as_json
@options.cluster
@options.policy_folder
@options.bootstrap
@options.prefix
def list_(as_json: bool, cluster: str | None, policy_folder: str | None, bootstrap: str | None, topic_prefix: str | None) -> None:
    """Show the folder's policies and the cluster's releases."""
    import msgspec

    from contracts.releases import release_in_force
    from services.tools.policy_releases.folder import policies_in

    settings = options.road_settings(bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster, policy_folder=policy_folder)
    releases, now_ms = _released(settings)
    rows, now = policies_in(settings.policy_folder), release_in_force(releases, now_ms)
    if as_json:
        shown = [_document(release, in_force=release == now) for release in releases]
        document = {"policies": msgspec.to_builtins(rows), "cluster": settings.cluster, "releases": shown}
        click.echo(json.dumps(document, indent=2))
        return
    for row in rows:
        note = row.unusable or (row.scores.line() if row.scores else "")
        span = f"every {row.span_minutes} min"
        click.echo(printable(f"{row.policy:<20} {row.sha256[:12] or 'rule':<12}  {span:<13} {note}".rstrip()))
    for release in releases:
        here = "  <- in force" if release == now else "  to come" if release.valid_from_ms > now_ms else ""
        line = f"{settings.cluster}: from {to_the_minute(release.valid_from_ms)} {_named(release)}, by {release.set_by}{here}"
        click.echo(printable(line))
    if now is None:
        click.echo(f"{settings.cluster}: no release in force; agents use their own policy (SURESCALE_POLICY)")


@command.command("verify")
@click.argument("name")
@options.policy_folder
def verify(name: str, policy_folder: str | None) -> None:
    """Check that the policy NAME can be used.

    Checks its files, checksums and features, and runs it once on a blank window.
    """
    from services.tools.policy_releases.folder import verified

    policy = verified(name, options.road_settings(policy_folder=policy_folder).policy_folder)
    what = f"package {policy.sha256}" if policy.sha256 else "rule"
    click.echo(f"{policy.name}: {what}, decides every {policy.span_minutes} minutes; sound")


@command.command("release")
@click.argument("name")
@click.option("--from", "start", default="now", show_default=True, help="Event minute: milliseconds, ISO time (UTC), or now.")
@options.by
@options.cluster
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
    topic_prefix: str | None,
) -> None:
    """Release the policy NAME for a cluster.

    The cluster's agents use it for every span that ends at or after the event minute --from.
    """
    from contracts.messages import PolicyRelease
    from services.tools.policy_releases.clusters import check_cluster
    from services.tools.policy_releases.folder import verified
    from services.tools.policy_releases.start import start_ms

    settings = options.road_settings(bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster, policy_folder=policy_folder)
    policy = verified(name, settings.policy_folder)
    check_cluster(settings.cluster, _clusters(settings))
    _, now_ms = _released(settings)
    _publish(
        settings,
        PolicyRelease(
            cluster=settings.cluster,
            policy=policy.name,
            sha256=policy.sha256,
            valid_from_ms=start_ms(start, now_ms),
            set_by=options.author(by),
        ),
    )


@command.command("rollback")
@options.by
@options.cluster
@options.policy_folder
@options.bootstrap
@options.prefix
def rollback(
    by: str | None, cluster: str | None, policy_folder: str | None, bootstrap: str | None, topic_prefix: str | None
) -> None:
    """Undo the newest release of a cluster.

    The policy released before it is used again from the next minute on.
    """
    from contracts.errors import SettingsError
    from policies.registry import Unavailable
    from policies.released_policy import released_policy
    from services.tools.policy_releases.rollback import rolled_back
    from services.tools.policy_releases.start import next_minute_ms

    settings = options.road_settings(bootstrap=bootstrap, topic_prefix=topic_prefix, cluster=cluster, policy_folder=policy_folder)
    releases, now_ms = _released(settings)
    wanted = rolled_back(releases, next_minute_ms=next_minute_ms(now_ms), by=options.author(by))
    policy = released_policy(wanted.policy, wanted.sha256, settings.policy_folder)
    if isinstance(policy, Unavailable):
        raise SettingsError(f"policy {wanted.policy}: {policy.reason}")
    _publish(settings, wanted)


def _released(settings: "RoadSettings") -> "tuple[ReleaseTimeline, int]":
    """Return the cluster's releases and the road's time."""
    from contracts.messages import PolicyRelease
    from contracts.releases import release_timeline
    from contracts.topics import CLOCK, POLICY_RELEASES
    from runtime.whole_topics import parsed, read_whole, road_now_ms

    found = read_whole(settings, [POLICY_RELEASES, CLOCK])
    return release_timeline(parsed(found[POLICY_RELEASES], PolicyRelease), settings.cluster), road_now_ms(settings, found[CLOCK])


def _clusters(settings: "RoadSettings") -> list[str]:
    """Return every cluster that a monitor has named, by itself or with a job."""
    from contracts.ids import cluster_of
    from contracts.messages import ClusterTopology, JobTopology
    from contracts.topics import CLUSTER_TOPOLOGY, JOB_TOPOLOGY
    from runtime.whole_topics import parsed, read_whole

    found = read_whole(settings, [CLUSTER_TOPOLOGY, JOB_TOPOLOGY])
    of_jobs = {cluster_of(each.job) for each in parsed(found[JOB_TOPOLOGY], JobTopology)}
    return sorted(of_jobs | {each.cluster for each in parsed(found[CLUSTER_TOPOLOGY], ClusterTopology)})


def _publish(settings: "RoadSettings", release: "PolicyRelease") -> None:
    from contracts.topics import POLICY_RELEASES
    from runtime.whole_topics import send

    send(settings, POLICY_RELEASES, release.cluster, release)
    click.echo(f"{release.cluster}: {_named(release)} from {to_the_minute(release.valid_from_ms)} ({release.valid_from_ms}) on")


def _document(release: "PolicyRelease", *, in_force: bool) -> dict[str, str | int | bool]:
    return {
        "policy": release.policy,
        "sha256": release.sha256,
        "valid_from_ms": release.valid_from_ms,
        "set_by": release.set_by,
        "in_force": in_force,
    }


def _named(release: "PolicyRelease") -> str:
    return f"{release.policy} ({release.sha256[:12] or 'rule'})"
