"""What the sampling step of NVSS (SURE, IJCAI 2022) chooses: the minutes and neighbours that each task looks at.

``policies.paper.models`` chooses them, between two ONNX graphs; training calls the same code, so no runtime's TopK decides.
"""

from dataclasses import dataclass

import numpy as np

from surescale.policies.graph import Bool, Int64, JobGraph

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


def neighbours_sampled(graph: JobGraph, share: float, most: int) -> int:
    """Return k2 = floor(share x K), at least 1 and at most ``most``; K is the largest number of neighbours in the job."""
    return int(max(1, min(most, np.floor(share * graph.neighbours.index.shape[1]))))
