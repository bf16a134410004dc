"""One simulated minute of a job and its samples: the counters of each subtask. Pure.

A task's counters are whole numbers, and the parts of its subtasks always add up to them. So the sum of the samples, which the
pipeline computes, is exactly ``Flow.rows``. Subtasks differ by at most one unit: subtask k of p counts
floor((total + k) / p) (Hermite). Where a key is hot, the first subtask has its share of the work and the others the rest.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from surescale.contracts.messages import JobTopology, TaskSample, TaskSpec
from surescale.simulation.model.attempts import RECORD_BYTES, WHOLE, WITHOUT_WORK, Flow, counter_floors
from surescale.simulation.model.queueing import STEP_MS

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SimulatedMinute:
    """One finished minute of one job, kept until its samples are requested.

    Attributes:
        minute_end_ms: event time.
        topology: the job during this minute.
        rows: float32 [N, F], the minute's figures.
        counters: float64 [7, STEPS, N], whole numbers (``simulation.model.attempts.counter_floors``) at the end of each step.
        queued: float64 [STEPS, N], whole records waiting, NaN where nobody knows; under back pressure those of the source wait in
            its broker.
        arrived: float64 [STEPS], whole records that came in at the door since the run began.
        state_bytes: size of each task's state.
        busiest: work of each task's busiest subtask, the first one, over the mean; all 1 without hot keys.
        reporting: how many of each task's subtasks report, the first ones; empty: all.
    """

    minute_end_ms: int
    topology: JobTopology
    rows: npt.NDArray[np.float32]
    counters: Float64
    queued: Float64
    arrived: Float64
    state_bytes: tuple[int, ...]
    busiest: tuple[float, ...]
    reporting: tuple[int, ...] = ()


def keep_minute(flow: Flow, topology: JobTopology, minute_end_ms: int) -> SimulatedMinute:
    """Return the minute of a flow with one minute and one environment."""
    counters = counter_floors(flow.served, flow.sent, flow.worked_ms, flow.idle_ms, flow.waited_ms, flow.held_ms)
    queued = np.floor(flow.waiting[..., 0] + WHOLE)
    return SimulatedMinute(
        minute_end_ms=minute_end_ms,
        topology=topology,
        rows=flow.rows[0, 0],
        counters=counters[..., 0],
        queued=queued if flow.hidden is None else np.where(flow.hidden[0, :, 0], np.nan, queued),
        arrived=np.floor(flow.arrived[:, 0] + WHOLE),
        state_bytes=tuple(int(held) for held in flow.state_bytes),
        busiest=tuple(flow.busiest[:, 0].tolist()),
        reporting=() if flow.reporting is None else tuple(flow.reporting[:, 0].tolist()),
    )


def samples(minute: SimulatedMinute, sample_every_steps: int) -> Iterator[TaskSample]:
    """Yield the samples of a minute in order of time, task, subtask; the last ones lie exactly at the minute's end."""
    steps = minute.queued.shape[0]
    for step in range(sample_every_steps - 1, steps, sample_every_steps):
        at_ms = minute.minute_end_ms - (steps - 1 - step) * STEP_MS
        for index, spec in enumerate(minute.topology.tasks):
            totals = [int(total) for total in minute.counters[:, step, index]]
            arrived = None if spec.upstream else int(minute.arrived[step])
            queued = None if math.isnan(minute.queued[step, index]) else int(minute.queued[step, index])
            reporting = minute.reporting[index] if minute.reporting else spec.parallelism
            counts = _Counts(totals, arrived, queued, minute.state_bytes[index], minute.busiest[index], reporting)
            yield from _of_task(minute.topology, spec, at_ms, counts)


def state_bytes(spec: TaskSpec, bytes_per_vnode: int) -> int:
    """Return the size of a task's state; 0 for a stateless task."""
    return spec.vnodes * bytes_per_vnode if spec.stateful else 0


@dataclass(frozen=True, slots=True)
class _Counts:
    """What a task counted by one sample's time (``SimulatedMinute``)."""

    totals: list[int]
    arrived: int | None
    queued: int | None
    state_held: int
    busiest: float
    reporting: int

    def of_subtask(self, subtask: int, parallelism: int) -> list[int]:
        """Return the subtask's part of the totals; the first one has the hot key's. Time without work is spread evenly."""
        if self.busiest <= 1.0:
            return [(total + subtask) // parallelism for total in self.totals]
        share = self.busiest / parallelism
        parts = []
        for index, total in enumerate(self.totals):
            if index in WITHOUT_WORK:
                parts.append((total + subtask) // parallelism)
                continue
            hot = math.floor(total * share)
            parts.append(hot if subtask == 0 else (total - hot + subtask - 1) // (parallelism - 1))
        return parts


def _of_task(topology: JobTopology, spec: TaskSpec, at_ms: int, counts: _Counts) -> Iterator[TaskSample]:
    if topology.state == "waiting":
        return  # no subtask can report
    parallelism = spec.parallelism
    for subtask in range(counts.reporting):
        records_in, records_out, busy_ms, idle_ms, wait, latency, held_ms = counts.of_subtask(subtask, parallelism)
        vnodes = (spec.vnodes + subtask) // parallelism
        yield TaskSample(
            job=topology.job,
            task=spec.task,
            subtask=subtask,
            attempt=topology.attempt,
            sampled_at_ms=at_ms,
            records_in=records_in,
            records_out=records_out,
            bytes_in=records_in * RECORD_BYTES,
            bytes_out=records_out * RECORD_BYTES,
            busy_ms=busy_ms,
            idle_ms=idle_ms,
            backpressured_ms=held_ms,
            queued_records=None if counts.queued is None else (counts.queued + subtask) // parallelism,
            parallelism=parallelism,
            state_bytes=counts.state_held * vnodes // spec.vnodes,
            queue_wait_record_ms=wait,
            latency_record_ms=latency,
            arrived_records=None if counts.arrived is None else (counts.arrived + subtask) // parallelism,
        )
