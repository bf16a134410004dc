"""Guardrails: what a proposed parallelism must pass before anything is changed. They know no policy and no transport.

They come in a fixed order, and a later one wins over an earlier one:

1. ``pinned``: a task that its owner pinned stays as it is.
2. ``floor``: no task gets less than the measured load needs.
3. ``emergency``: a plainly overloaded task gets what the present load needs, and no task shrinks below that.
4. ``backlog_hold``: no task shrinks while the job works off a backlog.
5. ``unproven``: no task shrinks where the newest figures do not prove that it needs less (``policies.witness``).
6. ``max_step``: no task changes by more than a factor at once, unless a timetable tells what comes; an overloaded one may grow
   further, and one that had nothing to do for long goes to its minimum.
7. ``memory``: a task whose process is short of memory stays as it is (``policies.memory``).
8. ``tied``: tasks on forward edges keep one parallelism, the widest of them.
9. ``minimum_within``: in a period in which the owner wants a minimum, no task is below it.
10. ``bounds``: the narrower of what the owner, the engine, the partitions and the key groups allow; a task above it goes there
    in steps.
11. ``aligned``: where key groups or partitions are dealt out, a size that has use for all of its subtasks and carries as much.
12. ``excluded``: in an excluded period nothing changes, or only an overloaded task grows.
13. ``total_limit``: the job's total; a job above it goes there in steps.

The virtual source and sink of a simulated job are never changed.

Serving passes one proposal and records every amendment (``guard``). Training, calibration and the oracle pass many rows at once
(``guard_rows``). Both run the same lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from surescale.contracts.decisions import Amendment
from surescale.policies.answer import Float64
from surescale.policies.dealt import Deal, aligned, carried, larger, needed, smaller
from surescale.policies.graph import Bool, Int64, JobGraph
from surescale.policies.limits import Limits
from surescale.policies.measure import Measured, mean_of_last, or_zero

FLOOR_MINUTES = 15  # known minutes that count as "the measured load"; five would chase noise and cost restarts
OVERLOAD_BACKLOG_MINUTES = 2.0  # a task with this much work waiting is overloaded whatever its load
REST_MINUTES = 45  # known ones without a record, from which on half a job is no safer a guess than the least of it
HARDLY = 0.01  # of one subtask, in the fullest of these minutes, is as good as nothing: one will do if counters show 5 % of it
OVERLOAD_STEP = 2  # an overloaded task may always double, however small the step
FLOOR_MAX = 1_000_000  # the largest parallelism of any task; a counter gone wild asks for more than a number holds
_EPSILON = 1e-9  # keeps 6 / 2.0 from becoming 3.0000000001 and then 4


@dataclass(frozen=True, slots=True)
class Situation:
    """What the guardrails know about the job; arrays are [.., N] in the order of its tasks.

    ``backlog_minutes``: minutes each task needs for the work that is waiting; None: nothing waits. ``urgent``: what each task
    needs at once, 0 where nothing is; None: no task needs anything at once. ``unproven``: tasks that must not shrink, because
    nothing proves that they need less; None: there are none. ``cramped``: tasks whose process is short of memory; None: there are
    none. ``leap``: the least and the most that one decision may reach besides, since a timetable tells what comes; None: there is
    none. ``at_rest``: tasks that had hardly anything to do for ``REST_MINUTES``, and for which no more waits; None: none.
    """

    graph: JobGraph
    current: Int64
    floor: Int64
    overloaded: Bool
    backlog_minutes: Float64 | None = None
    urgent: Int64 | None = None
    unproven: Bool | None = None
    cramped: Bool | None = None
    leap: tuple[Int64, Int64] | None = None
    at_rest: Bool | None = None


@dataclass(frozen=True, slots=True)
class Proposal:
    """Parallelism [N] that has passed the guardrails, with the amendments made to each task."""

    desired: Int64
    amendments: tuple[tuple[Amendment, ...], ...]


def situation(measured: Measured, graph: JobGraph, current: Int64, busy_most: float = 1.0) -> Situation:
    """Return floor and overload from the measured load.

    ``floor``: the least that carries rate x service time over the last 15 known minutes, at most ``FLOOR_MAX``; 0 where unknown
    or virtual. With it no task is busier than ``busy_most`` of its time. A task is overloaded when that demand exceeds what it
    carries, or when two minutes of its work are waiting. It may not shrink while its own newest minute is unknown, or the job's
    load in it.
    """
    demand = or_zero(measured.demand(mean_of_last(measured.load, FLOOR_MINUTES)))
    least = np.clip(needed(or_zero(measured.divided(demand / busy_most)), graph.deal), 0, FLOOR_MAX)
    floor = np.where(graph.scalable, least, 0).astype(np.int64)
    backlog = measured.backlog_minutes(current)
    overloaded = graph.scalable & ((demand > carried(current, graph.deal)) | (backlog >= OVERLOAD_BACKLOG_MINUTES))
    silent = ~measured.reported[..., -1, :] | np.isnan(measured.load[..., -1:])
    unproven = silent if silent.any() else None
    at_rest = _at_rest(measured, graph)
    return Situation(graph, current, floor, overloaded, backlog_minutes=backlog, unproven=unproven, at_rest=at_rest)


def _at_rest(measured: Measured, graph: JobGraph) -> Bool | None:
    """Return ``Situation.at_rest`` [.., N], by the known minutes since the last record, or since the window's beginning.

    Of a job in which others are at work, a task is at rest that no record of the whole window reached. A source that lets nothing
    in may hang, and looks silent where nobody knows what waits for it: such a job is not known to be at rest.
    """
    load, waits = measured.load, measured.waiting_records > 0.0
    at_rest: Bool = (measured.service_minutes == 0.0) & (measured.visits == 0.0) & ~waits
    if at_rest.any():
        at_rest &= measured.reported.sum(axis=-2) >= REST_MINUTES
    if (load[..., -1] == 0.0).any():
        since = np.cumsum((load > 0.0)[..., ::-1], axis=-1)[..., ::-1] == 0
        rests = ((load == 0.0) & since).sum(axis=-1) >= REST_MINUTES
        rests &= ~waits.any(axis=-1)
        at_rest |= (rests if measured.queues_told is None else rests & measured.queues_told)[..., None]
    if load.shape[-1] >= REST_MINUTES:
        most = load[..., -REST_MINUTES:].max(axis=-1)  # NaN where one is unknown
        hardly = measured.demand(most) + measured.waiting_records * measured.service_minutes <= HARDLY
        hardly &= measured.service_minutes > 0.0  # records that took no time tell of a counter that counts nothing
        at_rest |= hardly if measured.queues_told is None else hardly & measured.queues_told[..., None]
    at_rest &= graph.scalable
    return at_rest if at_rest.any() else None


def unmeasured(graph: JobGraph, current: Int64) -> Situation:
    """Return the situation of rows [.., N] without any measurement: no floor, no overload."""
    return Situation(graph, current, np.zeros_like(current), np.zeros(current.shape, dtype=np.bool_))


def guard(proposed: Int64, seen: Situation, limits: Limits, *, floor_applies: bool) -> Proposal:
    """Return what the guardrails make of a proposal [N], with every amendment."""
    stages = _stages(proposed, seen, limits, floor_applies=floor_applies)
    _, desired = next(stages)
    amendments: list[tuple[Amendment, ...]] = [() for _ in seen.graph.tasks]
    for rule, after in stages:
        for index in np.flatnonzero(after != desired).tolist():
            amendments[index] += (Amendment(rule=rule, before=int(desired[index]), after=int(after[index])),)
        desired = after
    return Proposal(desired=desired, amendments=tuple(amendments))


def guard_rows(proposed: Int64, seen: Situation, limits: Limits, *, floor_applies: bool) -> Int64:
    """Return what the guardrails make of many proposals [.., N]: for each row what ``guard`` desires."""
    *_, (_, desired) = _stages(proposed, seen, limits, floor_applies=floor_applies)
    return desired


def _stages(proposed: Int64, seen: Situation, limits: Limits, *, floor_applies: bool) -> Iterator[tuple[str, Int64]]:
    """Yield the proposal [.., N], then what each guardrail makes of it, with the guardrail's name."""
    scalable, current = seen.graph.scalable, seen.current
    desired = np.where(scalable, proposed, current)
    yield "proposed", desired
    free = scalable
    if limits.pinned is not None:
        free = scalable & ~limits.pinned
        desired = np.where(free, desired, current)
        yield "pinned", desired
    floor = np.where(free, seen.floor, 0) if floor_applies else np.zeros_like(seen.floor)
    desired = np.maximum(desired, floor)
    yield "floor", desired
    if seen.urgent is not None and floor_applies:
        floor = np.maximum(floor, np.where(free, seen.urgent, 0))
        desired = np.maximum(desired, floor)
        yield "emergency", desired
    desired = backlog_hold(desired, seen, limits)
    yield "backlog_hold", desired
    if seen.unproven is not None and floor_applies:
        desired = np.where(seen.unproven, np.maximum(desired, current), desired)
        yield "unproven", desired
    nearest, farthest = step_range(seen, floor, limits)
    desired = np.clip(desired, nearest, farthest)
    yield "max_step", desired
    if seen.cramped is not None and floor_applies:
        desired = np.where(tied(seen.cramped.astype(np.int64), limits) > 0, current, desired)
        yield "memory", desired
    desired = tied(desired, limits)
    yield "tied", desired
    if limits.within:
        desired = np.where(free, np.maximum(desired, np.minimum(limits.within, limits.most)), desired)
        yield "minimum_within", desired
    kept = np.where(free, kept_sizes(seen, nearest, limits), current)
    limits = replace(limits, most=np.maximum(limits.most, kept))
    desired = np.where(free, bounds(desired, limits), desired)
    yield "bounds", desired
    if limits.align and seen.graph.deal.any():
        most = np.minimum(tied(farthest, limits), limits.most)
        least = np.maximum(np.maximum(tied(floor, limits), tied(nearest, limits)), limits.least)
        desired = np.where(free, tied(aligned(desired, current, seen.graph.deal, least, most), limits), desired)
        yield "aligned", desired
    desired = excluded(desired, seen, limits)
    yield "excluded", desired
    kept = np.minimum(desired, np.maximum(limits.least, kept) if limits.freeze == "none" else current)
    yield "total_limit", total_limit(desired, scalable, limits, np.where(free, kept, desired))


