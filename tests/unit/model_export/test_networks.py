"""Sampler, GNN and objective: gradients that arrive, invariances, signs."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from surescale.contracts.messages import TaskSpec  # noqa: E402
from surescale.model_export.network import (  # noqa: E402  # noqa: E402
    Information,
    PolicyNet,
    SampledInput,
    SureNetwork,
    Weights,
    auxiliary_loss,
    choose,
    cross_entropy,
    forward,
    kl_to_prior,
    logits,
    negative_log_density,
    straight_through,
)
from surescale.model_export.rollout import Noise, draw, log_probability  # noqa: E402
from surescale.policies.features import WIDTH, Encoded  # noqa: E402
from surescale.policies.graph import job_graph  # noqa: E402
from surescale.policies.nvss import neighbour_logits  # noqa: E402
from surescale.policies.sure.package import SamplingCard, Statistics  # noqa: E402

GRAPH = job_graph([TaskSpec(task="a"), TaskSpec(task="b", upstream=("a",)), TaskSpec(task="c", upstream=("b",))])
SAMPLING = SamplingCard(anchors=3, neighbours_share=1.0, neighbours_max=2)


@pytest.fixture
def network() -> SureNetwork:
    """Return a small untrained network whose outputs are not all but zero."""
    torch.manual_seed(0)
    made = SureNetwork(Statistics(mean=(0.0,) * WIDTH, std=(1.0,) * WIDTH), 8, SAMPLING)
    torch.nn.init.orthogonal_(made.policy.out.weight)
    return made


@pytest.fixture
def encoded() -> Encoded:
    """Return four random states of a chain of three over six minutes, a tenth of them unreported."""
    generator = np.random.default_rng(0)
    mask = generator.random((4, 6, 3)) < 0.9
    x = generator.normal(size=(4, 6, 3, WIDTH)).astype(np.float32) * mask[..., None]
    return Encoded(x=x, mask=mask)


def test_the_policy_loss_reaches_the_sampler(network: SureNetwork, encoded: Encoded) -> None:
    """With straight-through weights the choice of nodes learns; without them it cannot."""
    chosen = choose(network, encoded, GRAPH, np.random.default_rng(1))
    forward(network, chosen, GRAPH, 1.0).outputs.sum().backward()
    assert network.sampler.mu.weight.grad.abs().max() > 1e-6
    network.zero_grad()
    forward(network, chosen, GRAPH, None).outputs.sum().backward()
    assert network.sampler.mu.weight.grad is None or not network.sampler.mu.weight.grad.any()


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


def test_torch_forms_the_logits_that_serving_samples_by(network: SureNetwork, encoded: Encoded) -> None:
    """Masks and neighbour tables agree entry by entry."""
    _, mu, _ = network.sampler(torch.from_numpy(encoded.x), torch.from_numpy(encoded.mask.astype(np.float32)))
    _, phi = logits(mu, torch.from_numpy(encoded.mask.astype(np.float32)), GRAPH)
    minutes = np.broadcast_to(np.arange(phi.shape[-2]), phi.shape[:-1])
    np.testing.assert_array_equal(phi.detach().numpy(), neighbour_logits(mu.detach().numpy(), encoded.mask, GRAPH, minutes))


def test_a_subgraph_does_not_depend_on_the_order_of_its_nodes() -> None:
    """Neither nodes nor padding that is marked unknown change an embedding."""
    torch.manual_seed(1)
    net = PolicyNet(8)
    x, known = torch.randn(2, 5, 8), torch.ones(2, 5)
    linked = (torch.rand(2, 5, 5) < 0.5).float()
    linked = torch.maximum(linked, linked.transpose(1, 2))
    order = torch.tensor([3, 0, 4, 1, 2])
    shuffled = net.embed(x[:, order], linked[:, order][:, :, order], known)
    torch.testing.assert_close(shuffled, net.embed(x, linked, known))
    padded = torch.nn.functional.pad
    wider = net.embed(padded(x, (0, 0, 0, 3)), padded(linked, (0, 3, 0, 3)), padded(known, (0, 3)))
    torch.testing.assert_close(wider, net.embed(x, linked, known))


def test_the_whole_graph_is_embedded_as_a_dense_one_would_be() -> None:
    """Two sums over neighbours give what the full (L N)^2 adjacency gives."""
    torch.manual_seed(2)
    net, z, mask = PolicyNet(8), torch.randn(2, 4, 3, 8), torch.ones(2, 4, 3)
    linked = torch.from_numpy(GRAPH.linked.astype(np.float32))
    dense = torch.kron(torch.eye(4), linked)
    for minute in range(3):
        for task in range(3):
            i, j = minute * 3 + task, (minute + 1) * 3 + task
            dense[i, j] = dense[j, i] = 1.0
    expected = net.embed(z.reshape(2, 12, 8), dense.expand(2, -1, -1), torch.ones(2, 12))
    torch.testing.assert_close(net.embed_whole(z, mask, linked), expected)


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


def test_auxiliary_losses_are_finite_with_masked_figures(network: SureNetwork, encoded: Encoded) -> None:
    """Masked logits of -1e9 never turn into NaN."""
    chosen = choose(network, encoded, GRAPH, np.random.default_rng(2))
    loss = auxiliary_loss(network, chosen, forward(network, chosen, GRAPH, 0.5), GRAPH, Weights(1.0, 1.0, 1.0))
    loss.backward()
    assert torch.isfinite(loss)
    assert all(torch.isfinite(p.grad).all() for p in network.parameters() if p.grad is not None)


def test_a_step_keeps_all_its_tensors_on_the_models_device(network: SureNetwork, encoded: Encoded) -> None:
    """On a pretended GPU, where torch refuses to mix devices, both losses are formed."""
    chosen = choose(network, encoded, GRAPH, np.random.default_rng(1))
    noise = Noise()
    deviations = draw(6, len(encoded.x), len(GRAPH.scalable), noise, np.random.default_rng(2))
    with FakeTensorMode(allow_non_fake_inputs=True):
        with torch.device("cuda"):
            there = SureNetwork(network.statistics, network.hidden, SAMPLING)
        tensors = {name: value.to("cuda") for name in SampledInput.__slots__ if torch.is_tensor(value := getattr(chosen, name))}
        moved = replace(chosen, **tensors)
        passed = forward(there, moved, GRAPH, 1.0)
        loss = auxiliary_loss(there, moved, passed, GRAPH, Weights())
        loss = loss + log_probability(passed.outputs, deviations, GRAPH, noise).mean()
        assert (there.device.type, loss.device.type) == ("cuda", "cuda")
        with pytest.raises(RuntimeError, match="device"):
            forward(there, chosen, GRAPH, 1.0)
