"""The sampling step of NVSS (SURE, IJCAI 2022) in numpy: which minutes and neighbours a task looks at, and their subgraph.

It runs between the two ONNX graphs, and training calls the same code, so no runtime's TopK decides. Per task it takes the k1
best minutes by theta (anchors), and per anchor the k2 best neighbours by that minute's phi. Ties go to the lower index; anchors
are put back into time order. Gumbel noise on the keys turns "best" into k draws without replacement (Gumbel top-k).
"""

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from surescale.contracts.windows import Float32
from surescale.policies.graph import Bool, Int64, JobGraph

Number = TypeVar("Number", bound=np.generic)

MASKED = -1e9  # never -inf: 0 x inf is NaN
GRID = np.float32(8_192)  # scores are rounded to 1/8192: twin tasks must tie exactly, whatever a runtime's last bits are


@dataclass(frozen=True, slots=True)
class SampledNodes:
    """The minutes and neighbours each task looks at; k1 and k2 are anchors and neighbours per anchor; ``..`` are batch axes.

    Attributes:
        minutes: int64 [.., N, k1], ascending; ``minutes_known`` [.., N, k1] is false for masked minutes.
        slots: int64 [.., N, k1, k2], columns of the graph's neighbour table; ``neighbours`` are the tasks in them.
        neighbours_known: bool [.., N, k1, k2].
    """

    minutes: Int64
    minutes_known: Bool
    slots: Int64
    neighbours: Int64
    neighbours_known: Bool


@dataclass(frozen=True, slots=True)
class Subgraphs:
    """One subgraph per task with m = k1 (1 + k2) nodes: per anchor the task itself, then its neighbours.

    Attributes:
        x: float32 [.., N, m, H], node features; zero for unknown nodes.
        linked: float32 [.., N, m, m], 1 between nodes of one minute that the job joins and between a task's successive anchors.
        known: float32 [.., N, m], 1 for nodes that exist.
    """

    x: Float32
    linked: Float32
    known: Float32


def neighbours_sampled(graph: JobGraph, share: float, most: int) -> int:
    """Return k2 = floor(share x K), at least 1 and at most ``most``; K is the largest number of neighbours in the job."""
    return int(max(1, min(most, np.floor(share * graph.neighbours.index.shape[1]))))


def sample_nodes(
    mu: Float32, mask: Bool, graph: JobGraph, anchors: int, neighbours: int, gumbel: tuple[Float32, Float32] | None = None
) -> SampledNodes:
    """Return the chosen minutes and neighbours.

    Args:
        mu: float32 [.., L, N, 2], logits of a task-minute as an anchor (theta) and as a neighbour (phi).
        mask: bool [.., L, N], reported task-minutes.
        anchors: k1. neighbours: k2.
        gumbel: noise for theta [.., N, L] and phi [.., N, L, K]; without it the best are taken.
    """
    mu = (np.round(mu * GRID) / GRID).astype(np.float32)
    table = graph.neighbours
    theta = np.where(mask, mu[..., 0], MASKED).swapaxes(-1, -2)
    if gumbel is not None:
        theta = theta + gumbel[0]
    minutes = np.sort(_best(theta, min(anchors, theta.shape[-1])), axis=-1)
    known = picked(mask.swapaxes(-1, -2), minutes)
    phi = neighbour_logits(mu, mask, graph, minutes)
    if gumbel is not None:
        phi = phi + np.take_along_axis(gumbel[1], minutes[..., None], axis=-2)
    slots = _best(phi, min(neighbours, table.index.shape[1]))
    tasks = np.arange(len(graph.tasks))[:, None, None]
    chosen = picked(phi, slots) > MASKED / 2
    return SampledNodes(
        minutes=minutes,
        minutes_known=known,
        slots=slots,
        neighbours=table.index[tasks, slots],
        neighbours_known=chosen & known[..., None],
    )


