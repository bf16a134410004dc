"""Small valid messages that tests start from."""

import numpy as np

from contracts.messages import JobTopology, TaskSample, TaskSpec
from contracts.windows import FIGURE, FIGURES, Float32

JOB = "sim/clicks"


def sample(**changes: object) -> TaskSample:
    """Return a sample of subtask 0 of task ``map``, changed as asked."""
    base: dict[str, object] = {
        "job": JOB,
        "task": "map",
        "subtask": 0,
        "attempt": 1,
        "sampled_at_ms": 60_000,
        "records_in": 100,
        "records_out": 90,
        "bytes_in": 20_000,
        "bytes_out": 18_000,
        "busy_ms": 30_000,
        "idle_ms": 29_000,
        "backpressured_ms": 1_000,
        "queued_records": 5,
        "parallelism": 2,
        "state_bytes": 4_096,
        "queue_wait_record_ms": 1_000,
        "latency_record_ms": 31_000,
    }
    return TaskSample(**(base | changes))  # type: ignore[arg-type]


def topology(version: int = 1) -> JobTopology:
    """Return a chain source -> map -> sink whose middle task has parallelism 2."""
    return JobTopology(
        job=JOB,
        version=version,
        at_ms=0,
        tasks=(
            TaskSpec(task="source", scalable=False, max_parallelism=1, units=(1,)),
            TaskSpec(task="map", upstream=("source",), parallelism=2, units=(1, 2), configured_parallelism=3),
            TaskSpec(task="sink", upstream=("map",), scalable=False, max_parallelism=1, units=(1,)),
        ),
    )


def row(**figures: float) -> Float32:
    """Return one task-minute, float32 [F]: zeros, fully covered, parallelism 1, changed as asked."""
    values = np.zeros(len(FIGURES), dtype=np.float32)
    values[FIGURE["coverage"]] = 1.0
    values[FIGURE["parallelism"]] = 1.0
    for name, value in figures.items():
        values[FIGURE[name]] = value
    return values
