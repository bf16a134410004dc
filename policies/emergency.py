"""Says when a job is plainly overloaded, and what it needs at once: growth that waits for no span and no full window. Pure.

A policy decides at the end of its spans, on minutes enough to tell load from noise. A load that becomes four times as high leaves
no doubt after one minute: work waits that did not wait before, and the busiest task does not rest. Two cases are told apart.

- The busiest task worked all minute, and more waits than before: the newest minute's load is more than it can do.
- It rested for part of the minute, and yet work waits at its end. A task does not rest while its own work waits, so the load rose
  within the minute. All that waits has gathered while the task was busy, which gives a lower bound of the present load.

Growth costs a restart, and a burst may be over before it. So it is paid for once as many records wait as come during a restart.
That is the ski rental rule: rent until the rent has come to the price of buying. Any burst does that where a restart is short, so
growth waits besides until records would be late if the next minute decided it. A task whose records are nearly late already and
still fall behind is an emergency, however little more comes than it gets through. A restart of unknown length is taken to cost
nothing, and then nothing may wait. What gathers while the job stands still counts for nothing either: it tells no load, and the
job is about to work it off.

Sizes are those of the rule ``target-utilisation`` at the present load. The guardrails hold for them as for every wish.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_limits import answers_emergencies, has_members, owners_maximum
from surescale.contracts.job_settings import LATE_SECONDS
from surescale.contracts.saturation import not_begun
from surescale.contracts.settings import SPAN_MINUTES
from surescale.contracts.windows import FIGURE, Float32, of_all_subtasks
from surescale.policies.answer import Float64
from surescale.policies.dealt import Deal, carried, needed
from surescale.policies.graph import Bool, Int64
from surescale.policies.hidden import never_resting
from surescale.policies.latency_bound import path_minutes
from surescale.policies.measure import SKEW_MOST, WARM_UP_MINUTES, mean_of_last, or_zero
from surescale.policies.policy import SEEN_MINUTES
from surescale.policies.question import Question
from surescale.policies.rules.reading import Reading
from surescale.policies.sizing import CALIBRATED, TARGET_MAX, exact_subtasks

BUSY_LEAST: Final = 0.9
"""Share of the minute from which a task counts as working all the time."""
RESTED_LEAST: Final = 0.2
"""A task that was busy for less of the minute is not what the work waits for."""
GROWN_LEAST: Final = 0.1
"""Minutes of all its subtasks by which a busy task's waiting work must have grown; two seconds of noise are no emergency."""
RISEN_GROWN_LEAST: Final = 0.05
"""The same where the load rose within the minute, so that less of it had to wait."""
RISEN_LEAST: Final = 1.5
"""Times that the newest minute's load must be that of the minute before, to have risen within it. A service that stalls changes
how fast work is done, not how much comes."""
OVER_LEAST: Final = 1.1
"""Times its subtasks that a task must need."""
PRESENT_MINUTES: Final = 2
"""No task shrinks below what the load of any of these last minutes needs."""
BURST_MINUTES: Final = SPAN_MINUTES
"""No task shrinks to a size at which a burst within these last minutes would have been an emergency: the next one would bring the
present size back. Decisions are so far apart: each burst counts in one of them, and then for as long as lower needs must last."""
RISING_LEAST: Final = 1.1
"""Times that the newest minute's load must be that of the minute before, for a rise that may go on. A step x3 raises it so much
if it came three seconds before the minute's end."""
RISING_ERRORS: Final = 3.0
"""Standard errors of the difference of two Poisson counts that the rise must measure as well: few records vary by chance. So
many of one count must have gathered."""
RESTLESS_LEAST: Final = 10
"""Changes from minute to minute that must be known to tell how much a load varies."""
MEDIAN_ERRORS: Final = 0.6745
"""Standard errors in the median change."""

UNASKED_MOST: Final = 4
"""Subtasks up to which such a task grows where its owner set no maximum."""


@dataclass(frozen=True, slots=True)
class Emergency:
    """A job that is plainly overloaded.

    Attributes:
        task: index of the busiest task that work waits for.
        load: records per minute that come to the job now, at least.
        grown_records: by which what waits for the task has grown within the newest minute.
        wanted: int64 [N], subtasks that this load needs; never fewer than there are.
    """

    task: int
    load: float
    grown_records: float
    wanted: Int64


