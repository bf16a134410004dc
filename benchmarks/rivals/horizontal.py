"""What Kubernetes' HorizontalPodAutoscaler does with one workload, with the defaults of `autoscaling/v2`.

Written after https://kubernetes.io/docs/concepts/workloads/autoscaling/horizontal-pod-autoscale and the controller's
`replica_calculator.go` and `horizontal.go`. Pure: the time is an argument, in seconds of the rival's own clock.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

SYNC_S: Final = 15.0
"""The controller's ``--horizontal-pod-autoscaler-sync-period``."""
TOLERANCE: Final = 0.1
"""Its ``--horizontal-pod-autoscaler-tolerance``: a ratio of metric to target within 1 ± 0.1 changes nothing."""
DOWN_WINDOW_S: Final = 300.0
"""``behavior.scaleDown.stabilizationWindowSeconds``: the largest proposal of five minutes counts. None upward."""
UP_PODS, UP_PERCENT, UP_PERIOD_S = 4, 100, 15.0
"""``behavior.scaleUp.policies``: four pods or a doubling in 15 seconds, whichever is more. Downward all may go at once."""
CPU_TARGET_PERCENT: Final = 80
"""Of the CPU that a pod requests: what ``autoscaling/v2`` takes where no metric is given."""


def replicas_by_average_value(total: float, target: float, replicas: int) -> int:
    """Return the replicas for an external metric with an ``AverageValue``: the form in which KEDA gives lag to Kubernetes."""
    if abs(total / (target * replicas) - 1.0) <= TOLERANCE:
        return replicas
    return math.ceil(total / target)


def replicas_by_cpu(usages: Sequence[float], unready: int, request: float, replicas: int) -> int:
    """Return the replicas for a target utilisation of CPU.

    Args:
        usages: cores that each pod with a usable measurement uses.
        unready: pods that run and have none yet. They count as using nothing if more seem to be needed, and not at all otherwise.
        request: cores that each pod requests.
        replicas: asked for now.
    """
    if not usages:
        return replicas
    ratio = _utilisation_ratio(usages, request)
    if not unready or ratio <= 1.0:
        return replicas if abs(ratio - 1.0) <= TOLERANCE else math.ceil(ratio * len(usages))
    with_unready = [*usages, *[0.0] * unready]
    ratio = _utilisation_ratio(with_unready, request)
    if ratio <= 1.0 + TOLERANCE:  # the new pods suffice, or turn the direction: then nothing changes
        return replicas
    return max(replicas, math.ceil(ratio * len(with_unready)))


def _utilisation_ratio(usages: Sequence[float], request: float) -> float:
    return math.floor(100 * sum(usages) / (request * len(usages))) / CPU_TARGET_PERCENT  # whole per cents, as there


@dataclass(slots=True)
class Autoscaler:
    """One workload: what becomes of the proposals for it, one after another."""

    replicas_max: int
    _proposals: deque[tuple[float, int]] = field(default_factory=deque)
    _changes: deque[tuple[float, int]] = field(default_factory=deque)

    def decide(self, now_s: float, replicas: int, proposal: int) -> int:
        """Return how many replicas to ask for, given what is asked for now and what the metric proposes."""
        while self._proposals and self._proposals[0][0] <= now_s - DOWN_WINDOW_S:
            self._proposals.popleft()
        self._proposals.append((now_s, proposal))
        highest = max(each for _, each in self._proposals)
        stabilised = proposal if proposal > replicas else min(replicas, highest)
        bounded = max(1, min(stabilised, self.replicas_max, self._up_limit(now_s, replicas)))
        if bounded != replicas:
            self._changes.append((now_s, bounded - replicas))
        return bounded

    def _up_limit(self, now_s: float, replicas: int) -> int:
        """Return the replicas up to which the rate of scaling up allows to go now."""
        while self._changes and self._changes[0][0] <= now_s - UP_PERIOD_S:
            self._changes.popleft()
        at_start = replicas - sum(change for _, change in self._changes)
        return max(replicas, at_start + UP_PODS, math.ceil(at_start * (1 + UP_PERCENT / 100)))
