"""How far what a policy sees lies from what it was trained on: the share of its features outside the training's ranges. Pure."""

from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from surescale.contracts.decisions import FeatureDrift
from surescale.contracts.messages import Share
from surescale.contracts.windows import Float32
from surescale.policies.features import SLOTS, Encoded
from surescale.policies.graph import JobGraph

SLACK = 1e-4
"""Beyond a range: features that are constant in training differ by rounding."""


class Ranges(msgspec.Struct, frozen=True, kw_only=True):
    """Where the features lay in training, per slot, and how many lay outside."""

    low: tuple[float, ...]
    """0.5 % of the values were below."""
    high: tuple[float, ...]
    """0.5 % of the values were above."""
    usual: Share
    """In 99 of 100 windows of the training, at most this share of the features lay outside."""
    windows: Annotated[int, Meta(ge=1)]
    """How many windows that is known from."""


def outside(x: Float32, mask: np.ndarray, graph: JobGraph, ranges: Ranges) -> tuple[np.ndarray, np.ndarray]:
    """Return how many features of each slot lie outside [.., D], and how many were looked at [..].

    Args:
        x: float32 [.., L, N, D], the encoding; ``mask``: bool [.., L, N], what of it was reported.
        graph: its scalable tasks count.
        ranges: of the training.
    """
    low, high = (np.array(bound, dtype=np.float32) for bound in (ranges.low, ranges.high))
    seen = mask[..., graph.scalable]
    values = x[..., graph.scalable, :]
    is_out = ((values < low - SLACK) | (values > high + SLACK)) & seen[..., None]
    return is_out.sum(axis=(-3, -2)), seen.sum(axis=(-2, -1))


def drift_of(encoded: Encoded, graph: JobGraph, ranges: Ranges) -> FeatureDrift:
    """Return how far the features of one window [L, N, D] lie from the training, and which slot lies outside most."""
    counts, seen = outside(encoded.x, encoded.mask, graph, ranges)
    most = int(counts.argmax())
    values = encoded.x[:, graph.scalable, most][encoded.mask[:, graph.scalable]].astype(np.float64)
    finite = values[np.isfinite(values)]  # absurd figures give infinite features, and no record can hold their mean
    mean = float(finite.mean()) if len(finite) else 0.0
    return FeatureDrift(
        outside=round(float(counts.sum() / max(1, int(seen) * len(SLOTS))), 6),
        usual=ranges.usual,
        feature=SLOTS[most],
        feature_outside=round(float(counts[most] / max(1, int(seen))), 6),
        mean=round(mean, 4),
        low=ranges.low[most],
        high=ranges.high[most],
    )


def in_words(drift: FeatureDrift) -> str:
    """Return it for people.

    >>> seen = FeatureDrift(outside=0.03, usual=0.04, feature="demand", feature_outside=0.5, mean=9.0, low=0.0, high=6.0)
    >>> print(in_words(seen))
    3 % of the features lie outside their range in training (usually up to 4 %), most of all demand: 50 %, mean 9, range 0 to 6
    """
    outside, usual = _percent(drift.outside), _percent(drift.usual)
    said = f"{outside} of the features lie outside their range in training (usually up to {usual})"
    if not drift.outside:
        return said
    return (
        f"{said}, most of all {drift.feature}: {_percent(drift.feature_outside)}, mean {drift.mean:g}, "
        f"range {drift.low:g} to {drift.high:g}"
    )


def _percent(share: float) -> str:
    return f"{float(f'{100 * share:.2g}'):g} %"
