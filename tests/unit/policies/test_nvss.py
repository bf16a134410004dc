"""Which minutes and neighbours are chosen; one tiny case worked by hand."""

import numpy as np
import pytest

from surescale.contracts.messages import TaskSpec
from surescale.policies.graph import job_graph
from surescale.policies.nvss import SampledNodes, neighbours_sampled
from surescale.policies.paper.models import look_at

GRAPH = job_graph([TaskSpec(task="a"), TaskSpec(task="b", upstream=("a",)), TaskSpec(task="c", upstream=("b",))])
MASK = np.ones((4, 3), dtype=np.bool_)


def logits(theta: list[float], phi: list[float]) -> np.ndarray:
    """Return mu [4, 3, 2]: theta per minute for every task, phi per task for every minute."""
    mu = np.zeros((4, 3, 2), dtype=np.float32)
    mu[..., 0] = np.array(theta)[:, None]
    mu[..., 1] = np.array(phi)[None, :]
    return mu


def sample_nodes(
    mu: np.ndarray, mask: np.ndarray, anchors: int, width: int, noise: tuple[np.ndarray, np.ndarray] | None = None
) -> SampledNodes:
    """Return the nodes of one window."""
    found = look_at(mu[None], mask[None], GRAPH, anchors, width, noise and (noise[0][None], noise[1][None]))
    return SampledNodes(*(getattr(found, name)[0] for name in SampledNodes.__slots__))


def test_the_best_minutes_are_taken_and_put_back_into_time_order() -> None:
    """Minutes 3 and 1 score best: they are looked at as 1, 3."""
    looked = sample_nodes(logits([0, 2, 1, 5], [0, 0, 0]), MASK, 2, 1)
    assert looked.minutes.tolist() == [[1, 3]] * 3


def test_the_best_neighbours_are_taken_per_anchor() -> None:
    """For b, task c scores above a; for a, whose neighbours are b and c, c is best too."""
    looked = sample_nodes(logits([0, 0, 0, 1], [1, 2, 3]), MASK, 1, 1)
    assert looked.neighbours[:, 0, 0].tolist() == [2, 2, 1]


def test_ties_go_to_the_lower_index() -> None:
    """Equal scores never leave the choice to a runtime."""
    looked = sample_nodes(logits([1, 1, 1, 1], [0, 0, 0]), MASK, 2, 1)
    assert looked.minutes.tolist() == [[0, 1]] * 3
    assert looked.neighbours[:, 0, 0].tolist() == [1, 0, 1]


def test_unreported_minutes_and_neighbours_are_never_chosen_as_known() -> None:
    """A masked minute is an anchor only when nothing else is left, and then it is marked."""
    mask = MASK.copy()
    mask[:3, 1] = False  # b reported in the newest minute only
    looked = sample_nodes(logits([9, 0, 0, 0], [0, 9, 0]), mask, 2, 2)
    assert looked.minutes_known[1].tolist() == [False, True]
    a_at_minute_0 = looked.neighbours[0, 0][looked.neighbours_known[0, 0]]
    assert a_at_minute_0.tolist() == [2]


def test_noise_on_the_keys_draws_without_replacement() -> None:
    """Gumbel noise large enough overrules any score, and no minute comes twice."""
    generator = np.random.default_rng(5)
    gumbel = (generator.gumbel(size=(3, 4)).astype(np.float32) * 100, np.zeros((3, 3, 2), dtype=np.float32))
    drawn = sample_nodes(logits([0, 1, 2, 3], [0, 0, 0]), MASK, 3, 1, gumbel)
    assert drawn.minutes.tolist() != [[1, 2, 3]] * 3
    assert all(len(set(minutes)) == 3 for minutes in drawn.minutes.tolist())


@pytest.mark.parametrize(("share", "most", "expected"), [(0.5, 8, 1), (1.0, 8, 2), (1.0, 1, 1), (0.1, 8, 1)])
def test_the_number_of_neighbours_follows_the_job(share: float, most: int, expected: int) -> None:
    """k2 = floor(share x K), within 1 and its cap; here K = 2."""
    assert neighbours_sampled(GRAPH, share, most) == expected
