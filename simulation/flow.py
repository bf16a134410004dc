"""Jobs under load, minute by minute: parallelism, restarts, counters of the running attempt, and the figures of every minute.

``FlowRows`` holds B independent environments of one job. The simulated engine uses it with B = 1 and training with many; both
get the same numbers, bit for bit, however calls cut time.

Counters are real numbers inside; what leaves is their floor. ``Flow.rows`` is what the road arrives at from the samples, since
the counters of a task's subtasks always add up to that floor (``simulation.sampling``).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts.clock import MINUTE_MS
from contracts.windows import FIGURE, FIGURES, Float32
from simulation.jobs import SizedJob
from simulation.queueing import STEP_MS, STEPS, FlowTables, queues, run_minute, served_at_most

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

RECORD_BYTES = 200
WHOLE = 1e-6  # a count this close below an integer is that integer: 0.1 added ten times
NEVER = 2**40  # steps


@dataclass(frozen=True, slots=True)
class Flow:
    """What happened in m minutes of B environments.

    Attributes:
        rows: float32 [m, B, N, F], figures in the order of ``contracts.windows.FIGURES``.
        waiting: float64 [m * STEPS, N, B], records waiting at each task at the end of each step.
        served: float64 [m * STEPS, N, B], records served since the attempt began.
        waited_ms: float64 [m * STEPS, N, B], record-milliseconds spent waiting since the attempt began.
        idle_ms: float64 [m * STEPS, N, B], idle milliseconds of all subtasks since the attempt began.
        arrivals: float64 [m, B], records that entered the job.
        backlog_minutes: float64 [m, B], integral over the minute of the records that entered and have not left.
        busy_minutes: float64 [m, B], busy subtask-minutes of the real tasks.
        allocated_minutes: float64 [m, B], parallelism of the real tasks, summed.
        overloaded: bool [m, B], some task was offered more than its parallelism serves; false in a minute with a restart.
        state_bytes: int64 [N], what each task's state held.
        restarting: bool [m, B], the job was down for a whole step of the minute; a barrier of a second does not count.
    """

    rows: Float32
    waiting: Float64
    served: Float64
    waited_ms: Float64
    idle_ms: Float64
    arrivals: Float64
    backlog_minutes: Float64
    busy_minutes: Float64
    allocated_minutes: Float64
    overloaded: Bool
    restarting: Bool
    state_bytes: Int64


class FlowRows:
    """B environments of one job, each with its own parallelism and its own running attempt."""

    def __init__(
        self,
        job: SizedJob,
        parallelism: Int64,
        *,
        state_bytes: Int64 | None = None,
        sample_every_steps: int = 1,
    ) -> None:
        """Start B environments with empty queues at parallelism [B, N].

        ``state_bytes`` [N] is what each task's state holds; a minute's mean queue is taken over every ``sample_every_steps``-th
        step, as the samples are.
        """
        assert STEPS % sample_every_steps == 0, sample_every_steps
        self.job = job
        self._tables = FlowTables.of(job)
        self._state_bytes = np.zeros(job.size, dtype=np.int64) if state_bytes is None else state_bytes
        self._sample_every = sample_every_steps
        shape = (job.size, len(parallelism))
        self._lag = np.zeros(shape)
        self._served, self._waited, self._idle = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._floors = np.zeros((len(_COUNTERS), *shape))
        self._down_steps = np.zeros(shape[1], dtype=np.int64)
        self._lost = np.zeros(shape[1])  # share of the first step after those in which the job stands still as well
        self._began = np.zeros(shape[1], dtype=np.bool_)
        self._set_parallelism(np.ones(shape, dtype=np.int64), parallelism, np.ones(shape[1], dtype=np.bool_))
        self._kept_lag: Float64 | None = None  # [N, B], at the last checkpoint
        self._entered_since = np.zeros(shape[1])

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N]."""
        return self._parallelism.T.copy()

    def restart(self, parallelism: Int64, restart_ms: int, which: Bool) -> None:
        """Begin a new attempt of some environments (bool [B]) at parallelism [B, N], down for the next ``restart_ms``.

        Records that were being worked on are not lost: what had not been served is served by the new attempt.
        """
        self._set_parallelism(self._parallelism, parallelism, which)
        for counter in (self._served, self._waited, self._idle, self._floors):
            counter[..., which] = 0.0
        self._down_steps[which] = restart_ms // STEP_MS
        self._lost[which] = restart_ms % STEP_MS / STEP_MS
        self._began |= which

    def stop(self) -> None:
        """Keep every environment down until its next restart."""
        self._down_steps[:] = NEVER

    def keep(self) -> None:
        """Take a checkpoint: what every task has served and what waits at it, as of now."""
        self._kept_lag, self._entered_since = self._lag.copy(), np.zeros_like(self._entered_since)

    def rewind(self) -> Float64:
        """Go back to the last checkpoint, if there is one, and return the records [B] that are to be served again.

        Checkpoints hold what waits at each task (Flink's unaligned ones, FLIP-76), so every task stands where it stood. The
        virtual source counts what enters the job, each record once: it does not go back. A new attempt (``restart``) follows.
        """
        if self._kept_lag is None:
            return np.zeros_like(self._entered_since)
        before, self._lag = self._lag, self._kept_lag + self._entered_since
        self._lag[self._tables.first] = before[self._tables.first]
        again: Float64 = np.maximum(0.0, self._lag - before).max(axis=0)
        return again

    def hold(self, state_bytes: Int64) -> None:
        """Set what each task's state [N] holds from now on."""
        self._state_bytes = state_bytes

    def advance(self, arrivals: Float64) -> Flow:
        """Let m minutes pass with arrivals [m, B] in records per minute."""
        minutes = len(arrivals)
        up = self._up_steps(minutes)
        lags = np.empty((minutes * STEPS + 1, *self._lag.shape))
        lags[0] = self._lag
        for minute in range(minutes):
            span = slice(minute * STEPS, (minute + 1) * STEPS)
            is_up = None if up is None else up[span]
            lags[minute * STEPS + 1 : (minute + 1) * STEPS + 1] = run_minute(
                self._tables, lags[minute * STEPS], arrivals[minute], self._most, is_up
            )[1:]
        self._lag = lags[-1].copy()
        if self._kept_lag is not None:
            self._entered_since = self._entered_since + _in_order(np.asarray(arrivals, dtype=np.float64), 0)
        return self._account(lags, np.asarray(arrivals, dtype=np.float64), up)

    def _up_steps(self, minutes: int) -> Float64 | None:
        """Return float64 [m * STEPS, B], the share of each step in which the job runs, and count the down time off.

        None when nothing is down.
        """
        if not (self._down_steps.any() or self._lost.any()):
            return None
        steps = np.arange(minutes * STEPS)[:, None]
        up: Float64 = (steps >= self._down_steps) - np.where(steps == self._down_steps, self._lost, 0.0)
        self._lost = np.where(self._down_steps < minutes * STEPS, 0.0, self._lost)
        self._down_steps = np.maximum(self._down_steps - minutes * STEPS, 0)
        return up

    def _set_parallelism(self, before: Int64, after: Int64, which: Bool) -> None:
        self._parallelism = np.where(which, after.T, before)
        self._most = served_at_most(self._tables, self._parallelism)

    def _account(self, lags: Float64, arrivals: Float64, up: Float64 | None) -> Flow:
        minutes, service = len(arrivals), self._tables.service_minutes
        waiting = queues(self._tables, lags)
        entered = np.repeat(arrivals, STEPS, axis=0)[:, None, :] / STEPS
        served = np.maximum(0.0, entered - np.diff(lags, axis=0))
        waited = (waiting[1:] + waiting[:-1]) * (STEP_MS / 2)
        busy_ms = served * (service * MINUTE_MS)
        offered_ms = np.full(busy_ms.shape, STEP_MS * self._parallelism, dtype=np.float64)
        if up is not None:
            offered_ms *= up[:, None, :]
        idle = np.maximum(0.0, offered_ms - busy_ms)
        self._served, served_total = _accumulated(self._served, served)
        self._waited, waited_total = _accumulated(self._waited, waited)
        self._idle, idle_total = _accumulated(self._idle, idle)
        backlog = (lags[1:, -1] + lags[:-1, -1]) / (2 * STEPS)
        if up is not None:
            backlog = self._with_pauses(backlog, lags[:, -1], entered[:, 0], up)
        real = self._tables.scalable[:, 0]
        overloaded = np.asarray((arrivals[:, None] * service > self._parallelism).any(axis=1))
        restarting: Bool = np.zeros(arrivals.shape, np.bool_)
        if up is not None:
            restarting = np.asarray((up.reshape(minutes, STEPS, -1) == 0.0).any(axis=1))
        return Flow(
            rows=self._rows(waiting[1:], served_total, waited_total, idle_total, minutes),
            waiting=waiting[1:],
            served=served_total,
            waited_ms=waited_total,
            idle_ms=idle_total,
            arrivals=arrivals,
            backlog_minutes=_in_order(_by_minute(backlog), 1),
            busy_minutes=_in_order(_by_minute(_in_order(busy_ms[:, real], 1)), 1) / MINUTE_MS,
            allocated_minutes=np.broadcast_to(self._parallelism[real].sum(axis=0).astype(np.float64), arrivals.shape),
            overloaded=overloaded & ~restarting,
            restarting=restarting,
            state_bytes=self._state_bytes,
        )

    def _with_pauses(self, backlog: Float64, behind: Float64, entered: Float64, up: Float64) -> Float64:
        """Put in what waits during a pause shorter than a step; between the step's ends it would not be seen.

        In the pause the job's lag rises by all that enters; afterwards it falls as fast as the slowest task allows.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            paused = (1.0 - up) / STEPS  # minutes
            peak = behind[:-1] + entered * STEPS * paused
            falls = self._most.min(axis=0) * STEPS - entered * STEPS  # records a minute
            is_cleared = (falls > 0.0) & (peak <= falls * (1.0 / STEPS - paused))
            after = np.where(is_cleared, peak**2 / (2.0 * falls), (peak + behind[1:]) / 2.0 * (1.0 / STEPS - paused))
        within: Float64 = np.where((up > 0.0) & (up < 1.0), (behind[:-1] + peak) / 2.0 * paused + after, backlog)
        return within

    def _rows(self, waiting: Float64, served: Float64, waited: Float64, idle: Float64, minutes: int) -> Float32:
        ends = slice(STEPS - 1, None, STEPS)
        floors = counter_floors(self.job.service_minutes[:, None], served[ends], waited[ends], idle[ends])
        grown = np.diff(np.concatenate([self._floors[:, None], floors], axis=1), axis=1)
        self._floors = floors[:, -1].copy()
        queued = np.floor(_by_minute(waiting) + WHOLE)
        rows = np.zeros((minutes, waiting.shape[-1], waiting.shape[-2], len(FIGURES)), dtype=np.float32)
        for index, (names, factor) in enumerate(_COUNTERS):
            for name in names:
                rows[..., FIGURE[name]] = (grown[index] * factor).transpose(0, 2, 1)
        sampled = queued[:, self._sample_every - 1 :: self._sample_every]
        rows[..., FIGURE["queued_records_mean"]] = (sampled.sum(axis=1) / sampled.shape[1]).transpose(0, 2, 1)
        rows[..., FIGURE["queued_records_last"]] = queued[:, -1].transpose(0, 2, 1)
        rows[..., FIGURE["parallelism"]] = self._parallelism.T
        rows[..., FIGURE["state_bytes"]] = self._state_bytes
        rows[0, :, :, FIGURE["restarts"]] = self._began[:, None]
        rows[..., FIGURE["coverage"]] = 1.0
        self._began[:] = False
        return rows


# Per floor kept: the figures it becomes, and what one counted unit of it stands for.
_COUNTERS = (
    (("records_in", "records_out"), 1),
    (("bytes_in", "bytes_out"), RECORD_BYTES),
    (("busy_ms",), 1),
    (("idle_ms",), 1),
    (("queue_wait_record_ms",), 1),
    (("latency_record_ms",), 1),
)


def counter_floors(service_minutes: Float64, served: Float64, waited_ms: Float64, idle_ms: Float64) -> Float64:
    """Return the whole-numbered counters, float64 [6, .., N, B]: records, records, busy, idle, wait, latency."""
    worked_ms = served * (service_minutes * MINUTE_MS)
    floors: Float64 = np.floor(np.stack([served, served, worked_ms, idle_ms, waited_ms, waited_ms + worked_ms]) + WHOLE)
    return floors


def _accumulated(before: Float64, grown: Float64) -> tuple[Float64, Float64]:
    """Return the total [N, B] at the end and totals [m * STEPS, N, B] after each step.

    Minute by minute, so that sums do not depend on how many minutes a call has: rounding is part of the numbers.
    """
    within = _by_minute(grown).copy()
    for step in range(1, STEPS):
        within[:, step] += within[:, step - 1]
    at_ends = np.cumsum(np.concatenate([before[None], within[:, -1]]), axis=0)
    totals = at_ends[:-1, None] + within
    return at_ends[-1].copy(), totals.reshape(grown.shape)


def _by_minute(steps: Float64) -> Float64:
    return steps.reshape(-1, STEPS, *steps.shape[1:])


def _in_order(parts: Float64, axis: int) -> Float64:
    """Sum along an axis from first to last: numpy's own sum groups terms by memory layout, and so by B."""
    first, *others = np.moveaxis(parts, axis, 0)
    total: Float64 = first.copy()
    for part in others:
        total += part
    return total
