"""How often the shipped default restarts a job whose load is steady, steps or surges: closed loops through the serving code."""

import numpy as np
import pytest

from benchmarks.archive import load_job
from surescale.policies.policy import Policy
from surescale.policies.registry import load_policy
from surescale.simulation.evaluation.closed_loop import Trial, follow
from surescale.simulation.evaluation.hours import Hours
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.terms import Terms

BEFORE_HOURS = 26  # of history
JOINS, CHAIN = "j_103736", "j_4654"  # graphs on which the policy was chosen, of 20 and 6 tasks


@pytest.fixture(scope="module")
def sure() -> Policy:
    """Return the shipped default."""
    return load_policy("sure")


def counts(*levels: tuple[float, int]) -> Workload:
    """Return Poisson counts at given records a minute for given hours, one level after another."""
    means = np.concatenate([np.full(60 * hours, float(level)) for level, hours in levels])
    return Workload("generated", np.random.default_rng(1).poisson(means).astype(np.int64), 0)


def followed(sure: Policy, load: Workload, job: SizedJob, hours: int) -> Hours:
    """Follow a load from the hour before the end of its history on."""
    first = np.array([60 * (BEFORE_HOURS - 1)])
    return follow(sure, Trial(job, load, Terms(), first, (0,), hours), lambda _: None).hours


def steps(sure: Policy, before: float, after: float) -> int:
    """Return the rescales after a step in a job that has settled by then."""
    load = counts((before, BEFORE_HOURS + 3), (after, 6))
    return int(followed(sure, load, load_job(CHAIN, counts((max(before, after), 24))), 10).rescales[0, 4:].sum())


@pytest.mark.parametrize("level", [60, 150, 300])
def test_a_steady_load_is_settled_within_the_first_hours_and_left_alone_then(sure: Policy, level: int) -> None:
    """From a wrong start: at most three rescales within the first hour, none in the nine after that, and no size too wide."""
    load = counts((level, BEFORE_HOURS + 9))
    hours = followed(sure, load, load_job(JOINS, load), 10)
    assert hours.rescales[0, 0] <= 3
    assert hours.rescales[0, 1:].sum() == 0
    assert hours.utilisation[0, 1:].min() > 0.6


@pytest.mark.parametrize(("before", "after", "most"), [(100, 200, 2), (150, 200, 2), (400, 100, 2), (100, 400, 3)])
def test_a_step_is_followed_in_few_rescales(sure: Policy, before: float, after: float, most: int) -> None:
    """Overload lifts the limit of a step: four times the load takes two, and one down once the queue is worked off."""
    assert 1 <= steps(sure, before, after) <= most


def test_surges_of_the_day_before_keep_a_calm_hour_wide(sure: Policy) -> None:
    """Five minutes of four times the load every other hour: nothing is given up for the calm hours in between."""
    load = counts((100, BEFORE_HOURS + 12))
    surging = load.requests.copy()
    for hour in range(1, BEFORE_HOURS + 12, 2):
        surging[60 * hour + 25 : 60 * hour + 30] *= 4
    load = Workload("surging", surging, 0)
    hours = followed(sure, load, load_job(CHAIN, load), 12)
    assert hours.latency[0, 2:].max() < 0.6
    assert hours.rescales[0, 2:].sum() <= 2
