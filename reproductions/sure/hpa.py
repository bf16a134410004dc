"""The heuristic of table 1: HPA with a target chosen per job on week 1, as the paper's experts would. Works without torch."""

from dataclasses import dataclass

import numpy as np

from reproductions.sure.environment import View, follow, offsets
from surescale.policies.graph import Int64
from surescale.policies.rules.hpa import HorizontalPodAutoscaler
from surescale.policies.rules.reading import read_figures
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.load.workload import Workload
from surescale.simulation.loops.rows import Terms

TARGETS = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@dataclass(frozen=True, slots=True)
class Hpa:
    """The rule ``hpa`` on the mean of the whole window, at most doubling, within bounds and limit."""

    target: float

    def sizes(self, view: View) -> Int64:
        """Return wanted parallelism [B, N]."""
        seen = view.observed
        reading = read_figures(seen.figures, view.graph, seen.current, seen.hourly_load, seen.ends_ms)
        wanted = HorizontalPodAutoscaler(target=self.target, metric_minutes=seen.figures.shape[-3]).wanted(reading)
        return view.job.within_limits(np.minimum(wanted, 2 * seen.current))


def tuned(job: SizedJob, week_1: Workload, terms: Terms, runs: int, decisions: int) -> Hpa:
    """Return the rule with the best target on week 1."""
    rewards = {
        target: float(follow(Hpa(target), job, week_1, offsets(runs), terms, decisions).reward.mean()) for target in TARGETS
    }
    return Hpa(max(rewards, key=rewards.__getitem__))