def backlog_hold(desired: Int64, seen: Situation, limits: Limits) -> Int64:
    """Shrink no task [.., N] while one has more minutes of work waiting than the limit.

    Flink's autoscaler does the same while the lag is above ``job.autoscaler.backlog-processing.lag-threshold``.
    """
    if not limits.backlog_hold_minutes or seen.backlog_minutes is None:
        return desired
    waits = (seen.backlog_minutes > limits.backlog_hold_minutes) & seen.graph.scalable
    held: Int64 = np.where(waits.any(axis=-1, keepdims=True), np.maximum(desired, seen.current), desired)
    return held


def kept_sizes(seen: Situation, nearest: Int64, limits: Limits) -> Int64:
    """Return what bounds and total leave every task [.., N] now, where it runs with at least as much.

    They are carried out by a step at a time, never below what the measured load needs, and not while nothing may shrink.
    """
    kept = backlog_hold(np.maximum(nearest, seen.floor), seen, limits)
    stays = seen.overloaded if seen.unproven is None else seen.overloaded | seen.unproven
    return tied(np.minimum(np.where(stays, seen.current, kept), seen.current), limits)


def step_range(seen: Situation, floor: Int64, limits: Limits) -> tuple[Int64, Int64]:
    """Return the least and most [.., N] that one decision may reach.

    Overload lifts the limit, but only upward, and only as far as twice the present size or as the measured load needs.
    """
    nearest, farthest = steps_of(seen, limits)
    if seen.leap is not None:
        nearest, farthest = np.minimum(nearest, seen.leap[0]), np.maximum(farthest, seen.leap[1])
    lifted = np.maximum(np.maximum(farthest, OVERLOAD_STEP * seen.current), floor)
    return nearest, np.where(seen.overloaded, lifted, farthest)


