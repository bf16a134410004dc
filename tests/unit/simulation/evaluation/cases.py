"""A small setting: a chain of three tasks under three days of a daily wave with noise, cheap enough to evaluate in a second."""

from functools import cache

import numpy as np

from surescale.simulation.evaluation.judge import EvaluationRequest, Setting, setting_of
from surescale.simulation.load.graphs import JobGraph
from surescale.simulation.load.workload import Workload
from tests.unit.simulation import cases

DAY = 1440


@cache
def wave(days: float = 3, seed: int = 0) -> Workload:
    """Return a load between about 50 and 250 requests a minute, highest at noon."""
    minutes = np.arange(int(days * DAY))
    mean = 150 - 90 * np.cos(2 * np.pi * minutes / DAY)
    drawn = np.random.default_rng(seed).poisson(mean)
    return Workload("wave", drawn.astype(np.int64), 0)


def small() -> JobGraph:
    """Return a chain of three tasks, one of them much lighter."""
    return cases.chain(3.0, 2.0, 0.5)


def setting(workload: Workload | None = None, **asked: object) -> Setting:
    """Return a setting of two runs."""
    return setting_of(small(), workload or wave(), EvaluationRequest(**({"runs": 2} | asked)))  # type: ignore[arg-type]


def quiet(*news: object) -> None:
    """Hear progress and say nothing."""
