"""The guardrails of ``policies.guardrails`` for many rows at once: maximum step, bounds, total limit; no load floor."""

import numpy as np

from policies.graph import Int64
from simulation.jobs import SizedJob
from simulation.loop import within_limits

STEP_RATIO_MAX = 2


def limited(wanted: Int64, current: Int64, job: SizedJob) -> Int64:
    """Return what ``decide`` would make of wanted parallelism [.., N], twice the current one at most, without a load floor."""
    most = np.maximum(current + 1, STEP_RATIO_MAX * current)
    least = np.minimum(current - 1, -(-current // STEP_RATIO_MAX))
    inside = np.clip(wanted, least, most)
    return within_limits(inside.reshape(-1, job.size), job).reshape(inside.shape)
