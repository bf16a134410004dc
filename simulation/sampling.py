"""Samples of a simulated minute: what each subtask's counters read. Pure.

A task's counters are whole numbers and their subtasks' parts always add up to them, so that adding up samples, as the road does,
gives exactly ``Flow.rows``. Subtasks differ by at most one unit: subtask k of p counts floor((total + k) / p) (Hermite).
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts.messages import JobTopology, TaskSample, TaskSpec
from simulation.flow import RECORD_BYTES, WHOLE, Flow, counter_floors
from simulation.queueing import STEP_MS

Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class SimulatedMinute:
    """One finished minute of one job, kept until somebody asks for its samples.

    Attributes:
        minute_end_ms: event time.
        topology: the job as it ran in this minute.
        rows: float32 [N, F], the minute's figures.
        counters: float64 [6, STEPS, N], whole numbers (``simulation.flow.counter_floors``) at the end of each step.
        queued: float64 [STEPS, N], whole records waiting.
        state_bytes: what each task's state held.
    """

    minute_end_ms: int
    topology: JobTopology
    rows: npt.NDArray[np.float32]
    counters: Float64
    queued: Float64
    state_bytes: tuple[int, ...]


def keep_minute(flow: Flow, service_minutes: Float64, topology: JobTopology, minute_end_ms: int) -> SimulatedMinute:
    """Return the minute of a flow of one minute and one environment."""
    counters = counter_floors(service_minutes[:, None], flow.served, flow.waited_ms, flow.idle_ms)
    return SimulatedMinute(
        minute_end_ms=minute_end_ms,
        topology=topology,
        rows=flow.rows[0, 0],
        counters=counters[..., 0],
        queued=np.floor(flow.waiting[..., 0] + WHOLE),
        state_bytes=tuple(int(held) for held in flow.state_bytes),
    )


def samples(minute: SimulatedMinute, sample_every_steps: int) -> Iterator[TaskSample]:
    """Yield the samples of a minute in order of time, task, subtask; the last ones lie exactly at the minute's end."""
    steps = minute.queued.shape[0]
    for step in range(sample_every_steps - 1, steps, sample_every_steps):
        at_ms = minute.minute_end_ms - (steps - 1 - step) * STEP_MS
        for index, spec in enumerate(minute.topology.tasks):
            totals = [int(total) for total in minute.counters[:, step, index]]
            yield from _of_task(minute.topology, spec, at_ms, totals, int(minute.queued[step, index]), minute.state_bytes[index])


def state_bytes(spec: TaskSpec, bytes_per_vnode: int) -> int:
    """Return what a task's state holds: so much per virtual node, nothing for a stateless task."""
    return spec.vnodes * bytes_per_vnode if spec.stateful else 0


def _of_task(
    topology: JobTopology, spec: TaskSpec, at_ms: int, totals: list[int], queued: int, state_held: int
) -> Iterator[TaskSample]:
    if topology.state == "waiting":
        return  # there is no subtask that could report
    parallelism = spec.parallelism
    for subtask in range(parallelism):
        records_in, records_out, busy_ms, idle_ms, wait, latency = [(total + subtask) // parallelism for total in totals]
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
            backpressured_ms=0,
            queued_records=(queued + subtask) // parallelism,
            parallelism=parallelism,
            state_bytes=state_held * vnodes // spec.vnodes,
            queue_wait_record_ms=wait,
            latency_record_ms=latency,
        )
