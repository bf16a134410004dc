"""What the view holds about everything together: clusters, policies, the pipeline itself. Pure."""

import hashlib
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import msgspec
from msgspec import UNSET

from surescale.contracts import topics
from surescale.contracts.decisions import PolicyUsed
from surescale.contracts.messages import ClockSegment, ClusterTopology, Host, JobTopology, TaskSpec
from surescale.contracts.releases import Release
from surescale.contracts.topology import units_of
from surescale.contracts.vnodes import DEFAULT_VNODES, uniform_mapping
from surescale.runtime.kafka_clock import APART_MS, how_long
from surescale.services.state.fleet_documents import (
    ClusterInfo,
    ClusterOverview,
    Counts,
    FragmentDocument,
    PipelineDocument,
    PoliciesDocument,
    PolicyInUse,
    ShadowSummary,
    StageDocument,
    WorkerDocument,
)
from surescale.services.state.record_documents import Appended

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
    ("state", "this view", ()),
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
    judged: Callable[[str, str], str | None] = lambda name, sha256: None,
) -> PoliciesDocument:
    """Return which policy made each job's latest decision, what is released, and what others would have decided.

    ``judged`` says how the package of a name and a hash was judged.
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
                judged=judged(name, sha256),
            )
        )
    return PoliciesDocument(in_use=tuple(in_use), releases=tuple(releases), shadows=tuple(shadows))


def dated_ahead(newest: Mapping[str, Newest]) -> dict[str, str]:
    """Return by role that its newest record is dated later than Kafka received it: its machine's clock is ahead.

    Only where the pipeline's clock is the wall's.
    """
    return {
        role: f"its newest record is dated {how_long(at_ms - appended_ms)} ahead of Kafka's clock; set its machine's right (NTP)"
        for role, (at_ms, appended_ms) in newest.items()
        if at_ms is not None and appended_ms is not None and at_ms - appended_ms > APART_MS
    }


def pipeline(
    positions: Mapping[str, int],
    newest: Mapping[str, Newest],
    counts: Counts,
    clocks: Mapping[str, Appended[ClockSegment]],
    freshness_ms: Iterable[int],
    problems: Mapping[str, str],
    notes: Mapping[str, Sequence[str]],
) -> PipelineDocument:
    """Return the pipeline as the view sees it.

    Args:
        positions: next offset, by ``topic/partition``.
        newest: of each role's records.
        counts: as ``/counts`` has them.
        clocks: by pipeline.
        freshness_ms: of the jobs' latest decisions.
        problems: by role, what is due from it and does not come.
        notes: by role, what else people want to know of it.
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
                notes=tuple(notes.get(role, ())),
            )
            for role, writes, written in STAGES
            if role != "engine" or clocks or any(records[topic] for topic in written)  # only a simulated one writes
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


VNODES_SHOWN_MAX = 4_000_000  # mappings of more would take more memory than the state service has
_ID_BYTES = 6  # every program's JSON can hold such an integer


@dataclass(frozen=True, slots=True)
class JobUnits:
    """A job's newest topology, and the mappings that the rescaler remembers: unit per vnode, by task."""

    topology: JobTopology
    mappings: Mapping[str, tuple[int, ...]]


def cluster_info(cluster: ClusterTopology, jobs: Iterable[JobUnits], generation: int) -> ClusterInfo:
    """Return generation, vnodes, workers and fragments, and beside them what has no place there.

    After RisingWave's RFC on fine-grained scaling. `surescale dev reschedule` takes the document as its ``cluster``. Ids never
    change: a worker's id is its lowest unit (units are never used twice), a fragment's id comes from its name.

    ``jobs_without_units``: jobs that wait or have ended. ``unknown_units``: units that a job still names and no host offers, for
    a moment after a host died. A fragment has no mapping if its number of vnodes is not the cluster's, or if it belongs to the
    largest jobs of a cluster with more than ``VNODES_SHOWN_MAX`` vnodes.
    """
    seen = sorted(jobs, key=lambda job: job.topology.job)
    running = [job for job in seen if units_of(job.topology)]
    placed = [(job, spec) for job in running for spec in job.topology.tasks if spec.units]
    vnodes = _vnodes(spec for _, spec in placed)
    mapped = _mapped(running, vnodes)
    fragments = tuple(_fragment(job, spec, vnodes if job.topology.job in mapped else None) for job, spec in placed)
    workers = [_worker(host) for host in cluster.hosts if host.units]
    offered = {unit for worker in workers for unit in worker.parallel_units}
    return ClusterInfo(
        cluster=cluster.cluster,
        generation=generation,
        vnodes=vnodes,
        workers=tuple(sorted(workers, key=lambda worker: worker.id)),
        fragments=fragments,
        jobs_without_units=tuple(job.topology.job for job in seen if not units_of(job.topology)),
        unknown_units=tuple(sorted({unit for fragment in fragments for unit in fragment.parallel_units} - offered)),
    )


def fragment_id(job: str, task: str) -> int:
    """Return a task's id in the whole cluster: below 2^48, the same at any time and place."""
    digest = hashlib.blake2b(f"{job}\n{task}".encode(), digest_size=_ID_BYTES).digest()
    return int.from_bytes(digest, "big")


def _vnodes(specs: Iterable[TaskSpec]) -> int:
    """Return the number of vnodes that most tasks have; if several are equally common, the largest."""
    counts = Counter(spec.vnodes for spec in specs)
    return max(counts, key=lambda number: (counts[number], number), default=DEFAULT_VNODES)


def _mapped(jobs: Iterable[JobUnits], vnodes: int) -> set[str]:
    """Return the jobs whose mappings are shown: smallest first, so that one absurd job hides no other."""
    sizes = sorted((vnodes * sum(spec.vnodes == vnodes for spec in job.topology.tasks), job.topology.job) for job in jobs)
    sums = accumulate(size for size, _ in sizes)
    return {job for (_, job), total in zip(sizes, sums, strict=True) if total <= VNODES_SHOWN_MAX}


def _worker(host: Host) -> WorkerDocument:
    return WorkerDocument(id=min(host.units), host=host.host, parallel_units=tuple(sorted(host.units)), state=host.state)


def _fragment(job: JobUnits, spec: TaskSpec, vnodes: int | None) -> FragmentDocument:
    single = not spec.scalable and len(spec.units) == 1
    return FragmentDocument(
        id=fragment_id(job.topology.job, spec.task),
        job=job.topology.job,
        task=spec.task,
        distribution="single" if single else "hash",
        stateful=spec.stateful,
        parallel_units=tuple(sorted(spec.units)),
        mapping=UNSET if single or spec.vnodes != vnodes else _mapping(job.mappings.get(spec.task), spec),
    )


def _mapping(known: tuple[int, ...] | None, spec: TaskSpec) -> tuple[int, ...]:
    """Return the unit of each vnode; blocks of equal size if no rescale has moved them, or one is under way."""
    if known is not None and len(known) == spec.vnodes and set(known) == set(spec.units):
        return known
    return uniform_mapping(spec.units, spec.vnodes)
