"""The paper's policy: gradients that reach the sampler, the same nodes as serving chooses, subgraphs in blocks."""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from model_export.paper.methods import build  # noqa: E402
from model_export.paper.parts import State  # noqa: E402
from model_export.paper.sure import PaperSure, SubgraphNet, anchor_logits, subgraph_inputs  # noqa: E402
from model_export.sampler import straight_through  # noqa: E402
from policies.paper.graphs import neighbourhood  # noqa: E402
from policies.paper.subgraphs import blocks, look_at  # noqa: E402
from policies.sampling import adjacency, look  # noqa: E402
from tests.unit.model_export.paper.cases import CHAIN, STATISTICS, graph_of, layered, states  # noqa: E402


def sure(method: str = "SURE", **options: object) -> PaperSure:
    """Return a small network whose actions are not all but zero."""
    torch.manual_seed(0)
    made = build(method, STATISTICS, 8, anchors=4, **options)
    assert isinstance(made, PaperSure)
    torch.nn.init.orthogonal_(made.policy.head.out.weight)
    return made


STATE = State.of(states(2, 4, minutes=12), graph_of(CHAIN))


def test_the_policy_loss_reaches_the_sampler() -> None:
    """The actions' gradient arrives at the scores' weights; with evenly drawn nodes there is nothing to arrive at."""
    model = sure()
    model.explore(STATE, np.random.default_rng(1), 1.0, 0.0).mean.square().sum().backward()
    assert model.sampler.mu.weight.grad.abs().max() > 1e-7
    ablated = sure("w/o NVSS")
    ablated.explore(STATE, np.random.default_rng(1), 1.0, 0.0).mean.square().sum().backward()
    assert ablated.sampler.mu.weight.grad is None


def test_the_information_term_reaches_sampler_and_network() -> None:
    """Maximising I alone moves the scores, once its bilinear form is not zero any more."""
    model = sure()
    torch.nn.init.orthogonal_(model.information.weight)
    passed = model.explore(STATE, np.random.default_rng(1), 1.0, 1.0)
    without = model.explore(STATE, np.random.default_rng(1), 1.0, 0.0)
    (passed.auxiliary - without.auxiliary).backward()
    assert model.sampler.mu.weight.grad.abs().max() > 0
    assert model.policy.layers[0].lin_root.weight.grad.abs().max() > 0


def test_the_samplers_gradient_is_that_of_the_relaxed_choice() -> None:
    """Within tolerance of finite differences: node weights 1 + soft(omega + step) - soft(omega) in front of the same network."""
    torch.manual_seed(3)
    net = SubgraphNet(4, "own").double()
    torch.nn.init.orthogonal_(net.head.out.weight)
    nodes, links = torch.randn(1, 2, 1, 4, dtype=torch.float64), torch.zeros(1, 2, 1, 1, dtype=torch.float64)
    known, chosen = torch.ones(1, 2, 1, dtype=torch.float64), torch.tensor([[1, 3]])
    theta = torch.randn(1, 5, dtype=torch.float64, requires_grad=True)

    def answer(weight: torch.Tensor) -> torch.Tensor:
        return net(nodes * weight.reshape(1, 2, 1, 1), links, known).sum()

    answer(straight_through(theta, chosen, 0.7)).backward()

    def soft(values: torch.Tensor) -> torch.Tensor:
        return (2 * torch.softmax(values / 0.7, -1)).gather(-1, chosen)

    with torch.no_grad():
        for at in range(5):
            step = torch.zeros(1, 5, dtype=torch.float64)
            step[0, at] = 1e-6
            up, down = (answer(1.0 + soft(theta + sign * step) - soft(theta)) for sign in (1, -1))
            assert float(theta.grad[0, at]) == pytest.approx(float(up - down) / 2e-6, abs=1e-6)


