"""GetClusterInfo: workers with their parallel units, and which units each fragment of each job occupies. Pure.

After RisingWave's RFC on fine-grained scaling. The document is also the ``cluster`` that `surescale reschedule` takes. Ids are
the same wherever and whenever they are made: a worker's is its lowest unit (units are never used twice), a fragment's comes from
its name.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from contracts.messages import ClusterTopology, JobTopology, TaskSpec
from contracts.topology import units_of
from simulation.ownership import even

VNODES = 256  # unless the cluster's tasks say otherwise
_ID_BYTES = 6  # every program's JSON can hold such an integer

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobSeen:
    """A job's newest topology, and the mappings that the rescaler remembers: unit per vnode, by task."""

    topology: JobTopology
    mappings: Mapping[str, tuple[int, ...]]


def job_seen(topology: Document, mappings: Document | None) -> JobSeen:
    """Return a job from two documents of the view; mappings of another shape than ours are left out."""
    try:
        known = msgspec.convert(mappings["record"] if mappings else {}, dict[str, tuple[int, ...]])
    except msgspec.ValidationError:
        known = {}
    return JobSeen(msgspec.convert(topology["record"], JobTopology), known)


def cluster_info(cluster: ClusterTopology, jobs: Iterable[JobSeen], generation: int) -> Document:
    """Return generation, vnodes, workers and fragments, and beside them what cannot stand there.

    ``jobs_without_units``: jobs that wait, or have ended. ``unknown_units``: units that a job still names and no host offers, for
    a moment after a host died. A fragment whose number of vnodes is not the cluster's has no mapping.
    """
    seen = sorted(jobs, key=lambda job: job.topology.job)
    running = [job for job in seen if units_of(job.topology)]
    placed = [(job, spec) for job in running for spec in job.topology.tasks if spec.units]
    vnodes = _vnodes(spec for _, spec in placed)
    fragments = [_fragment(job, spec, vnodes) for job, spec in placed]
    workers = [_worker(host.host, host.units, host.state) for host in cluster.hosts if host.units]
    offered = {unit for worker in workers for unit in worker["parallel_units"]}
    return {
        "cluster": cluster.cluster,
        "generation": generation,
        "vnodes": vnodes,
        "workers": sorted(workers, key=lambda worker: int(worker["id"])),
        "fragments": fragments,
        "jobs_without_units": [job.topology.job for job in seen if job not in running],
        "unknown_units": sorted({unit for fragment in fragments for unit in fragment["parallel_units"]} - offered),
    }


def fragment_id(job: str, task: str) -> int:
    """Return a task's id in the whole cluster: below 2^48, the same at any time and place."""
    digest = hashlib.blake2b(f"{job}\n{task}".encode(), digest_size=_ID_BYTES).digest()
    return int.from_bytes(digest, "big")


def _vnodes(specs: Iterable[TaskSpec]) -> int:
    """Return the number of vnodes that most tasks have, of several the largest."""
    counts = Counter(spec.vnodes for spec in specs)
    return max(counts, key=lambda number: (counts[number], number), default=VNODES)


def _worker(host: str, units: tuple[int, ...], state: str) -> Document:
    return {"id": min(units), "host": host, "parallel_units": sorted(units), "state": state}


def _fragment(job: JobSeen, spec: TaskSpec, vnodes: int) -> Document:
    single = not spec.scalable and len(spec.units) == 1
    document: Document = {
        "id": fragment_id(job.topology.job, spec.task),
        "job": job.topology.job,
        "task": spec.task,
        "distribution": "single" if single else "hash",
        "stateful": spec.stateful,
        "parallel_units": sorted(spec.units),
    }
    if not single and spec.vnodes == vnodes:
        document["mapping"] = _mapping(job.mappings.get(spec.task), spec)
    return document


def _mapping(known: tuple[int, ...] | None, spec: TaskSpec) -> list[int]:
    """Return the unit of each vnode; blocks of equal size where no rescale has changed them, or one is just under way."""
    if known is not None and len(known) == spec.vnodes and set(known) == set(spec.units):
        return list(known)
    return [unit for unit, count in even(spec.units, spec.vnodes).items() for _ in range(count)]
