"""The paper's policy: gradients that reach the sampler, the same nodes as serving chooses, subgraphs in blocks."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from reproductions.sure.layers import State  # noqa: E402
from reproductions.sure.methods import build  # noqa: E402
from reproductions.sure.objective import Information, plackett_luce  # noqa: E402
from reproductions.sure.sure import (  # noqa: E402
    PaperSure,
    SubgraphNet,
    SureOptions,
    anchor_logits,
    choice_gradient,
    log_choice,
    subgraph_inputs,
)
from surescale.policies.features import WIDTH, Encoded  # noqa: E402
from surescale.policies.graph import JobGraph  # noqa: E402
from surescale.policies.nvss import SampledNodes  # noqa: E402
from surescale.policies.paper.models import (  # noqa: E402
    blocks,
    look_at,
    neighbourhood,
)
from tests.unit.reproductions.sure.cases import CHAIN, STATISTICS, graph_of, layered, states  # noqa: E402


def sure(method: str = "SURE", **options: Any) -> PaperSure:
    """Return a small network whose actions are not nearly zero."""
    torch.manual_seed(0)
    made = build(method, STATISTICS, 8, SureOptions(anchors=4, **options))
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
    """Within tolerance of finite differences: own nodes moved by the mean of z under softmax(theta + step) less that at theta."""
    torch.manual_seed(3)
    net = SubgraphNet(4, "own").double()
    torch.nn.init.orthogonal_(net.head.out.weight)
    z, theta = torch.randn(1, 5, 1, 4, dtype=torch.float64), torch.randn(1, 1, 5, dtype=torch.float64, requires_grad=True)
    nodes, links = z[:, [1, 3]].reshape(1, 2, 1, 4), torch.zeros(1, 2, 1, 1, dtype=torch.float64)
    known, none = torch.ones(1, 2, 1, dtype=torch.float64), torch.zeros(1, 1, 2, 0, dtype=torch.int64)
    given = nodes + choice_gradient(z, nodes, known, theta, torch.zeros(1, 1, 2, 1, dtype=torch.float64), none, 0.7)
    net(given, links, known).sum().backward()

    def mean(values: torch.Tensor) -> torch.Tensor:
        return (torch.softmax(values / 0.7, dim=-1)[0, 0, :, None] * z[0, :, 0]).sum(dim=0)

    with torch.no_grad():
        torch.testing.assert_close(given, nodes, atol=1e-12, rtol=0.0)
        for at in range(5):
            step = torch.zeros_like(theta)
            step[0, 0, at] = 1e-6
            up, down = (net(nodes + mean(theta + sign * step) - mean(theta), links, known).sum() for sign in (1, -1))
            assert float(theta.grad[0, 0, at]) == pytest.approx(float(up - down) / 2e-6, abs=1e-6)


def test_what_all_minutes_have_in_common_does_not_move_the_choice() -> None:
    """Where every minute and every neighbour has the same embedding, no choice is better than another: the gradient is zero."""
    theta, phi = torch.randn(2, 3, 6, requires_grad=True), torch.randn(2, 3, 2, 4, requires_grad=True)
    nodes, known = torch.ones(6, 2, 3, 8), torch.ones(6, 2, 3)
    slots = torch.tensor([0, 2]).expand(2, 3, 2, 2)
    moved = choice_gradient(torch.ones(2, 6, 3, 8), nodes, known, theta, phi, slots, 0.5)
    (moved * torch.randn(8)).sum().backward()
    assert theta.grad.abs().max() < 1e-5
    assert phi.grad.abs().max() < 1e-5


def test_a_neighbour_that_serves_better_than_the_one_beside_it_gains() -> None:
    """Of two neighbours at one anchor the score of the one whose embedding the loss asks for rises, and the other's falls."""
    phi = torch.zeros(1, 1, 1, 3, requires_grad=True)
    nodes = torch.tensor([[[[0.0], [2.0], [1.0]]]])
    theta, slots = torch.zeros(1, 1, 4), torch.tensor([[[[0, 2]]]])
    moved = choice_gradient(torch.zeros(1, 4, 1, 1), nodes, torch.ones(1, 1, 3), theta, phi, slots, 1.0)
    moved.sum().backward()
    assert phi.grad[0, 0, 0, 0] > 0 > phi.grad[0, 0, 0, 2]
    assert phi.grad[0, 0, 0, 1] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("seed", [1, 2])
def test_the_sampler_learns_which_minutes_matter(seed: int) -> None:
    """Asked to act by the last minutes' load alone, a network that can tell minutes apart comes to look at them."""
    torch.manual_seed(seed)
    model, generator = build("SURE", STATISTICS, 8, SureOptions(anchors=4)), np.random.default_rng(seed)
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-2)
    for at in range(150):
        x = np.zeros((16, 12, 4, WIDTH), dtype=np.float32)
        x[..., 0] = generator.standard_normal(x.shape[:3])
        x[..., 26] = np.linspace(-1.5, 1.5, 12)[:, None]
        given = State.of(Encoded(x, np.ones(x.shape[:3], dtype=np.bool_)), graph_of(CHAIN))
        passed = model.explore(given, generator, 1.0 - at / 200, 0.0)
        loss = (passed.mean - torch.from_numpy(0.5 * x[:, -4:, :, 0].mean(axis=1))).square().mean() + passed.auxiliary
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    looked = model.look(model.sampler(given.x, given.mask)[1], given, None)[0]
    assert looked.minutes.mean() > 7.5, "four evenly drawn minutes of 0 to 11 have 5.5, the last four 9.5"