def emergency_of(question: Question) -> Emergency | None:
    """Return the emergency at the end of a window, None if there is none, or if settings or engine want none answered."""
    if not answers_emergencies(question.settings, question.window.topology.engine) or not may_gather(question.window.figures):
        return None
    newest, restart_minutes = _Newest.of(question), (question.restart_seconds or 0.0) / 60.0
    if newest is None:
        return None
    measured, graph, current = question.measured, question.graph, question.current
    has = carried(current, graph.deal) / newest.uneven
    nearly_late, patience = _nearly_late_minutes(question), _patience_minutes(question)
    with np.errstate(divide="ignore", invalid="ignore"):
        grown_minutes = newest.grown * measured.service_minutes / has
        chance = RISING_ERRORS * np.sqrt(np.maximum(newest.load * measured.visits, 0.0))
        is_known = graph.scalable & (measured.service_minutes > 0) & (measured.visits > 0) & (newest.busy >= RESTED_LEAST)
        waits = newest.waiting * measured.service_minutes / _waited_on(question, has)
    is_late = (
        (newest.busy >= BUSY_LEAST)
        & (newest.grown > 0.0)
        & (newest.waiting >= chance)
        & (waits >= nearly_late)
        & (nearly_late > 0)
    )
    waited_for = is_known & (is_late | (grown_minutes >= RISEN_GROWN_LEAST) & (newest.grown >= chance))
    if not waited_for.any():
        return None
    task = int(np.argmax(np.where(waited_for, newest.busy, -1.0)))
    busy = min(float(newest.busy[task]), 1.0)
    if busy >= BUSY_LEAST and grown_minutes[task] < GROWN_LEAST and not is_late[task]:
        return None
    if busy < BUSY_LEAST and not newest.has_risen[task]:
        return None
    if newest.waiting[task] < restart_minutes * newest.load * measured.visits[task]:
        return None
    # Full work while the task was busy, and what gathered meanwhile: both as records that enter the job.
    per_record = float(measured.visits[task] * measured.service_minutes[task])
    load = max(newest.load, float(has[task]) / per_record + float(newest.grown[task] / measured.visits[task]) / busy)
    over = load * per_record / float(has[task])
    if not is_late[task] and (over < OVER_LEAST or waits[task] + SEEN_MINUTES * (over - 1.0) < patience * over):
        return None
    wanted = np.maximum(_needed(question, load), current)
    if wanted[task] <= current[task]:
        return None
    # Where records cost more than usual, as while a service stalls, full work at the usual cost is more than came.
    came = newest.load if not newest.has_risen[task] and load > RISEN_LEAST * newest.load else load
    return Emergency(task, came, float(newest.grown[task]), wanted)


def _patience_minutes(question: Question) -> float:
    """Return how long records may wait when growth that waits for that begins; 0 where the owner wants the least latency."""
    return 0.0 if question.settings.objective == "latency" else _nearly_late_minutes(question)


def _nearly_late_minutes(question: Question) -> float:
    """Return how long records have waited that a restart now would make late; 0 where it takes as long alone, or is unknown."""
    if question.restart_seconds is None:
        return 0.0
    bound_s = LATE_SECONDS if question.latency_bound is None else question.latency_bound.seconds
    alone = float(path_minutes(question.measured.alone(), question.graph)[0])
    return max(0.0, (bound_s - question.restart_seconds) / 60.0 - alone)


def _waited_on(question: Question, has: Float64) -> Float64:
    """Return the subtasks [N] that records wait for: all of ``has``, but of a group only its members with most partitions.

    The others read on while these fall behind. Of unequal partitions it may be a single one.
    """
    deal = question.graph.deal
    if not has_members(question.window.topology.engine) or not deal.any():
        return has
    if isinstance(deal, Deal):
        return np.minimum(has, 1.0)
    fullest = deal - question.current * (np.ceil(deal / question.current) - 1.0)
    return np.where(deal > 0, np.minimum(has, fullest), has)


def may_gather(figures: Float32) -> bool:
    """Return whether figures [L, N, F] leave it open that more waits than a minute ago; else there is no emergency."""
    lately = of_all_subtasks(figures[-2:])
    into, came, waiting = (lately[..., FIGURE[name]] for name in ("records_in", "arrived", "queued_records_last"))
    is_behind = ~np.isnan(came[-1]) & ~(came[-1] <= into[-1])
    return bool((is_behind | (waiting[-1] > waiting[0])).any())


@dataclass(frozen=True, slots=True)
class Restless:
    """Tasks that never rest while nobody knows what they need: all that can be known is that more might help.

    Attributes:
        tasks: bool [N].
        wanted: int64 [N], twice as many subtasks of each; 0 for all others, and for those that may not grow blindly.
    """

    tasks: Bool
    wanted: Int64


