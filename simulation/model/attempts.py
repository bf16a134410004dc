"""Jobs under load, minute by minute: parallelism, restarts, counters of the current attempt, and the figures of every minute.

``FlowRows`` holds B independent environments of one job. The simulated engine uses it with B = 1 and training with many. Both
get the same numbers, bit for bit, however calls divide time.

Counters are real numbers inside and are reported as their floor. ``Flow.rows`` equals what the pipeline computes from samples,
because the counters of a task's subtasks always add up to that floor (``simulation.engine.simulated_minute``).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.windows import FIGURE, Float32, blank_figures
from surescale.simulation.load.jobs import SizedJob
from surescale.simulation.model import pressure
from surescale.simulation.model.blindness import Blindness
from surescale.simulation.model.course import Variation
from surescale.simulation.model.level_order import in_order
from surescale.simulation.model.queueing import STEP_MS, STEPS, FlowTables, queues, run_minute, served_at_most
from surescale.simulation.model.worlds import CALM, World

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]
Bool = npt.NDArray[np.bool_]

RECORD_BYTES = 200
WHOLE = 1e-6  # a count this close below an integer is that integer, e.g. ten times 0.1
NEVER = 2**40  # steps


@dataclass(frozen=True, slots=True)
class Flow:
    """The course of m minutes in B environments.

    Attributes:
        rows: float32 [m, B, N, F], figures in the order of ``contracts.windows.FIGURES``.
        waiting: float64 [m * STEPS, N, B], records waiting at each task at the end of each step.
        served: float64 [m * STEPS, N, B], records served since the attempt began.
        sent: float64 [m * STEPS, N, B], records sent to each task after it, likewise.
        worked_ms: float64 [m * STEPS, N, B], busy milliseconds of all subtasks since the attempt began, as their counters show.
        waited_ms: float64 [m * STEPS, N, B], record-milliseconds spent waiting since the attempt began.
        idle_ms: float64 [m * STEPS, N, B], idle milliseconds of all subtasks since the attempt began.
        held_ms: float64 [m * STEPS, N, B], milliseconds in which subtasks stood before a full buffer since the attempt began;
            always 0 without back pressure.
        arrived: float64 [m * STEPS, B], records that came in at the door since the run began, let in or not.
        arrivals: float64 [m, B], records that entered the job.
        backlog_minutes: float64 [m, B], integral over the minute of the records inside the job.
        inside: float64 [m, B], records inside the job at the end of the minute.
        busy_minutes: float64 [m, B], busy subtask-minutes of the real tasks.
        allocated_minutes: float64 [m, B], parallelism of the real tasks, summed.
        overloaded: bool [m, B], some task received more than its parallelism can serve; false in a minute with a restart.
        state_bytes: int64 [N], size of each task's state.
        restarting: bool [m, B], the job was down for a whole step of the minute; a barrier of a second does not count.
        busiest: float64 [N, B], work of the busiest subtask over the mean.
        reporting: int64 [N, B], how many subtasks report; None: all.
        hidden: bool [m, N, B], nobody knows what waits; None: it is known everywhere.
    """

    rows: Float32
    waiting: Float64
    served: Float64
    sent: Float64
    worked_ms: Float64
    waited_ms: Float64
    idle_ms: Float64
    held_ms: Float64
    arrived: Float64
    arrivals: Float64
    backlog_minutes: Float64
    inside: Float64
    busy_minutes: Float64
    allocated_minutes: Float64
    overloaded: Bool
    restarting: Bool
    state_bytes: Int64
    busiest: Float64
    reporting: Int64 | None = None
    hidden: Bool | None = None


class FlowRows:
    """B environments of one job, each with its own parallelism and current attempt."""

    def __init__(
        self,
        job: SizedJob,
        parallelism: Int64,
        *,
        sample_every_steps: int = 1,
        world: World = CALM,
        first_minutes: Int64 | None = None,
    ) -> None:
        """Start B environments with empty queues at parallelism [B, N], at minutes [B] of the trace (0).

        A minute's mean queue covers every ``sample_every_steps``-th step, as the samples do.
        """
        assert STEPS % sample_every_steps == 0, sample_every_steps
        self.job = job
        self._tables = FlowTables.of(job)
        self._pressure = pressure.PressureTables.of(job) if world.has_pressure else None
        self._state_bytes = np.zeros(job.size, dtype=np.int64)
        self._sample_every = sample_every_steps
        shape = (job.size, len(parallelism))
        self._variation = Variation.start(job, world, shape[1], first_minutes)
        self._blindness = Blindness.of(world, job)
        self._minutes = np.zeros(shape[1], dtype=np.int64) if first_minutes is None else first_minutes  # of the trace
        self._entered_last = np.zeros(shape[1])  # in the last minute
        self._is_rewound = False
        self._lag = np.zeros(shape)
        self._served, self._sent, self._waited, self._idle, self._held, self._worked = (np.zeros(shape) for _ in range(6))
        self._arrived = np.zeros(shape[1])
        self._arrived_before: Float64 | None = None  # [B], whole records at the last minute's end
        self._floors = np.zeros((len(_COUNTERS), *shape))
        self._down_steps = np.zeros(shape[1], dtype=np.int64)
        self._lost = np.zeros(shape[1])  # share of the following step in which the job is down too
        self._began = np.zeros(shape[1], dtype=np.bool_)
        self._set_parallelism(np.ones(shape, dtype=np.int64), parallelism, np.ones(shape[1], dtype=np.bool_))
        self._kept_lag: Float64 | None = None  # [N, B], at the last checkpoint
        self._entered_since = np.zeros(shape[1])

    @property
    def parallelism(self) -> Int64:
        """Return int64 [B, N]."""
        return self._parallelism.T.copy()

    def restart(self, parallelism: Int64, restart_ms: int, which: Bool) -> None:
        """Start a new attempt in some environments (bool [B]) at parallelism [B, N], down for the next ``restart_ms``.

        No record is lost: the new attempt serves what the old one had not finished. In a world whose restarts redo work it also
        serves again what came since the last checkpoint, unless it went back to one (``rewind``) or only a barrier passes.
        """
        if self._variation is not None:
            if restart_ms >= STEP_MS and not self._is_rewound:
                self._lag = self._lag + np.where(which, self._variation.redone(self._entered_last), 0.0)
            self._variation = self._variation.after(0, which)
        self._is_rewound = False
        self._set_parallelism(self._parallelism, parallelism, which)
        for counter in (self._served, self._sent, self._waited, self._idle, self._held, self._worked, self._floors):
            counter[..., which] = 0.0
        self._down_steps[which] = restart_ms // STEP_MS
        self._lost[which] = restart_ms % STEP_MS / STEP_MS
        self._began |= which

    def stop(self) -> None:
        """Keep every environment down until its next restart."""
        self._down_steps[:] = NEVER

    def keep(self) -> None:
        """Take a checkpoint: what every task has served so far, and its queue."""
        self._kept_lag, self._entered_since = self._lag.copy(), np.zeros_like(self._entered_since)

    def rewind(self) -> Float64:
        """Go back to the last checkpoint, if there is one, and return how many records [B] will be served again.

        Checkpoints include each task's queue (Flink's unaligned checkpoints, FLIP-76), so every task returns to where it was. The
        virtual source counts each entering record once and does not go back, unless it reads from a broker (back pressure). A
        new attempt (``restart``) follows.
        """
        if self._kept_lag is None:
            return np.zeros_like(self._entered_since)
        before, self._lag = self._lag, self._kept_lag + self._entered_since
        if self._pressure is None:
            self._lag[self._tables.first] = before[self._tables.first]
        self._is_rewound = True
        again: Float64 = np.maximum(0.0, self._lag - before).max(axis=0)
        return again

    def effect_minutes(self, least: int = 1) -> Int64:
        """Return after how many whole minutes [B] a change asked for now takes effect: under back pressure it waits."""
        if self._pressure is None:
            return np.full(self._lag.shape[1], least, dtype=np.int64)
        return self._pressure.effect_minutes(self._lag, self._most * STEPS, least)

    def hold(self, state_bytes: Int64) -> None:
        """Set the size of each task's state [N] from now on."""
        self._state_bytes = state_bytes

    def advance(self, arrivals: Float64) -> Flow:
        """Let m minutes pass with arrivals [m, B] in records per minute."""
        minutes = len(arrivals)
        up = self._up_steps(minutes)
        lags = np.empty((minutes * STEPS + 1, *self._lag.shape))
        lags[0] = self._lag
        slowness = None if self._variation is None else self._variation.slowness(minutes)
        for minute in range(minutes):
            span = slice(minute * STEPS, (minute + 1) * STEPS)
            most = self._most if slowness is None else self._most / slowness[minute]
            lags[span.start + 1 : span.stop + 1] = self._minute(
                lags[span.start], arrivals[minute], most, None if up is None else up[span]
            )
        self._lag = lags[-1].copy()
        if self._variation is not None and minutes:
            self._variation = self._variation.after(minutes, np.zeros(lags.shape[2], dtype=np.bool_))
            self._entered_last = np.asarray(arrivals[-1], dtype=np.float64)
        if self._kept_lag is not None:
            self._entered_since = self._entered_since + in_order(np.asarray(arrivals, dtype=np.float64))
        flow = self._account(lags, np.asarray(arrivals, dtype=np.float64), up, slowness)
        self._minutes = self._minutes + minutes
        return flow

    def _minute(self, lag: Float64, arrivals: Float64, most: Float64, up: Float64 | None) -> Float64:
        """Return lags [STEPS, N, B] at the ends of a minute's steps."""
        if self._pressure is None:
            return run_minute(self._tables, lag, arrivals, most, up)[1:]
        return pressure.run_minute(self._pressure, lag, arrivals, most, up)[1:]

    def _up_steps(self, minutes: int) -> Float64 | None:
        """Return float64 [m * STEPS, B], the share of each step in which the job runs, and use up the down time.

        None if nothing is down.
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
        self._busiest = np.ones(self._parallelism.shape)
        if self._variation is not None:
            self._busiest = self._variation.busiest(self._parallelism)
            self._most = self._most / self._busiest

    def _account(self, lags: Float64, arrivals: Float64, up: Float64 | None, slowness: Float64 | None) -> Flow:
        minutes, service = len(arrivals), self._tables.service_minutes
        waiting = queues(self._tables, lags) if self._pressure is None else self._pressure.waiting(lags)
        entered = np.repeat(arrivals, STEPS, axis=0)[:, None, :] / STEPS
        served = np.maximum(0.0, entered - np.diff(lags, axis=0))
        waited = (waiting[1:] + waiting[:-1]) * (STEP_MS / 2)
        busy_ms = served * (service * MINUTE_MS)
        if slowness is not None:
            busy_ms *= np.repeat(slowness, STEPS, axis=0)
        offered_ms = np.full(busy_ms.shape, STEP_MS * self._parallelism, dtype=np.float64)
        if up is not None:
            offered_ms *= up[:, None, :]
        idle = np.maximum(0.0, offered_ms - busy_ms)
        held = self._held_of(idle, lags)
        idle -= held
        sent, queued = served, waiting[1:]
        if (waves := self.job.waves) is not None:
            reached, emitted = (
                np.repeat(waves.at(each, self._minutes, minutes), STEPS, axis=0) for each in (waves.reached, waves.sent)
            )
            served, sent, waited, queued = served * reached, served * emitted, waited * reached, queued * reached
        self._served, served_total = _accumulated(self._served, served)
        self._sent, sent_total = _accumulated(self._sent, sent)
        self._waited, waited_total = _accumulated(self._waited, waited)
        if slowness is None and not self._worked.any():
            worked_total = served_total * (service * MINUTE_MS)
        else:
            self._worked, worked_total = _accumulated(self._worked, busy_ms)
        self._idle, idle_total = _accumulated(self._idle, idle)
        self._held, held_total = _accumulated(self._held, held)
        counted, blindness = entered[:, 0], self._blindness
        shown_total = worked_total
        if blindness is not None:
            counted = counted * np.repeat(blindness.counted_in(self._minutes, minutes).T, STEPS, axis=0)
            shown_total = worked_total * blindness.shown[:, None]
            idle_total = idle_total + (worked_total - shown_total)
        self._arrived, arrived_total = _accumulated(self._arrived, counted)
        backlog = (lags[1:, -1] + lags[:-1, -1]) / (2 * STEPS)
        if up is not None:
            backlog = self._with_pauses(backlog, lags[:, -1], entered[:, 0], up)
        real = self._tables.scalable[:, 0]
        needed = arrivals[:, None] * service if slowness is None else arrivals[:, None] * service * slowness
        overloaded = np.asarray((needed * self._busiest > self._parallelism).any(axis=1))
        restarting: Bool = np.zeros(arrivals.shape, np.bool_)
        if up is not None:
            restarting = np.asarray((up.reshape(minutes, STEPS, -1) == 0.0).any(axis=1))
        return Flow(
            rows=self._rows(queued, (served_total, sent_total, shown_total, idle_total, waited_total, held_total), arrived_total),
            waiting=queued,
            served=served_total,
            sent=sent_total,
            worked_ms=shown_total,
            waited_ms=waited_total,
            idle_ms=idle_total,
            held_ms=held_total,
            arrived=arrived_total,
            arrivals=arrivals,
            backlog_minutes=in_order(_by_minute(backlog), 1),
            inside=lags[STEPS::STEPS, -1],
            busy_minutes=in_order(_by_minute(in_order(busy_ms[:, real], 1)), 1) / MINUTE_MS,
            allocated_minutes=np.broadcast_to(self._parallelism[real].sum(axis=0).astype(np.float64), arrivals.shape),
            overloaded=overloaded & ~restarting,
            restarting=restarting,
            state_bytes=self._state_bytes,
            busiest=self._busiest,
            reporting=None if blindness is None else self._reporting(blindness),
            hidden=None if blindness is None else blindness.hidden_in(self._minutes, minutes).transpose(1, 2, 0),
        )

    def _arrived_in(self, totals: Float64) -> Float64:
        """Return the records [m, B] that came in each minute from whole totals [m, B]; unknown before there are two of them."""
        before = np.full(totals.shape[1], np.nan) if self._arrived_before is None else self._arrived_before
        self._arrived_before = totals[-1]
        grown: Float64 = np.diff(np.concatenate([before[None], totals]), axis=0)
        return grown

    def _held_of(self, free: Float64, lags: Float64) -> Float64:
        """Return the part of free time [m * STEPS, N, B] that tasks stood before a full buffer: as often as its two ends say."""
        if self._pressure is None:
            return np.zeros_like(free)
        blocked = self._pressure.blocked(lags)
        held: Float64 = free * (blocked[1:].astype(np.float64) + blocked[:-1]) / 2
        return held

    def _with_pauses(self, backlog: Float64, behind: Float64, entered: Float64, up: Float64) -> Float64:
        """Return the backlog with pauses shorter than a step, which the values at the ends of a step would miss.

        During the pause the job's lag rises by everything that enters; then it falls as fast as the slowest task allows.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            paused = (1.0 - up) / STEPS  # minutes
            peak = behind[:-1] + entered * STEPS * paused
            falls = self._most.min(axis=0) * STEPS - entered * STEPS  # records a minute
            is_cleared = (falls > 0.0) & (peak <= falls * (1.0 / STEPS - paused))
            after = np.where(is_cleared, peak**2 / (2.0 * falls), (peak + behind[1:]) / 2.0 * (1.0 / STEPS - paused))
        within: Float64 = np.where((up > 0.0) & (up < 1.0), (behind[:-1] + peak) / 2.0 * paused + after, backlog)
        return within

    def _rows(self, waiting: Float64, totals: tuple[Float64, ...], arrived: Float64) -> Float32:
        minutes = len(arrived) // STEPS
        ends = slice(STEPS - 1, None, STEPS)
        floors = counter_floors(*(total[ends] for total in totals))
        marks = np.concatenate([self._floors[:, None], floors], axis=1)
        grown = np.diff(marks, axis=1)
        self._floors = floors[:, -1].copy()
        queued = np.floor(_by_minute(waiting) + WHOLE)
        rows = blank_figures(minutes, waiting.shape[-1], waiting.shape[-2])
        for index, units in enumerate(_COUNTERS):
            for name, factor in units.items():
                rows[..., FIGURE[name]] = (grown[index] * factor).transpose(0, 2, 1)
        sampled = queued[:, self._sample_every - 1 :: self._sample_every]
        rows[..., FIGURE["queued_records_mean"]] = (sampled.sum(axis=1) / sampled.shape[1]).transpose(0, 2, 1)
        rows[..., FIGURE["queued_records_last"]] = queued[:, -1].transpose(0, 2, 1)
        rows[..., FIGURE["parallelism"]] = self._parallelism.T
        rows[..., FIGURE["state_bytes"]] = self._state_bytes
        rows[0, :, :, FIGURE["restarts"]] = self._began[:, None]
        rows[..., FIGURE["coverage"]] = 1.0
        # Subtasks differ by at most one unit (``simulation.engine.simulated_minute``), and samples lie at the ends of minutes.
        rows[..., FIGURE["busy_ms_max"]] = np.ceil(rows[..., FIGURE["busy_ms"]] / rows[..., FIGURE["parallelism"]])
        if (self._busiest > 1.0).any():
            hot = np.diff(on_busiest(marks[_BUSY], self._parallelism, self._busiest), axis=0)
            others = np.ceil((grown[_BUSY] - hot) / np.maximum(self._parallelism - 1, 1))
            most = np.where(self._parallelism > 1, np.maximum(hot, others), grown[_BUSY])
            rows[..., FIGURE["busy_ms_max"]] = most.transpose(0, 2, 1)
        rows[..., FIGURE["covered_ms"]] = MINUTE_MS
        rows[:, :, self._tables.first, FIGURE["arrived"]] = self._arrived_in(np.floor(arrived[ends] + WHOLE))[..., None]
        self._began[:] = False
        if self._blindness is not None:
            self._hide(rows, marks, queued, self._blindness)
        return rows

    def _reporting(self, blindness: Blindness) -> Int64:
        """Return int64 [N, B], how many subtasks report."""
        return blindness.reporting(self._parallelism.T).T.astype(np.int64)

    def _hide(self, rows: Float32, marks: Float64, queued: Float64, blindness: Blindness) -> None:
        """Leave in rows [m, B, N, F] what is seen, from counters [7, m + 1, N, B] and waiting records [m, STEPS, N, B].

        What the subtasks that report count is added up, as the samples are (``simulation.engine.simulated_minute``).
        """
        reporting, parallelism = self._reporting(blindness), self._parallelism
        partly = (reporting < parallelism).T
        totals, waits, most = np.zeros_like(marks), np.zeros_like(queued), np.zeros(marks[0, 1:].shape)
        vnodes, held = np.array([spec.vnodes for spec in self.job.specs()])[:, None], np.zeros(parallelism.shape, dtype=np.int64)
        for subtask in range(int(reporting.max())):
            reports = subtask < reporting
            part = of_subtask(marks, subtask, parallelism, self._busiest)
            totals += np.where(reports, part, 0.0)
            most = np.maximum(most, np.where(reports, np.diff(part[_BUSY], axis=0), 0.0))
            waits += np.where(reports, np.floor((queued + subtask) / parallelism), 0.0)
            held += np.where(reports, self._state_bytes[:, None] * ((vnodes + subtask) // parallelism) // vnodes, 0)
        sampled = waits[:, self._sample_every - 1 :: self._sample_every]
        found = {
            name: grown * factor
            for units, grown in zip(_COUNTERS, np.diff(totals, axis=1), strict=True)
            for name, factor in units.items()
        }
        found |= {
            "queued_records_mean": sampled.sum(axis=1) / sampled.shape[1],
            "queued_records_last": waits[:, -1],
            "busy_ms_max": most,
            "state_bytes": np.broadcast_to(held, most.shape),
        }
        for name, values in found.items():
            rows[..., FIGURE[name]] = np.where(partly, values.transpose(0, 2, 1), rows[..., FIGURE[name]])
        rows[..., FIGURE["coverage"]] = (reporting / parallelism).T
        is_hidden = blindness.hidden_in(self._minutes, len(rows)).transpose(1, 0, 2)
        for name in ("queued_records_mean", "queued_records_last"):
            rows[..., FIGURE[name]][is_hidden] = np.nan


# For each counter: the figures it becomes, with the value of one counted unit.
_COUNTERS = (
    {"records_in": 1, "bytes_in": RECORD_BYTES},
    {"records_out": 1, "bytes_out": RECORD_BYTES},
    {"busy_ms": 1},
    {"idle_ms": 1},
    {"queue_wait_record_ms": 1},
    {"latency_record_ms": 1},
    {"backpressured_ms": 1},
)


_BUSY = 2  # its place among them
WITHOUT_WORK = [3, 6]  # of them: idle, and held up


def on_busiest(totals: Float64, parallelism: Int64, busiest: Float64) -> Float64:
    """Return the part of whole totals [.., N, B] that the busiest subtask has; ``busiest`` [N, B] is its work over the mean."""
    part: Float64 = np.where(busiest > 1.0, np.floor(totals * (busiest / parallelism)), np.floor(totals / parallelism))
    return part


def of_subtask(totals: Float64, subtask: int, parallelism: Int64, busiest: Float64) -> Float64:
    """Return a subtask's part of whole counters [7, .., N, B]; the first one has the hot key's.

    Time without work is spread evenly. Meaningless for tasks that have no such subtask.
    """
    even = np.floor((totals + subtask) / parallelism)
    if not (busiest > 1.0).any():
        return even
    hot = np.floor(totals * (busiest / parallelism))
    own = hot if subtask == 0 else np.floor((totals - hot + (subtask - 1)) / np.maximum(parallelism - 1, 1))
    own[WITHOUT_WORK] = even[WITHOUT_WORK]
    part: Float64 = np.where(busiest > 1.0, own, even)
    return part


def counter_floors(
    served: Float64, sent: Float64, worked_ms: Float64, idle_ms: Float64, waited_ms: Float64, held_ms: Float64
) -> Float64:
    """Return the whole-numbered counters, float64 [7, .., N, B]: records in, out, busy, idle, wait, latency, back pressure."""
    latency_ms = waited_ms + worked_ms
    floors: Float64 = np.floor(np.stack([served, sent, worked_ms, idle_ms, waited_ms, latency_ms, held_ms]) + WHOLE)
    return floors


def _accumulated(before: Float64, grown: Float64) -> tuple[Float64, Float64]:
    """Return the total [N, B] at the end and totals [m * STEPS, N, B] after each step.

    It adds minute by minute, so that rounding does not depend on how many minutes a call has.
    """
    within = _by_minute(grown).copy()
    for step in range(1, STEPS):
        within[:, step] += within[:, step - 1]
    at_ends = np.cumsum(np.concatenate([before[None], within[:, -1]]), axis=0)
    totals = at_ends[:-1, None] + within
    return at_ends[-1].copy(), totals.reshape(grown.shape)


def _by_minute(steps: Float64) -> Float64:
    return steps.reshape(-1, STEPS, *steps.shape[1:])
