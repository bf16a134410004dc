"""What a schedule of batches looks like at minute marks: busy instances, departures, and the figures of every minute. Pure.

A schedule gives start and completion of every batch at every task. A batch in service counts as processed and busy in
proportion to the time it has been; what a restart throws away is counted again when it is done again, as a real engine's counters
do. Waiting and latency are those of the batches that a task completed in the minute. A task's queue is what its parents have
finished and it has not processed.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from contracts.clock import MINUTE_MS
from contracts.windows import FIGURE, Float32
from simulation.cores import Bool, Float64, Int64
from simulation.flow import RECORD_BYTES
from simulation.level_order import LevelOrder

AT_ONCE = 1e-9  # minutes: rounding must not make a batch that ends at a mark look as if it were in service there


@dataclass(frozen=True)
class Segment:
    """A stretch of m minutes between restarts, and all batches in the job; R real tasks in order of level, W batches.

    Attributes:
        begin: minutes, the first mark.
        minutes: m.
        arrived, size: float64 [B, W].
        done, service: float64 [R, B, W], completion and how long it took.
        sink: float64 [B, W], completion of the job.
        parallelism: int64 [R, B].
        down: float64 [B], minutes for which an attempt that began at ``begin`` stands still, 0 where none began; None: no row's.
        requests: float64 [B, m].
    """

    begin: int
    minutes: int
    arrived: Float64
    size: Float64
    done: Float64
    service: Float64
    sink: Float64
    parallelism: Int64
    down: Float64 | None
    requests: Float64

    @property
    def marks(self) -> Float64:
        """Return float64 [m + 1], the ends of minutes, ``begin`` included."""
        return self.begin + np.arange(self.minutes + 1, dtype=np.float64)

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
        """Return the busy instance-minutes of each real task in each minute, float64 [R, B, m]."""
        at, instances = self.at_marks, np.minimum(self.parallelism[..., None], self.size)
        now = np.minimum(self.parallelism[..., None], at.size)
        now *= at.spent
        instances *= self.service
        busy = at.slot.added(instances) + now[..., 1:]
        busy -= now[..., :-1]
        return np.maximum(busy, 0.0, out=busy)


@dataclass(frozen=True, slots=True)
class _AtMarks:
    """Where each task stands at each mark, [R, B, m + 1].

    Attributes:
        finished: int64, batches completed, counted from the oldest one known.
        size: float64, requests of the batch in service; 0 when none is.
        share: float64, how much of it is done; 0 where none is.
        spent: float64, minutes it has been in service.
        slot: the minute in which each batch [R, B, W] is completed.
    """

    finished: Int64
    size: Float64
    share: Float64
    spent: Float64
    slot: "_Slots"


def departures(segment: Segment) -> tuple[Float64, Float64]:
    """Return batches that left the job in each minute and the sum of their sojourn / size, float64 [B, m]."""
    there = segment.size > 0
    per_request = np.where(there, (segment.sink - segment.arrived) / np.maximum(segment.size, 1.0), 0.0)
    return segment.left.added(there.astype(np.float64)), segment.left.added(per_request)


def busy_share_at_marks(segment: Segment) -> Float64:
    """Return the sum over real tasks of busy instances over instances at the end of each minute, float64 [B, m]."""
    at = segment.at_marks
    share = np.minimum(segment.parallelism[..., None], at.size[..., 1:]) / segment.parallelism[..., None]
    total: Float64 = share.sum(axis=0)
    return total


def fill_planes(order: LevelOrder, segments: tuple[Segment, ...], counted: Bool | None, shown: slice, planes: Float32) -> None:
    """Write the figures of some minutes of consecutive segments into float32 [F, N, B, m]; NaN where they do not count.

    ``shown`` leaves minutes of the first segment out.
    """
    at = 0
    for segment in segments:
        minutes = segment.minutes - (shown.start or 0)
        _fill(order, segment, shown, planes[..., at : at + minutes])
        at, shown = at + minutes, slice(None)
    if counted is not None:
        planes[:, :, ~counted[:, -planes.shape[-1] :]] = np.nan


def _at_marks(segment: Segment) -> _AtMarks:
    slot = _Slots.of(segment.done, segment)
    finished = slot.finished()
    batches = segment.size.shape[1]
    at = np.minimum(finished, batches - 1)
    size = np.take(segment.size, at + _offsets(segment.size.shape[:1], batches))
    at += _offsets(segment.done.shape[:-1], batches)
    service = np.take(segment.service, at)
    spent = np.take(segment.done, at)
    np.subtract(service, spent, out=spent)
    spent += segment.marks
    is_in_service = finished < batches
    is_in_service &= spent > AT_ONCE
    size *= is_in_service
    spent *= is_in_service
    np.maximum(service, AT_ONCE, out=service)  # nothing in service takes less: it keeps 0 out of the divisor
    share = np.divide(spent, service, out=service)
    return _AtMarks(finished, size, share, spent, slot)


def _fill(order: LevelOrder, segment: Segment, shown: slice, planes: Float32) -> None:
    for name in ("backpressured_ms", "state_bytes", "restarts"):
        planes[FIGURE[name]] = 0.0
    planes[FIGURE["coverage"]] = 1.0
    for name, value in _of_tasks(order, segment).items():
        plane = planes[FIGURE[name]]
        plane[[0, -1]] = 0.0
        plane[order.tasks] = value[..., shown]
    records = planes[FIGURE["records_in"]]
    records[0] = segment.requests[:, shown]
    records[-1] = segment.left.added(segment.size)[:, shown]
    planes[FIGURE["records_out"]] = records
    for name in ("bytes_in", "bytes_out"):
        np.multiply(records, RECORD_BYTES, out=planes[FIGURE[name]])
    _fill_parallelism(order, segment, shown, planes)


def _of_tasks(order: LevelOrder, segment: Segment) -> dict[str, Float64]:
    """Return the figures of the real tasks that a schedule tells, each float64 [R, B, m]."""
    at = segment.at_marks
    ready, slot = _ready(order, segment), at.slot
    np.subtract(segment.done, ready, out=ready)
    ready *= segment.size
    latency = slot.added(ready) * MINUTE_MS
    ready -= segment.service * segment.size
    waited = slot.added(ready) * MINUTE_MS
    processed, waiting = _passed(order, segment, at)
    return {
        "records_in": np.diff(processed, axis=-1),
        "busy_ms": segment.busy * MINUTE_MS,
        "queue_wait_record_ms": np.maximum(waited, 0.0, out=waited),
        "latency_record_ms": latency,
        "queued_records_mean": (waiting[..., 1:] + waiting[..., :-1]) / 2,
        "queued_records_last": waiting[..., 1:],
    }


def _fill_parallelism(order: LevelOrder, segment: Segment, shown: slice, planes: Float32) -> None:
    """Write parallelism, the minutes in which attempts began, and idle time."""
    parallelism, idle = planes[FIGURE["parallelism"]], planes[FIGURE["idle_ms"]]
    parallelism[[0, -1]] = 1.0
    parallelism[order.tasks] = segment.parallelism[..., None]
    np.multiply(parallelism, MINUTE_MS, out=idle)
    if segment.down is not None:
        if not shown.start:
            planes[FIGURE["restarts"], :, segment.down > 0, 0] = 1.0
        up = np.clip(np.arange(1, segment.minutes + 1) - segment.down[:, None], 0.0, 1.0)
        idle *= up[:, shown].astype(np.float32)
    np.subtract(idle, planes[FIGURE["busy_ms"]], out=idle)
    np.maximum(idle, 0.0, out=idle)


def _ready(order: LevelOrder, segment: Segment) -> Float64:
    """Return when each batch was ready for each task, float64 [R, B, W]."""
    ready = np.empty_like(segment.done)
    for level, members in enumerate(order.members):
        ready[members] = order.latest(segment.done, level) if level else segment.arrived
    return ready


def _passed(order: LevelOrder, segment: Segment, at: _AtMarks) -> tuple[Float64, Float64]:
    """Return the requests that each task has processed by each mark, and those at it that it has not, float64 [R, B, m + 1]."""
    rows, batches = segment.size.shape
    cumulated = np.zeros((rows, batches + 1))
    np.cumsum(segment.size, axis=1, out=cumulated[:, 1:])
    offsets = _offsets((rows,), batches + 1)
    processed = np.take(cumulated, at.finished + offsets)
    arrived = batches - segment.minutes + np.arange(segment.minutes + 1)  # a mark lies before that minute's batch
    waiting = np.empty_like(processed)
    finished = processed.copy()  # the parents' own counts order as the requests behind them do
    for level, members in enumerate(order.members):
        waiting[members] = -order.latest(-finished, level) if level else np.take(cumulated, arrived + offsets)
    processed += at.size * at.share
    waiting -= processed
    return processed, np.maximum(waiting, 0.0, out=waiting)


@dataclass(frozen=True, slots=True)
class _Slots:
    """Where batches [.., W] fall: minutes 1 to m of a segment, 0 before it, m + 1 after it.

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

        What takes no time is completed in the minute that begins with the batch's arrival, not in the one that ends with it.
        """
        width = segment.minutes + 2
        minute = done - (segment.begin + AT_ONCE)
        np.ceil(minute, out=minute)
        np.maximum(minute, np.floor(segment.arrived) - (segment.begin - 1), out=minute)
        np.minimum(np.maximum(minute, 0, out=minute), width - 1, out=minute)
        minute += _offsets(done.shape[:-1], width)
        return cls(done.shape[:-1], width, minute.ravel().astype(np.int64))

    def finished(self) -> Int64:
        """Return how many batches are completed by each mark, int64 [.., m + 1]."""
        count = np.bincount(self.flat, minlength=math.prod(self.lines) * self.width).reshape(*self.lines, self.width)
        finished: Int64 = np.cumsum(count[..., :-1], axis=-1, dtype=np.int64)
        return finished

    def added(self, weights: Float64) -> Float64:
        """Return the weights [.., W] of the batches that each minute completes, summed, float64 [.., m]."""
        count = np.bincount(self.flat, weights.ravel(), minlength=math.prod(self.lines) * self.width)
        return np.asarray(count, dtype=np.float64).reshape(*self.lines, self.width)[..., 1:-1]


def _offsets(lines: tuple[int, ...], width: int) -> Int64:
    """Return where each line begins in a flat array of lines of this width, [.., 1]."""
    begin: Int64 = (np.arange(math.prod(lines), dtype=np.int64) * width).reshape(*lines, 1)
    return begin
