"""How records flow along a job's graph: how many reach a task for each one that its parents process. Any batch axes.

A task's own input says it best, as in the Flink operator's autoscaler: side outputs and filters differ per edge, and an engine
tells only what a task emits in all. Where several parents meet, their shares of the input are their shares of what they emit.

What a task counts that tells nothing is read off its neighbours: it took in what its parents sent, and sent what its children
took in. Where they do not tell either it stays unknown.
"""

from dataclasses import dataclass

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.graph import Bool, Int64, JobGraph

JOIN_SLACK = 1.05  # inputs count as a union once arrivals exceed the largest parent by this factor
NEAR_SHARE = 0.005  # arrivals this close to what was emitted are the same: counters are whole, and some records are on the way
NEAR_SHARE_UNKNOWN = 0.15  # where the engine does not say how records travel; simulated batches are counted while on the way
NEAR_RECORDS = 8.0


@dataclass(frozen=True, slots=True)
class Counted:
    """What tasks counted over one and the same time; [.., N] in records, NaN for a task that tells nothing.

    Attributes:
        processed: taken in; by a source, what entered through it.
        emitted: sent out.
        arrived: processed, plus the growth of the queue (negative while it drains).
    """

    processed: Float64
    emitted: Float64
    arrived: Float64


@dataclass(frozen=True, slots=True)
class Flows:
    """Per task, [.., N].

    Attributes:
        passed: records out per record in; NaN where unknown.
        scale: what arrives over what the parents' emissions lead to expect; 1 unless the engine's counts show otherwise.
        adds_up: bool, the records of several parents add up (a union). Else they are matched (a join), and the largest counts.
        graph: the job's.
        copies: [.., N, P], how often a record travels along each edge of ``graph.parents``: once per subtask if it is broadcast.
        beside: [.., N], records that enter through each source that tells nothing, for each that enters through the others; 0
            elsewhere. None: all sources tell.
    """

    passed: Float64
    scale: Float64
    adds_up: Bool
    copies: Float64
    graph: JobGraph
    beside: Float64 | None = None

    @classmethod
    def of(cls, passed: Float64, counted: Counted, parallelism: Float64, graph: JobGraph) -> "Flows":
        """Return the flows, from selectivities, counts, and parallelism, all [.., N].

        Some simulated jobs match records where several parents meet; arrivals that do not exceed the largest parent show that.
        Where the engine says how records travel (``TaskSpec.inputs``), they always add up.
        """
        index, known = graph.parents.index, graph.parents.known
        copies = np.broadcast_to(known.astype(np.float64), (*passed.shape, known.shape[1]))
        if graph.broadcast.any():
            copies = np.where(graph.broadcast, parallelism[..., None], copies)
        beside = None
        if np.isnan(counted.processed).any():
            beside, passed, counted = _completed(passed, counted, copies, graph)
        passed, sent = _counted_or_all(passed, counted, graph)
        emitted = copies * sent[..., index]
        total = emitted.sum(axis=-1)
        adds_up = graph.inputs_known | (counted.arrived > JOIN_SLACK * emitted.max(axis=-1))
        share = np.where(graph.inputs_known, NEAR_SHARE, NEAR_SHARE_UNKNOWN)
        near = np.maximum(share * total, np.minimum(NEAR_RECORDS, 0.05 * total))
        is_told = graph.inputs_known | (known.sum(axis=-1) == 1)
        differs = is_told & (total > 0) & (np.abs(counted.arrived - total) > near)
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where(differs, np.maximum(counted.arrived, 0.0) / total, 1.0)
        return cls(passed, scale, adds_up, copies, graph, beside)

    def rows(self, chosen: slice | Int64 | None) -> "Flows":
        """Return some rows, if the first axis is the batch; None adds that axis."""
        beside = None if self.beside is None else self.beside[chosen]
        return Flows(self.passed[chosen], self.scale[chosen], self.adds_up[chosen], self.copies[chosen], self.graph, beside)

    def carried(self, start: Float64) -> Float64:
        """Return the records [.., N] that reach each task when ``start`` [.., N] set out from each, its own included."""
        reached, index, known = np.array(start), self.graph.parents.index, self.graph.parents.known
        for members in self.graph.by_level[1:]:
            offered = (reached * self.passed)[..., index[members]] * self.copies[..., members, :]
            if self.beside is not None:  # a selectivity may be unknown, and no edge must carry that to others
                offered = np.where(known[members], offered, 0.0)
            if known[members, 1:].any():
                arriving = np.where(self.adds_up[..., members], offered.sum(axis=-1), offered.max(axis=-1))
            else:  # one parent each
                arriving = offered[..., 0]
            reached[..., members] += self.scale[..., members] * arriving
        return reached

    def undivided(self, reached: Float64) -> "Undivided | None":
        """Return what of the records that reached each task [.., N] came over broadcast edges; None if the job has none.

        Parents tell how much they emit. Where that is more than came in, some went elsewhere, and all of it counts.
        """
        edges = self.graph.broadcast
        if not edges.any():
            return None
        sent = np.where(edges, (reached * self.passed)[..., self.graph.parents.index] * self.copies, 0.0).sum(axis=-1)
        only = edges.any(axis=-1) & (edges == self.graph.parents.known).all(axis=-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(only, 1.0, np.where(reached > 0, np.minimum(sent / reached, 1.0), 0.0))
        return Undivided(share, share / np.where(edges, self.copies, 1.0).max(axis=-1))


@dataclass(frozen=True, slots=True)
class Undivided:
    """Work that every subtask of a task has to do, however many they are: records of broadcast edges. Arrays are [.., N].

    Attributes:
        share: of the task's work at its present size, 0 to 1.
        each: of that work, by each subtask: a record counts as one, however many subtasks get it.
    """

    share: Float64
    each: Float64

    def rows(self, chosen: slice | Int64 | tuple[slice, None] | None) -> "Undivided":
        """Return some rows, if the first axis is the batch; None adds an axis."""
        return Undivided(self.share[chosen], self.each[chosen])

    def carried(self, sizes: Float64 | Int64) -> Float64:
        """Return how many subtasks [.., N] of the present size's work are as fast as ``sizes`` [.., N]."""
        return np.where(self.share > 0, 1.0 / (self.each + (1.0 - self.share) / sizes), sizes)

    def needed(self, exact: Float64) -> Float64:
        """Return the sizes [.., N] that carry ``exact`` [.., N] times what one subtask can do; infinite where none does."""
        room = 1.0 - exact * self.each
        with np.errstate(divide="ignore", invalid="ignore"):
            alone = np.where(room > 0, exact * (1.0 - self.share) / room, np.inf)
        sizes: Float64 = np.where((self.share > 0) & ~np.isnan(exact), alone, exact)
        return sizes


def _completed(passed: Float64, counted: Counted, copies: Float64, graph: JobGraph) -> tuple[Float64, Float64, Counted]:
    """Return ``Flows.beside``, selectivities and counts [.., N] with what neighbours tell of tasks that tell nothing.

    A child with several such parents is taken to get the same from each. What no neighbour tells either is 0 in the counts, and
    an unknown selectivity.
    """
    index, known = graph.parents.index, graph.parents.known
    passed = passed.copy()
    processed, emitted, arrived = (each.copy() for each in (counted.processed, counted.emitted, counted.arrived))
    silent = np.isnan(processed)
    edges: list[list[tuple[int, int]]] = [[] for _ in graph.tasks]
    for child, at in np.argwhere(known).tolist():
        edges[index[child, at]].append((child, at))
    for task in np.argsort(graph.level, kind="stable").tolist():
        own = silent[..., task]
        if not own.any():
            continue
        for values in (processed, arrived):
            sent = (copies[..., task, :] * np.where(known[task], emitted[..., index[task]], 0.0)).sum(axis=-1)
            values[..., task] = np.where(own, sent if graph.level[task] else np.nan, values[..., task])
        taken = np.full(own.shape, np.nan)
        for child, at in edges[task]:
            others = np.where(known[child] & (np.arange(known.shape[1]) != at), emitted[..., index[child]], 0.0)
            beside = (copies[..., child, :] * np.nan_to_num(others)).sum(axis=-1) if graph.inputs_known[child] else 0.0
            left = np.maximum(arrived[..., child] - beside, 0.0) / copies[..., child, at] / (1 + np.isnan(others).sum(axis=-1))
            taken = np.fmax(taken, left)
        emitted[..., task] = np.where(own, taken, emitted[..., task])
        if not graph.level[task]:
            processed[..., task] = arrived[..., task] = np.where(own, taken, processed[..., task])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(taken > 0, taken / processed[..., task], np.where(taken == 0, 0.0, np.nan))
        passed[..., task] = np.where(own, np.where(np.isfinite(ratio), ratio, np.nan), passed[..., task])
    sources = graph.by_level[0]
    told = np.where(silent, 0.0, processed)[..., sources].sum(axis=-1, keepdims=True)
    entered = np.zeros_like(processed)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(told > 0, processed[..., sources] / told, np.where(processed[..., sources] == 0, 0.0, np.nan))
    entered[..., sources] = np.where(silent[..., sources], share, 0.0)
    return entered, passed, Counted(*(np.nan_to_num(each) for each in (processed, emitted, arrived)))


def _counted_or_all(passed: Float64, counted: Counted, graph: JobGraph) -> tuple[Float64, Float64]:
    """Return selectivities and emissions [.., N]; a task that emits nothing, but whose children get records, does not count them.

    Then it counts as emitting what it processes.
    """
    silent = (counted.emitted <= 0) & (counted.processed > 0)
    if not silent.any():
        return passed, counted.emitted
    uncounted = np.zeros_like(silent)
    for child in np.flatnonzero(graph.level > 0).tolist():
        parents = graph.parents.index[child][graph.parents.known[child]]
        fed = (counted.arrived[..., child] > 0) & silent[..., parents].all(axis=-1)
        uncounted[..., parents] |= fed[..., None]
    return np.where(uncounted, 1.0, passed), np.where(uncounted, counted.processed, counted.emitted)
