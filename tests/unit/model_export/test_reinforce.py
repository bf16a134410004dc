"""Branching and its gradient: what cancels, what remains, and which way it points."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from benchmarks.archive import load_job  # noqa: E402
from surescale.contracts.messages import TaskSpec  # noqa: E402
from surescale.model_export.rollout import Noise, advantages, draw, log_probability  # noqa: E402
from surescale.policies.graph import job_graph  # noqa: E402
from surescale.simulation.load.workload import load_workload  # noqa: E402
from surescale.simulation.loops.rows import LoopRows, Terms  # noqa: E402

GRAPH = job_graph([TaskSpec(task="s", scalable=False), TaskSpec(task="a", upstream=("s",)), TaskSpec(task="b", upstream=("a",))])


def test_branches_come_in_mirrored_pairs() -> None:
    """The second half does the opposite of the first."""
    drawn = draw(6, 2, 3, Noise(), np.random.default_rng(0))
    np.testing.assert_array_equal(drawn.margin[:3], -drawn.margin[3:])
    np.testing.assert_array_equal(drawn.own[:3], -drawn.own[3:])


def test_a_branch_deviates_in_one_kind_only() -> None:
    """Margin, gate and own sizes are explored apart, or noise on one would decide what is learned of another."""
    drawn = draw(6, 2, 3, Noise(), np.random.default_rng(0))
    kinds = [drawn.margin.any(axis=1), drawn.ease.any(axis=1), drawn.own.any(axis=(1, 2))]
    assert np.sum(kinds, axis=0).tolist() == [1] * 6


def test_what_all_branches_of_a_state_share_cancels() -> None:
    """A bad stretch of load is no branch's fault."""
    returns = np.array([[1.0, 5.0], [3.0, 9.0]])
    np.testing.assert_allclose(advantages(returns + np.array([100.0, -50.0])), advantages(returns), atol=1e-9)
    np.testing.assert_allclose(advantages(returns).sum(axis=0), 0, atol=1e-9)


def test_the_gradient_points_to_the_better_branch() -> None:
    """When larger margins pay, following the gradient raises the margin and leaves the gate alone."""
    outputs = torch.zeros(4, 3, 2, requires_grad=True)
    noise = Noise()
    drawn = draw(18, 4, 3, noise, np.random.default_rng(0))
    weight = torch.as_tensor(advantages(drawn.margin), dtype=torch.float32)
    (log_probability(outputs, drawn, GRAPH, noise) * weight).mean().backward()
    margin, ease = outputs.grad[:, 1:, 0].mean(), outputs.grad[:, 1:, 1].mean()
    assert margin > 0
    assert abs(ease) < margin / 2


def test_a_virtual_task_gets_no_gradient() -> None:
    """Source and sink are never sized, so their outputs are never blamed."""
    outputs = torch.zeros(4, 3, 2, requires_grad=True)
    drawn = draw(12, 4, 3, Noise(), np.random.default_rng(1))
    weight = torch.as_tensor(advantages(drawn.own[..., 1]), dtype=torch.float32)
    (log_probability(outputs, drawn, GRAPH, Noise()) * weight).mean().backward()
    assert not outputs.grad[:, 0].any()


@pytest.fixture(scope="module")
def rows() -> LoopRows:
    """Return two closed loops of a small job after their first window."""
    job, workload = load_job("j_2521346", load_workload("clarknet")), load_workload("clarknet")
    return LoopRows(job, workload, np.array([600, 1_200]), np.tile(job.start_parallelism, (2, 1)), Terms())


def test_a_copy_lives_on_by_itself(rows: LoopRows) -> None:
    """Branches from one state end alike under the same action, and do not touch the state they came from."""
    before = rows.observe()
    one, other = rows.copy(), rows.copy()
    wider = np.where(rows.graph.scalable, before.current + 1, before.current)
    first, second = one.step(wider), other.step(wider)
    np.testing.assert_array_equal(first.busy_minutes, second.busy_minutes)
    np.testing.assert_array_equal(rows.observe().figures, before.figures)
    np.testing.assert_array_equal(rows.observe().current, before.current)


def test_only_a_change_costs_a_restart(rows: LoopRows) -> None:
    """Rows that keep their sizes run on; a changed one is down for a minute and its latency shows it."""
    twin = rows.copy()
    current = twin.observe().current
    desired = current.copy()
    desired[1] = np.where(twin.graph.scalable, current[1] + 1, current[1])
    span = twin.step(desired)
    assert span.restarted.tolist() == [False, True]
    still = rows.copy().step(current)
    assert span.backlog_minutes[0] == still.backlog_minutes[0]
    assert span.backlog_minutes[1] > still.backlog_minutes[1] + 10