def steps_of(seen: Situation, limits: Limits) -> tuple[Int64, Int64]:
    """Return the same by the step factors alone; a task at rest may go all the way, unless its owner set a step."""
    nearest, farthest = one_step(seen.current, limits, seen.graph)
    if seen.at_rest is not None and limits.leaps_down:
        nearest = np.where(seen.at_rest, 1, nearest)
    return nearest, farthest


def one_step(current: Int64, limits: Limits, graph: JobGraph) -> tuple[Int64, Int64]:
    """Return the least and most [.., N] that one change by the step factors can reach.

    One subtask more or fewer is always allowed, or a small task could never move; where work is dealt out, the next even size. A
    factor of two always reaches that, unless things are unequal.
    """
    above, below = current + 1, current - 1
    if graph.deal.any() and (min(limits.step_up, limits.step_down) < 2.0 or isinstance(graph.deal, Deal)):
        above, below = np.maximum(above, larger(current, graph.deal)), np.minimum(below, smaller(current, graph.deal))
    most = np.maximum(above, np.floor(current * limits.step_up + _EPSILON)).astype(np.int64)
    least = np.minimum(below, np.ceil(current / limits.step_down - _EPSILON)).astype(np.int64)
    return least, most


def tied(sizes: Int64, limits: Limits) -> Int64:
    """Give tied tasks [.., N] the largest size among them: with fewer, subtasks on a forward edge would get no records."""
    if not limits.ties:
        return sizes
    joined = sizes.copy()
    for members in limits.ties:
        joined[..., members] = sizes[..., members].max(axis=-1, keepdims=True)
    return joined


