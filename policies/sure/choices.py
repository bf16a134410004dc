"""The sizes a plan chooses among: capacities, the fewest subtasks that give them, and the reward of each."""

from dataclasses import dataclass

import numpy as np

from surescale.policies.answer import Float64
from surescale.policies.dealt import Dealt, carried, needed
from surescale.policies.flows import Undivided
from surescale.policies.graph import Bool, Int64, JobGraph
from surescale.policies.guardrails import FLOOR_MINUTES, Situation, guard_rows, situation, steps_of
from surescale.policies.measure import Measured, busiest_of, mean_of_last, or_zero, widened_by
from surescale.policies.sure.outlook import Expected
from surescale.policies.sure.planning_input import Planning, PlanningInput
from surescale.policies.sure.queue_delay import LEAST

_EACH_CHOICE = (slice(None), None)  # an axis for the choices
_UNBOUNDED = 1e9  # records per minute that a task of unknown cost passes
_CAPACITIES = np.geomspace(0.75, 6.0, 36)  # as multiples of the mean expected load: from overload to one sixth busy
LASTING_MINUTES = 10  # a rise that is over sooner needs no preparation
REACH_BUSY = 0.9  # of capacity, that a timetable brings
FALL = 1.4  # times what comes by its timetable is a load that has just fallen
LEAP_BUSY = 0.5  # of capacity, that the highest load to come leaves after the widest leap
CALM_CHANGE = 0.05  # a job is calm only while the median change of its load from hour to hour is below this


@dataclass(frozen=True, slots=True)
class Work:
    """What a record costs in B jobs of one graph.

    Attributes:
        minutes: float64 [B, N], busy subtask-minutes per record that enters the job; 0 where unknown and for source and sink.
        hot_share: float64 [B, N], ``Measured.hot_share``.
        dealt: ``JobGraph.deal``.
        undivided: ``Measured.undivided``.
        sized: bool [B, N], tasks whose size can be chosen. A task keeps its size if what a record costs it is unknown, if no
            entering record reaches it (it only drains old ones) unless it is known to have nothing to do, or if each subtask has
            to do all of its work.
        scalable: bool [N].
    """

    minutes: Float64
    hot_share: Float64
    dealt: Dealt
    undivided: Undivided | None
    sized: Bool
    scalable: Bool

    @staticmethod
    def of(measured: Measured, graph: JobGraph) -> "Work":
        """Return what a record costs by the measured figures."""
        known = ~np.isnan(measured.service_minutes * measured.visits)
        sized = graph.scalable & known & ((measured.visits > 0) | (measured.service_minutes == 0))
        undivided = measured.undivided
        if undivided is not None:
            sized &= undivided.share < 1.0
        per_record = measured.visits * or_zero(measured.service_minutes)
        return Work(np.where(sized, per_record, 0.0), measured.hot_share, graph.deal, undivided, sized, graph.scalable)

    def sizes(self, capacity: Float64, caution: float = 1.0) -> Float64:
        """Return the fewest subtasks [B, C, N] for capacities [B, C], with every record ``caution`` times as long."""
        exact = widened_by(self.hot_share[:, None], capacity[..., None] * (self.minutes * caution)[:, None])
        if self.undivided is not None:
            exact = self.undivided.rows(_EACH_CHOICE).needed(exact)
        return needed(exact, self.dealt)


