"""What Kafka knows about releases, clusters and jobs at one instant, and how a release is written."""

import time
from dataclasses import dataclass

import click
from msgspec.structs import replace

from contracts.ids import cluster_of
from contracts.messages import ClusterTopology, JobTopology
from contracts.releases import ReleaseRecord, Releases, ScopedRelease, as_record, percent
from contracts.settings import RoadSettings
from contracts.shadows import ShadowDecision
from contracts.topics import CLOCK, CLUSTER_TOPOLOGY, JOB_TOPOLOGY, POLICY_RELEASES, SHADOW_DECISIONS
from runtime.instants import to_the_minute
from runtime.printable import printable
from runtime.whole_topics import parsed, read_whole, road_now_ms, send
from services.state.read.shadows import dollars_per_unit_minute, summaries
from services.state.shadow_documents import ShadowSummary, StoredAnswer, answer_of


@dataclass(frozen=True, slots=True)
class Book:
    """All releases, the road's time, and the names that monitors have given."""

    releases: Releases
    now_ms: int
    clusters: frozenset[str]
    jobs: frozenset[str]


def read_book(settings: RoadSettings) -> Book:
    """Read it.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    found = read_whole(settings, [POLICY_RELEASES, CLOCK, CLUSTER_TOPOLOGY, JOB_TOPOLOGY])
    jobs = frozenset(topology.job for topology in parsed(found[JOB_TOPOLOGY], JobTopology))
    named = {topology.cluster for topology in parsed(found[CLUSTER_TOPOLOGY], ClusterTopology)}
    return Book(
        releases=Releases(parsed(found[POLICY_RELEASES], ReleaseRecord)),
        now_ms=road_now_ms(settings, found[CLOCK]),
        clusters=frozenset(named | {cluster_of(job) for job in jobs}),
        jobs=jobs,
    )


def read_shadows(settings: RoadSettings, *, job: str | None = None) -> tuple[ShadowSummary, ...]:
    """Return the record of each policy in the shadow, on one job or on all, as far back as Kafka keeps it.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    found = read_whole(settings, [SHADOW_DECISIONS, CLUSTER_TOPOLOGY])
    answers: dict[str, StoredAnswer] = {}
    for shadow in parsed(found[SHADOW_DECISIONS], ShadowDecision):
        answers.setdefault(shadow.shadow_id, answer_of(shadow))
    hosts = {topology.cluster: topology.hosts for topology in parsed(found[CLUSTER_TOPOLOGY], ClusterTopology)}
    prices = {cluster: dollars_per_unit_minute(each) for cluster, each in hosts.items()}
    return summaries((answer for answer in answers.values() if job in (None, answer.job)), prices)


def publish(settings: RoadSettings, release: ScopedRelease) -> None:
    """Write a release with the time of writing, and say so.

    Raises:
        ConnectionError: it was not acknowledged.
    """
    send(settings, POLICY_RELEASES, release.cluster, as_record(replace(release, set_at_ms=int(time.time() * 1000))))
    what = f"{named(release)} no longer" if release.withdrawn else named(release)
    when = f"from {to_the_minute(release.valid_from_ms)} ({release.valid_from_ms}) on"
    click.echo(printable(f"{reached(release)}: {what} {when}"))


def named(release: ScopedRelease) -> str:
    """Return a release's policy with the beginning of its hash."""
    shadow = "in the shadow " if release.role == "shadow" else ""
    return f"{shadow}{release.policy} ({release.sha256[:12] or 'rule'})"


def reached(release: ScopedRelease) -> str:
    """Return for whom a release is, for people.

    >>> reached(ScopedRelease(cluster="sim", policy="sure", sha256="", valid_from_ms=0, share_permille=100))
    '10 % of the jobs of sim'
    """
    if release.share_permille is not None:
        return f"{percent(release.share_permille)} of the jobs of {release.cluster}"
    return release.job or release.cluster
