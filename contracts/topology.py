"""Checks a job's graph and a cluster's hosts, orders a graph, and tells the units and slots a job occupies."""

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import ClusterTopology, JobState, JobTopology, TaskSpec
from surescale.contracts.pauses import is_of_all_jobs

RESTING: JobState = "resting"
"""The state of a job whose engine is asked for no subtask, and runs none."""


def check_topology(topology: JobTopology) -> None:
    """Refuse a graph with repeated tasks, unknown upstreams or a cycle.

    Raises:
        RecordRejected: ``invalid_field`` or ``cyclic_topology``, naming the field.
    """
    if is_of_all_jobs(topology.job):
        raise RecordRejected("invalid_field", "job", f"{topology.job} stands for all jobs of its cluster; no job has this name")
    names = [spec.task for spec in topology.tasks]
    known = set(names)
    if len(known) != len(names):
        twice = next(name for name, count in Counter(names).items() if count > 1)
        raise RecordRejected("invalid_field", "tasks", f"task {twice!r} is listed twice")
    for index, spec in enumerate(topology.tasks):
        for upstream in spec.upstream:
            if upstream not in known:
                raise RecordRejected(
                    "invalid_field", f"tasks[{index}].upstream", f"{upstream!r} is not a task of job {topology.job}"
                )
        if spec.units and len(spec.units) != spec.parallelism:
            raise RecordRejected(
                "invalid_field", f"tasks[{index}].units", f"{len(spec.units)} units for parallelism {spec.parallelism}"
            )
    topological_order(topology.tasks)


def under_lasting_version(topology: JobTopology, before: JobTopology | None) -> JobTopology:
    """Return a topology under the version of the one before it, if nothing but the time and what sizes carry has changed."""
    if before is None or _lasting(topology) != _lasting(before):
        return topology
    return msgspec.structs.replace(topology, version=before.version)


def _lasting(topology: JobTopology) -> JobTopology:
    tasks = tuple(msgspec.structs.replace(spec, carries=()) if spec.carries else spec for spec in topology.tasks)
    return msgspec.structs.replace(topology, version=0, at_ms=0, tasks=tasks)


def check_cluster(topology: ClusterTopology) -> None:
    """Refuse a host or a unit that is listed twice.

    Raises:
        RecordRejected: ``invalid_field``, naming the field.
    """
    names, host_of = set[str](), dict[int, str]()
    for index, host in enumerate(topology.hosts):
        if host.host in names:
            raise RecordRejected("invalid_field", f"hosts[{index}].host", f"host {host.host!r} is listed twice")
        names.add(host.host)
        for unit in host.units:
            if unit in host_of:
                message = f"unit {unit} is listed twice, on {host_of[unit]!r} and {host.host!r}"
                raise RecordRejected("invalid_field", f"hosts[{index}].units", message)
            host_of[unit] = host.host


def dealt_to(tasks: Sequence[TaskSpec]) -> tuple[int, ...]:
    """Return how many things that cannot be divided are dealt out to the subtasks of each task, 0 where none are, or unknown.

    To the reader of a topic they are its partitions, to a task with a keyed input its key groups. A task that is dealt nothing
    itself, but tied to others, gets its records from them, so the coarsest deal among those is its own.
    """
    own = [_dealt_to(spec) for spec in tasks]
    coarsest: dict[str, int] = {}
    for spec, things in zip(tasks, own, strict=True):
        if spec.tied and things:
            coarsest[spec.tied] = min(things, coarsest.get(spec.tied, things))
    return tuple(things or coarsest.get(spec.tied, 0) for spec, things in zip(tasks, own, strict=True))


def _dealt_to(spec: TaskSpec) -> int:
    if spec.useful_max is not None:
        return spec.useful_max
    return spec.vnodes if any(edge.ship == "hash" for edge in spec.inputs) else 0


def topological_order(tasks: Sequence[TaskSpec]) -> list[int]:
    """Return task indices with every task after its upstreams; ties keep the listed order (Kahn 1962).

    Raises:
        RecordRejected: ``cyclic_topology``, naming the tasks on or behind the cycle; ``invalid_field`` for an unknown upstream.
    """
    index = {spec.task: i for i, spec in enumerate(tasks)}
    for i, spec in enumerate(tasks):
        if not index.keys() >= set(spec.upstream):
            unknown = next(upstream for upstream in spec.upstream if upstream not in index)
            raise RecordRejected("invalid_field", f"tasks[{i}].upstream", f"{unknown!r} is not a task of the job")
    waiting_for = [len(set(spec.upstream)) for spec in tasks]
    downstream: list[list[int]] = [[] for _ in tasks]
    for i, spec in enumerate(tasks):
        for upstream in sorted(set(spec.upstream), key=index.__getitem__):
            downstream[index[upstream]].append(i)
    ready = [i for i, count in enumerate(waiting_for) if count == 0]  # ascending, so already a heap
    order: list[int] = []
    while ready:
        current = heapq.heappop(ready)
        order.append(current)
        for follower in downstream[current]:
            waiting_for[follower] -= 1
            if waiting_for[follower] == 0:
                heapq.heappush(ready, follower)
    if len(order) != len(tasks):
        stuck = [tasks[i].task for i, count in enumerate(waiting_for) if count > 0]
        raise RecordRejected("cyclic_topology", "tasks", f"the graph has a cycle through or before {', '.join(stuck[:8])}")
    return order


