"""What the network's two outputs mean: a correction of each task's service time, and how easily a restart is worth it.

An untrained network answers zeros, and then the decision is the plan's alone (``policies.planning``). Training and serving
call this same code.
"""

import msgspec
import numpy as np

from policies.choices import Limits, Planning
from policies.forecast import Forecast
from policies.graph import Int64, JobGraph
from policies.measure import Measured
from policies.outlook import Expected, Outlook
from policies.planning import Planned, plan
from policies.proposal import Float64
from policies.sizing import Sizing

RESIDUAL_MAX = 0.7  # service times are taken exp(-0.7) to exp(0.7) times as long as measured
OWN_SHARE = 0.3  # weight of a task's deviation from its job's mean: the bottleneck decides, so the margin is the job's


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """What lies under the network: outlook and plan; and the constants of the rule ``forecast``, fitted on the same load."""

    forecast: Forecast
    sizing: Sizing
    outlook: Outlook
    planning: Planning


def mixed(own: Float64, graph: JobGraph) -> Float64:
    """Return the job's mean over scalable tasks plus 0.3 x each task's deviation from it, [.., N]."""
    mean = job_mean(own, graph)[..., None]
    return mean + OWN_SHARE * (own - mean)


def job_mean(values: Float64, graph: JobGraph) -> Float64:
    """Return the mean over scalable tasks of values [.., N]."""
    mean: Float64 = np.where(graph.scalable, values, 0.0).sum(axis=-1) / max(1, int(graph.scalable.sum()))
    return mean


def learned_plan(
    base: Base,
    expected: Expected,
    measured: Measured,
    current: Int64,
    graph: JobGraph,
    limits: Limits,
    restarts: Int64,
    residual: Float64,
    ease: Float64,
) -> Planned:
    """Plan for B jobs with mixed residuals [B, N] and ease [B], both before their tanh."""
    return plan(
        base.planning,
        expected,
        measured,
        current,
        graph,
        limits,
        restarts,
        RESIDUAL_MAX * np.tanh(residual),
        ease,
    )
