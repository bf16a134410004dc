"""The benchmark of margins: branches of one state, learners that choose among them, and where both are judged."""

from collections.abc import Callable

import numpy as np
import pytest

from benchmarks.branch_values import APART, AXES, CANDIDATES, FEATURES, FOLLOW, HOLD, branched
from benchmarks.margin import TRAINING, VALIDATION, judged, places
from benchmarks.margin_fit import LEARNERS, States, best_constant, foreseen, learned, mean_gain
from benchmarks.plan_rows import Place
from benchmarks.worlds import JOBS, WORLDS
from surescale.model_export.plan_loops import given_in, planned_in, starting_parallelism

PLACE = Place("drift", "clarknet", "j_4654", 3, "cost", 3_000, 8_000, 5.0)
LOOPS, HOURS = 2, 2


def test_the_plans_own_branch_is_the_loop_that_goes_on() -> None:
    """Candidate 0 changes nothing, so its value is the mean reward of the loop's next decisions, bit for bit."""
    found = branched(PLACE, LOOPS, HOURS)
    assert found.values.shape == (LOOPS, len(CANDIDATES))
    assert found.features.shape == (LOOPS, len(FEATURES))
    assert np.isfinite(found.features).all()
    ground = PLACE.ground()
    generator = np.random.default_rng([PLACE.draw, PLACE.first, len(PLACE.job)])
    first = np.sort(generator.integers(PLACE.first, PLACE.end - 60 * HOURS - 10 * FOLLOW, size=LOOPS))
    rows = ground.rows(first, starting_parallelism(ground.job, ground.load, first, generator), 1)
    rewards = []
    for _ in range(APART - 1 + FOLLOW):
        wanted = planned_in(ground.planning, given_in(ground.base, rows.observe(), rows))[1]
        rewards.append(rows.reward(rows.step(wanted)))
    assert np.array_equal(found.minutes, first + 10 * (APART - 1))
    np.testing.assert_allclose(found.values[:, 0], np.mean(rewards[APART - 1 :], axis=0), rtol=1e-12)
    assert (found.values[:, AXES["caution"]] != found.values[:, :1]).any(), "another margin must lead elsewhere"


def states(cells: int, gain: Callable[[np.ndarray], np.ndarray]) -> States:
    """Return 200 states a cell with three features; ``gain`` gives the candidates' gains over the plan."""
    features = np.random.default_rng(cells).standard_normal((200 * cells, 3))
    gains = np.concatenate([np.zeros((len(features), 1)), gain(features)], axis=1)
    return States(features, gains, np.repeat(np.arange(cells), 200), np.repeat(np.arange(10 * cells), 20))


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_learner_finds_what_the_state_decides(learner: str) -> None:
    """Two candidates, each good where the other is bad: nearly all that hindsight gains is learned."""

    def gain(features: np.ndarray) -> np.ndarray:
        return np.stack([features[:, 0], -features[:, 0]], axis=1) + 0.1 * features[:, 1:]

    judged_on = states(3, gain)
    made = learned(learner, states(4, gain)).choice(judged_on.features)
    won = judged_on.gains[np.arange(len(made)), made].mean()
    assert won > 0.95 * judged_on.gains.max(axis=1).mean()


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_learner_without_anything_to_learn_keeps_the_plan(learner: str) -> None:
    """Where every other margin is worse and the rest is noise, hindsight gains and the learner loses nothing."""
    noise = np.random.default_rng(5)

    def gain(features: np.ndarray) -> np.ndarray:
        return noise.normal(-0.2, 1.0, (len(features), 2))

    judged_on = states(3, gain)
    made = learned(learner, states(4, gain)).choice(judged_on.features)
    assert judged_on.gains.max(axis=1).mean() > 0.3
    assert (made == 0).mean() > 0.9


def test_what_is_foreseen_is_what_the_figures_tell() -> None:
    """A gain that follows a feature is foreseen in other states, noise is not, and the plan's own gain is none."""
    noise = np.random.default_rng(7)

    def gain(features: np.ndarray) -> np.ndarray:
        return np.stack([features[:, 1], noise.normal(size=len(features))], axis=1)

    plan, told, untold = foreseen(states(4, gain), states(3, gain))
    assert (plan, told) == (0.0, pytest.approx(1.0, abs=0.01))
    assert abs(untold) < 0.15


def test_an_error_is_one_over_half_days() -> None:
    """Twenty states of one half-day say as much as one: repeating them leaves the error as it is."""
    gains, block = np.array([0.1, 0.3, -0.2, 0.4]), np.arange(4)
    once, many = mean_gain(gains, block), mean_gain(np.repeat(gains, 20), np.repeat(block, 20))
    assert once == pytest.approx(many)
    assert once[1] == pytest.approx(np.std(gains, ddof=1) / 2.0)
    assert np.isnan(mean_gain(gains, np.zeros(4, dtype=np.int64))[1])


def test_the_plan_is_among_the_constants() -> None:
    """If every candidate loses, the best constant is the plan as it is."""
    assert best_constant(states(2, lambda features: np.full((len(features), 2), -0.1)), (1, 2)) == 0
    assert best_constant(states(2, lambda features: np.tile([-0.1, 0.1], (len(features), 1))), (1, 2)) == 2


def test_training_validation_and_judged_graphs_are_apart() -> None:
    """Weeks and draws differ as well."""
    assert not set(TRAINING) & set(VALIDATION)
    assert not {*TRAINING, *VALIDATION} & set(JOBS)
    found = list(places(WORLDS, 2))
    trained = {place for is_training, place in found if is_training}
    checked = {place for is_training, place in found if not is_training}
    for part in (trained, checked):
        assert {(place.world, place.load) for place in part} == {
            (world, load) for world in WORLDS for load in ("clarknet", "nasa")
        }
    assert not {place.draw for place in trained} & {place.draw for place in checked}
    ends = {place.load: place.end for place in trained}
    assert all(place.first >= ends[place.load] for place in checked)


def test_the_table_compares_with_the_plan_in_each_world_and_in_all() -> None:
    """What is best in training is applied to validation, also if it loses there; hindsight never loses."""
    from benchmarks.branch_values import Branched

    generator = np.random.default_rng(1)

    def found(world: str, better: int, is_better: bool) -> tuple[Place, Branched]:
        values = generator.normal(0.0, 0.001, (30, len(CANDIDATES)))
        values[:, better] += (0.1 if is_better else -0.1) * HOLD / FOLLOW
        features = generator.standard_normal((30, len(FEATURES)))
        return Place(world, "clarknet", "j", 1, "balanced", 0, 1, 5.0), Branched(features, values, np.arange(30) * 600)

    training = [found("calm", 2, True), found("drift", 3, True)]
    rows = judged(training, [found("calm", 2, False), found("drift", 3, True)])["worlds"]
    assert rows["calm"]["constants"]["any"]["candidate"] == CANDIDATES[2]
    assert rows["calm"]["constants"]["any"]["gain"] == pytest.approx(-0.1, abs=0.01)
    assert rows["drift"]["constants"]["spread"]["gain"] == pytest.approx(0.1, abs=0.01)
    assert rows["all"]["states"] == 60
    assert all(row["hindsight"]["gain"] >= 0.0 for row in rows.values())
