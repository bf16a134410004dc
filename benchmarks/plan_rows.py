"""Places of the margin benchmarks: a world, a load, a job and a draw, where loops of the shipped plan run without a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from surescale.contracts.job_settings import Objective

if TYPE_CHECKING:
    from surescale.model_export.plan_loops import Ground
    from surescale.policies.sure.correction import Correction

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Place:
    """Where loops run: ``world`` may name its restart (``restart@300``); minutes of the load from ``first`` to ``end``."""

    world: str
    load: str
    job: str
    draw: int
    objective: Objective
    first: int
    end: int
    load_parallelism: float

    def ground(self) -> Ground:
        """Return the place made ready for the shipped plan; the job is sized by the load up to its end."""
        from benchmarks.archive import load_job
        from surescale.model_export.plan_loops import Ground
        from surescale.policies.registry import load_policy
        from surescale.policies.sure.policy import SurePolicy
        from surescale.simulation.load.workload import load_workload
        from surescale.simulation.model.worlds import world_named

        shipped = load_policy("sure")
        assert isinstance(shipped, SurePolicy)
        load = load_workload(self.load)
        job = load_job(self.job, load, self.load_parallelism, minutes=(0, self.end))
        return Ground.of(shipped.card.base, job, load, world_named(self.world, seed=self.draw), self.objective)


def correction_of(factors: Float64, tasks: int) -> Correction:
    """Return the correction that multiplies service times and the least gain by ``factors`` [B, 2]."""
    from surescale.policies.sure.correction import EASE_MAX, RESIDUAL_MAX, Correction

    residual = np.arctanh(np.log(factors[:, 0]) / RESIDUAL_MAX)
    return Correction(np.repeat(residual[:, None], tasks, axis=1), np.arctanh(-np.log(factors[:, 1]) / EASE_MAX))
