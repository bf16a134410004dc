"""Guardrails: each takes a proposal, may amend it and leaves an amendment behind. They know no policy and no transport.

Order (a decision, not an accident): floor from measured load; maximum step; bounds; the job's total limit.
Virtual tasks (the source and sink of a simulated job) are never touched.
"""

from bisect import bisect_right
from dataclasses import dataclass, replace

import numpy as np

from contracts.messages import Amendment, JobSettings
from policies.graph import Bool, Int64, JobGraph
from policies.measure import Measured, mean_of_last

FLOOR_MINUTES = 15  # known minutes that count as "the measured load"; five would chase noise and cost restarts
OVERLOAD_BACKLOG_MINUTES = 2.0  # a task with this much work waiting is overloaded whatever its load
FLOOR_MAX = 1_000_000  # the largest parallelism of any task; a counter gone wild asks for more than a number holds
_EPSILON = 1e-9  # keeps 6 / 2.0 from becoming 3.0000000001 and then 4


@dataclass(frozen=True, slots=True)
class Situation:
    """What the guardrails know of the job; arrays are [N] in the order of its tasks."""

    graph: JobGraph
    current: Int64
    floor: Int64
    overloaded: Bool


@dataclass(frozen=True, slots=True)
class Proposal:
    """Wanted parallelism [N] on its way through the guardrails, with what was changed so far per task."""

    desired: Int64
    amendments: tuple[tuple[Amendment, ...], ...]


def situation(measured: Measured, graph: JobGraph, current: Int64) -> Situation:
    """Read floor and overload off the measured load.

    ``floor`` = ceil(rate x service time) over the last 15 known minutes, at most ``FLOOR_MAX``; 0 where unknown or virtual.
    A task is overloaded when that demand passes its parallelism, or when what waits is two minutes of its work.
    """
    demand = np.nan_to_num(measured.demand(mean_of_last(measured.load, FLOOR_MINUTES)))
    floor = np.where(graph.scalable, np.clip(np.ceil(demand - _EPSILON), 0, FLOOR_MAX), 0).astype(np.int64)
    backlog = measured.backlog_minutes(current)
    overloaded = graph.scalable & ((demand > current) | (backlog >= OVERLOAD_BACKLOG_MINUTES))
    return Situation(graph=graph, current=current, floor=floor, overloaded=overloaded)


def guard(proposed: Int64, seen: Situation, settings: JobSettings, *, floor_applies: bool) -> Proposal:
    """Send a proposal [N] through all guardrails in their order."""
    start = np.where(seen.graph.scalable, proposed, seen.current)
    proposal = Proposal(desired=start, amendments=tuple(() for _ in seen.graph.tasks))
    if floor_applies:
        proposal = load_floor(proposal, seen)
    proposal = max_step(proposal, seen, settings)
    proposal = bounds(proposal, seen, settings)
    return total_limit(proposal, seen, settings)


def load_floor(proposal: Proposal, seen: Situation) -> Proposal:
    """Never propose less than the measured load needs."""
    return _amend("floor", proposal, np.maximum(proposal.desired, seen.floor), seen)


def max_step(proposal: Proposal, seen: Situation, settings: JobSettings) -> Proposal:
    """Change no task by more than ``step_ratio_max`` at once; overload lifts the limit upward only."""
    least, most = one_step(seen.current, settings.step_ratio_max)
    most = np.where(seen.overloaded, np.maximum(most, proposal.desired), most)
    return _amend("max_step", proposal, np.clip(proposal.desired, least, most), seen)


def one_step(current: Int64, ratio_max: float) -> tuple[Int64, Int64]:
    """Return the least and most [.., N] that a change by a ratio leads to.

    One subtask more or fewer is always allowed, or a small task could never move.
    """
    most = np.maximum(current + 1, np.floor(current * ratio_max + _EPSILON)).astype(np.int64)
    least = np.minimum(current - 1, np.ceil(current / ratio_max - _EPSILON)).astype(np.int64)
    return least, most


def bounds(proposal: Proposal, seen: Situation, settings: JobSettings) -> Proposal:
    """Keep every task within the job's bounds and the engine's own maximum; the maximum wins over the minimum."""
    most = np.minimum(settings.parallelism_max, seen.graph.parallelism_max)
    inside = np.minimum(np.maximum(proposal.desired, max(1, settings.parallelism_min)), most)
    return _amend("bounds", proposal, inside, seen)


def total_limit(proposal: Proposal, seen: Situation, settings: JobSettings) -> Proposal:
    """Keep the sum over scalable tasks within ``total_limit`` by lowering one common cap (SURE), so the widest tasks give first.

    The cap never goes below 1 nor below ``parallelism_min``: a job with more tasks than its limit keeps one subtask each.
    """
    wide = proposal.desired[seen.graph.scalable]
    if wide.sum() <= settings.total_limit:
        return proposal
    least = max(1, settings.parallelism_min)
    caps = range(least, int(wide.max()) + 1)
    fitting = bisect_right(caps, settings.total_limit, key=lambda cap: int(np.minimum(wide, cap).sum()))
    cap = caps[fitting - 1] if fitting else least
    return _amend("total_limit", proposal, np.minimum(proposal.desired, cap), seen)


def _amend(rule: str, proposal: Proposal, after: Int64, seen: Situation) -> Proposal:
    after = np.where(seen.graph.scalable, after, proposal.desired).astype(np.int64)
    if np.array_equal(after, proposal.desired):
        return proposal
    amendments = tuple(
        (*earlier, Amendment(rule=rule, before=int(was), after=int(now))) if was != now else earlier
        for earlier, was, now in zip(proposal.amendments, proposal.desired, after, strict=True)
    )
    return replace(proposal, desired=after, amendments=amendments)