def restless_of(question: Question) -> Restless:
    """Return the tasks of unknown demand that never rested in any of the last minutes, and one doubling of each.

    One doubling in all that the window shows; without a maximum that the owner set only up to ``UNASKED_MOST``. A source that
    reads as fast as it can never rests at any size.
    """
    figures, topology, settings = question.figures, question.window.topology, question.settings
    tasks = never_resting(question)
    if tasks.any():
        tasks &= np.isnan(question.measured.demand(mean_of_last(question.measured.load, len(figures))))
    if not tasks.any() or not answers_emergencies(settings, topology.engine) or question.restarted[-WARM_UP_MINUTES:].any():
        return Restless(tasks & False, np.zeros_like(question.current))
    has_grown = np.fmin.reduce(figures[..., FIGURE["parallelism"]]) < question.current
    owned = np.array([owners_maximum(settings, spec, topology.engine) is not None for spec in topology.tasks])
    doubled = np.where(owned, 2 * question.current, np.minimum(2 * question.current, UNASKED_MOST))
    return Restless(tasks, np.where(tasks & ~has_grown & (doubled > question.current), doubled, 0))


def present_need(question: Question, *, looks_ahead: bool = False) -> Int64:
    """Return int64 [N], the least that the last minutes' load leaves of each task: a mean over a whole span may lag behind it.

    The larger of the last minutes counts: one that is partly from after a fall says less than the load was, and one that is
    partly from before a rise less than it will be. How far a rise has come within a minute does not show in it, so while the load
    rises every task keeps what it has: a subtask given back just then costs two restarts. At most the present sizes: this keeps,
    and asks for no growth. 0 where nothing is known, or nobody wants emergencies answered.

    ``looks_ahead``: a policy that says what load it expects, and how far off that may be, has chosen its own room. Where growth
    makes no record late, a size that the present load fills is enough for it: the higher of two minutes has most of the noise.
    """
    current, load = question.current, question.measured.load
    if not answers_emergencies(question.settings, question.window.topology.engine):
        return np.zeros_like(current)
    present = float(np.fmax.reduce(load[-PRESENT_MINUTES:]))
    if np.isnan(present):
        return np.zeros_like(current)
    if _rises(load):
        return np.where(question.graph.scalable, current, 0)
    busy = 1.0 if looks_ahead and _patience_minutes(question) > 0.0 else None
    return np.minimum(np.maximum(_needed(question, present, busy), _needed_by_bursts(question, present)), current)


def _rises(load: Float64) -> bool:
    """Return whether the newest minute of load [L] is well above the one before; False where one of the two is unknown.

    That is above what such a load does from minute to minute: a restless one rises and falls all the time, and a lower need that
    has to last for half an hour of decisions never would.
    """
    if len(load) < 2:
        return False
    before, after = load[-2:]
    if not after >= RISING_LEAST * before > 0.0:
        return False
    changes = np.abs(np.diff(load[:-1]))
    known = changes[~np.isnan(changes)]
    usual = float(np.median(known)) / MEDIAN_ERRORS if len(known) >= RESTLESS_LEAST else 0.0
    return bool(after - before >= RISING_ERRORS * max(float(np.sqrt(after + before)), usual))


def _needed_by_bursts(question: Question, present: float) -> Int64:
    """Return the subtasks [N] with which no minute of the last ones would have been an emergency; 0 where unknown.

    That is: none was more than such a size carries, or what the minutes up to it left waiting was not worth a restart, or would
    not have been late.
    """
    measured, graph = question.measured, question.graph
    load = or_zero(measured.load[-BURST_MINUTES:])
    if not load.max() > OVER_LEAST * present:
        return np.zeros_like(question.current)
    records = load[:, None] * or_zero(measured.visits)
    work = records * or_zero(measured.service_minutes)
    restart_minutes = (question.restart_seconds or 0.0) / 60.0
    bearable = np.maximum(restart_minutes * work, RISING_ERRORS * np.sqrt(records) * or_zero(measured.service_minutes))
    ahead = (SEEN_MINUTES - _patience_minutes(question)) * work
    until = np.concatenate([np.zeros((1, work.shape[1])), np.cumsum(work, axis=0)])
    lasting = np.full_like(work, -np.inf)  # of the minutes up to each, what the size must carry for no more to wait than that
    for minutes in range(1, len(work) + 1):
        came = until[minutes:] - until[:-minutes]
        mean = (came - bearable[minutes - 1 :]) / minutes
        mean = np.minimum(mean, (came + ahead[minutes - 1 :]) / (minutes + SEEN_MINUTES))
        lasting[minutes - 1 :] = np.maximum(lasting[minutes - 1 :], mean)
    exact = measured.widened(np.minimum(work / OVER_LEAST, lasting).max(axis=0))
    return np.where(graph.scalable & ~np.isnan(exact), needed(or_zero(exact), graph.deal), 0).astype(np.int64)


