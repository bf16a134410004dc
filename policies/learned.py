"""What the network's two outputs mean: a residual on the sizes of the forecast rule, and how easily the restart gate opens.

An untrained network answers zeros, and then this *is* the forecast rule. Training and serving call this same code.
"""

from dataclasses import dataclass

import msgspec
import numpy as np

from policies.forecast import Forecast
from policies.graph import Bool, Int64, JobGraph
from policies.measure import Measured
from policies.proposal import Float64
from policies.sizing import Sizing, Wish, exact_instances, wish, worth_a_restart

RESIDUAL_MAX = 0.7  # sizes move between exp(-0.7) and exp(0.7) times the rule's
OWN_SHARE = 0.3  # weight of a task's deviation from its job's mean: the bottleneck decides, so the margin is the job's
EASE_MAX = 0.3  # thresholds of the restart gate move by at most this much


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """The rule under the network: forecast, then sizes."""

    forecast: Forecast
    sizing: Sizing


@dataclass(frozen=True, slots=True)
class LearnedWish:
    """Sizes after the residual, and whether the job changes at all: ``sizes`` [.., N], ``opened`` [..]."""

    sizes: Wish
    opened: Bool


def mixed(own: Float64, graph: JobGraph) -> Float64:
    """Return the job's mean over scalable tasks plus 0.3 x each task's deviation from it, [.., N]."""
    mean = job_mean(own, graph)[..., None]
    return mean + OWN_SHARE * (own - mean)


def job_mean(values: Float64, graph: JobGraph) -> Float64:
    """Return the mean over scalable tasks of values [.., N]."""
    mean: Float64 = np.where(graph.scalable, values, 0.0).sum(axis=-1) / max(1, int(graph.scalable.sum()))
    return mean


def learned_wish(
    base: Base, measured: Measured, load: Float64, current: Int64, graph: JobGraph, residual: Float64, ease: Float64
) -> LearnedWish:
    """Return sizes and gate from an expected load [..], mixed residuals [.., N] and ease [..] (both before their tanh)."""
    rule = exact_instances(measured, load, graph, base.sizing)
    sizes = wish(rule * np.exp(RESIDUAL_MAX * np.tanh(residual)), current)
    opened = worth_a_restart(sizes, measured, current, graph, base.sizing, EASE_MAX * np.tanh(ease))
    return LearnedWish(sizes=sizes, opened=opened)
