"""Runs every kind of package alike: encoded windows of one graph in, the paper's action a in [-1, 1] per task out.

Works on a batch of windows, on one thread, without torch. ``policies.paper.policy`` turns actions into ratios.

Its networks see a job's graph as the descendants within three hops, edges as a matrix, and an order of tasks. The paper's c-hop
neighbours follow children only (its figure 5 shows descendants). Direction ``both`` is the extension of the shipped default
policy: there a leaf has neighbours too.

NVSS chooses nodes in blocks: one block per anchor minute, of the task and its neighbours. Only successive anchors join nodes of
different minutes. So links are kept per minute, [.., k1, w, w] with w = 1 + k2, and not as one (k1 w) x (k1 w) matrix: a tenth of
work and memory at ten anchors. For the same reason neighbours are scored at the anchors alone, [.., k1, K].
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np

from surescale.contracts.windows import Float32
from surescale.policies.features import SURE_WIDTH, Encoded
from surescale.policies.graph import HOPS, NEIGHBOURS_MAX, Bool, Int64, JobGraph, padded
from surescale.policies.nvss import GRID, MASKED, SampledNodes, neighbours_sampled
from surescale.policies.onnx_sessions import Errors, Opener, Session, open_graphs
from surescale.policies.paper.card import FILES, PaperCard, PaperPackage


def look_at(
    mu: Float32, mask: Bool, graph: JobGraph, anchors: int, width: int, noise: tuple[Float32, Float32] | None = None
) -> SampledNodes:
    """Return k1 minutes per task by theta, and k2 neighbours per minute by phi. Ties go to the lower index; minutes ascend.

    Args:
        mu: float32 [B, L, N, 2], logits of a task-minute as an anchor and as a neighbour.
        mask: bool [B, L, N], reported task-minutes.
        anchors: k1. width: k2.
        noise: added to theta [B, N, L] and to the anchors' phi [B, N, k1, K]; Gumbel noise makes them draws without replacement.
    """
    scores = (np.round(mu * GRID) / GRID).astype(np.float32)
    table = graph.neighbours
    theta = np.where(mask, scores[..., 0], MASKED).swapaxes(-1, -2)
    if noise is not None:
        theta = theta + noise[0]
    minutes = np.sort(_best(theta, min(anchors, theta.shape[-1])), axis=-1)
    minutes_known = np.take_along_axis(mask.swapaxes(-1, -2), minutes, axis=-1)
    phi = neighbour_logits(scores, mask, minutes, graph)
    if noise is not None:
        phi = phi + noise[1]
    slots = _best(phi, min(width, phi.shape[-1]))
    there = np.take_along_axis(phi, slots, axis=-1) > MASKED / 2
    return SampledNodes(
        minutes=minutes,
        minutes_known=minutes_known,
        slots=slots,
        neighbours=table.index[np.arange(len(graph.tasks))[:, None, None], slots],
        neighbours_known=there & minutes_known[..., None],
    )


def neighbour_logits(mu: Float32, mask: Bool, minutes: Int64, graph: JobGraph) -> Float32:
    """Return phi [B, N, k1, K]: a neighbour's logit at each of a task's ``minutes`` [B, N, k1]; masked where there is none."""
    found: Float32 = np.where(graph.neighbours.known[:, None], _at(np.where(mask, mu[..., 1], MASKED), minutes, graph), MASKED)
    return found


def neighbour_places(minutes: Int64, graph: JobGraph) -> Int64:
    """Return int64 [B, N, k1, K], the positions in [L x N] of every neighbour at every anchor."""
    places: Int64 = minutes[..., None] * len(graph.tasks) + graph.neighbours.index[:, None, :]
    return places


def _at(values: Float32, minutes: Int64, graph: JobGraph) -> Float32:
    places = neighbour_places(minutes, graph)
    rows = len(values)
    found: Float32 = np.take_along_axis(values.reshape(rows, -1), places.reshape(rows, -1), axis=1).reshape(places.shape)
    return found


def _best(keys: Float32, count: int) -> Int64:
    return np.argsort(-keys, axis=-1, kind="stable")[..., :count]


@dataclass(frozen=True, slots=True)
class Blocks:
    """Subgraphs of every task; w = 1 + k2, column 0 is the task itself.

    Attributes:
        index: int64 [.., N, k1, w], positions in z [.., L x N, H].
        links: float32 [.., N, k1, w, w], 1 where an edge of the job joins two known nodes of one minute.
        known: float32 [.., N, k1, w].
    """

    index: Int64
    links: Float32
    known: Float32


def blocks(looked: SampledNodes, graph: JobGraph) -> Blocks:
    """Return the subgraphs of the chosen nodes."""
    tasks = np.arange(len(graph.tasks)).reshape(-1, 1, 1)
    own = np.broadcast_to(tasks, (*looked.minutes.shape, 1))
    nodes = np.concatenate([own, looked.neighbours], axis=-1)
    known: Bool = np.concatenate([looked.minutes_known[..., None], looked.neighbours_known], axis=-1)
    links = graph.linked[nodes[..., :, None], nodes[..., None, :]] & known[..., :, None] & known[..., None, :]
    return Blocks(
        index=looked.minutes[..., None] * len(graph.tasks) + nodes, links=links.astype(np.float32), known=known.astype(np.float32)
    )


def gathered(z: Float32, index: Int64) -> Float32:
    """Return z [.., L, N, H] at the nodes ``index`` [.., N, k1, w]: [.., N, k1, w, H]."""
    flat = z.reshape(*z.shape[:-3], -1, z.shape[-1])
    rows = index.reshape(*index.shape[:-3], -1, 1)
    nodes: Float32 = np.take_along_axis(flat, rows, axis=-2).reshape(*index.shape, z.shape[-1])
    return nodes


DIRECTIONS = ("down", "both")


@lru_cache(maxsize=256)
def neighbourhood(graph: JobGraph, direction: str) -> JobGraph:
    """Return the graph with the neighbour table of a direction, nearest hops first, the lower index first within a hop."""
    assert direction in DIRECTIONS, direction
    if direction == "both":
        return graph
    return replace(graph, neighbours=padded([_descendants(graph, task)[:NEIGHBOURS_MAX] for task in range(len(graph.tasks))]))


def _descendants(graph: JobGraph, task: int) -> list[int]:
    found: list[int] = []
    border = {task}
    for _ in range(HOPS):
        below = {int(child) for at in border for child in graph.children.index[at][graph.children.known[at]]}
        border = below - set(found) - {task}
        found.extend(sorted(border))
    return found


@lru_cache(maxsize=256)
def downward(graph: JobGraph) -> Float32:
    """Return float32 [N, N], 1 for an edge from row to column."""
    table = graph.children
    matrix = np.zeros((len(graph.tasks), len(graph.tasks)), dtype=np.float32)
    for column in range(table.index.shape[1]):
        rows = np.flatnonzero(table.known[:, column])
        matrix[rows, table.index[rows, column]] = 1.0
    return matrix


def visiting_order(graph: JobGraph) -> Int64:
    """Return the tasks level by level, the lower index first; every task comes after its parents."""
    order: Int64 = np.argsort(graph.level, kind="stable")
    return order


CHUNK_TASKS = 256  # wider jobs pass the policy graph in pieces, which bounds memory


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """Actions of B windows, float32 [B, N] in [-1, 1]; for kind subgraph also the nodes looked at and the logits [B, L, N, 2]."""

    action: Float32
    looked: SampledNodes | None = None
    logits: Float32 | None = None


class PaperModel(Protocol):
    """Acts on encoded windows [B, L, N, D] of one graph; only a uniform sampler uses ``seeds`` [B]."""

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        ...


@dataclass(frozen=True, slots=True)
class SubgraphModel:
    """SURE: scores, sampled subgraphs, an action per subgraph. The ablation with a uniform sampler draws nodes without scores."""

    card: PaperCard
    sampler: Session
    policy: Session

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        z, mu = self.sampler.run(None, {"x": encoded.x[..., :SURE_WIDTH], "mask": encoded.mask.astype(np.float32)})[:2]
        looked = choose_nodes(self.card, mu, encoded, graph, seeds)
        parts = blocks(looked, graph)
        sub_x = gathered(z, parts.index) * parts.known[..., None]
        rows, tasks = mu.shape[0], mu.shape[2]
        inputs = {"sub_x": sub_x, "links": parts.links, "known": parts.known}
        flat = {name: value.reshape(rows * tasks, *value.shape[2:]) for name, value in inputs.items()}
        answers = [
            self.policy.run(None, {name: value[at : at + CHUNK_TASKS] for name, value in flat.items()})[0]
            for at in range(0, rows * tasks, CHUNK_TASKS)
        ]
        return ModelOutput(np.concatenate(answers).reshape(rows, tasks), looked, mu)


def choose_nodes(card: PaperCard, mu: Float32, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> SampledNodes:
    """Return the nodes of B windows: the best by the logits mu [B, L, N, 2], or as many drawn uniformly by each row's seed."""
    near = neighbourhood(graph, card.direction)
    width = neighbours_sampled(near, card.neighbours_share, card.neighbours_max)
    if card.sampler == "learned":
        return look_at(mu, encoded.mask, near, card.anchors, width)
    return look_at(np.zeros_like(mu), encoded.mask, near, card.anchors, width, even_noise(mu.shape[1], near, card.anchors, seeds))