def _needed(question: Question, load: float, busy: float | None = None) -> Int64:
    """Return the subtasks [N] that a load needs, ``busy`` of their time (None: as the owner or the rule wants); 0 where unknown.

    Without the room that a shrink leaves for noise: the higher of two minutes has it, and with both a job under a constant load
    kept twice what it needs.
    """
    sizing = Reading.of(question).sizing(CALIBRATED)
    exact = exact_subtasks(question.measured, np.array(load), question.graph, sizing, busy)
    known = ~np.isnan(exact)
    wanted = np.clip(needed(np.where(known, exact, 1.0), question.graph.deal), 1.0, TARGET_MAX)
    return np.where(known, wanted, 0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class _Newest:
    """What is known of a window's last minute; arrays are [N].

    Attributes:
        load: records per minute that came to the job.
        busy: share of its time that each task's busiest subtask was busy, as work is dealt out; NaN where unknown.
        waiting: records that wait for each task, as far as is known.
        grown: records by which they have grown.
        has_risen: bool, the load is well above that of the minute before; where that is not known, what the task took in is.
        uneven: work of the busiest subtask over what it has as work is dealt out, 1 to ``SKEW_MOST``.
    """

    load: float
    busy: Float64
    waiting: Float64
    grown: Float64
    has_risen: Bool
    uneven: Float64

    @classmethod
    def of(cls, question: Question) -> "_Newest | None":
        """Return it; None if the load is unknown, or the job stood still or began so lately that records cost more than usual."""
        figures, load = question.figures, question.measured.load
        lately = figures[-WARM_UP_MINUTES:]
        if len(figures) < 2 or np.isnan(load[-1]) or _stood_still(lately, question.graph.scalable):
            return None
        if question.restarted[-WARM_UP_MINUTES:].any():
            return None
        newest = figures[-1].astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            subtasks = carried(newest[:, FIGURE["parallelism"]], question.graph.deal)
            busy = newest[:, FIGURE["busy_ms"]] / (subtasks * MINUTE_MS)
            uneven = np.clip(np.nan_to_num(newest[:, FIGURE["busy_ms_max"]] / MINUTE_MS / busy, nan=1.0), 1.0, SKEW_MOST)
        uneven = np.where(question.graph.dealt > 0, uneven, 1.0)
        busy *= uneven
        # Where its times are unknown, a queue that lasts tells that a task worked all minute; so it does where they are too low.
        queued = not_begun(figures[-2:, :, FIGURE["queued_records_last"]].astype(np.float64), newest[:, FIGURE["parallelism"]])
        lasts = (queued >= np.fmax(newest[:, FIGURE["records_in"]], 1.0)).all(axis=0)
        busy *= question.understated
        busy = np.where((np.isnan(busy) | (question.understated > 1.0)) & lasts, 1.0, busy)
        taken = figures[-2:, :, FIGURE["records_in"]]
        before, after = (taken[0], taken[1]) if np.isnan(load[-2]) else np.broadcast_to(load[-2:, None], taken.shape)
        has_risen = (after >= RISEN_LEAST * before) & (
            after - before >= RISING_ERRORS * np.sqrt(after + before)
        )  # False where unknown
        return cls(float(load[-1]), busy, *_queued(question), has_risen, uneven)


def _stood_still(figures: Float32, scalable: Bool) -> bool:
    """Return whether in one of the minutes [m, N, F] no task processed anything although something waited.

    That is a restart that takes long, or a job that hangs: what waits then says nothing of the sizes.
    """
    into, out, waiting = (figures[..., FIGURE[name]] for name in ("records_in", "records_out", "queued_records_last"))
    did_nothing = ((into == 0) & ~(out > 0))[:, scalable].all(axis=-1)
    return bool((did_nothing & (waiting > 0).any(axis=-1)).any())


def _queued(question: Question) -> tuple[Float64, Float64]:
    """Return the records [N] that wait for each task, in its own queue and at the sources before it, and by how many they grew.

    A source whose queue was not known before took in less than came to it.
    """
    queued = question.figures[-2:, :, FIGURE["queued_records_last"]].astype(np.float64)
    grown = np.nan_to_num(queued[1] - queued[0])
    sources, newest = question.graph.by_level[0], question.figures[-1].astype(np.float64)
    came, taken = newest[sources, FIGURE["arrived"]], newest[sources, FIGURE["records_in"]]
    behind = np.where(taken > 0, came - taken, 0.0)
    grown[sources] = np.where(np.isnan(queued[:, sources]).any(axis=0), np.nan_to_num(behind), grown[sources])
    waiting = np.fmax(queued[1], grown)
    with_sources = []
    for records in (waiting, grown):
        lag = np.zeros_like(records)
        lag[sources] = records[sources]
        with_sources.append(records + question.measured.flows.carried(lag) - lag if lag.any() else records)
    return with_sources[0], with_sources[1]
