"""t-SNE, silhouette and rank correlation against what must come out."""

import numpy as np
import pytest

from model_export.paper.embedding import silhouette, spearman, tsne


def test_tsne_keeps_clusters_apart_and_repeats_itself() -> None:
    """Three clouds far apart in ten dimensions are three clouds in the plane; the same seed gives the same picture."""
    generator = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2], 12)
    points = 20.0 * np.eye(3, 10)[labels] + generator.normal(size=(36, 10))
    plane = tsne(points, perplexity=8.0)
    assert silhouette(plane, labels.tolist()) > 0.6
    np.testing.assert_array_equal(plane, tsne(points, perplexity=8.0))


def test_silhouette_is_near_one_for_tight_clusters_and_not_positive_for_mixed_ones() -> None:
    """Two pairs of neighbours, labelled by pair and across."""
    points = np.array([[0.0, 0.0], [0.0, 0.1], [9.0, 0.0], [9.0, 0.1]])
    assert silhouette(points, [0, 0, 1, 1]) > 0.95
    assert silhouette(points, [0, 1, 0, 1]) < 0.0


def test_spearman_sees_order_alone_and_shares_ranks_among_ties() -> None:
    """A monotone curve is 1, its mirror -1, a constant 0; ties as in the textbook."""
    assert spearman([1, 2, 3, 4], [1, 8, 27, 64]) == 1.0
    assert spearman([1, 2, 3, 4], [4, 3, 2, 1]) == -1.0
    assert spearman([1, 2, 3], [5, 5, 5]) == 0.0
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(0.948683, abs=1e-6)
