"""The objective: gradients that arrive, signs, and a step that is not taken where it leads nowhere."""

import pytest

torch = pytest.importorskip("torch", reason="these tests and eight more files of them need torch: make install-train")

from reproductions.sure.objective import (  # noqa: E402
    Information,
    TrainingDiverged,
    cross_entropy,
    kl_to_prior,
    negative_log_density,
    straight_through,
    take_step,
)


def test_straight_through_weights_are_one_with_the_gradient_of_the_relaxation() -> None:
    """Value exactly 1; gradient within tolerance of finite differences of k x softmax at the chosen indices."""
    keys = torch.tensor([0.3, -0.2, 0.9, 0.1], dtype=torch.float64, requires_grad=True)
    chosen = torch.tensor([0, 2])
    cost = torch.tensor([2.0, -1.0], dtype=torch.float64)
    weights = straight_through(keys, chosen, 0.7)
    assert torch.equal(weights, torch.ones(2, dtype=torch.float64))
    (weights * cost).sum().backward()

    def relaxed(values: torch.Tensor) -> float:
        return float((2 * torch.softmax(values / 0.7, -1)[chosen] * cost).sum())

    with torch.no_grad():
        for i in range(4):
            step = torch.zeros(4, dtype=torch.float64)
            step[i] = 1e-6
            assert keys.grad[i] == pytest.approx((relaxed(keys + step) - relaxed(keys - step)) / 2e-6, abs=1e-6)


def test_information_learns_to_tell_matching_pairs_from_others() -> None:
    """Four separable graphs: maximising I must raise it and leave matching pairs scored above all others."""
    wholes = torch.eye(4)
    parts = wholes.unsqueeze(1).repeat(1, 3, 1)
    information = Information(4)
    known, optimiser = torch.ones(4, 3), torch.optim.Adam(information.parameters(), lr=0.1)
    first = float(information(parts, wholes, known).detach())
    for _ in range(50):
        optimiser.zero_grad()
        (-information(parts, wholes, known)).backward()
        optimiser.step()
    assert float(information(parts, wholes, known).detach()) > first + 0.5
    assert float(information(parts, wholes.roll(1, 0), known).detach()) < first


def test_cross_entropy_is_least_for_the_nodes_that_score_best() -> None:
    """As a loss it draws the logits towards what was drawn."""
    scores = torch.tensor([[3.0, 0.0, -3.0]])
    known = torch.ones(1, 1)
    best, worst = (cross_entropy(scores, torch.tensor([[i]]), known) for i in (0, 2))
    assert best < worst


def test_kl_is_zero_at_the_prior_and_density_prefers_the_mean() -> None:
    """N(0, .995) has no distance from itself; an omega at its mean is likelier than one away from it."""
    mask, zero = torch.ones(1, 2, 3), torch.zeros(1, 2, 3, 2)
    assert float(kl_to_prior(zero, torch.full_like(zero, 0.995**0.5), mask)) == pytest.approx(0.0, abs=1e-6)
    assert negative_log_density(zero, zero, zero + 1, mask) < negative_log_density(zero + 1, zero, zero + 1, mask)


def test_a_step_whose_loss_is_no_number_is_not_taken() -> None:
    """The weights stay as they were."""
    layer = torch.nn.Linear(2, 1)
    before = layer.weight.detach().clone()
    optimiser = torch.optim.Adam(layer.parameters())
    layer(torch.ones(1, 2)).sum().backward()
    with pytest.raises(TrainingDiverged, match=r"its loss \(nan\)"):
        take_step(optimiser, float("nan"), [layer], 1.0)
    assert torch.equal(layer.weight, before)
