"""The rule ``hpa``: the horizontal pod autoscaler of Kubernetes, one per task.

p' = ceil(p x metric / target), metric = mean utilisation of the task's subtasks; nothing changes while metric / target lies
within 1 +- tolerance. The five-minute stabilisation of scale-downs is void at spans of ten minutes.
"""

from dataclasses import dataclass

import numpy as np

from contracts.messages import JobSettings
from contracts.windows import Window
from policies.graph import Int64
from policies.policy import SPAN_MINUTES
from policies.proposal import Answer
from policies.rules.reading import Reading, answer_of


@dataclass(frozen=True, slots=True)
class HorizontalPodAutoscaler:
    """Defaults: target 0.7, Kubernetes' tolerance of 0.1, the mean of the last ten minutes as the metric."""

    target: float = 0.7
    tolerance: float = 0.1
    metric_minutes: int = 10
    name: str = "hpa"
    sha256: str = ""
    span_minutes: int = SPAN_MINUTES
    floor_applies: bool = True

    def wanted(self, reading: Reading) -> Int64:
        """Return wanted parallelism [.., N]."""
        ratio = np.where(reading.graph.scalable, reading.utilisation(self.metric_minutes), np.nan) / self.target
        within = np.abs(ratio - 1.0) <= self.tolerance
        return np.where(within, reading.current, reading.whole(ratio * reading.current))

    def sentence(self, reading: Reading) -> str:
        """Say what is aimed at."""
        return f"Tasks shall be {self.target:.0%} busy, as over the last {self.metric_minutes} minutes."

    def answer(self, window: Window, settings: JobSettings, seed: int) -> Answer:
        """Return each task's ratio of metric to target."""
        return answer_of(self, window)
