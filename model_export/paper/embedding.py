"""t-SNE, silhouette and rank correlation in a few lines of numpy each: figure 5 needs them for some dozens of points."""

from collections.abc import Sequence

import numpy as np

from policies.proposal import Float64

EARLY, EARLY_FACTOR = 100, 4.0
STEPS, RATE = 500, 20.0


def tsne(points: Float64, perplexity: float = 10.0, seed: int = 0) -> Float64:
    """Return [n, 2] by exact t-SNE (van der Maaten and Hinton, JMLR 2008), the same for the same seed."""
    target = _neighbour_shares(_squared(points), perplexity)
    target = np.maximum((target + target.T) / (2 * len(points)), 1e-12)
    place = 1e-2 * np.random.default_rng(seed).standard_normal((len(points), 2))
    velocity, gain = np.zeros_like(place), np.ones_like(place)
    for step in range(STEPS):
        wanted = target * (EARLY_FACTOR if step < EARLY else 1.0)
        closeness = 1.0 / (1.0 + _squared(place))
        np.fill_diagonal(closeness, 0.0)
        pull = (wanted - closeness / closeness.sum()) * closeness
        slope = 4.0 * (pull.sum(axis=1)[:, None] * place - pull @ place)
        gain = np.maximum(0.01, np.where(np.sign(slope) == np.sign(velocity), gain * 0.8, gain + 0.2))
        velocity = (0.5 if step < EARLY else 0.8) * velocity - RATE * gain * slope
        place = place + velocity
        place -= place.mean(axis=0)
    return place


def _squared(points: Float64) -> Float64:
    length = np.square(points).sum(axis=1)
    distance: Float64 = np.maximum(0.0, length[:, None] + length - 2.0 * points @ points.T)
    return distance


def _neighbour_shares(distance: Float64, perplexity: float) -> Float64:
    """Return p(j | i) whose entropy is log(perplexity) in every row, by bisection over each row's width."""
    others = distance + np.where(np.eye(len(distance)), np.inf, 0.0)
    low, high = np.full(len(distance), -30.0), np.full(len(distance), 30.0)
    for _ in range(60):
        middle = (low + high) / 2
        logits = -others * np.exp(middle)[:, None]
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        share = raised / raised.sum(axis=1, keepdims=True)
        entropy = -(share * np.log(np.maximum(share, 1e-300))).sum(axis=1)
        narrow = entropy < np.log(perplexity)
        low, high = np.where(narrow, low, middle), np.where(narrow, middle, high)
    return share


def silhouette(points: Float64, labels: Sequence[int]) -> float:
    """Return the mean silhouette (Rousseeuw 1987) of labelled points, -1 to 1; a label of one point counts 0."""
    distance, label = np.sqrt(_squared(points)), np.asarray(labels)
    scores = []
    for at in range(len(points)):
        own = (label == label[at]) & (np.arange(len(points)) != at)
        if not own.any():
            scores.append(0.0)
            continue
        inside = distance[at, own].mean()
        outside = min(distance[at, label == other].mean() for other in np.unique(label) if other != label[at])
        scores.append((outside - inside) / max(outside, inside, 1e-12))
    return float(np.mean(scores))


def spearman(one: Sequence[float] | Float64, other: Sequence[float] | Float64) -> float:
    """Return Spearman's rank correlation, ties sharing their mean rank; 0 where one side is constant.

    >>> spearman([1, 2, 3], [10, 20, 15])
    0.5
    """
    a, b = _ranks(np.asarray(one, dtype=np.float64)), _ranks(np.asarray(other, dtype=np.float64))
    if a.std() == 0 or b.std() == 0:
        return 0.0
    return float(np.round(np.corrcoef(a, b)[0, 1], 12))


def _ranks(values: Float64) -> Float64:
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values))
    ranks[order] = np.arange(len(values), dtype=np.float64)
    _, same, count = np.unique(values, return_inverse=True, return_counts=True)
    total = np.zeros(len(count))
    np.add.at(total, same, ranks)
    shared: Float64 = (total / count)[same]
    return shared
