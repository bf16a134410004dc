"""REINFORCE on branches: signs, mirrored draws, and a run that resumes to the same weights."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from model_export.paper.statistics import fit_statistics, spread_start  # noqa: E402
from model_export.paper.train import (  # noqa: E402
    Loops,
    PaperSettings,
    advantages,
    barrier,
    begin,
    beyond_limits,
    by_kind,
    draw,
    log_probability,
    resume,
    save,
    update,
)
from model_export.paper.world import PaperMode, terms_of, week  # noqa: E402
from simulation.jobs import load_job  # noqa: E402
from simulation.workload import load_workload  # noqa: E402
from tests.unit.model_export.paper.cases import STATISTICS  # noqa: E402

CLARKNET = load_workload("clarknet")
JOB = load_job("j_2521346", CLARKNET)
SMALL = PaperSettings("SURE", ("j_2521346",), hidden=8, states=4, branches=4, anchors=3, updates_max=4)


def test_draws_are_mirrored_and_advantages_have_no_mean() -> None:
    """Whatever a deviation and its opposite do alike cancels."""
    drawn, together = draw(8, (2, 3), False, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn[:4], -drawn[4:])
    alike = (drawn == drawn[..., :1]).all(axis=(1, 2))
    assert together.tolist() == alike.tolist() == [True, False, True, False] * 2
    rewards = np.random.default_rng(1).normal(size=(6, 2))
    np.testing.assert_allclose(advantages(rewards).mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(advantages(np.full((6, 2), 0.3)), 0.0)


def test_branches_are_compared_with_their_own_kind() -> None:
    """A shift of the whole job pays so differently that beside it what single tasks do would not count."""
    together = np.array([True, False, True, False])
    rewards = np.array([[-5.0], [0.1], [5.0], [0.2]])
    found = by_kind(rewards, together)
    np.testing.assert_allclose(found[together], advantages(rewards[together]))
    np.testing.assert_allclose(np.abs(found), 1.0, atol=0.05)


def test_what_limits_cut_short_is_pulled_back_to_what_it_came_to() -> None:
    """Ten subtasks cannot grow: the pull is towards 0; an action within the limits is left alone."""
    mean = torch.tensor([[0.5, 0.5]], requires_grad=True)
    beyond_limits(mean, np.array([[10, 4]]), np.array([[10, 6]]), terms_of("clean")).backward()
    assert mean.grad[0, 0] > 0
    assert mean.grad[0, 1] == 0


def test_the_barrier_has_a_slope_even_where_the_tanh_is_flat() -> None:
    """Its slope in front of the tanh is twice the action."""
    before = torch.tensor([[3.0]], requires_grad=True)
    barrier(torch.tanh(before)).backward()
    assert float(before.grad) == pytest.approx(2 * np.tanh(3.0), rel=1e-3)


def test_the_step_makes_better_draws_likelier() -> None:
    """The gradient of the loss moves the mean towards the draw that paid more, and leaves virtual tasks alone."""
    mean = torch.zeros(1, 3, requires_grad=True)
    drawn = torch.tensor([[[0.2, 0.2, 0.2]], [[-0.2, -0.2, -0.2]]])
    together = np.array([False, False])
    log_pi = log_probability(mean, torch.zeros(()), drawn, together, np.array([False, True, True]))
    (-(log_pi * torch.tensor([[1.0], [-1.0]])).mean()).backward()
    assert (mean.grad[0, 1:] < 0).all()
    assert mean.grad[0, 0] == 0


def test_branches_start_in_the_state_of_their_loop() -> None:
    """Doing the same in all branches pays the same in all of them, and trying out leaves the loops where they are."""
    run = begin(SMALL, STATISTICS)
    loops = Loops.begin(run, JOB, week(CLARKNET, 1))
    before = loops.rows.observe()
    rewards = loops.try_out(np.broadcast_to(before.current, (4, *before.current.shape)))
    np.testing.assert_array_equal(rewards, np.broadcast_to(rewards[:1], rewards.shape))
    np.testing.assert_array_equal(loops.rows.observe().figures, before.figures)


@pytest.mark.parametrize(("mode", "least_loss"), [("clean", 5.0), ("compat", 0.1)])
def test_delay_beyond_ten_minutes_costs_in_training_in_both_modes(mode: PaperMode, least_loss: float) -> None:
    """Two hours at one subtask a task leave the job hours behind, which neither mode's reward shows in full."""
    run = begin(replace(SMALL, mode=mode), STATISTICS)
    loops = Loops.begin(run, JOB, week(CLARKNET, 1))
    least, ample = (np.full(loops.rows.observe().current.shape, size) for size in (1, 7))
    rewards = loops.try_out(np.stack([least, ample, ample, ample]), spans=2, discount=0.7)
    assert (rewards[0] < rewards[1] - least_loss).all()
    np.testing.assert_array_equal(rewards[1], rewards[2])


def test_a_resumed_run_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    """Network, optimiser and generators are all in the checkpoint."""
    run = begin(SMALL, STATISTICS)
    update(run, Loops.begin(run, JOB, week(CLARKNET, 1)))
    save(run, tmp_path)
    again = resume(tmp_path)
    for one in (run, again):
        one.seconds = 0.0
        update(one, Loops.begin(one, JOB, week(CLARKNET, 1)))
    for name, weight in run.model.state_dict().items():
        assert torch.equal(weight, again.model.state_dict()[name]), name


def test_loops_begin_with_sizes_of_all_kinds() -> None:
    """A third as every run begins; all within the bounds."""
    sizes = spread_start(JOB, week(CLARKNET, 1), np.arange(60, 69), np.random.default_rng(0))
    assert (sizes[::3] == JOB.start_parallelism).all()
    assert len({tuple(row) for row in sizes.tolist()}) >= 5
    assert sizes.min() >= 1
    assert sizes.max() <= 10


def test_statistics_cover_the_papers_slots() -> None:
    """27 of them, none with a spread of nothing."""
    found = fit_statistics(CLARKNET, "clean")
    assert len(found.mean) == len(found.std) == 27
    assert min(found.std) >= 0.05