def even_noise(minutes: int, graph: JobGraph, anchors: int, seeds: Sequence[int]) -> tuple[Float32, Float32]:
    """Return keys [B, N, L] and [B, N, k1, K] whose largest k are k draws without replacement, by each row's seed."""
    tasks, width = graph.neighbours.index.shape
    generators = [np.random.default_rng(abs(int(seed))) for seed in seeds]
    theta = np.stack([generator.random((tasks, minutes), dtype=np.float32) for generator in generators])
    phi = np.stack([generator.random((tasks, min(anchors, minutes), width), dtype=np.float32) for generator in generators])
    return theta, phi


@dataclass(frozen=True, slots=True)
class WholeModel:
    """A rival that reads the whole window at once."""

    model: Session

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        x, mask = encoded.x[..., :SURE_WIDTH], encoded.mask.astype(np.float32)
        return ModelOutput(self.model.run(None, {"x": x, "mask": mask, "down": downward(graph)})[0])


@dataclass(frozen=True, slots=True)
class SequentialModel:
    """A rival that sizes one task after another, given the action of the one before."""

    encoder: Session
    decoder: Session

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        x, mask = encoded.x[..., :SURE_WIDTH], encoded.mask.astype(np.float32)
        nodes, there, state = self.encoder.run(None, {"x": x, "mask": mask, "down": downward(graph)})
        action = np.zeros(nodes.shape[:2], dtype=np.float32)
        last = np.zeros((len(nodes), 1), dtype=np.float32)
        for task in visiting_order(graph):
            inputs = {"nodes": nodes, "there": there, "task": nodes[:, task], "last": last, "state_before": state}
            answer, after = self.decoder.run(None, inputs)
            known = there[:, task, None] > 0  # a task that never reported is skipped
            last, state = np.where(known, answer, last), np.where(known, after, state)
            action[:, task] = answer[:, 0] * known[:, 0]
        return ModelOutput(action)


