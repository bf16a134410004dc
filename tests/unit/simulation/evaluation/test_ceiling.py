"""The ceiling: no path through the family is better, and it is judged as every policy is."""

import numpy as np
import pytest

from benchmarks.archive import load_graph, load_job
from surescale.simulation.evaluation.clairvoyant import follow_ceiling
from surescale.simulation.evaluation.closed_loop import Trial, drive
from surescale.simulation.evaluation.hours import Hours, hours_of
from surescale.simulation.evaluation.judge import EvaluationError, EvaluationRequest, judge, setting_of
from surescale.simulation.evaluation.static import family
from surescale.simulation.load.workload import load_workload
from surescale.simulation.loops.rows import LoopRows
from surescale.simulation.loops.terms import Terms
from surescale.simulation.model.worlds import world_named

WORKLOAD = load_workload("clarknet")
JOB = load_job("j_2521346", WORKLOAD, 5.0)


def trial(world: str) -> Trial:
    """Return two runs of six hours."""
    played = world_named(world, seed=3)
    return Trial(JOB, WORKLOAD, Terms(world=played, restart_ms=played.restart_ms), np.array([600, 3_000]), (0, 1), 6)


def hours_along(of: Trial, path: np.ndarray) -> Hours:
    """Return the hours of both runs with one vector after another, two hours each."""
    rows = of.rows()
    begin = int(rows.minutes[0])

    def held(rows: LoopRows) -> np.ndarray:
        return np.tile(path[(int(rows.minutes[0]) - begin) // 120], (2, 1))

    spans = drive(rows, of.hours, held, lambda share: None)
    return hours_of(spans, of.terms, of.first_minutes, JOB)


@pytest.mark.parametrize("world", ["calm", "skew+drift", "starved"])
def test_no_constant_and_no_random_path_of_the_family_is_better(world: str) -> None:
    """Each of the family held all the time, and twenty paths that change every two hours."""
    of = trial(world).every_minutes(10)
    best = follow_ceiling(of, lambda share: None).hours
    vectors, generator = family(JOB), np.random.default_rng(1)
    paths = [np.repeat(vector[None], 3, axis=0) for vector in vectors[::3]]
    paths += [vectors[generator.integers(len(vectors), size=3)] for _ in range(20)]
    rewards = [[run.reward for run in (held.run(0), held.run(1))] for held in (hours_along(of, path) for path in paths)]
    assert (np.max(rewards, axis=0) <= np.array([best.run(0).reward, best.run(1).reward]) + 1e-3).all()


def test_the_ceiling_is_known_where_records_flow() -> None:
    """In batches single tasks matter, so a family says nothing."""
    setting = setting_of(load_graph("j_2521346"), WORKLOAD, EvaluationRequest(world="slo", runs=1))
    with pytest.raises(EvaluationError, match="take oracle"):
        judge("ceiling", setting, lambda stage, share: None)