def within_limits(desired: Int64, scalable: Bool, limits: Limits) -> Int64:
    """Bring parallelism [.., N] within the bounds and the total limit, whatever it was before."""
    inside = bounds(desired, limits)
    return total_limit(inside, scalable, limits, np.minimum(inside, limits.least))


def bounds(desired: Int64, limits: Limits) -> Int64:
    """Keep every task [.., N] within its bounds; the maximum wins over the minimum."""
    return np.minimum(np.maximum(desired, limits.least), limits.most)


def excluded(desired: Int64, seen: Situation, limits: Limits) -> Int64:
    """Keep every task [.., N] as it is in an excluded period; in a calm one, overloaded tasks and those tied to them may grow."""
    if limits.freeze == "none":
        return desired
    urgent = seen.overloaded if limits.freeze == "calm" else np.zeros_like(seen.overloaded)
    urgent = tied(urgent.astype(np.int64), limits) > 0
    return np.where(urgent, np.maximum(desired, seen.current), seen.current)


def total_limit(desired: Int64, scalable: Bool, limits: Limits, kept: Int64) -> Int64:
    """Keep the sum over the scalable tasks [.., N] within the total by lowering one common cap per row, so the widest give first.

    The cap is SURE's. It takes no task below ``kept`` [.., N], which is at most ``desired``: a job whose ``kept`` pass the limit
    keeps that many of each.
    """
    is_above = desired @ scalable > limits.total
    if not is_above.any():
        return desired
    rows, lowest = desired[is_above], kept[is_above]
    wide, narrow = rows[:, scalable], lowest[:, scalable]
    least, most = np.ones(len(rows), dtype=np.int64), wide.max(axis=1)
    while (least < most).any():  # the largest cap that fits lies between the two
        middle = (least + most + 1) // 2
        fits = np.maximum(np.minimum(wide, middle[:, None]), narrow).sum(axis=1) <= limits.total
        least, most = np.where(fits, middle, least), np.where(fits, most, middle - 1)
    capped = desired.copy()
    capped[is_above] = np.where(scalable, np.maximum(np.minimum(rows, least[:, None]), lowest), rows)
    return capped
