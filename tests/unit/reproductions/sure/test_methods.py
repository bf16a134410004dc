"""Properties of every network of the paper: shapes, padding, order of tasks, and what is particular to each."""

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from reproductions.sure.astgcn import chebyshev  # noqa: E402
from reproductions.sure.ccrnn import Ccrnn  # noqa: E402
from reproductions.sure.draws import draw  # noqa: E402
from reproductions.sure.layers import Method, State  # noqa: E402
from reproductions.sure.methods import LEARNED, ablated, build  # noqa: E402
from reproductions.sure.sure import SureOptions  # noqa: E402
from surescale.policies.features import Encoded  # noqa: E402
from surescale.policies.graph import JobGraph  # noqa: E402
from tests.unit.reproductions.sure.cases import CHAIN, STATISTICS, graph_of, layered, padded, states  # noqa: E402

RIVALS = ("DeepWeave", "DREAM", "TVW-RL", "ASTGCN", "CCRNN")


def lively(method: str) -> Method:
    """Return a network whose actions are not nearly zero."""
    torch.manual_seed(0)
    model = build(method, STATISTICS, 8, SureOptions(anchors=4))
    for part in model.modules():
        if isinstance(getattr(part, "out", None), torch.nn.Linear):
            torch.nn.init.orthogonal_(part.out.weight)
    return model.eval()


def act(model: Method, encoded: Encoded, graph: JobGraph) -> np.ndarray:
    """Return the mean actions."""
    with torch.no_grad():
        return model.mean_action(State.of(encoded, graph), list(range(len(encoded.x)))).numpy()


@pytest.mark.parametrize("method", LEARNED)
@pytest.mark.parametrize("tasks", [3, 7])
def test_every_method_gives_an_action_between_minus_one_and_one_per_task(method: str, tasks: int) -> None:
    """Whatever the number of tasks: one set of weights."""
    action = act(lively(method), states(2, tasks, minutes=24), layered(tasks))
    assert action.shape == (2, tasks)
    assert (np.abs(action) < 1).all()
    assert np.abs(action).max() > 1e-3


@pytest.mark.parametrize("method", [name for name in LEARNED if name != "w/o NVSS"])
def test_tasks_that_do_not_exist_change_nothing(method: str) -> None:
    """Two padding tasks that never report do not change any action."""
    model, encoded = lively(method), states(2, 4, minutes=24)
    wider = graph_of({**CHAIN, "x": (), "y": ()})
    action = act(model, padded(encoded, 2), wider)[:, :4]
    np.testing.assert_allclose(action, act(model, encoded, graph_of(CHAIN)), atol=1e-6)


@pytest.mark.parametrize("method", [name for name in LEARNED if name != "w/o NVSS"])
def test_another_order_of_the_same_tasks_gives_the_same_actions(method: str) -> None:
    """Tasks have no numbers, only places in the graph."""
    model, encoded, order = lively(method), states(2, 4, minutes=24), [2, 0, 3, 1]
    names = list(CHAIN)
    shuffled = graph_of({names[at]: CHAIN[names[at]] for at in order})
    moved = Encoded(x=encoded.x[:, :, order], mask=encoded.mask[:, :, order])
    np.testing.assert_allclose(act(model, moved, shuffled), act(model, encoded, graph_of(CHAIN))[:, order], atol=1e-5)


@pytest.mark.parametrize("method", RIVALS)
def test_every_weight_of_a_rival_can_learn(method: str) -> None:
    """The gradient of the actions reaches every parameter except the standard deviation."""
    model = lively(method)
    model.explore(State.of(states(2, 4, minutes=24), graph_of(CHAIN)), None, 1.0, 0.0).mean.square().sum().backward()
    silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert silent == ["log_std"]


def test_tvw_rl_acts_once_for_the_whole_job() -> None:
    """All tasks get the same action, and exploring draws one number for all of them."""
    action = act(lively("TVW-RL"), states(3, 5, minutes=24), layered(5))
    assert (action == action[:, :1]).all()
    assert len(set(action[:, 0].tolist())) == 3
    assert lively("TVW-RL").joint
    drawn = draw(4, 3, np.ones(5, dtype=np.bool_), True, np.random.default_rng(0))
    assert (drawn.deviations == drawn.deviations[..., :1]).all()
    assert drawn.together.all()


def test_a_deepweave_action_depends_on_descendants_and_not_on_other_branches_messages() -> None:
    """Messages go from children to parents: changing a leaf's features reaches its parent's embedding."""
    graph, encoded = graph_of({"a": (), "b": ("a",), "c": ("a",)}), states(1, 3, minutes=24)
    model = lively("DeepWeave")
    changed = encoded.x.copy()
    changed[:, :, 1] += 1.0
    for layer in model.summary:  # without the job's summary only messages are left
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.zeros_(layer.weight)
    before, after = act(model, encoded, graph), act(model, replace(encoded, x=changed), graph)
    assert before[0, 0] != after[0, 0]
    assert before[0, 2] == after[0, 2]


def test_dream_tells_each_task_what_the_one_before_it_got() -> None:
    """Changing the previous action changes the decoder's answer."""
    model = lively("DREAM")
    nodes, there, task, state = torch.randn(1, 3, 8), torch.ones(1, 3), torch.randn(1, 8), torch.randn(1, 8)
    one, other = (model.decoder(nodes, there, task, torch.tensor([[last]]), state)[0] for last in (-0.5, 0.5))
    assert not torch.equal(one, other)


def test_chebyshev_polynomials_obey_their_recursion() -> None:
    """T_2 = 2 L~ T_1 - T_0, with L~'s eigenvalues in [-1, 1]."""
    down = torch.tensor([[0.0, 1, 1], [0, 0, 1], [0, 0, 0]])
    first, second, third = chebyshev(down)
    torch.testing.assert_close(third, 2 * second @ second - first)
    assert torch.linalg.eigvalsh(second).abs().max() <= 1.0 + 1e-6


def test_ccrnn_couples_its_graphs_from_layer_to_layer() -> None:
    """Rows are shares; the second layer's graph follows from the first one's embeddings, not from the job's edges."""
    model = lively("CCRNN")
    assert isinstance(model, Ccrnn)
    down = State.of(states(1, 4, minutes=24), graph_of(CHAIN)).down
    features, there = torch.randn(1, 4, 27), torch.ones(1, 4)
    graphs = model.prepare.graphs(features, there, down)
    torch.testing.assert_close(graphs[:, 1].sum(dim=-1), torch.ones(1, 4))
    unlinked = model.prepare.graphs(features, there, torch.zeros_like(down))
    assert not torch.equal(graphs[:, 0], unlinked[:, 0])
    torch.testing.assert_close(graphs[:, 1], unlinked[:, 1])


def test_the_ablations_take_away_what_they_are_named_after_and_nothing_else() -> None:
    """w/o MI: only the information term's weight; w/o NVSS: only the sampler."""
    whole, without_mi, without_nvss = (ablated(name, SureOptions()) for name in ("SURE", "w/o MI", "w/o NVSS"))
    assert replace(without_mi, weights=whole.weights) == whole
    assert replace(without_mi.weights, information=whole.weights.information) == whole.weights
    assert replace(without_nvss, uniform=False) == whole
    assert without_nvss.uniform


def test_an_unknown_method_is_refused() -> None:
    """The error names it."""
    with pytest.raises(KeyError, match="Tarot"):
        build("Tarot", STATISTICS, 8)