@dataclass(frozen=True, slots=True)
class Choices:
    """C choices for each of B jobs.

    Attributes:
        sizes: int64 [B, C, N].
        capacity: float64 [B, C], records per minute.
        subtasks: int64 [B, C], of the scalable tasks.
        busy_per_record: float64 [B, C], busy subtask-minutes per record, divided by the subtasks.
    """

    sizes: Int64
    capacity: Float64
    subtasks: Int64
    busy_per_record: Float64

    @staticmethod
    def of(sizes: Int64, work: Work, caution: float = 1.0) -> "Choices":
        """Return sizes [B, C, N] with the capacity they give."""
        cost = (work.minutes * caution)[:, None]
        even = carried(sizes, work.dealt)
        if work.hot_share.any():
            even = even / busiest_of(work.hot_share[:, None], even)
        if work.undivided is not None:
            even = work.undivided.rows(_EACH_CHOICE).carried(even)
        capacity = np.where(cost > 0, even / np.where(cost > 0, cost, 1.0), _UNBOUNDED).min(axis=-1)
        subtasks = np.where(work.scalable, sizes, 0).sum(axis=-1)
        busy = work.minutes.sum(axis=-1)
        return Choices(sizes, capacity, subtasks, busy[:, None] / np.maximum(subtasks, 1))

    def reward(self, planning: Planning, latency: Float64, loads: Float64) -> Float64:
        """Return the reward [B, C, ..] of latencies [B, C, ..] in minutes under loads [B, 1, ..]."""
        shape = (*self.capacity.shape, *(1,) * (latency.ndim - 2))
        served = np.minimum(loads, self.capacity.reshape(shape))
        used = np.minimum(served * self.busy_per_record.reshape(shape), 1.0)
        reward: Float64 = (1.0 - planning.latency_weight) * used - planning.latency_weight * latency
        return reward


def choices_of(planning: Planning, given: PlanningInput, work: Work, caution: float) -> tuple[Choices, Bool]:
    """Return the choices of a plan, and where the guardrails do not let it hold [B].

    The present size comes first, then the changes; ``caution`` as in ``Work.sizes``. If restarts that the load floor
    forces have a price, the first change is what the guardrails make of the present size; where that differs, no change is
    smaller.
    """
    expected, current = given.expected, given.current
    load = np.exp(np.log(np.maximum(expected.means, LEAST)).mean(axis=1))
    seen = situation(given.measured, given.graph, current, given.limits.busy_most)
    least, most = _within_step(given, seen, leap_of(planning, given, work))
    kept = is_young(planning, given.measured) | is_falling(planning, expected) | awaits_floor(given)
    least = np.where(kept[:, None], np.maximum(least, current), least)
    reach = reach_of(planning, given, work)
    if reach is not None:
        least = np.maximum(least, np.minimum(reach, most))
    wanted = work.sizes(load[:, None] * _CAPACITIES, caution)
    wanted = np.clip(wanted, least[:, None], np.maximum(most, least)[:, None])
    sized = work.sized if given.limits.pinned is None else work.sized & ~given.limits.pinned
    changed = np.where(sized[:, None], wanted, current[:, None]).astype(np.int64)
    forced = np.zeros(len(current), dtype=np.bool_)
    if planning.forced_restart > 0:
        held = guard_rows(current, seen, given.limits, floor_applies=True)
        forced = (held != current).any(axis=-1)
        changed = np.where(forced[:, None, None], np.maximum(changed, held[:, None]), changed)
        changed = np.concatenate([held[:, None], changed], axis=1)
    return Choices.of(np.concatenate([current[:, None], changed], axis=1), work, caution), forced


def reach_of(planning: Planning, given: PlanningInput, work: Work) -> Int64 | None:
    """Return the least sizes [B, N] from which later steps still reach in time what a timetable brings; None: there is none.

    A rise that takes several steps begins as many decisions ahead. What the next decision can still reach is no matter of this
    one.
    """
    expected, limits = given.expected, given.limits
    if expected.shape is None:
        return None
    lasts = _lasting(expected)
    minutes = lasts.shape[1]
    lead = planning.lead_minutes
    reach = np.ones_like(given.current)
    most = (minutes - lead) // given.span_minutes
    step_up = np.inf if limits.leaps_up else limits.step_up
    for steps in range(most, 0, -1):
        at = lead + steps * given.span_minutes
        load = lasts[:, at : at + given.span_minutes].max(axis=1)
        reach = np.maximum(reach, work.sizes(load[:, None] / REACH_BUSY)[:, 0])
        reach = np.maximum(np.minimum(np.ceil(reach / step_up), reach - 1), 1).astype(np.int64)
    return np.where(work.sized, reach, 0)