def neighbour_logits(mu: Float32, mask: Bool, graph: JobGraph, minutes: Int64) -> Float32:
    """Return phi float32 [.., N, k1, K]: a neighbour's logit at each of a task's ``minutes`` [.., N, k1].

    Masked if there is no such neighbour or it did not report.
    """
    table, tasks = graph.neighbours, len(graph.tasks)
    there = np.where(mask, mu[..., 1], MASKED)
    position = minutes[..., None] * tasks + table.index[:, None]
    flat = position.reshape(*position.shape[:-3], -1)
    found = picked(there.reshape(*there.shape[:-2], -1), flat).reshape(position.shape)
    return np.where(table.known[:, None], found, MASKED).astype(np.float32)


def picked(values: npt.NDArray[Number], at: Int64) -> npt.NDArray[Number]:
    """Return the values [.., n] at positions [.., m], row by row; ``numpy.take_along_axis`` spends longer on its index."""
    rows = values.reshape(-1, values.shape[-1])
    return rows[np.arange(len(rows))[:, None], at.reshape(len(rows), -1)].reshape(at.shape)


def _best(keys: Float32, count: int) -> Int64:
    return np.argsort(-keys, axis=-1, kind="stable")[..., :count]


def adjacency(looked: SampledNodes, graph: JobGraph) -> tuple[Float32, Float32]:
    """Return ``linked`` [.., N, m, m] and ``known`` [.., N, m] of the subgraphs, as in ``Subgraphs``."""
    tasks = np.arange(len(graph.tasks)).reshape(-1, 1, 1)
    own = np.broadcast_to(tasks, (*looked.minutes.shape, 1))
    nodes = np.concatenate([own, looked.neighbours], axis=-1)
    there = np.concatenate([looked.minutes_known[..., None], looked.neighbours_known], axis=-1)
    k1, width = nodes.shape[-2:]
    linked = np.zeros((*nodes.shape[:-2], k1, width, k1, width), dtype=np.float32)
    edges = graph.linked[nodes[..., :, None], nodes[..., None, :]]
    for anchor in range(k1):
        linked[..., anchor, :, anchor, :] = edges[..., anchor, :, :]
    before, after = np.arange(k1 - 1), np.arange(1, k1)
    linked[..., before, 0, after, 0] = linked[..., after, 0, before, 0] = 1.0
    flat = (*nodes.shape[:-2], k1 * width)
    known = there.reshape(flat).astype(np.float32)
    return linked.reshape(*flat, k1 * width) * known[..., :, None] * known[..., None, :], known


def subgraphs(z: Float32, looked: SampledNodes, graph: JobGraph) -> Subgraphs:
    """Return the subgraphs of the chosen task-minutes, with their embeddings from z [.., L, N, H]."""
    linked, known = adjacency(looked, graph)
    return Subgraphs(x=gather(z, looked, graph) * known[..., None], linked=linked, known=known)


def node_index(looked: SampledNodes, graph: JobGraph) -> Int64:
    """Return int64 [.., N, m], the position of each subgraph node in z [.., L x N, H]."""
    tasks = np.arange(len(graph.tasks)).reshape(-1, 1, 1)
    own = np.broadcast_to(tasks, (*looked.minutes.shape, 1))
    nodes = np.concatenate([own, looked.neighbours], axis=-1)
    index = looked.minutes[..., None] * len(graph.tasks) + nodes
    flat: Int64 = index.reshape(*nodes.shape[:-2], -1)
    return flat


def gather(z: Float32, looked: SampledNodes, graph: JobGraph) -> Float32:
    """Return the rows of z [.., L, N, H] at the subgraphs' nodes, [.., N, m, H]."""
    index, width = node_index(looked, graph), z.shape[-1]
    flat = z.reshape(-1, z.shape[-3] * z.shape[-2], width)
    rows = np.arange(len(flat))[:, None]
    gathered: Float32 = flat[rows, index.reshape(len(flat), -1)].reshape(*index.shape, width)
    return gathered


def newest_minute(mask: Bool) -> Int64:
    """Return int64 [.., N], the last reported minute of each task; the window's last if it never reported."""
    newest: Int64 = mask.shape[-2] - 1 - np.argmax(mask[..., ::-1, :], axis=-2)
    return newest