@dataclass(frozen=True, slots=True)
class RecurrentModel:
    """A rival that reads the window minute by minute."""

    prepare: Session
    cell: Session
    output: Session

    def act(self, encoded: Encoded, graph: JobGraph, seeds: Sequence[int]) -> ModelOutput:
        """Return the actions."""
        x, mask = encoded.x[..., :SURE_WIDTH], encoded.mask.astype(np.float32)
        series, graphs, there = self.prepare.run(None, {"x": x, "mask": mask, "down": downward(graph)})
        state = np.zeros_like(series[:, 0])
        for minute in range(series.shape[1]):
            state = self.cell.run(None, {"now": series[:, minute], "state_before": state, "graphs": graphs})[0]
        inputs = {"now": series[:, -1], "state_before": state, "graphs": graphs, "there": there}
        return ModelOutput(self.output.run(None, inputs)[0])


def open_model(package: PaperPackage, opener: Opener | None = None) -> tuple[PaperModel, Errors]:
    """Return a package's model, opened on one thread, and the errors that running it may raise; ``opener`` as in `open_graphs`.

    Raises:
        PackageRejected: onnxruntime is not installed, or a graph does not load.
    """
    sessions, errors = open_graphs(package.card.name, [package.graphs[name] for name in FILES[package.card.kind]], opener)
    if package.card.kind == "subgraph":
        return SubgraphModel(package.card, *sessions), errors
    if package.card.kind == "sequential":
        return SequentialModel(*sessions), errors
    if package.card.kind == "recurrent":
        return RecurrentModel(*sessions), errors
    return WholeModel(*sessions), errors