def test_the_odds_of_all_ordered_draws_add_up_to_one() -> None:
    """Two of four without replacement: twelve orders; a draw with nothing left counts nothing."""
    logits = torch.tensor([0.3, -1.0, 2.0, 0.5], dtype=torch.float64)
    orders = torch.tensor(list(permutations(range(4), 2)))
    odds = plackett_luce(logits.expand(12, 4), orders, torch.ones(12, 2)).exp()
    assert float(odds.sum()) == pytest.approx(1.0, abs=1e-5)
    first = torch.softmax(logits, dim=-1)[orders[:, 0]]
    torch.testing.assert_close(plackett_luce(logits.expand(12, 4), orders, torch.tensor([[1.0, 0.0]])).exp(), first)


def test_the_odds_of_what_was_drawn_follow_the_order_of_the_draws() -> None:
    """The minutes of a task stand in order of time, and their odds are those of the order in which noise drew them."""
    model, graph = sure(estimator="score"), neighbourhood(STATE.graph, "down")
    _, mu, _ = model.sampler(STATE.x, STATE.mask)
    noise = model.draws(mu.shape, STATE, np.random.default_rng(4), 0.5)
    looked = look_at(mu.detach().numpy(), STATE.encoded.mask, graph, 4, 2, noise)
    theta, phi = anchor_logits(mu, STATE.mask, looked, graph)
    one = float(log_choice(theta, phi, looked, noise[0], 0.5)[0].detach())
    wanted = 0.0
    for task in range(4):
        scores, keys = theta[0, task].detach().double(), theta[0, task].detach().numpy() + noise[0][0, task]
        for minute in np.argsort(-keys)[:4]:
            wanted += float(torch.log_softmax(scores / 0.5, dim=-1)[minute])
            scores[minute] = -1e9
        for anchor in range(4):
            near = phi[0, task, anchor].detach().double()
            for at in range(2):
                if looked.neighbours_known[0, task, anchor, at]:
                    wanted += float(torch.log_softmax(near / 0.5, dim=-1)[looked.slots[0, task, anchor, at]])
                    near[looked.slots[0, task, anchor, at]] = -1e9
    assert one == pytest.approx(wanted, abs=1e-3)


def test_a_plain_product_of_embeddings_tells_pairs_apart_without_learning() -> None:
    """As in the paper's code: matching embeddings score above others from the first step on, and there is nothing to train."""
    information = Information(4, dot=True)
    wholes = 3.0 * torch.eye(4)[:2]
    parts = wholes.unsqueeze(1)
    known = torch.ones(2, 1)
    assert float(information(parts, wholes, known)) > float(information(parts, wholes.flip(0), known)) + 1.0
    assert not [name for name, part in information.named_parameters() if part.requires_grad]


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


def adjacency(looked: SampledNodes, graph: JobGraph) -> tuple[np.ndarray, np.ndarray]:
    """Return the links [.., N, m, m] of all nodes of each subgraph, also over time, and which are known [.., N, m]."""
    tasks = np.arange(len(graph.tasks)).reshape(-1, 1, 1)
    own = np.broadcast_to(tasks, (*looked.minutes.shape, 1))
    nodes = np.concatenate([own, looked.neighbours], axis=-1)
    there = np.concatenate([looked.minutes_known[..., None], looked.neighbours_known], axis=-1)
    k1, width = nodes.shape[-2:]
    linked = np.zeros((*nodes.shape[:-2], k1, width, k1, width), dtype=np.float32)
    edges = graph.linked[nodes[..., :, None], nodes[..., None, :]]
    for anchor in range(k1):
        linked[..., anchor, :, anchor, :] = edges[..., anchor, :, :]
    before, after = np.arange(k1 - 1), np.arange(1, k1)
    linked[..., before, 0, after, 0] = linked[..., after, 0, before, 0] = 1.0
    flat = (*nodes.shape[:-2], k1 * width)
    known = there.reshape(flat).astype(np.float32)
    return linked.reshape(*flat, k1 * width) * known[..., :, None] * known[..., None, :], known


@pytest.mark.parametrize("readout", ["all", "own"])
def test_blocks_embed_as_the_whole_adjacency_would(readout: str) -> None:
    """Messages within minutes and along anchors are those of one dense matrix over all nodes."""
    model, graph = sure(readout=readout), layered(6)
    mu = np.random.default_rng(2).normal(size=(1, 12, 6, 2)).astype(np.float32)
    looked = look_at(mu, np.ones((1, 12, 6), dtype=np.bool_), graph, 4, 2)
    parts = blocks(looked, graph)
    sub_x, links, known = subgraph_inputs(torch.randn(1, 12, 6, 8), parts)
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
