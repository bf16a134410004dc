"""A job's graph as index tables: parents, children, levels, and the neighbours within a few hops."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np
import numpy.typing as npt

from surescale.contracts.messages import Input, TaskSpec
from surescale.contracts.topology import dealt_to, levels
from surescale.policies.dealt import Deal, Dealt, Told, deal_of

Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

NEIGHBOURS_MAX = 64  # nearest hops first
HOPS = 3
KEPT_BYTES_MAX = 256 * 2**20
"""Of all graphs kept together. One of 10,000 tasks has 100 MB and more; hundreds of small ones fit. The newest is always kept."""

_Shape = tuple[tuple[str, tuple[str, ...], bool, int, tuple[Input, ...]], ...]


@dataclass(frozen=True, slots=True)
class Padded:
    """Rows of unequal length: ``index`` [N, K] (a missing entry points at the row itself) and ``known`` [N, K]."""

    index: Int64
    known: Bool


@dataclass(frozen=True, slots=True, eq=False)
class JobGraph:
    """Index tables of one job, in the order of its topology's tasks.

    Attributes:
        tasks: names, [N].
        scalable: bool [N]; false for the virtual source and sink.
        parallelism_max: int64 [N], the engine's own maximum per task.
        level: int64 [N], 0 for sources (and tasks after finished ones only), else one more than the highest parent.
        by_level: task indices of level 0, 1, ...
        parents, children: padded tables [N, P], [N, C].
        neighbours: tasks within ``HOPS`` hops in either direction, nearest first, at most ``NEIGHBOURS_MAX``, [N, K]. The virtual
            source and sink are neighbours, but paths do not continue through them, or every task would be near every other.
        linked: bool [N, N], linked[i, j] is true if an edge joins i and j in either direction.
        broadcast: bool [N, P], edges of ``parents`` along which every subtask gets every record.
        inputs_known: bool [N], the engine says how records travel to the task, so its input counts those of all parents.
        dealt: int64 [N], how many things that cannot be divided are dealt out to its subtasks (``policies.dealt``); 0: none.
        deal: the same, with what sizes carry where these things are unequal.
    """

    tasks: tuple[str, ...]
    scalable: Bool
    parallelism_max: Int64
    level: Int64
    by_level: tuple[Int64, ...]
    parents: Padded
    children: Padded
    neighbours: Padded
    linked: Bool
    broadcast: Bool
    inputs_known: Bool
    dealt: Int64
    deal: Dealt

    @property
    def nbytes(self) -> int:
        """Return the size of all its tables, in bytes."""
        values = [getattr(self, each.name) for each in fields(self)]
        padded_ones = [value for value in values if isinstance(value, Padded)]
        tables = [*self.by_level, *(value for value in values if isinstance(value, np.ndarray))]
        return sum(table.nbytes for table in tables) + sum(each.index.nbytes + each.known.nbytes for each in padded_ones)


class _Kept:
    """The graphs that were asked for last, as far as memory allows.

    Threads may share it without a lock: each step on the dict is atomic, and a race at worst builds a graph twice.
    """

    def __init__(self) -> None:
        self._graphs: dict[_Shape, JobGraph] = {}  # the one asked for last is the last one

    def get(self, shape: _Shape, dealt: tuple[int, ...], told: Told) -> JobGraph:
        """Return the graph of this shape; build it if it is not kept. What is ``dealt``, and ``told`` of it, may change."""
        kept = self._graphs.pop(shape, None)
        graph = _build(shape) if kept is None else kept
        if dealt != tuple(graph.dealt.tolist()) or told != (graph.deal.told if isinstance(graph.deal, Deal) else ()):
            things = np.array(dealt, dtype=np.int64)
            graph = replace(graph, dealt=things, deal=deal_of(things, told))
        self._graphs[shape] = graph
        if kept is None:
            self._make_room()
        return graph

    def _make_room(self) -> None:
        graphs = list(self._graphs.items())
        used = sum(graph.nbytes for _, graph in graphs)
        for shape, graph in graphs[:-1]:
            if used <= KEPT_BYTES_MAX:
                break
            used -= graph.nbytes
            self._graphs.pop(shape, None)


_kept = _Kept()


def _build(shape: _Shape) -> JobGraph:
    specs = [
        TaskSpec(task=task, upstream=upstream, scalable=scalable, max_parallelism=most, inputs=inputs)
        for task, upstream, scalable, most, inputs in shape
    ]
    count = len(specs)
    position = {spec.task: i for i, spec in enumerate(specs)}
    up = [sorted({position[name] for name in spec.upstream}) for spec in specs]
    down: list[list[int]] = [[] for _ in specs]
    linked = np.zeros((count, count), dtype=np.bool_)
    for child, parents in enumerate(up):
        for parent in parents:
            down[parent].append(child)
            linked[parent, child] = linked[child, parent] = True
    incoming = padded(up)
    level = np.array(levels(specs), dtype=np.int64)
    scalable = np.array([spec.scalable for spec in specs], dtype=np.bool_)
    none = np.zeros(count, dtype=np.int64)
    return JobGraph(
        tasks=tuple(spec.task for spec in specs),
        scalable=scalable,
        parallelism_max=np.array([spec.max_parallelism for spec in specs], dtype=np.int64),
        level=level,
        by_level=tuple(np.flatnonzero(level == at) for at in range(int(level.max()) + 1)),
        parents=incoming,
        children=padded(down),
        neighbours=padded([_within_hops(i, linked, scalable) for i in range(count)]),
        linked=linked,
        broadcast=_broadcast(specs, incoming),
        inputs_known=np.array([bool(spec.inputs) for spec in specs], dtype=np.bool_),
        dealt=none,
        deal=none,
    )


def _broadcast(specs: Sequence[TaskSpec], parents: Padded) -> Bool:
    """Return bool [N, P], which edges of ``parents`` are broadcast."""
    found = np.zeros(parents.index.shape, dtype=np.bool_)
    for child, spec in enumerate(specs):
        copied = {each.task for each in spec.inputs if each.ship == "broadcast"}
        found[child] = [specs[parent].task in copied for parent in parents.index[child]]
    return found & parents.known


def job_graph(tasks: Sequence[TaskSpec]) -> JobGraph:
    """Return the tables of a graph. Graphs that differ in parallelism alone share one object.

    A task that still runs when all before it have finished is a source: what it counts itself is all that comes.

    Raises:
        RecordRejected: the graph has a cycle.
    """
    finished = {spec.task for spec in tasks if spec.state == "finished"}
    shape = tuple((spec.task, _still_fed_by(spec, finished), spec.scalable, spec.max_parallelism, spec.inputs) for spec in tasks)
    told = tuple(spec.carries for spec in tasks)
    return _kept.get(shape, dealt_to(tasks), told if any(told) else ())


def _still_fed_by(spec: TaskSpec, finished: set[str]) -> tuple[str, ...]:
    return () if finished and spec.task not in finished and finished.issuperset(spec.upstream) else spec.upstream


def _within_hops(start: int, linked: Bool, bridges: Bool) -> list[int]:
    seen = np.zeros(len(linked), dtype=np.bool_)
    seen[start] = True
    border = seen.copy()
    found: list[int] = []
    for _ in range(HOPS):
        border = linked[border].any(axis=0) & ~seen
        found.extend(np.flatnonzero(border).tolist())
        if len(found) >= NEIGHBOURS_MAX:
            break  # in a wide job the next hop would visit all tasks, for each task
        seen |= border
        border &= bridges
    return found[:NEIGHBOURS_MAX]


def padded(rows: Sequence[Sequence[int]]) -> Padded:
    """Return rows of indices, one per task, padded to the longest."""
    width = max(1, max(len(row) for row in rows))
    index = np.repeat(np.arange(len(rows), dtype=np.int64)[:, None], width, axis=1)
    known = np.zeros((len(rows), width), dtype=np.bool_)
    for i, row in enumerate(rows):
        index[i, : len(row)] = row
        known[i, : len(row)] = True
    return Padded(index=index, known=known)
