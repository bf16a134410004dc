"""ASTGCN-PRED and CCRNN-PRED: what they learn from, what they answer, where they stand among the tables' items."""

from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="training needs torch: make install-train")

from benchmarks.archive import load_job  # noqa: E402
from reproductions.sure.campaign import Item, tables  # noqa: E402
from reproductions.sure.environment import terms_of, week  # noqa: E402
from reproductions.sure.forecast_rule import tuned  # noqa: E402
from reproductions.sure.forecasters import (  # noqa: E402
    HOURS,
    LOG_CHANGE_MAX,
    Examples,
    Forecaster,
    ForecastSettings,
    error_of,
    examples,
    forecast,
    network_of,
    step,
    trained,
)
from reproductions.sure.layers import Method, State  # noqa: E402
from reproductions.sure.methods import LEARNED  # noqa: E402
from reproductions.sure.zscores import PEERS  # noqa: E402
from surescale.policies.features import Encoded  # noqa: E402
from surescale.simulation.load.workload import load_workload  # noqa: E402
from tests.unit.reproductions.sure.cases import CHAIN, STATISTICS, graph_of, layered, padded, states  # noqa: E402

CLARKNET = load_workload("clarknet")
JOB = load_job("j_2521346", CLARKNET)
SMALL = ForecastSettings(rows=8, decisions=21, epochs_max=1, batch=32)


def untrained(method: str) -> Method:
    """Return a small network."""
    torch.manual_seed(0)
    return network_of(method, STATISTICS, 8)


def lively(method: str) -> Method:
    """Return a small network whose last layer is not near zero."""
    network = untrained(method)
    for part in network.modules():
        if isinstance(getattr(part, "out", None), torch.nn.Linear):
            torch.nn.init.orthogonal_(part.out.weight, 50.0)
    return network


def made(settings: ForecastSettings = SMALL) -> Examples:
    """Return examples of Small-1."""
    return examples(JOB, week(CLARKNET, 1), terms_of("clean"), settings, np.random.default_rng(0))


@pytest.mark.parametrize("method", PEERS)
def test_an_untrained_network_forecasts_more_of_the_same(method: str) -> None:
    """Its log changes are nearly zero; another network's are not limited by the acting head's tanh."""
    state = State.of(states(2, 5, minutes=24), layered(5))
    assert forecast(untrained(method), state).shape == (2, 5)
    assert forecast(untrained(method), state).abs().max() < 0.1
    with torch.no_grad():
        assert lively(method).mean_action(state, ()).abs().max() > 1.0
    assert forecast(lively(method), state).abs().max() <= LOG_CHANGE_MAX + 1e-6


@pytest.mark.parametrize("method", PEERS)
def test_tasks_that_do_not_exist_change_no_forecast(method: str) -> None:
    """Two padding tasks that never report do not change the others, and are forecast no change."""
    network, encoded = lively(method), states(2, 4, minutes=24)
    found = forecast(network, State.of(padded(encoded, 2), graph_of({**CHAIN, "x": (), "y": ()}))).numpy()
    np.testing.assert_allclose(found[:, :4], forecast(network, State.of(encoded, graph_of(CHAIN))).numpy(), atol=1e-5)
    assert not found[:, 4:].any()


@pytest.mark.parametrize("method", PEERS)
def test_every_weight_of_a_forecaster_can_learn(method: str) -> None:
    """All of them, except the standard deviation, since nothing is drawn."""
    network = lively(method)
    network.mean_action(State.of(states(2, 4, minutes=24), graph_of(CHAIN)), ()).square().sum().backward()
    silent = [name for name, weight in network.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert silent == ["log_std"]


def test_an_example_joins_an_hour_with_the_one_after_it() -> None:
    """At the source the change is that of the load; the first hour of the week, which would follow its last, is left out."""
    found = made()
    minutes = week(CLARKNET, 1).requests.reshape(HOURS, 60)[:, 1:].mean(axis=1)
    wanted = np.log(minutes[found.hour] / minutes[found.hour - 1])
    np.testing.assert_allclose(found.log_change[:, 0], np.clip(wanted, -LOG_CHANGE_MAX, LOG_CHANGE_MAX), atol=1e-4)
    assert found.hour.min() == 1
    assert set(found.hour.tolist()) == set(range(1, HOURS))


def test_examples_show_overload_and_ample_sizes() -> None:
    """Some tasks are busy throughout an hour, others less than a third of it."""
    busy = made().encoded.x[:, :, JOB.scalable, 6].mean(axis=1)
    assert (busy > 0.95).any()
    assert (busy < 0.33).any()


@pytest.mark.parametrize("method", PEERS)
def test_steps_make_errors_smaller(method: str) -> None:
    """On the same few examples, repeated."""
    network, found = untrained(method), made(replace(SMALL, rows=1, decisions=6))
    last = Encoded(x=found.encoded.x[:, -24:], mask=found.encoded.mask[:, -24:])  # minutes: sixty cells in a row are slow
    found = replace(found, encoded=last)
    optimiser, every = torch.optim.Adam(network.parameters(), lr=1e-2), np.arange(len(found.hour))
    before = error_of(network, found, every)
    for _ in range(8):
        step(network, optimiser, found, every, SMALL)
    assert error_of(network, found, every) < before


def quickly() -> Forecaster:
    """Return ASTGCN-PRED after one epoch."""
    return trained(untrained("ASTGCN-PRED"), JOB, week(CLARKNET, 1), terms_of("clean"), 0, SMALL)


def test_training_is_the_same_by_seed_and_keeps_no_worse_than_it_began_with() -> None:
    """Weights of two trainings are equal, and their error is not above that of the untrained network."""
    one, other = quickly(), quickly()
    for name, weight in one.network.state_dict().items():
        assert torch.equal(weight, other.network.state_dict()[name]), name
    assert one.error <= one.error_unchanged + 0.01
    assert one.updates > 0


def test_a_forecaster_sizes_a_job() -> None:
    """Its target is one of HPA's, and it reports the reward it reached."""
    rule, paid = tuned(quickly(), JOB, week(CLARKNET, 1), terms_of("clean"), 2, 4)
    assert 0.3 <= rule.target <= 0.9
    assert -5.0 < paid < 0.5


def test_hpa_and_the_peers_are_made_once_and_the_learned_with_every_seed() -> None:
    """Every pass completes one seed of each job; methods without reinforcement learning run only in the first."""
    first, second = (list(islice(tables(("clean",), 2, ("j_2521346",)), *part)) for part in ((0, 11), (11, None)))
    assert [item.method for item in first] == ["HPA", *PEERS, *LEARNED]
    assert [item.method for item in second] == list(LEARNED)
    assert [item.seed for item in (*first, *second)] == [0] * 11 + [1] * 8
    assert Item("CCRNN-PRED", "j_2521346", "clean", 0).folder(Path("out")).parts[-2] == "ccrnn-pred"


def test_an_unknown_forecaster_is_refused() -> None:
    """The acting form of a network is not a forecaster."""
    with pytest.raises(KeyError, match="ASTGCN"):
        network_of("ASTGCN", STATISTICS, 8)
