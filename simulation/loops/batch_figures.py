"""The figures of batches minute by minute: busy subtasks, departures, queues and waiting, from a schedule. Pure.

A schedule has start and completion of every batch at every task. A batch in service counts as processed and busy in proportion to
its time in service. Work lost in a restart is counted again when it is repeated, as the counters of a real engine do. Waiting and
latency are those of the batches that a task completed in the minute. A task's queue is what its parents have finished and it has
not processed.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.windows import FIGURE, Float32
from surescale.simulation.loops.terms import Bool, Float64, Int64, fill_added
from surescale.simulation.model.attempts import RECORD_BYTES
from surescale.simulation.model.level_order import LevelOrder, in_lines

AT_ONCE = 1e-9  # minutes: rounding must not make a batch that ends at a mark seem in service there


@dataclass(frozen=True)
class Segment:
    """A stretch of m minutes between restarts, and all batches in the job; R real tasks in order of level, W batches.

    Arrays per mark or minute have m + 2 columns: column 0 is the first mark and everything before, columns 1 to m are the minutes
    and the marks at their ends, column m + 1 is everything after. Arrays of one shape are processed in one run.

    Attributes:
        begin: the first mark, in minutes.
        minutes: m.
        arrived, size: float64 [B, W].
        done, service: float64 [R, B, W], completion and service time.
        sink: float64 [B, W], completion of the job.
        parallelism: float64 [R, B, 1].
        down: float64 [B], minutes of down time of an attempt that began at ``begin``, 0 where none began; None: in no row.
        requests: float64 [B, m].
    """

    begin: int
    minutes: int
    arrived: Float64
    size: Float64
    done: Float64
    service: Float64
    sink: Float64
    parallelism: Float64
    down: Float64 | None
    requests: Float64

    @property
    def marks(self) -> Float64:
        """Return float64 [m + 2], the ends of minutes, from ``begin`` on."""
        return np.arange(self.begin, self.begin + self.minutes + 2, dtype=np.float64)

    @cached_property
    def at_marks(self) -> "_AtMarks":
        """Return where each task stands at each mark."""
        return _at_marks(self)

    @cached_property
    def left(self) -> "_Slots":
        """Return the minute in which each batch [B, W] leaves the job."""
        return _Slots.of(self.sink, self)

    @cached_property
    def busy(self) -> Float64:
        """Return the busy subtask-minutes of each real task in each minute, float64 [R, B, m + 2]."""
        at, worked = self.at_marks, np.minimum(self.parallelism, self.size)
        worked *= self.service
        now = at.subtasks * at.spent
        busy = at.slot.added(worked)
        busy += now
        in_lines(busy)[:, 1:] -= in_lines(now)[:, :-1]
        return np.maximum(busy, 0.0, out=busy)


@dataclass(frozen=True, slots=True)
class _AtMarks:
    """Where each task stands at each mark, [R, B, m + 2].

    Attributes:
        finished: int64, batches completed, counted from the oldest known one: their end in a flat [B, W + 1].
        size: float64, requests of the batch in service; 0 if there is none.
        subtasks: float64, number of subtasks working on it.
        share: float64, the share of it that is done.
        spent: float64, its minutes in service.
        slot: the minute in which each batch [R, B, W] is completed.
    """

    finished: Int64
    size: Float64
    subtasks: Float64
    share: Float64
    spent: Float64
    slot: "_Slots"


def departures(segment: Segment) -> tuple[Float64, Float64]:
    """Return the batches that left the job in each minute and the sum of their sojourn / size, float64 [B, m]."""
    there = segment.size > 0
    per_request = np.where(there, (segment.sink - segment.arrived) / np.maximum(segment.size, 1.0), 0.0)
    left, spent = segment.left.added(there.astype(np.float64)), segment.left.added(per_request)
    return left[:, 1:-1], spent[:, 1:-1]


def busy_share_at_marks(segment: Segment) -> Float64:
    """Return the sum over real tasks of the share of busy subtasks at the end of each minute, float64 [B, m]."""
    total: Float64 = (segment.at_marks.subtasks / segment.parallelism).sum(axis=0)
    return total[:, 1:-1]


def fill_planes(order: LevelOrder, segments: tuple[Segment, ...], counted: Bool | None, planes: Float32) -> None:
    """Write the figures of consecutive segments into float32 [F, N, B, m]; NaN where they do not count."""
    at = 0
    for segment in segments:
        _fill(order, segment, planes[..., at : at + segment.minutes])
        at += segment.minutes
    if counted is not None:
        planes[:, :, ~counted] = np.nan


def _at_marks(segment: Segment) -> _AtMarks:
    slot = _Slots.of(segment.done, segment)
    finished = slot.finished()
    rows, batches = segment.size.shape
    oldest = np.minimum(finished, batches - 1)  # of the unfinished ones
    oldest += _offsets(segment.done.shape[:-1], batches)
    service, spent = segment.service.take(oldest), segment.done.take(oldest)
    np.subtract(service, spent, out=spent)
    spent += segment.marks
    sizes = np.zeros((rows, batches + 1))  # 0 where all are finished
    sizes[:, :-1] = segment.size
    finished += _offsets((rows,), batches + 1)
    size = sizes.take(finished)
    is_in_service = (spent > AT_ONCE).astype(np.float64)
    size *= is_in_service
    spent *= is_in_service
    np.maximum(service, AT_ONCE, out=service)  # service never takes less; this avoids division by 0
    share = np.divide(spent, service, out=service)
    return _AtMarks(finished, size, np.minimum(segment.parallelism, size), share, spent, slot)


def _fill(order: LevelOrder, segment: Segment, planes: Float32) -> None:
    for name in ("backpressured_ms", "state_bytes", "restarts"):
        planes[FIGURE[name]] = 0.0
    planes[FIGURE["coverage"]] = 1.0
    fill_added(planes)
    for name, value in _of_tasks(order, segment).items():
        plane = planes[FIGURE[name]]
        plane[:: len(plane) - 1] = 0.0  # source and sink
        plane[order.tasks] = value[..., 1:-1]
    records, data = planes[FIGURE["records_in"]], planes[FIGURE["bytes_in"]]
    records[0] = segment.requests
    planes[FIGURE["arrived"], 0] = segment.requests
    records[-1] = segment.left.added(segment.size)[:, 1:-1]
    planes[FIGURE["records_out"]] = records
    planes[FIGURE["bytes_out"]] = np.multiply(records, RECORD_BYTES, out=data)
    _fill_parallelism(order, segment, planes)


def _of_tasks(order: LevelOrder, segment: Segment) -> dict[str, Float64]:
    """Return the figures of the real tasks from a schedule, each float64 [R, B, m + 2]."""
    at, stay = segment.at_marks, _stay(order, segment)
    stay *= segment.size
    latency = at.slot.added(stay)
    stay -= segment.service * segment.size
    waited = at.slot.added(stay)
    processed, waiting = _passed(order, segment, at)
    records, mean = processed.copy(), waiting.copy()
    in_lines(records)[:, 1:] -= in_lines(processed)[:, :-1]
    in_lines(mean)[:, 1:] += in_lines(waiting)[:, :-1]
    mean /= 2
    latency *= MINUTE_MS
    waited *= MINUTE_MS
    return {
        "records_in": records,
        "busy_ms": segment.busy * MINUTE_MS,
        "queue_wait_record_ms": np.maximum(waited, 0.0, out=waited),
        "latency_record_ms": latency,
        "queued_records_mean": mean,
        "queued_records_last": waiting,
    }


def _fill_parallelism(order: LevelOrder, segment: Segment, planes: Float32) -> None:
    """Write parallelism, restarts, and idle time."""
    parallelism, idle = planes[FIGURE["parallelism"]], planes[FIGURE["idle_ms"]]
    parallelism[:: len(parallelism) - 1] = 1.0  # source and sink
    parallelism[order.tasks] = segment.parallelism
    np.divide(planes[FIGURE["busy_ms"]], parallelism, out=planes[FIGURE["busy_ms_max"]])
    np.multiply(parallelism, MINUTE_MS, out=idle)
    if segment.down is not None:
        planes[FIGURE["restarts"], :, segment.down > 0, 0] = 1.0
        up = np.arange(1, segment.minutes + 1) - segment.down[:, None]
        idle *= np.minimum(np.maximum(up, 0.0), 1.0).astype(np.float32)
    idle -= planes[FIGURE["busy_ms"]]
    np.maximum(idle, 0.0, out=idle)


def _stay(order: LevelOrder, segment: Segment) -> Float64:
    """Return how long each batch stayed at each task, float64 [R, B, W]."""
    stay = np.empty_like(segment.done)
    for level, members in enumerate(order.members):
        ready = order.latest(segment.done, level) if level else segment.arrived
        np.subtract(segment.done[members], ready, out=stay[members])
    return stay


def _passed(order: LevelOrder, segment: Segment, at: _AtMarks) -> tuple[Float64, Float64]:
    """Return the requests processed by each task up to each mark, and those waiting at it, float64 [R, B, m + 2]."""
    rows, batches = segment.size.shape
    cumulated = np.zeros((rows, batches + 1))
    np.cumsum(segment.size, axis=1, out=cumulated[:, 1:])
    finished = cumulated.take(at.finished)  # the parents' counts are ordered like the requests behind them
    waiting = np.zeros_like(finished)
    for level, members in enumerate(order.members):
        if level:
            waiting[members] = order.earliest(finished, level)
        else:
            waiting[members, :, :-1] = cumulated[:, batches - segment.minutes :]  # a mark comes before the batch of its minute
    processed = at.size * at.share
    processed += finished
    waiting -= processed
    return processed, np.maximum(waiting, 0.0, out=waiting)


@dataclass(frozen=True, slots=True)
class _Slots:
    """The minute of each batch [.., W]: 1 to m within a segment, 0 before it, m + 1 after it.

    Attributes:
        lines: shape [..] of the lines of batches.
        width: m + 2.
        flat: int64 [.. x W], line x width + minute.
    """

    lines: tuple[int, ...]
    width: int
    flat: Int64

    @classmethod
    def of(cls, done: Float64, segment: Segment) -> "_Slots":
        """Return the slots of completions [.., W].

        A batch that takes no time is completed in the minute that starts with its arrival, not in the one that ends with it.
        """
        width = segment.minutes + 2
        minute = done - (segment.begin + AT_ONCE)
        np.ceil(minute, out=minute)
        first = np.floor(segment.arrived) - (segment.begin - 1)
        np.maximum(minute, np.maximum(first, 0.0, out=first), out=minute)
        flat = np.minimum(minute, width - 1, out=minute).astype(np.int64)
        flat += _offsets(done.shape[:-1], width)
        return cls(done.shape[:-1], width, flat.ravel())

    def finished(self) -> Int64:
        """Return how many batches are completed by each mark, int64 [.., m + 2]."""
        count = np.bincount(self.flat, minlength=math.prod(self.lines) * self.width).reshape(*self.lines, self.width)
        finished: Int64 = np.cumsum(count, axis=-1, dtype=np.int64)
        return finished

    def added(self, weights: Float64) -> Float64:
        """Return the sum of the weights [.., W] of the batches completed in each minute, float64 [.., m + 2]."""
        count = np.bincount(self.flat, weights.ravel(), minlength=math.prod(self.lines) * self.width)
        return np.asarray(count, dtype=np.float64).reshape(*self.lines, self.width)


def _offsets(lines: tuple[int, ...], width: int) -> Int64:
    """Return where each line starts in a flat array of lines of this width, [.., 1]."""
    begin: Int64 = np.arange(0, math.prod(lines) * width, width, dtype=np.int64).reshape(*lines, 1)
    return begin