def longest_paths(own: Sequence[float], tasks: Sequence[TaskSpec]) -> list[float]:
    """Return by task the largest sum of ``own`` along a path that ends with it; an unknown upstream adds nothing.

    Raises:
        RecordRejected: ``cyclic_topology``.
    """
    reached = list(own)
    for at, parents in _parents_first(tuple([(spec.task, spec.upstream) for spec in tasks])):
        reached[at] += max([reached[parent] for parent in parents])
    return reached


@lru_cache(maxsize=2_048)
def _parents_first(edges: tuple[tuple[str, tuple[str, ...]], ...]) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Return every task that has parents with these, none before its parents. Jobs keep their graph from minute to minute."""
    index = {task: at for at, (task, _) in enumerate(edges)}
    known = [TaskSpec(task=task, upstream=tuple(each for each in upstream if each in index)) for task, upstream in edges]
    return tuple((at, tuple(index[name] for name in known[at].upstream)) for at in topological_order(known) if known[at].upstream)


def levels(tasks: Sequence[TaskSpec]) -> list[int]:
    """Return each task's level: 0 for sources, else one more than its highest upstream."""
    index = {spec.task: i for i, spec in enumerate(tasks)}
    level = [0] * len(tasks)
    for i in topological_order(tasks):
        level[i] = max((level[index[name]] + 1 for name in tasks[i].upstream), default=0)
    return level


def has_ended(topology: JobTopology) -> bool:
    """Say whether the job has finished or failed: it can no longer be rescaled and holds no units."""
    return topology.state in ("finished", "failed")


def sized_tasks(topology: JobTopology) -> list[TaskSpec]:
    """Return the tasks whose parallelism may change."""
    return [spec for spec in topology.tasks if spec.scalable and spec.state != "finished"]


def required_of(topology: JobTopology) -> dict[str, int]:
    """Return what the engine was last asked for, by task that may change; what it runs where it does not say."""
    return {spec.task: spec.parallelism if spec.required is None else spec.required for spec in sized_tasks(topology)}


def running_of(topology: JobTopology) -> dict[str, int]:
    """Return the parallelism that runs, by task that may change: of a job at rest, none."""
    rests = topology.state == RESTING
    return {spec.task: 0 if rests else spec.parallelism for spec in sized_tasks(topology)}


def size_to_ask(spec: TaskSpec, wanted: int, running: int, *, are_members: bool) -> int:
    """Return how many subtasks to ask for so that a task gets those that are wanted, where fewer run than are asked for.

    Growth takes none away. Nor do members go that shall not: of more workers than members nobody knows which ones would go, so no
    more go than members shall.

    Args:
        spec: the task.
        wanted: subtasks.
        running: subtasks; 0 of a job at rest.
        are_members: what is asked for are workers, which join the job by themselves, and may not.

    >>> spec = TaskSpec(task="parse", parallelism=4, required=8)
    >>> [size_to_ask(spec, wanted, 4, are_members=True) for wanted in (2, 4, 6, 9)]
    [6, 8, 8, 9]
    """
    asked = running if spec.required is None else spec.required
    if running < wanted < asked:
        return asked
    return asked - (running - wanted) if are_members and wanted <= running < asked else wanted


def slots_needed(tasks: Iterable[TaskSpec], parallelism: Mapping[str, int] | None = None) -> int:
    """Return how many slots a job takes: subtasks of one sharing group share slots, so each group takes those of its widest task.

    Args:
        tasks: of the job.
        parallelism: by task, in place of the tasks' own.
    """
    widest: dict[str, int] = {}
    for task in tasks:
        if task.state != "finished":
            wanted = (parallelism or {}).get(task.task, task.parallelism)
            widest[task.sharing_group] = max(widest.get(task.sharing_group, 0), wanted)
    return sum(widest.values())


def units_of(topology: JobTopology) -> frozenset[int]:
    """Return the parallel units that a job occupies; none once it has ended."""
    if has_ended(topology):
        return frozenset()
    return frozenset(unit for spec in topology.tasks for unit in spec.units)
