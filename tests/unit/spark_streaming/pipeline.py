"""A hand-made pipeline: records of one job in order of offsets, fed to the merge step in batches."""

from collections.abc import Sequence

import numpy as np

from surescale.contracts.messages import JobTopology, MinuteMarker, TaskSample, TaskSpec
from surescale.contracts.windows import FIGURE, Window
from surescale.spark_streaming.columns import Coordinates, Int64, Records
from surescale.spark_streaming.minutes import Fed, MinuteRules, Minutes
from tests.support.record_columns import records_of

JOB = "sim/clicks"
MINUTE = 60_000
RULES = MinuteRules(window_minutes=4, allowed_lateness_ms=5_000, ahead_of_clock_ms_max=120_000)

Message = TaskSample | MinuteMarker


def spec(task: str = "map", *upstream: str, parallelism: int = 1) -> TaskSpec:
    """Return a task of a graph."""
    return TaskSpec(task=task, upstream=upstream, parallelism=parallelism)


def graph(*specs: TaskSpec, job: str = JOB, version: int = 1) -> JobTopology:
    """Return a topology of the tasks given, or of the single task ``map``."""
    return JobTopology(job=job, version=version, at_ms=0, tasks=specs or (spec(),))


def sample(at_ms: int, records_in: int = 0, **changes: object) -> TaskSample:
    """Return a sample of subtask 0 of ``map`` whose other counters stand still, changed as asked."""
    zero = ("records_out", "bytes_in", "bytes_out", "busy_ms", "idle_ms", "backpressured_ms", "queued_records")
    base: dict[str, object] = {"job": JOB, "task": "map", "subtask": 0, "attempt": 0, "parallelism": 1, **dict.fromkeys(zero, 0)}
    return TaskSample(**(base | {"sampled_at_ms": at_ms, "records_in": records_in} | changes))  # type: ignore[arg-type]


def marker(minute: int, topology: JobTopology | None = None, **changes: object) -> MinuteMarker:
    """Return the marker that closes the minute ending at ``minute`` (counted in minutes)."""
    used = topology or graph()
    base: dict[str, object] = {"job": used.job, "minute_end_ms": minute * MINUTE, "topology": used}
    return MinuteMarker(**(base | changes))  # type: ignore[arg-type]


def recorded(messages: Sequence[Message], *, first_offset: int = 0) -> Records:
    """Give messages offsets in partition 0; the broker appends one a millisecond from 1,000 on."""
    offsets = range(first_offset, first_offset + len(messages))
    return records_of([(Coordinates(0, at, 1_000 + at), message) for at, message in zip(offsets, messages, strict=True)])


def no_clock(records: Records) -> Int64:
    """Return a reference that no record is ahead of."""
    return np.full(len(records.job), 2**52, dtype=np.int64)


def feed(*messages: Message, rules: MinuteRules = RULES, minutes: Minutes | None = None) -> Fed:
    """Feed messages as one batch."""
    records = recorded(messages)
    return (minutes or Minutes(rules)).feed(records, no_clock(records))


def newest(window: Window, name: str, task: str = "map") -> float:
    """Return one figure of the window's newest minute."""
    position = [each.task for each in window.topology.tasks].index(task)
    return float(window.figures[-1, position, FIGURE[name]])
