"""Small valid messages that tests start from."""

import functools

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import JobTopology, TaskSample, TaskSpec
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import FIGURE, Float32, Window, blank_figures

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
    values = blank_figures()
    values[FIGURE["coverage"]] = 1.0
    values[FIGURE["parallelism"]] = 1.0
    for name, value in figures.items():
        values[FIGURE[name]] = value
    return values


@functools.cache
def window_at(minute: int) -> Window:
    """Return a full window that ends with this minute; task map, on two subtasks, keeps up with half of its load."""
    history = WindowHistory(JOB, 60)
    rows = {
        "source": row(records_in=12_000, records_out=12_000, busy_ms=100),
        "map": row(records_in=6_000, records_out=6_000, busy_ms=120_000, parallelism=2, queued_records_last=60_000),
        "sink": row(records_in=6_000, busy_ms=100),
    }
    for end in range(minute - 20, minute + 1):
        window = history.close(end * MINUTE_MS, rows, topology())
    return window
