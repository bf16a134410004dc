"""What a trained network gains over its plan alone where it was neither trained nor chosen.

On graphs that training and validation never see, in the week after the part of each load that they may see, and in other draws
of each world. Both live through the same minutes, so a difference is the network's doing. Errors are clustered by half-days of a
load and by job (``simulation.evaluation.clustered``).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from model_export.plan_loops import Ground
from model_export.rollout import hours_of_loops
from model_export.train import WEEK_MINUTES, Run
from simulation.evaluation.clustered import Pair, difference
from simulation.load.jobs import load_job
from simulation.load.workload import load_workload
from simulation.model.worlds import world_named

JOBS = ("j_756953", "j_242616", "j_2521346", "j_1351665")
LOADS = ("clarknet", "nasa", "twitter")
LOAD_PARALLELISM = 5.0
FIRST_DRAW = 7_000
STARTS = 120 + np.arange(5) * 33 * 60  # minutes of the week at which loops begin
DECISIONS = 60


@dataclass(frozen=True, slots=True)
class Gain:
    """Mean reward of the network less that of its plan alone, its standard error, and in how many cells the network was ahead."""

    mean: float
    standard_error: float
    ahead: int
    cells: int

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> "Gain":
        """Return the gain over cells, network first."""
        found = difference(pairs)
        ahead = sum(pair.first.reward > pair.second.reward for pair in pairs)
        return cls(found.mean, found.standard_error, ahead, len(pairs))


def gains(run: Run, tell: Callable[[str, Gain], object]) -> None:
    """Tell the gain of a run's best network in each world of its training, then over all of them as ``all``."""
    run.network.load_state_dict(run.best_state)
    every: list[Pair] = []
    for world in run.settings.worlds:
        pairs = [_pair(run, world, load, job, FIRST_DRAW + at) for load in LOADS for at, job in enumerate(unseen_jobs(run))]
        tell(world, Gain.of(pairs))
        every.extend(pairs)
    if len(run.settings.worlds) > 1:
        tell("all", Gain.of(every))


def unseen_jobs(run: Run) -> tuple[str, ...]:
    """Return those of ``JOBS`` that took no part in the training."""
    seen = {*run.settings.jobs, *run.settings.validation_jobs}
    return tuple(job for job in JOBS if job not in seen)


def _pair(run: Run, world: str, load: str, job: str, draw: int) -> Pair:
    """Return the hours with the network and those of the plan alone, in one cell."""
    whole = load_workload(load)
    end = max(WEEK_MINUTES, whole.minutes // 3 // 60 * 60)
    sized = load_job(job, whole, LOAD_PARALLELISM, minutes=(0, end))
    ground = Ground.of(run.base, sized, whole, world_named(world, seed=draw))
    with_network, alone = (hours_of_loops(each, ground, end + STARTS, DECISIONS) for each in (run.network, None))
    return Pair(load, job, with_network, alone)
