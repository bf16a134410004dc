"""One batch of requests a minute through a job with barriers: the core of the modes ``slo`` and ``compat``. Pure.

At the start of every minute its requests arrive as one batch b of s requests. A task receives it when all parents have finished
it, splits it evenly over its p subtasks, each of which takes d minutes per request, and is done when the last shard is done:

    c[i, b] = max(r[i, b], c[i, b - 1]) + S[i, b],  r = largest c of the parents (first tasks: arrival),  S = ceil(s / p_i) d_i,

because shards differ by at most one request and p subtasks act as one server. Over W batches, with C the cumulative sum of S,
c[b] = C[b] + max over j <= b of (r[j] - C[j] + S[j]): one cumulative sum and one running maximum per level, no event queue.

A restart at time T with cost h keeps finished work. A task repeats its unfinished batches from T + h on, at the new parallelism:
work in service is lost, but no request is.

The two modes differ in what they charge.

``slo``: only a change restarts the job. Latency = min(10, mean over requests of max(0, sojourn - SLO)) / SLO; batches still
inside count at their age; SLO = longest path of min(0.8, demand at peak load) minutes. Utilisation = busy over allocated
subtask-minutes.

``compat``: the rules of the SURE paper's code (IJCAI 2022), including its slips. Every decision restarts all tasks. Snapshots are
taken just before a minute's batch arrives: at T under the old schedule, then at T + 2, T + 3, ... (at T + 1 the job is down).
Latency of a snapshot = mean of sojourn / size over batches that left since the last one, 1.0 if none left. Utilisation = mean
over all N tasks, source and sink included, of the share of subtasks busy at that instant. Both are averaged over snapshots.

Figures minute by minute come from the schedule, which has start and completion of every batch at every task. A batch in
service counts as processed and busy in proportion to its time in service. Work lost in a restart is counted again when it is
repeated, as the counters of a real engine do. Waiting and latency are those of the batches that a task completed in the minute. A
task's queue is what its parents have finished and it has not processed.
"""

import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.windows import FIGURE, FIGURES, Float32
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.loops.terms import Bool, Float64, Int64, Recent, Span, Terms, as_figures, fill_usual
from surescale.simulation.model.attempts import RECORD_BYTES
from surescale.simulation.model.level_order import LevelOrder, in_lines, in_order
from surescale.simulation.model.reward import LATENCY_MINUTES_MAX

UNFINISHED_MAX = 1024  # batches of one row: 17 hours of backlog
LONG_AGO = -1e6  # minutes
AT_ONCE = 1e-9  # minutes: rounding must not make a batch that ends at a mark seem in service there
SILENT_LATENCY = 1.0  # of a snapshot after which nothing left


@dataclass(frozen=True, slots=True)
class Schedule:
    """Batches [W] of B rows, oldest first: arrival and size, float64 [B, W], and completion at each task.

    Times are minutes from now, so past ones are negative; ``done`` is float64 [N, B, W].
    """

    arrived: Float64
    size: Float64
    done: Float64


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
    fill_usual(planes)
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


