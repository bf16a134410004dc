"""GetClusterInfo: workers with their parallel units, and the units that each fragment of each job occupies. Pure.

After RisingWave's RFC on fine-grained scaling. `surescale reschedule` takes the document as its ``cluster``. Ids never change: a
worker's id is its lowest unit (units are never used twice), a fragment's id comes from its name.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from msgspec import UNSET

from surescale.contracts.messages import ClusterTopology, Host, JobTopology, TaskSpec
from surescale.contracts.topology import units_of
from surescale.contracts.vnodes import DEFAULT_VNODES, uniform_mapping
from surescale.services.state.fleet_documents import ClusterInfo, FragmentDocument, WorkerDocument

VNODES_SHOWN_MAX = 4_000_000  # mappings of more would take more memory than the state service has
_ID_BYTES = 6  # every program's JSON can hold such an integer


@dataclass(frozen=True, slots=True)
class JobUnits:
    """A job's newest topology, and the mappings that the rescaler remembers: unit per vnode, by task."""

    topology: JobTopology
    mappings: Mapping[str, tuple[int, ...]]


def cluster_info(cluster: ClusterTopology, jobs: Iterable[JobUnits], generation: int) -> ClusterInfo:
    """Return generation, vnodes, workers and fragments, and beside them what has no place there.

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
