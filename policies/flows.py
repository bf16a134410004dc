"""How records flow along a job's graph: how many reach a task for each one that its parents process. Any batch axes.

A task's own input says it best, as in the Flink operator's autoscaler: side outputs and filters differ per edge, and an engine
tells only what a task emits in all. Where several parents meet, their shares of the input are their shares of what they emit.
"""

from dataclasses import dataclass

import numpy as np

from policies.answer import Float64
from policies.graph import Bool, Int64, JobGraph

JOIN_SLACK = 1.05  # inputs count as a union once arrivals exceed the largest parent by this factor
NEAR_SHARE = 0.005  # arrivals this close to what was emitted are the same: counters are whole, and some records are on the way
NEAR_SHARE_UNKNOWN = 0.15  # where the engine does not say how records travel; simulated batches are counted while on the way
NEAR_RECORDS = 8.0


@dataclass(frozen=True, slots=True)
class Counted:
    """What tasks counted over one and the same time; [.., N] in records.

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
        passed: records out per record in.
        scale: what arrives over what the parents' emissions lead to expect; 1 unless the engine's counts show otherwise.
        adds_up: bool, the records of several parents add up (a union). Else they are matched (a join), and the largest counts.
        graph: the job's.
        copies: [.., N, P], how often a record travels along each edge of ``graph.parents``: once per subtask if it is broadcast.
    """

    passed: Float64
    scale: Float64
    adds_up: Bool
    copies: Float64
    graph: JobGraph

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
        return cls(passed, scale, adds_up, copies, graph)

    def rows(self, chosen: slice | Int64 | None) -> "Flows":
        """Return some rows, if the first axis is the batch; None adds that axis."""
        return Flows(self.passed[chosen], self.scale[chosen], self.adds_up[chosen], self.copies[chosen], self.graph)

    def carried(self, start: Float64) -> Float64:
        """Return the records [.., N] that reach each task when ``start`` [.., N] set out from each, its own included."""
        reached, index, known = np.array(start), self.graph.parents.index, self.graph.parents.known
        for members in self.graph.by_level[1:]:
            offered = (reached * self.passed)[..., index[members]] * self.copies[..., members, :]
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