class BatchRows:
    """B rows of one job with one batch a minute; see ``simulation.loops.terms.Core``. Times are minutes from now."""

    def __init__(self, job: SizedJob, parallelism: Int64, terms: Terms, unfinished_max: int = UNFINISHED_MAX) -> None:
        """Start empty at parallelism [B, N]; batches beyond ``unfinished_max`` are merged."""
        self.job, self._terms, self._unfinished_max = job, terms, unfinished_max
        self._order = LevelOrder.of(job)
        self._parallelism = np.ascontiguousarray(parallelism.T)
        rows, real = len(parallelism), job.size - 2
        self._arrived, self._size = np.zeros((rows, 0)), np.zeros((rows, 0))
        self._done, self._service = np.zeros((real, rows, 0)), np.zeros((real, rows, 0))
        self._last_snapshot: tuple[Float64, Float64, Bool] | None = None  # compat: latency, utilisation, counted
        self._recent = Recent.empty(terms.snapshots + self._is_compat, (len(FIGURES), job.size, rows))

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N]."""
        return self._parallelism.T

    @property
    def unfinished(self) -> Int64:
        """Return int64 [B], batches that have not reached the sink."""
        inside: Int64 = (self._sink() > AT_ONCE).sum(axis=1)
        return inside

    @property
    def schedule(self) -> Schedule:
        """Return the batches inside, and those that left since the last call of ``pass_time``."""
        done = np.empty((self.job.size, *self._arrived.shape))
        done[0], done[-1], done[self._order.tasks] = self._arrived, self._sink(), self._done
        return Schedule(self._arrived, self._size, done)

    def pass_time(self, requests: Float64, counted: Bool | None, desired: Int64 | None) -> Span:
        """Let m minutes pass (``simulation.loops.terms.Core``)."""
        self._forget_finished()
        before, minutes = self._parallelism, requests.shape[1]
        after = before if desired is None else np.ascontiguousarray(desired.T)
        changed = np.asarray((after != before).any(axis=0))
        restarted = np.ones_like(changed) if self._is_compat and desired is not None else changed
        delay = 0 if desired is None else min(self._terms.delay_minutes, minutes)
        segments = [self._advance(0, requests[:, :delay], None)] if delay else []
        self._parallelism = after
        if minutes > delay:
            segments.append(self._advance(delay, requests[:, delay:], None if desired is None else restarted))
        hidden = int(self._is_compat and desired is not None)  # at T + 1 the job is down and there is no snapshot
        self._recent = self._recent.then(minutes - hidden, partial(fill_planes, self._order, tuple(segments), counted), hidden)
        span = self._span(segments, requests, counted, (changed, restarted), (before, delay))
        self._arrived, self._done = self._arrived - minutes, self._done - minutes
        return span

    def figures(self) -> Float32:
        """Return the last window (``simulation.loops.terms.Core``)."""
        self._recent = self._recent.seen()
        built = self._recent.built
        return as_figures(built[..., :-1] if self._is_compat else built)

    def copy(self) -> "BatchRows":
        """Return independent rows in the same state: state is replaced, never written to."""
        return copy(self)

    def chosen(self, rows: Int64) -> "BatchRows":
        """Return these rows, one perhaps often, without figures: branches never show any."""
        twin = copy(self)
        twin._parallelism = np.ascontiguousarray(self._parallelism[:, rows])
        twin._arrived, twin._size = self._arrived[..., rows, :], self._size[..., rows, :]
        twin._done, twin._service = self._done[..., rows, :], self._service[..., rows, :]
        if self._last_snapshot is not None:
            latency, utilisation, is_counted = self._last_snapshot
            twin._last_snapshot = latency[rows], utilisation[rows], is_counted[rows]
        twin._recent = self._recent.emptied(len(rows))
        return twin

    @property
    def _is_compat(self) -> bool:
        return self._terms.mode == "compat"

    def _sink(self) -> Float64:
        return self._order.at_sink(self._done)

    def _forget_finished(self) -> None:
        """Drop the batches that have left in every row, and merge some in rows with too many."""
        inside = self.unfinished
        if inside.max(initial=0) > self._unfinished_max:
            self._merge(inside)
            inside = self.unfinished
        kept = slice(self._arrived.shape[1] - int(inside.max(initial=0)), None)
        self._arrived, self._size = self._arrived[:, kept], self._size[:, kept]
        self._done, self._service = self._done[..., kept], self._service[..., kept]

    def _merge(self, inside: Int64) -> None:
        """Merge neighbours in overfull rows, smallest pairs first: no request is lost, and a pair is as late as its second batch.

        The two oldest batches are kept: a batch in service that grew every hour would never finish between two restarts.
        """
        arrived, size, done, service = self._arrived.copy(), self._size.copy(), self._done.copy(), self._service.copy()
        for row in np.flatnonzero(inside > self._unfinished_max).tolist():
            first, last = self._pairs(row, int(inside[row]))
            both = size[row, first] + size[row, last]
            weighted = arrived[row, first] * size[row, first] + arrived[row, last] * size[row, last]
            arrived[row, last] = np.where(both > 0, weighted / np.maximum(both, 1.0), arrived[row, last])
            size[row, last] = both
            service[:, row, last] += service[:, row, first]
            kept = np.delete(np.arange(size.shape[1]), first)
            gone = len(first)
            for values in (arrived[row], size[row], *done[:, row], *service[:, row]):
                values[gone:], values[:gone] = values[kept], 0.0
            done[:, row, :gone] = LONG_AGO
        self._arrived, self._size, self._done, self._service = arrived, size, done, service

    def _pairs(self, row: int, inside: int) -> tuple[Int64, Int64]:
        """Return which batches of a row to merge with the next: one pair for each batch too many."""
        begin = self._size.shape[1] - inside + 2
        first = np.arange(begin, self._size.shape[1] - 1, 2)
        together = self._size[row, first] + self._size[row, first + 1]
        chosen = np.sort(first[np.argsort(together, kind="stable")[: inside - self._unfinished_max]])
        return chosen, chosen + 1

    def _advance(self, begin: int, requests: Float64, restart: Bool | None) -> Segment:
        """Add the batches of m minutes from ``begin`` on, after a restart of the rows in ``restart`` [B]."""
        (rows, minutes), old = requests.shape, self._arrived.shape[1]
        arrived, size = np.empty((rows, old + minutes)), np.empty((rows, old + minutes))
        arrived[:, :old], arrived[:, old:] = self._arrived, np.arange(begin, begin + minutes)
        size[:, :old], size[:, old:] = self._size, requests
        self._arrived, self._size = arrived, size
        parallelism = self._parallelism[self._order.tasks].astype(np.float64)[..., None]
        fresh = size / parallelism
        np.ceil(fresh, out=fresh)
        fresh *= self._order.service_minutes[..., None]
        kept = np.ones(self._done.shape, dtype=np.bool_)
        earliest, down = np.full((rows, 1), -np.inf), None
        if restart is not None:
            down = np.where(restart, self._terms.restart_ms / MINUTE_MS, 0.0)
            kept = ~restart[:, None] | (self._done <= begin + AT_ONCE)
            earliest[restart] = begin + down[restart, None]
        to_do = fresh.copy()
        to_do[..., :old][kept] = 0.0
        np.copyto(fresh[..., :old], self._service, where=kept)
        self._service, self._done = fresh, self._completions(to_do, kept, earliest)
        schedule = (arrived, size, self._done, fresh, self._sink())
        return Segment(begin, minutes, *schedule, parallelism, down, requests)

    def _completions(self, to_do: Float64, kept: Bool, earliest: Float64) -> Float64:
        """Return c, float64 [R, B, W], from the service times of the remaining work (0 where ``kept`` has it done)."""
        old = kept.shape[-1]
        done = np.empty_like(to_do)
        for level, members in enumerate(self._order.members):
            ready = done[members]  # filled in place
            np.maximum(self._order.latest(done, level) if level else self._arrived, earliest, out=ready)
            np.copyto(ready[..., :old], self._done[members], where=kept[members])
            fifo(ready, to_do[members], out=ready)
        return done

    def _span(
        self,
        segments: list[Segment],
        requests: Float64,
        counted: Bool | None,
        flags: tuple[Bool, Bool],
        earlier: tuple[Int64, int],
    ) -> Span:
        minutes = requests.shape[1]
        weight = np.ones(requests.shape) if counted is None else counted.astype(np.float64)
        counted_minutes = weight.sum(axis=1)
        allocated = self._allocated(earlier, weight)
        if counted is None and not self._is_compat:
            busy = sum((in_order(_busy_between(segment)) for segment in segments), np.zeros(len(requests)))
        else:
            per_minute = np.concatenate([in_order(segment.busy)[:, 1:-1] for segment in segments], axis=-1)
            busy = (per_minute * weight).sum(axis=1)
        if self._is_compat:
            latency, utilisation, counted_minutes = self._sampled(segments[0], weight, decided=bool(flags[1].any()))
            full_latency = self._of_arrivals(weight, segments[-1].sink)
        else:
            beyond = np.where(counted_minutes > 0, self._beyond_slo(minutes, segments[-1].sink), 0.0)
            latency = np.minimum(beyond, LATENCY_MINUTES_MAX) / self.job.slo_minutes
            full_latency = beyond / self.job.slo_minutes
            utilisation = busy / np.maximum(allocated, 1e-9)
        return Span(
            latency=latency,
            full_latency=full_latency,
            utilisation=utilisation,
            counted_minutes=counted_minutes,
            arrivals=(requests * weight).sum(axis=1),
            backlog_minutes=self._inside(minutes, counted, segments[-1].sink),
            busy_minutes=busy,
            allocated_minutes=allocated,
            rescaled=flags[0],
            restarted=flags[1],
        )

    def _allocated(self, earlier: tuple[Int64, int], weight: Float64) -> Float64:
        before, now = (each[1:-1].sum(axis=0).astype(np.float64) for each in (earlier[0], self._parallelism))
        allocated: Float64 = before * weight[:, : earlier[1]].sum(axis=1) + now * weight[:, earlier[1] :].sum(axis=1)
        return allocated

    def _beyond_slo(self, minutes: int, sink: Float64) -> Float64:
        """Return the mean over requests of the minutes beyond the SLO, float64 [B]."""
        requests = np.where(sink > AT_ONCE, self._size, 0.0)
        beyond = np.maximum(0.0, np.minimum(sink, minutes) - self._arrived - self.job.slo_minutes)
        mean: Float64 = _total(requests * beyond) / np.maximum(_total(requests), 1.0)
        return mean

    def _of_arrivals(self, weight: Float64, sink: Float64) -> Float64:
        """Return the mean minutes per request of the batches that arrived in the last m minutes, float64 [B]; weight [B, m]."""
        newest = slice(sink.shape[1] - weight.shape[1], None)
        size = self._size[:, newest]
        per_request = (sink[:, newest] - self._arrived[:, newest]) / np.maximum(size, 1.0)
        counts = weight * (size > 0)
        latency: Float64 = (per_request * counts).sum(axis=1) / np.maximum(counts.sum(axis=1), 1.0)
        return latency

    def _inside(self, minutes: int, counted: Bool | None, sink: Float64) -> Float64:
        """Return the request-minutes spent in the job, float64 [B]."""
        if counted is None:
            stay = np.maximum(0.0, np.minimum(sink, minutes) - np.maximum(self._arrived, 0.0))
        else:
            at = np.arange(minutes, dtype=np.float64)
            overlap = np.minimum(sink[..., None], at + 1) - np.maximum(self._arrived[..., None], at)
            stay = (np.maximum(0.0, overlap) * counted[:, None]).sum(axis=-1)
        return _total(stay * self._size)

    def _sampled(self, segment: Segment, weight: Float64, *, decided: bool) -> tuple[Float64, Float64, Float64]:
        """Return latency, utilisation and the number of snapshots, each [B], and remember the last snapshot for the next span."""
        busy = busy_share_at_marks(segment) / self.job.size
        left, spent = departures(segment)
        if decided:  # at T + 1 the job is down and there is no snapshot
            left[:, 1] += left[:, 0]
            spent[:, 1] += spent[:, 0]
        latency = np.where(left > 0, spent / np.maximum(left, 1.0), SILENT_LATENCY)
        first = slice(1 if decided else 0, -1)
        latencies, shares, counts = latency[:, first], busy[:, first], weight[:, first]
        if decided and self._last_snapshot is not None:
            before = self._last_snapshot
            latencies = np.concatenate([before[0][:, None], latencies], axis=1)
            shares = np.concatenate([before[1][:, None], shares], axis=1)
            counts = np.concatenate([before[2][:, None], counts], axis=1)
        self._last_snapshot = latency[:, -1], busy[:, -1], weight[:, -1] > 0
        number = counts.sum(axis=1)
        divisor = np.maximum(number, 1.0)
        return (latencies * counts).sum(axis=1) / divisor, (shares * counts).sum(axis=1) / divisor, number


def fifo(ready: Float64, service: Float64, out: Float64 | None = None) -> Float64:
    """Return c[b] = max(ready[b], c[b - 1]) + service[b] along the last axis, for all b at once."""
    total = np.cumsum(service, axis=-1)
    done = np.subtract(ready, total, out=out)
    done += service
    np.maximum.accumulate(done, axis=-1, out=done)
    done += total
    return done


def _busy_between(segment: Segment) -> Float64:
    """Return the busy subtask-minutes of each real task within a segment, float64 [R, B]."""
    first, last = segment.begin, segment.begin + segment.minutes
    overlap = np.minimum(segment.done, last) - np.maximum(segment.done - segment.service, first)
    subtasks = np.minimum(segment.parallelism, segment.size)
    return _total(np.maximum(overlap, 0.0) * subtasks)


def _total(of: Float64) -> Float64:
    """Return the sum over batches from first to last: the number of finished ones in front depends on the other rows."""
    total: Float64 = np.cumsum(of, axis=-1)[..., -1]
    return total
