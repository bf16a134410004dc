"""What the view holds about everything together: clusters, policies, the pipeline itself. Pure."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import msgspec

from surescale.contracts import topics
from surescale.contracts.decisions import PolicyUsed
from surescale.contracts.messages import ClockSegment, ClusterTopology
from surescale.contracts.releases import Release
from surescale.services.state.fleet_documents import (
    ClusterOverview,
    Counts,
    PackageScores,
    PipelineDocument,
    PoliciesDocument,
    PolicyInUse,
    StageDocument,
)
from surescale.services.state.record_documents import Appended
from surescale.services.state.shadow_documents import ShadowSummary

Newest = tuple[int | None, int | None]
"""Event time and broker's time of the newest record; None: there is none."""


class DecidedBy(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a decision that says who made it, and when."""

    job: str
    policy: PolicyUsed
    span_end_ms: int
    closed_append_ms: int | None = None


STAGES = (
    ("engine", "clock", (topics.CLOCK,)),
    ("monitor", "topology of jobs and hosts", (topics.JOB_TOPOLOGY, topics.CLUSTER_TOPOLOGY, topics.ENGINE_EVENTS)),
    ("spark", "windows", (topics.SNAPSHOTS,)),
    ("agent", "decisions", (topics.DECISIONS,)),
    ("rescaler", "commands", (topics.RESCHEDULE_COMMANDS,)),
    ("actuators", "outcomes and progress", (topics.RESCHEDULE_EVENTS,)),
)
"""Role, what it writes in words, and its topics, in the order in which a record meets them."""


def cluster_overview(
    cluster: str, hosts: ClusterTopology | None, jobs: int, rent_per_day: float | None, release: Release | None
) -> ClusterOverview:
    """Return a cluster in one line."""
    return ClusterOverview(
        cluster=cluster,
        engine=hosts.engine.engine if hosts else None,
        hosts=len(hosts.hosts) if hosts else None,
        units=sum(len(host.units) or host.slots or 0 for host in hosts.hosts) if hosts else None,
        jobs=jobs,
        rent_per_day=rent_per_day,
        policy=release.policy if release else None,
    )


def policies(
    latest: Iterable[DecidedBy],
    releases: Iterable[Appended[Release]],
    shadows: Iterable[ShadowSummary],
    scores_of: Callable[[str, str], PackageScores | None] = lambda name, sha256: None,
) -> PoliciesDocument:
    """Return which policy made each job's latest decision, what is released, and what others would have decided.

    ``scores_of`` says how the package of a name and a hash was judged.
    """
    by_policy: dict[tuple[str, str], list[DecidedBy]] = {}
    for decision in sorted(latest, key=lambda each: each.job):
        by_policy.setdefault((decision.policy.name, decision.policy.sha256), []).append(decision)
    in_use = []
    for (name, sha256), decisions in sorted(by_policy.items()):
        reasons = {each.job: each.policy.fallback_reason for each in decisions if each.policy.fallback_reason}
        in_use.append(
            PolicyInUse(
                name=name,
                sha256=sha256,
                jobs=tuple(each.job for each in decisions),
                stands_in=tuple(reasons),
                fallback_reasons=tuple(sorted(set(reasons.values()))),
                scores=scores_of(name, sha256),
            )
        )
    return PoliciesDocument(in_use=tuple(in_use), releases=tuple(releases), shadows=tuple(shadows))


def pipeline(
    positions: Mapping[str, int],
    newest: Mapping[str, Newest],
    counts: Counts,
    clocks: Mapping[str, Appended[ClockSegment]],
    freshness_ms: Iterable[int],
    problems: Mapping[str, str],
) -> PipelineDocument:
    """Return the pipeline as the view sees it.

    Args:
        positions: next offset, by ``topic/partition``.
        newest: of each role's records.
        counts: as ``/counts`` has them.
        clocks: by pipeline.
        freshness_ms: of the jobs' latest decisions.
        problems: by role, what is due from it and does not come.
    """
    records: Counter[str] = Counter()
    for place, offset in positions.items():
        records[place.rpartition("/")[0]] += offset
    fresh = list(freshness_ms)
    late = counts.get("late", 0)
    return PipelineDocument(
        stages=tuple(
            StageDocument(
                role=role,
                writes=writes,
                records=sum(records[topic] for topic in written),
                newest_ms=newest.get(role, (None, None))[0],
                appended_ms=newest.get(role, (None, None))[1],
                problem=problems.get(role),
            )
            for role, writes, written in STAGES
        ),
        freshness_ms=round(statistics.median(fresh)) if fresh else None,
        dead_letters=_group(counts, "dead_letters"),
        unreadable_records=_group(counts, "unreadable"),
        late_samples=late if isinstance(late, int) else 0,
        clocks=dict(clocks),
    )


def _group(counts: Counts, name: str) -> dict[str, int]:
    found = counts.get(name, {})
    return found if isinstance(found, dict) else {}
