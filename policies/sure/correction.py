"""What the network's two outputs mean: a correction of each task's service time, and how readily a job restarts.

An untrained network answers zeros, and then the plan decides alone (``policies.sure.plan``). Training and serving
share this code.
"""

from dataclasses import dataclass

import numpy as np

from surescale.contracts.windows import Float32
from surescale.policies.answer import Float64
from surescale.policies.graph import JobGraph

RESIDUAL_MAX = 0.7  # service times count as exp(-0.7) to exp(0.7) times what was measured
EASE_MAX = 1.5  # the least gain is scaled by exp(-1.5) to exp(1.5)
OWN_SHARE = 0.3  # weight of a task's deviation from its job's mean: the bottleneck decides, so the margin is the job's


@dataclass(frozen=True, slots=True)
class Correction:
    """What the network changes about the plans of B jobs; zeros change nothing.

    Attributes:
        residual: float64 [B, N], before its tanh.
        ease: float64 [B], before its tanh.
    """

    residual: Float64
    ease: Float64

    @classmethod
    def of(cls, outputs: Float32 | Float64, graph: JobGraph) -> "Correction":
        """Return what outputs [B, N, 2] of the network mean, taken as float64.

        The residual is the job's mean over scalable tasks plus 0.3 x each task's deviation from it; the ease is the job's mean.
        """
        own, ease = outputs[..., 0].astype(np.float64), outputs[..., 1].astype(np.float64)
        mean = _job_mean(own, graph)[..., None]
        return cls(mean + OWN_SHARE * (own - mean), _job_mean(ease, graph))

    @classmethod
    def none(cls, jobs: int, tasks: int) -> "Correction":
        """Return the correction that leaves the plans of this many jobs alone."""
        return cls(np.zeros((jobs, tasks)), np.zeros(jobs))

    @property
    def caution(self) -> Float64:
        """Return [B, N] the factors by which service times are taken longer than measured."""
        factor: Float64 = np.exp(RESIDUAL_MAX * np.tanh(self.residual))
        return factor

    @property
    def hurdle(self) -> Float64:
        """Return [B] the factor on the gain that a change must bring."""
        factor: Float64 = np.exp(-EASE_MAX * np.tanh(self.ease))
        return factor


def _job_mean(values: Float64, graph: JobGraph) -> Float64:
    """Return the mean [B] over scalable tasks of values [B, N]."""
    mean: Float64 = np.where(graph.scalable, values, 0.0).sum(axis=-1) / max(1, int(graph.scalable.sum()))
    return mean
