"""What Kafka knows about releases, clusters and jobs at one instant, and how a release is written."""

import time
from contextlib import closing
from dataclasses import dataclass

import click
from msgspec.structs import replace

from surescale.contracts.decisions import ShadowDecision
from surescale.contracts.ids import cluster_of
from surescale.contracts.messages import ClusterTopology, JobTopology
from surescale.contracts.releases import Release, Releases, percent
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, CLUSTER_TOPOLOGY, JOB_TOPOLOGY, POLICY_RELEASES, SHADOW_DECISIONS
from surescale.runtime.instants import to_the_minute
from surescale.runtime.kafka import LogReader
from surescale.runtime.kafka_errors import readable_errors
from surescale.runtime.printable import printable
from surescale.runtime.topic_records import parsed, pipeline_now_ms, read_topics, send
from surescale.services.state.fleet_documents import ShadowSummary, StoredAnswer, answer_of
from surescale.services.state.read.shadows import dollars_per_unit_minute, summaries


@dataclass(frozen=True, slots=True)
class ReleaseCatalog:
    """All releases, also in the order they were written, the pipeline's time, and the names that monitors have given."""

    releases: Releases
    records: tuple[Release, ...]
    now_ms: int
    clusters: frozenset[str]
    jobs: frozenset[str]


def read_catalog(settings: PipelineSettings) -> ReleaseCatalog:
    """Read it.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    found = read_topics(settings, [POLICY_RELEASES, CLOCK, CLUSTER_TOPOLOGY, JOB_TOPOLOGY])
    jobs = frozenset(topology.job for topology in parsed(found[JOB_TOPOLOGY], JobTopology))
    named = {topology.cluster for topology in parsed(found[CLUSTER_TOPOLOGY], ClusterTopology)}
    records = tuple(parsed(found[POLICY_RELEASES], Release))
    return ReleaseCatalog(
        releases=Releases(records),
        records=records,
        now_ms=pipeline_now_ms(settings, found[CLOCK]),
        clusters=frozenset(named | {cluster_of(job) for job in jobs}),
        jobs=jobs,
    )


def read_shadows(settings: PipelineSettings, *, job: str | None = None) -> tuple[ShadowSummary, ...]:
    """Return the record of each shadow policy, on one job or on all, as far back as Kafka keeps it.

    Raises:
        ConnectionError: Kafka does not answer.
    """
    with closing(ShadowRecords(settings, job=job)) as records:
        records.refresh()
        return records.summaries()


class ShadowRecords:
    """The records of shadow policies; each ``refresh`` reads only what is new."""

    def __init__(self, settings: PipelineSettings, *, job: str | None = None) -> None:
        """Read nothing yet. ``job``: only what they made of this job.

        Raises:
            ConnectionError: Kafka does not answer.
        """
        self._settings, self._job = settings, job
        with readable_errors(settings):
            self._reader = LogReader(settings, [SHADOW_DECISIONS, CLUSTER_TOPOLOGY])
        self._answers: dict[str, StoredAnswer] = {}
        self._prices: dict[str, float | None] = {}

    def refresh(self) -> None:
        """Read what has come.

        Raises:
            ConnectionError: Kafka does not answer.
        """
        with readable_errors(self._settings):
            for record in self._reader.read_to_end():
                for message in parsed([record], ShadowDecision | ClusterTopology):
                    if isinstance(message, ClusterTopology):
                        self._prices[message.cluster] = dollars_per_unit_minute(message.hosts)
                    elif self._job in (None, message.job):
                        self._answers.setdefault(message.shadow_id, answer_of(message))

    def summaries(self, from_ms: int = 0) -> tuple[ShadowSummary, ...]:
        """Return the record of each policy, of spans that end at this event time or later."""
        return summaries((answer for answer in self._answers.values() if answer.span_end_ms >= from_ms), self._prices)

    def of(self, version: tuple[str, str, str], from_ms: int = 0) -> ShadowSummary | None:
        """Return the record of one policy (cluster, name, hash), None without any."""
        found = self.summaries(from_ms)
        return next((each for each in found if (each.cluster, each.policy, each.sha256) == version), None)

    def close(self) -> None:
        """Leave the broker."""
        self._reader.close()


def publish(settings: PipelineSettings, release: Release) -> None:
    """Write a release with the time of writing, and say so.

    Raises:
        ConnectionError: it was not acknowledged.
    """
    send(settings, POLICY_RELEASES, release.cluster, replace(release, set_at_ms=int(time.time() * 1000)))
    what = f"{named(release)} no longer" if release.withdrawn else named(release)
    when = f"from {to_the_minute(release.valid_from_ms)} ({release.valid_from_ms}) on"
    click.echo(printable(f"{reached(release)}: {what} {when}"))


def named(release: Release) -> str:
    """Return a release's policy with the beginning of its hash."""
    shadow = "in the shadow " if release.role == "shadow" else ""
    return f"{shadow}{release.policy} ({release.sha256[:12] or 'rule'})"


def reached(release: Release) -> str:
    """Return for whom a release is, for people.

    >>> reached(Release(cluster="sim", policy="sure", sha256="", valid_from_ms=0, share_permille=100))
    '10 % of the jobs of sim'
    """
    if release.share_permille is not None:
        return f"{percent(release.share_permille)} of the jobs of {release.cluster}"
    return release.job or release.cluster
