"""Draws in mirrored pairs, and which task's action each reward speaks for."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from benchmarks.archive import load_job  # noqa: E402
from reproductions.sure.draws import Draws, advantages, credit, draw, gains, log_probability  # noqa: E402
from reproductions.sure.environment import terms_of  # noqa: E402
from reproductions.sure.train import Loops  # noqa: E402
from surescale.simulation.load.graphs import JobGraph  # noqa: E402
from surescale.simulation.load.jobs import size_job  # noqa: E402
from surescale.simulation.load.workload import load_workload  # noqa: E402
from surescale.simulation.loops.rows import LoopRows  # noqa: E402
from tests.unit.simulation.cases import chain, graph  # noqa: E402

CLARKNET = load_workload("clarknet")
REAL = np.array([False, True, True, True, False])


def some(branches: int = 16, rows: int = 3, scalable: np.ndarray = REAL) -> Draws:
    """Return draws of both kinds."""
    return draw(branches, rows, scalable, False, np.random.default_rng(0))


def each_alone(shape: JobGraph, sizes: tuple[int, ...]) -> np.ndarray:
    """Return what growing each real task by one subtask gains [N - 2] over shrinking it by one, all others at these sizes."""
    job = size_job(shape, CLARKNET, 7.0)
    present = np.array([[1, *sizes, 1]])
    loops = Loops(LoopRows(job, CLARKNET, np.array([1020]), present, terms_of("clean")))
    step = np.eye(job.size, dtype=np.int64)[1:-1, None, :]
    return gains(loops.try_out(np.concatenate([present + step, present - step])))[: job.size - 2, 0]


def test_draws_come_in_mirrored_pairs_of_two_kinds() -> None:
    """A quarter moves all real tasks alike; a branch of the others differs from its mirrored one in a single task."""
    drawn = some()
    half = (drawn.deviations[:8] - drawn.deviations[8:]) / 2
    assert drawn.together.tolist() == ([True] * 2 + [False] * 6) * 2
    assert (drawn.moved[drawn.together] == REAL).all()
    assert ((half != 0).sum(axis=-1)[~drawn.together[:8]] == 1).all()
    np.testing.assert_array_equal(half != 0, drawn.moved[:8])


def test_all_tasks_take_turns_in_moving_alone() -> None:
    """With six pairs and three tasks, each task moves alone twice in every state."""
    drawn = some()
    np.testing.assert_array_equal(drawn.moved[:8][~drawn.together[:8]].sum(axis=0), np.tile(2 * REAL, (3, 1)))


def test_what_grows_beside_is_the_same_in_all_branches_of_a_state() -> None:
    """Restarts and sizes of the others cancel out of the difference; source and sink never move."""
    drawn = draw(40, 4, np.ones(30, dtype=np.bool_), False, np.random.default_rng(0))
    alone = ~drawn.together
    others = np.where(drawn.moved, np.nan, drawn.deviations)[alone]
    np.testing.assert_array_equal(np.nanmax(others, axis=0), np.nanmin(others, axis=0))
    assert np.nanmin(others) == 0.0 < np.nanmax(others)
    assert not some().deviations[..., ~REAL].any()


def test_a_reward_speaks_for_the_tasks_that_moved_alone() -> None:
    """The rewards of one task's branches do not change another task's credit."""
    drawn = some()
    rewards = np.random.default_rng(1).normal(size=(16, 3))
    share = credit(rewards, drawn)
    assert not share[~drawn.moved].any()
    assert (share[drawn.moved] != 0).all()
    np.testing.assert_allclose(share.sum(axis=0), 0.0, atol=1e-9)


def test_both_kinds_are_compared_with_their_own() -> None:
    """Moving the whole job changes rewards so much that single tasks would not count next to it."""
    drawn = some()
    rewards = np.random.default_rng(1).normal(size=(16, 3))
    apart = rewards + 100.0 * drawn.together[:, None]
    np.testing.assert_allclose(credit(apart, drawn), credit(rewards, drawn), atol=1e-9)


def test_advantages_have_no_mean_and_equal_rewards_none_at_all() -> None:
    """Only differences between branches of one state count."""
    rewards = np.random.default_rng(1).normal(size=(6, 2))
    np.testing.assert_allclose(advantages(rewards).mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(advantages(np.full((6, 2), 0.3)), 0.0)
    np.testing.assert_allclose(gains(np.full((6, 2), 0.3)), 0.0)


def test_in_a_chain_only_the_bottleneck_gains_by_growing() -> None:
    """At this load the middle task needs its full size; the other two are idle and save by shrinking."""
    first, middle, last = each_alone(chain(1.0, 5.0, 1.0), (6, 4, 6)).tolist()
    assert middle > 0
    assert first < 0
    assert last < 0


def test_in_a_diamond_of_two_equal_bottlenecks_neither_is_paid_for_growing() -> None:
    """The sink waits for the slower branch, and growing one of two only moves the wait; shrinking one costs its whole queue."""
    shape = graph({"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}, {"a": 1.0, "b": 5.0, "c": 5.0, "d": 1.0})
    job, terms = size_job(shape, CLARKNET, 7.0), terms_of("clean")
    loops = Loops(LoopRows(job, CLARKNET, np.array([1200]), np.array([[1, 6, 3, 3, 6, 1]]), terms))
    wanted = np.array([[[1, 6, b, c, 6, 1]] for b, c in ((3, 3), (4, 3), (2, 3), (4, 4))])
    level, one, less, both = loops.try_out(wanted)[:, 0].tolist()
    assert both > one
    assert less < level


def test_the_step_makes_better_draws_likelier() -> None:
    """The gradient moves the mean towards the better deviation, and not at all for tasks without credit."""
    mean = torch.zeros(1, 2, requires_grad=True)
    deviations = torch.tensor([[[1.0, 1.0]], [[-1.0, -1.0]]])
    share = torch.tensor([[[1.0, 0.0]], [[-1.0, 0.0]]])
    (-(log_probability(mean, torch.zeros(()), deviations) * share).sum()).backward()
    assert mean.grad[0, 0] < 0
    assert mean.grad[0, 1] == 0


def test_probabilities_have_the_slopes_of_a_normal() -> None:
    """Deviation over spread for the mean; deviation squared less one for the logarithm of the spread."""
    mean, log_std = torch.zeros(1, 1, requires_grad=True), torch.tensor(-1.5, requires_grad=True)
    log_probability(mean, log_std, torch.tensor([[[2.0]]])).sum().backward()
    assert float(mean.grad[0, 0]) == pytest.approx(2.0 * np.exp(1.5), rel=1e-5)
    assert float(log_std.grad) == pytest.approx(3.0, rel=1e-5)


@pytest.mark.parametrize("mode", ["clean", "compat"])
def test_repeated_rows_earn_what_single_ones_do(mode: str) -> None:
    """Branches are copies of the loop: each set of rows continues with the same bits."""
    job, terms = load_job("j_2521346", CLARKNET), terms_of(mode)
    rows = LoopRows(job, CLARKNET, np.array([100, 3000]), np.tile(job.start_parallelism, (2, 1)), terms)
    rows.step(np.maximum(rows.parallelism - 2, 1))
    wanted = np.maximum(rows.parallelism - 1, 1)
    twin = rows.repeated(3)
    span, spans = rows.step(wanted), twin.step(np.tile(wanted, (3, 1)))
    np.testing.assert_array_equal(twin.reward(spans), np.tile(rows.reward(span), 3))
    np.testing.assert_array_equal(twin.minutes, np.tile(rows.minutes, 3))
