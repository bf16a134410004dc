"""What a network of the paper looked at: minutes and neighbours that each task's subgraph was drawn from, with their weights."""

from itertools import compress
from typing import Any

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import SampledMinute
from surescale.contracts.windows import Float32
from surescale.policies.features import Encoded
from surescale.policies.graph import JobGraph
from surescale.policies.nvss import MASKED
from surescale.policies.paper.card import PaperCard
from surescale.policies.paper.models import ModelOutput, neighbour_logits, neighbourhood

LOOKED_AT_MAX = 1_000  # snapshots kept in the explanation of one decision

Looks = tuple[tuple[SampledMinute, ...], ...]


def looked_at(acted: ModelOutput, card: PaperCard, encoded: Encoded, graph: JobGraph, end_ms: int) -> Looks:
    """Return the snapshots of each scalable task, with their share of the attention (softmax of the logits).

    Empty where nothing was scored: for the paper's rivals, and where nodes are drawn evenly.
    """
    if acted.looked is None or acted.logits is None or card.sampler != "learned":
        return ()
    looked, near, mask = acted.looked, neighbourhood(graph, card.direction), encoded.mask
    minutes, known, slots = looked.minutes[0], looked.minutes_known[0], looked.slots[0]
    theta = _softmax(np.where(mask, acted.logits[0, ..., 0], MASKED).T)
    weight = np.take_along_axis(theta, minutes, axis=-1)
    shares = np.take_along_axis(_softmax(neighbour_logits(acted.logits, mask[None], looked.minutes, near)[0]), slots, axis=-1)
    kept = max(1, min(minutes.shape[1], LOOKED_AT_MAX // len(graph.tasks)))
    order = np.argsort(np.where(known, -weight, 1.0), axis=-1, kind="stable")
    heaviest = np.argsort(order, axis=-1) < kept
    rows, at = np.nonzero(known & heaviest & graph.scalable[:, None])
    ends = end_ms - (mask.shape[0] - 1 - minutes[rows, at]) * MINUTE_MS
    name = graph.tasks.__getitem__
    told: list[list[SampledMinute]] = [[] for _ in graph.tasks]
    for row, end, share, neighbours, there, parts in zip(
        rows.tolist(), ends.tolist(), _rounded(weight[rows, at]), looked.neighbours[0][rows, at].tolist(),
        looked.neighbours_known[0][rows, at].tolist(), _rounded(shares[rows, at]), strict=True,
    ):  # fmt: skip
        told[row].append(
            SampledMinute(
                minute_end_ms=end,
                weight=share,
                neighbours=tuple(map(name, compress(neighbours, there))),
                neighbour_weights=tuple(compress(parts, there)),
            )
        )
    return tuple(map(tuple, told))


def _rounded(values: Float32) -> list[Any]:
    """Return values as Python numbers with six digits, which is enough for people and halves the bytes."""
    rounded: list[Any] = np.round(values.astype(np.float64), 6).tolist()
    return rounded


def _softmax(keys: Float32) -> Float32:
    raised = np.exp(keys - keys.max(axis=-1, keepdims=True))
    share: Float32 = np.divide(raised, raised.sum(axis=-1, keepdims=True))
    return share
