"""NVSS's choice of nodes, with subgraphs in blocks: one block per anchor minute, of the task and its neighbours.

Only successive anchors join nodes of different minutes. So links are kept per minute, [.., k1, w, w] with w = 1 + k2, and not as
one (k1 w) x (k1 w) matrix: a tenth of work and memory at ten anchors. For the same reason neighbours are scored at the anchors
alone, [.., k1, K], where ``policies.nvss`` scores them at all minutes. The choice is the same.
"""

from dataclasses import dataclass

import numpy as np

from contracts.windows import Float32
from policies.graph import Bool, Int64, JobGraph
from policies.nvss import GRID, MASKED, SampledNodes


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
    phi = np.where(table.known[:, None], _at(np.where(mask, scores[..., 1], MASKED), minutes, graph), MASKED)
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
