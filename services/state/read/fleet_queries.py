"""Queries on everything together: clusters, policies, the pipeline, counts. Writes nothing."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from contracts.ids import cluster_of
from services.state import keys
from services.state.fleet_documents import (
    ClusterDocument,
    ClusterInfo,
    ClusterOverview,
    Counts,
    PipelineDocument,
    PoliciesDocument,
)
from services.state.read.cluster_info import JobUnits, cluster_info
from services.state.read.fleet import DecidedBy, Newest, cluster_overview, pipeline, policies
from services.state.read.package_scores import scores_of
from services.state.read.rent import cluster_rent
from services.state.read.shadows import dollars_per_unit_minute, summaries
from services.state.read.stored import Documents, decoded
from services.state.read.view import NotFound, StaleCursor, View
from services.state.record_documents import (
    BalanceDocument,
    CommandDocument,
    DeadLetterDocument,
    EngineEventDocument,
    HostLookDocument,
    HostsDocument,
    PlacementDocument,
    PolicyReleaseDocument,
    ProgressDocument,
    SettingsDocument,
    TopologyDocument,
    WindowDocument,
)
from services.state.shadow_documents import ShadowAnswer, ShadowSummary, StoredAnswer
from services.state.write.projections import EVENTS_KEPT

D = TypeVar("D", bound=msgspec.Struct)

LOOKS_SHOWN = 20  # the newest looks at the hosts
_NO_MAPPINGS = '{"appended_ms":0,"record":{}}'


class FleetQueries(View):
    """Queries on everything together."""

    policy_folder = ""  # of the packages whose scores are shown; empty: those that ship

    def cluster(self, cluster: str) -> ClusterDocument:
        """Return a cluster's hosts, jobs, placement and latest events.

        Raises:
            NotFound: no topic has named it.
        """
        self._require_cluster(cluster)
        fields = self._client.hgetall(self._key(keys.cluster(cluster)))
        read = Documents()
        hosts = read.one("topology", fields.get("topology"), HostsDocument)
        jobs = self._jobs_of(cluster)
        topologies = self._topologies(jobs, read)
        settings = read.one("settings", fields.get("settings"), SettingsDocument)
        return ClusterDocument(
            cluster=cluster,
            topology=hosts,
            placement=read.one("placement", fields.get("placement"), PlacementDocument),
            balance=read.one("balance", fields.get("balance"), BalanceDocument),
            balances=read.each("balances", self._latest("balances", cluster, LOOKS_SHOWN), HostLookDocument),
            policy_release=read.one("policy_release", fields.get("policy_release"), PolicyReleaseDocument),
            pause=settings.pause if settings else UNSET,
            jobs=tuple(jobs),
            rent=cluster_rent(topologies, hosts) if hosts and hosts.engine.places == "commanded" else None,
            events=read.each("events", self._latest("events", cluster, EVENTS_KEPT), EngineEventDocument),
            unreadable=read.unreadable,
        )

    def clusters(self) -> list[ClusterOverview]:
        """Return every cluster in one line."""
        jobs: dict[str, list[str]] = {cluster: [] for cluster in self._clusters()}
        for job in self.job_ids():
            jobs.setdefault(cluster_of(job), []).append(job)
        return [self._cluster_overview(cluster, of) for cluster, of in jobs.items()]

    def only_cluster(self) -> str:
        """Return the name of the only cluster.

        Raises:
            NotFound: there is none, or more than one.
        """
        clusters = self._clusters()
        if len(clusters) != 1:
            raise NotFound("cluster", "that is the only one", clusters)
        return clusters[0]

    def cluster_info(self, cluster: str) -> ClusterInfo:
        """Return workers with their units and the fragments on them (`services.state.read.cluster_info`).

        Raises:
            NotFound: no topic has named the cluster, or its hosts are not known yet.
        """
        self._require_cluster(cluster)
        body, placed = self._client.hmget(self._key(keys.cluster(cluster)), ("topology", "placement"))
        if body is None:
            raise NotFound("topology of cluster", cluster)
        placement = None if placed is None else decoded(placed, PlacementDocument)
        read = Documents()
        jobs = []
        for job, (topology, mappings) in self._fields_of(self._jobs_of(cluster), "topology", "mappings"):
            known = read.one(job, topology, TopologyDocument)
            moved = read.part(job, mappings or _NO_MAPPINGS, dict[str, tuple[int, ...]])
            if known is not None and moved is not None:
                jobs.append(JobUnits(known, moved))
        info = cluster_info(decoded(body, HostsDocument), jobs, placement.placement_generation if placement else 0)
        return replace(info, unreadable_jobs=read.unreadable)

    def policies(self) -> PoliciesDocument:
        """Return which policy made each job's latest decision, the releases, and the record of shadow policies."""
        read = Documents()
        latest = self._newest_documents("decisions", DecidedBy, read)
        found = [self._client.hgetall(self._key(keys.releases(cluster))) for cluster in self._clusters()]
        bodies = [fields[place] for fields in found for place in sorted(fields)]
        releases = read.each("policy releases", bodies, PolicyReleaseDocument)
        return policies(latest, releases, self.shadows(), partial(scores_of, self.policy_folder))

    def shadows(self) -> tuple[ShadowSummary, ...]:
        """Return how each shadow policy compares with the decisions that were made."""
        read, answers, clusters = Documents(), list[StoredAnswer](), set[str]()
        for job, body in self._all_of_each("shadows"):
            if (answer := read.part(job, body, StoredAnswer)) is not None:
                answers.append(answer)
                clusters.add(cluster_of(job))
        return summaries(answers, {cluster: self._unit_minute(cluster, read) for cluster in clusters}) if answers else ()

    def shadow_answers(self, job: str, limit: int, *, after: str = "") -> list[ShadowAnswer]:
        """Return the latest answers of shadow policies on a job, newest first; with ``after``, those before that one.

        Raises:
            NotFound: no topic has named the job.
            StaleCursor: the answer of that identity is no longer in the view.
        """
        self._require_job(job)
        bodies = self._bodies("shadows", job, self._page("shadows", job, after, limit))
        return list(Documents().each("shadows", bodies, ShadowAnswer))

    def _unit_minute(self, cluster: str, read: Documents) -> float | None:
        hosts = read.one("topology", self._client.hget(self._key(keys.cluster(cluster)), "topology"), HostsDocument)
        return dollars_per_unit_minute(hosts.hosts) if hosts else None

    def positions(self) -> dict[str, int]:
        """Return the offsets that the view stands for, by ``topic/partition``."""
        stored = self._client.hgetall(self._key(keys.POSITIONS))
        return {place: int(offset) for place, offset in sorted(stored.items()) if offset.isdecimal()}

    def pipeline(self) -> PipelineDocument:
        """Return the pipeline as the view sees it."""
        read = Documents()
        decided = self._newest_documents("decisions", DecidedBy, read)
        newest: dict[str, Newest] = {
            "agent": _newest_of((each.span_end_ms, each.appended_ms) for each in decided),
            "spark": _newest_of(
                (each.window_end_ms, each.appended_ms) for each in self._newest_documents("windows", WindowDocument, read)
            ),
            "rescaler": _newest_of(
                (each.issued_at_ms, each.appended_ms) for each in self._newest_documents("commands", CommandDocument, read)
            ),
            "actuators": _newest_of(
                (each.at_ms, each.appended_ms) for each in self._newest_documents("progress", ProgressDocument, read)
            ),
            "monitor": _newest_of((each.at_ms, each.appended_ms) for each in self._topologies(self.job_ids(), read)),
        }
        clocks = self.clocks()
        if clocks:
            newest["engine"] = _newest_of((clock.until_ms, clock.appended_ms) for clock in clocks.values())
        fresh = [each.appended_ms - each.closed_append_ms for each in decided if each.closed_append_ms is not None]
        return pipeline(self.positions(), newest, self.counts(), clocks, fresh)

    def dead_letters(self, limit: int, *, after: str = "") -> list[DeadLetterDocument]:
        """Return the latest refused records, newest first; with ``after``, those before the one of that place.

        Raises:
            StaleCursor: that one is no longer in the view.
        """
        # A scan may name a key twice.
        found = set(self._client.scan_iter(match=self._key.pattern(keys.bodies("dead-letters", "*")), count=1000))
        bodies = [body for key in found for body in self._client.hvals(key)]
        letters = list(Documents().each("dead letters", bodies, DeadLetterDocument))
        letters.sort(key=lambda letter: (letter.appended_ms, letter.topic, letter.partition, letter.offset), reverse=True)
        if not after:
            return letters[:limit]
        places = [place_of(letter) for letter in letters]
        if after not in places:
            raise StaleCursor(after)
        return letters[places.index(after) + 1 :][:limit]

    def counts(self) -> Counts:
        """Return how many distinct records there were, by kind and, within it, by what tells them apart."""
        stored = {name: int(count) for name, count in self._client.hgetall(self._key(keys.COUNTS)).items()}
        return _nested({name: count for name, count in stored.items() if count})

    def _cluster_overview(self, cluster: str, jobs: Sequence[str]) -> ClusterOverview:
        read = Documents()
        topology, release = self._client.hmget(self._key(keys.cluster(cluster)), ("topology", "policy_release"))
        hosts = read.one("topology", topology, HostsDocument)
        rent = None
        if hosts and hosts.engine.places == "commanded":
            rent = cluster_rent(self._topologies(jobs, read), hosts).per_day
        return cluster_overview(cluster, hosts, len(jobs), rent, read.one("policy_release", release, PolicyReleaseDocument))

    def _topologies(self, jobs: Sequence[str], read: Documents) -> list[TopologyDocument]:
        """Return the topology of each job that has one."""
        return [found for job, (body,) in self._fields_of(jobs, "topology") if (found := read.one(job, body, TopologyDocument))]

    def _newest_documents(self, timeline: str, kind: type[D], read: Documents) -> list[D]:
        """Return the newest document of each job that has one."""
        found = (read.one(job, body, kind) for job, body in self._newest_of_each(timeline))
        return [document for document in found if document is not None]


def place_of(letter: DeadLetterDocument) -> str:
    """Return the place of a refused record, ``topic/partition/offset``: its identity."""
    return f"{letter.topic}/{letter.partition}/{letter.offset}"


def _newest_of(times: Iterable[tuple[int, int]]) -> Newest:
    return max(times, key=lambda pair: pair[1], default=(None, None))


def _nested(flat: dict[str, int]) -> Counts:
    """Return counts in groups: ``decisions.act`` stands under ``decisions``."""
    nested: Counts = {}
    for name in sorted(flat):
        whole, _, part = name.partition(".")
        group = nested.setdefault(whole, {}) if part else None
        if isinstance(group, dict):
            group[part] = flat[name]
        else:
            nested[whole] = flat[name]
    return nested
