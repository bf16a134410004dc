"""Queries on everything together: clusters, policies, the pipeline, counts. Writes nothing."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from surescale.contracts.commands import Balance, Progress, RescheduleCommand
from surescale.contracts.ids import cluster_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, DeadLetter, EngineEvent, JobTopology
from surescale.contracts.releases import Release
from surescale.contracts.rescaler_state import BalanceMemory, ClusterMemory
from surescale.contracts.summaries import WindowSummary
from surescale.services.state import keys
from surescale.services.state.fleet_documents import (
    ClusterDocument,
    ClusterInfo,
    ClusterOverview,
    Counts,
    PipelineDocument,
    PoliciesDocument,
)
from surescale.services.state.read.cluster_info import JobUnits, cluster_info
from surescale.services.state.read.fleet import DecidedBy, Newest, cluster_overview, pipeline, policies
from surescale.services.state.read.rent import cluster_rent
from surescale.services.state.read.shadows import dollars_per_unit_minute, summaries
from surescale.services.state.read.staleness import at_fault
from surescale.services.state.read.stored import Documents, record_of
from surescale.services.state.read.view import NotFound, StaleCursor, View
from surescale.services.state.record_documents import Appended
from surescale.services.state.shadow_documents import ShadowSummary, StoredAnswer
from surescale.services.state.write.projections import EVENTS_KEPT

D = TypeVar("D", bound=msgspec.Struct)

LOOKS_SHOWN = 20  # the newest looks at the hosts
_NO_MAPPINGS = '{"appended_ms":0,"partition":0,"offset":0,"record":{}}'


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
        hosts = read.one("topology", fields.get("topology"), Appended[ClusterTopology])
        jobs = self._jobs_of(cluster)
        topologies = [each.record for each in self._topologies(jobs, read)]
        settings = read.part("settings", fields.get("settings"), JobSettings)
        return ClusterDocument(
            cluster=cluster,
            topology=hosts,
            placement=read.one("placement", fields.get("placement"), Appended[ClusterMemory]),
            balance=read.one("balance", fields.get("balance"), Appended[BalanceMemory]),
            balances=read.each("balances", self._latest("balances", cluster, LOOKS_SHOWN), Appended[Balance]),
            policy_release=read.one("policy_release", fields.get("policy_release"), Appended[Release]),
            pause=settings.pause if settings else None,
            jobs=tuple(jobs),
            rent=cluster_rent(topologies, hosts.record) if hosts and hosts.record.engine.places == "commanded" else None,
            events=read.each("events", self._latest("events", cluster, EVENTS_KEPT), Appended[EngineEvent]),
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
        placement = None if placed is None else record_of(placed, ClusterMemory)
        read = Documents()
        jobs = []
        for job, (topology, mappings) in self._fields_of(self._jobs_of(cluster), "topology", "mappings"):
            known = read.part(job, topology, JobTopology)
            moved = read.part(job, mappings or _NO_MAPPINGS, dict[str, tuple[int, ...]])
            if known is not None and moved is not None:
                jobs.append(JobUnits(known, moved))
        info = cluster_info(record_of(body, ClusterTopology), jobs, placement.placement_generation if placement else 0)
        return replace(info, unreadable_jobs=read.unreadable)

    def policies(self) -> PoliciesDocument:
        """Return which policy made each job's latest decision, the releases, and the record of shadow policies."""
        from surescale.services.state.read.package_scores import scores_of  # reads packages: a list of jobs need not wait for it

        read = Documents()
        latest = self._newest_documents("decisions", Appended[DecidedBy], read)
        found = [self._client.hgetall(self._key(keys.releases(cluster))) for cluster in self._clusters()]
        bodies = [fields[place] for fields in found for place in sorted(fields)]
        releases = read.each("policy releases", bodies, Appended[Release])
        return policies((each.record for each in latest), releases, self.shadows(), partial(scores_of, self.policy_folder))

    def shadows(self) -> tuple[ShadowSummary, ...]:
        """Return how each shadow policy compares with the decisions that were made."""
        read, answers, clusters = Documents(), list[StoredAnswer](), set[str]()
        for job, body in self._all_of_each("shadows"):
            if (answer := read.part(job, body, StoredAnswer)) is not None:
                answers.append(answer)
                clusters.add(cluster_of(job))
        return summaries(answers, {cluster: self._unit_minute(cluster, read) for cluster in clusters}) if answers else ()

    def shadow_answers(self, job: str, limit: int, *, after: str = "") -> list[Appended[StoredAnswer]]:
        """Return the latest answers of shadow policies on a job, newest first; with ``after``, those before that one.

        Raises:
            NotFound: no topic has named the job.
            StaleCursor: the answer of that identity is no longer in the view.
        """
        self._require_job(job)
        bodies = self._bodies("shadows", job, self._page("shadows", job, after, limit))
        return list(Documents().each("shadows", bodies, Appended[StoredAnswer]))

    def _unit_minute(self, cluster: str, read: Documents) -> float | None:
        hosts = read.part("topology", self._client.hget(self._key(keys.cluster(cluster)), "topology"), ClusterTopology)
        return dollars_per_unit_minute(hosts.hosts) if hosts else None

    def positions(self) -> dict[str, int]:
        """Return the offsets that the view stands for, by ``topic/partition``."""
        stored = self._client.hgetall(self._key(keys.POSITIONS))
        return {place: int(offset) for place, offset in sorted(stored.items()) if offset.isdecimal()}

    def pipeline(self) -> PipelineDocument:
        """Return the pipeline as the view sees it."""
        read = Documents()
        decided = self._newest_documents("decisions", Appended[DecidedBy], read)
        windows = self._newest_documents("windows", Appended[WindowSummary], read)
        commands = self._newest_documents("commands", Appended[RescheduleCommand], read)
        progress = self._newest_documents("progress", Appended[Progress], read)
        newest: dict[str, Newest] = {
            "agent": _newest_of((each.record.span_end_ms, each.appended_ms) for each in decided),
            "spark": _newest_of((each.record.window_end_ms, each.appended_ms) for each in windows),
            "rescaler": _newest_of((each.record.issued_at_ms, each.appended_ms) for each in commands),
            "actuators": _newest_of((each.record.at_ms, each.appended_ms) for each in progress),
            "monitor": _newest_of((each.record.at_ms, each.appended_ms) for each in self._topologies(self.job_ids(), read)),
        }
        clocks = self.clocks()
        if clocks:
            newest["engine"] = _newest_of((clock.record.until_ms, clock.appended_ms) for clock in clocks.values())
        fresh = [each.appended_ms - closed_ms for each in decided if (closed_ms := each.record.closed_append_ms) is not None]
        problems: dict[str, str] = {}
        for _, stale in at_fault(self._overviews.of(self.job_ids(), self._now(), self.span_minutes)):
            problems[stale.role] = f"{problems[stale.role]}; {stale.words}" if stale.role in problems else stale.words
        return pipeline(self.positions(), newest, self.counts(), clocks, fresh, problems)

    def dead_letters(self, limit: int, *, after: str = "") -> list[Appended[DeadLetter]]:
        """Return the latest refused records, newest first; with ``after``, those before the one of that place.

        Raises:
            StaleCursor: that one is no longer in the view.
        """
        # A scan may name a key twice.
        found = set(self._client.scan_iter(match=self._key.pattern(keys.bodies("dead-letters", "*")), count=1000))
        bodies = [body for key in found for body in self._client.hvals(key)]
        letters = list(Documents().each("dead letters", bodies, Appended[DeadLetter]))
        letters.sort(key=lambda letter: (letter.appended_ms, place_of(letter)), reverse=True)
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
        hosts = read.part("topology", topology, ClusterTopology)
        rent = None
        if hosts and hosts.engine.places == "commanded":
            rent = cluster_rent((each.record for each in self._topologies(jobs, read)), hosts).per_day
        return cluster_overview(cluster, hosts, len(jobs), rent, read.part("policy_release", release, Release))

    def _topologies(self, jobs: Sequence[str], read: Documents) -> list[Appended[JobTopology]]:
        """Return the topology of each job that has one."""
        found = (read.one(job, body, Appended[JobTopology]) for job, (body,) in self._fields_of(jobs, "topology"))
        return [topology for topology in found if topology is not None]

    def _newest_documents(self, timeline: str, kind: type[D], read: Documents) -> list[D]:
        """Return the newest document of each job that has one."""
        found = (read.one(job, body, kind) for job, body in self._newest_of_each(timeline))
        return [document for document in found if document is not None]


def place_of(letter: Appended[DeadLetter]) -> str:
    """Return the place of a refused record, ``topic/partition/offset``: its identity."""
    refused = letter.record
    return f"{refused.topic}/{refused.partition}/{refused.offset}"


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
