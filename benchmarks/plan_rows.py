"""Places of benchmarks of the plan: a world, a load, a job and a draw, where loops of the shipped plan run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from surescale.contracts.job_settings import Objective

if TYPE_CHECKING:
    from benchmarks.plan_loops import Ground


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
        from benchmarks.archive import load_job, load_workload
        from benchmarks.plan_loops import Ground
        from surescale.policies.registry import load_policy
        from surescale.policies.sure.policy import SurePolicy
        from surescale.simulation.model.worlds import world_named

        shipped = load_policy("sure")
        assert isinstance(shipped, SurePolicy)
        load = load_workload(self.load)
        job = load_job(self.job, load, self.load_parallelism, minutes=(0, self.end))
        return Ground.of(shipped.card.base, job, load, world_named(self.world, seed=self.draw), self.objective)
