"""The clairvoyant ends of the scale."""

import numpy as np
import pytest

from surescale.policies.registry import load_policy
from surescale.policies.rules.fixed import Static
from surescale.simulation.evaluation.clairvoyant import SETTINGS, Foresight, clairvoyant_hours, follow_oracle
from surescale.simulation.evaluation.closed_loop import follow
from surescale.simulation.evaluation.hours import Hours
from surescale.simulation.evaluation.judge import EvaluationRequest, setting_of
from surescale.simulation.evaluation.static import best_static
from tests.unit.simulation.cases import chain, workload
from tests.unit.simulation.evaluation.cases import quiet, setting, wave


def means(hours: Hours) -> np.ndarray:
    """Return the mean reward of each run."""
    return np.array([hours.run(run).mean(hours.run(run).rewards) for run in range(len(hours.first))])


@pytest.mark.parametrize("mode", ["clean", "slo"])
def test_the_oracle_loses_to_nobody(mode: str) -> None:
    """Run by run at least hold, both static vectors and every clairvoyant rule; and it beats DS2 as shipped."""
    here = setting(wave(1.2), mode=mode, runs=2)
    static = best_static(here.ground).sizes
    oracle = means(follow_oracle(here.trial, static, quiet).hours)
    names = zip(here.job.graph.tasks, static.tolist(), strict=True)
    constant = (load_policy("hold"), Static(sizes=tuple(names)), Static())
    fixed = [follow(policy, here.trial, quiet).hours for policy in constant]
    for rival in (*fixed, *clairvoyant_hours(here.trial, SETTINGS, quiet)):
        assert (oracle >= means(rival) - 1e-12).all()
    assert (oracle > means(follow(load_policy("ds2"), here.trial, quiet).hours)).all()


def test_the_oracle_does_not_lose_to_what_the_author_configured() -> None:
    """Peaks beyond what ten subtasks serve, where two hours ahead are too short to see; the chosen vector is a bad one."""
    swinging = workload((50 * (1 + 0.9 * np.sin(np.arange(660) / 100))).astype(int).tolist())
    asked = EvaluationRequest(mode="slo", load_parallelism=12.0, runs=1, calibrate="0:300")
    here = setting_of(chain(3.0), swinging, asked)
    least = np.ones(here.job.size, dtype=np.int64)
    configured = means(follow(Static(), here.trial, quiet).hours)
    assert (means(follow_oracle(here.trial, least, quiet).hours) >= configured - 1e-12).all()


def test_foresight_is_the_true_mean() -> None:
    """Over the next hour, over the one after it, and over what is left at the end of the file."""
    known = Foresight.of(workload(list(range(180))))
    assert known.mean(np.array([0, 60])).tolist() == [29.5, 89.5]
    assert known.mean(np.array([0]), first=60).tolist() == [89.5]
    assert known.mean(np.array([150])).tolist() == [164.5]