def leap_of(planning: Planning, given: PlanningInput, work: Work) -> tuple[Int64, Int64] | None:
    """Return the least and most sizes [B, N] that a timetable justifies at once, whatever the step limits; None: there is none.

    Up to what carries the highest load to come with ease. Down to where no subtask gets more to do, until the next decision but
    one takes effect, than one of this task got through within the window: no measured service time needs to be right for that.
    """
    expected, limits, current = given.expected, given.limits, given.current
    if expected.shape is None or given.got_through is None:
        return None
    least, most = current, current
    if limits.leaps_up:
        highest = _lasting(expected).max(axis=1)
        most = np.where(work.sized, np.maximum(current, work.sizes(highest[:, None] / LEAP_BUSY)[:, 0]), current).astype(np.int64)
    if limits.leaps_down:
        soon = planning.lead_minutes + 2 * given.span_minutes
        coming = _minutes(expected)[:, :soon].max(axis=1) * np.exp(max(planning.scenarios) * expected.spread[:, 0])
        share = coming[:, None] * given.measured.visits / given.got_through
        known = work.sized & np.isfinite(share)
        enough = needed(np.where(known, share, 0.0), work.dealt)
        least = np.where(known, np.minimum(current, enough), current).astype(np.int64)
    return least, most


def _minutes(expected: Expected) -> Float64:
    """Return the load [B, K T] of each minute that a timetable brings."""
    assert expected.shape is not None
    minutes: Float64 = np.repeat(expected.means, expected.stage_minutes, axis=1) * expected.shape
    return minutes


def _lasting(expected: Expected) -> Float64:
    """Return the same where it lasts: what is over after ``LASTING_MINUTES`` needs no preparation."""
    minutes = _minutes(expected)
    later = np.concatenate([minutes[:, LASTING_MINUTES:], minutes[:, -1:].repeat(LASTING_MINUTES, axis=1)], axis=1)
    lasting: Float64 = np.minimum(minutes, later)
    return lasting


def awaits_floor(given: PlanningInput) -> Bool:
    """Return [B] whether a load fell at once by its timetable, and the load floor has yet to follow.

    It allows half a fall now and the rest a span later; a second restart would cost more than to wait.
    """
    if given.expected.shape is None:
        return np.zeros(len(given.current), dtype=np.bool_)
    awaits: Bool = mean_of_last(given.measured.load, FLOOR_MINUTES) > FALL * given.expected.means[:, 0]
    return awaits


def is_young(planning: Planning, measured: Measured) -> Bool:
    """Return [B] whether so few minutes of the load are known that no task shrinks."""
    young: Bool = (~np.isnan(measured.load)).sum(axis=1) < planning.young_minutes
    return young


def is_falling(planning: Planning, expected: Expected) -> Bool:
    """Return [B] whether the load of a calm job falls, so that no task shrinks until it has settled."""
    falling: Bool = (expected.shape is None) & (calmness(planning, expected) > 0) & (expected.past.falling > planning.patience)
    return falling


def calmness(planning: Planning, expected: Expected) -> Float64:
    """Return [B] how calm a job is: 1 if the hours of its last day hardly differ from one to the next, 0 if they do.

    ``CALM_CHANGE`` lies between two reference points: hours of Poisson counts at sixty a minute differ by two per cent, and the
    quietest days of ClarkNet and NASA by seven.
    """
    calm: Float64 = np.clip(2.0 * (1.0 - expected.past.change / CALM_CHANGE), 0.0, 1.0)
    return calm * (planning.calm_restarts > 0)


def _within_step(given: PlanningInput, seen: Situation, leap: tuple[Int64, Int64] | None) -> tuple[Int64, Int64]:
    """Return the least and most [B, N] that a plan looks at.

    Overload lifts the upper limit; of such a step the guardrails grant what ``policies.guardrails.step_range`` says. Where a
    timetable allows a leap, it goes down no further than the load floor: the rest would take a second restart.
    """
    limits = given.limits
    nearest, farthest = steps_of(seen, limits)
    if leap is not None:
        nearest = np.maximum(np.minimum(nearest, leap[0]), np.minimum(seen.floor, given.current))
        farthest = np.maximum(farthest, leap[1])
    farthest = np.where(seen.overloaded, limits.most, farthest)
    return np.maximum(limits.least, nearest), np.minimum(limits.most, farthest)