def test_torch_forms_the_scores_that_nodes_are_chosen_by() -> None:
    """Entry by entry, masks included: the chosen neighbours are the best of torch's own scores."""
    model, graph = sure(), neighbourhood(STATE.graph, "down")
    _, mu, _ = model.sampler(STATE.x, STATE.mask)
    looked = look_at(mu.detach().numpy(), STATE.encoded.mask, graph, 4, 2)
    theta, phi = anchor_logits(mu, STATE.mask, looked, graph)
    assert np.array_equal(np.sort(theta.topk(4).indices.numpy(), axis=-1), looked.minutes)
    best = phi.topk(2).indices.numpy()
    there = looked.neighbours_known
    assert np.array_equal(best[there], looked.slots[there])


def test_scoring_neighbours_at_anchors_alone_chooses_what_scoring_all_minutes_does() -> None:
    """The short way of ``look_at`` and the long one of ``policies.sampling.look`` agree."""
    graph = layered(9)
    generator = np.random.default_rng(0)
    mu = generator.normal(size=(2, 12, 9, 2)).astype(np.float32)
    mask = generator.random((2, 12, 9)) < 0.9
    one, other = look_at(mu, mask, graph, 4, 3), look(mu, mask, graph, 4, 3)
    for name in ("minutes", "minutes_known", "slots", "neighbours", "neighbours_known"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("readout", ["all", "own"])
def test_blocks_embed_as_the_whole_adjacency_would(readout: str) -> None:
    """Messages within minutes and along anchors are those of one dense matrix over all nodes."""
    model, graph = sure(readout=readout), layered(6)
    mu = np.random.default_rng(2).normal(size=(1, 12, 6, 2)).astype(np.float32)
    looked = look_at(mu, np.ones((1, 12, 6), dtype=np.bool_), graph, 4, 2)
    parts = blocks(looked, graph)
    sub_x, links, known = subgraph_inputs(torch.randn(1, 12, 6, 8), parts, torch.from_numpy(parts.known))
    linked, dense_known = adjacency(looked, graph)
    h, means = sub_x.flatten(1, 2), []
    mask = torch.from_numpy(dense_known[0]).unsqueeze(-1)
    counted = mask if readout == "all" else mask * torch.tensor([1.0, 0.0, 0.0]).repeat(4).reshape(1, 12, 1)
    for layer, norm in zip(model.policy.layers, model.policy.norms, strict=True):
        h = torch.relu(norm(layer(h, torch.from_numpy(linked[0])))) * mask
        means.append((h * counted).sum(dim=1) / counted.sum(dim=1))
    joined = torch.cat(means, dim=-1)
    torch.testing.assert_close(model.policy.embed(sub_x, links, known), joined + model.policy.join(joined), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("gnn", "direction"), [("gin", "down"), ("sage", "both")])
def test_the_options_give_networks_that_act_and_learn(gnn: str, direction: str) -> None:
    """GIN as in the paper's code, neighbours in both directions as in the shipped default."""
    model = sure(gnn=gnn, direction=direction)
    model.explore(STATE, np.random.default_rng(1), 1.0, 1.0).mean.square().sum().backward()
    assert model.sampler.mu.weight.grad.abs().max() > 0
    assert torch.isfinite(model.sampler.embed.weight.grad).all()


def test_descendants_are_the_neighbours_of_the_paper() -> None:
    """Within three hops downwards, nearest first; a leaf has none, and then its subgraph is its own minutes."""
    graph = neighbourhood(graph_of({"a": (), "b": ("a",), "c": ("b",), "d": ("c",), "e": ("d",)}), "down")
    table = graph.neighbours
    assert table.index[0][table.known[0]].tolist() == [1, 2, 3]
    assert not table.known[4].any()
    parts = blocks(look_at(np.zeros((1, 6, 5, 2), np.float32), np.ones((1, 6, 5), np.bool_), graph, 3, 2), graph)
    assert parts.known[0, 4].tolist() == [[1.0, 0.0, 0.0]] * 3


def test_a_uniform_sampler_draws_by_its_seed_and_not_by_what_it_sees() -> None:
    """w/o NVSS: other features, same nodes; another seed, other nodes."""
    model = sure("w/o NVSS")
    mean = model.mean_action(STATE, [1, 2])
    torch.testing.assert_close(model.mean_action(STATE, [1, 2]), mean)
    assert not torch.allclose(model.mean_action(STATE, [3, 4]), mean)
