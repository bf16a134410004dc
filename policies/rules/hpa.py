"""The rule ``hpa``: the horizontal pod autoscaler of Kubernetes, one per task.

p' = ceil(p x metric / target), metric = mean utilisation of the task's subtasks. Nothing changes while metric / target is
within 1 +- tolerance. The five-minute stabilisation of scale-downs has no effect at spans of ten minutes.
"""

from dataclasses import dataclass

import numpy as np

from surescale.policies.graph import Int64
from surescale.policies.rules.reading import Reading, RuleWithoutModel


@dataclass(frozen=True, slots=True)
class HorizontalPodAutoscaler(RuleWithoutModel):
    """As Kubernetes' HorizontalPodAutoscaler, one per task, on utilisation.

    Defaults: target 0.7, Kubernetes' tolerance of 0.1, the mean of the last ten minutes as the metric.
    """

    target: float = 0.7
    tolerance: float = 0.1
    metric_minutes: int = 10
    name: str = "hpa"

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        ratio = np.where(reading.graph.scalable, reading.utilisation(self.metric_minutes), np.nan) / reading.aim(self.target)
        exact = ratio * reading.current
        within = np.abs(exact / reading.carried - 1.0) <= self.tolerance
        return np.where(within, reading.current, reading.whole(reading.measured.divided(exact)))

    def sentence(self, reading: Reading) -> str:
        """Return the target."""
        return f"Tasks should be {reading.aim(self.target):.0%} busy, judged by the last {self.metric_minutes} minutes."
