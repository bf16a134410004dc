"""A job's graph as the paper's networks see it: descendants within three hops, edges as a matrix, an order of tasks.

The paper's c-hop neighbours follow children only (its figure 5 shows descendants). Direction ``both`` is the extension of the
shipped default policy: there a leaf has neighbours too.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from contracts.windows import Float32
from policies.graph import HOPS, NEIGHBOURS_MAX, Int64, JobGraph, padded

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
