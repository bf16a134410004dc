"""Validated records as columns: what the executors hand to the merge step. No Spark, no Kafka, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from contracts.messages import MinuteMarker, TaskSample

Int64 = npt.NDArray[np.int64]

ABSENT = -1  # an engine has no such figure; real figures are never negative

SAMPLE_COLUMNS = (
    "task",  # index into a table of names that travels beside the samples
    "subtask",
    "attempt",
    "sampled_at_ms",
    "partition",
    "offset",
    "records_in",
    "records_out",
    "bytes_in",
    "bytes_out",
    "busy_ms",
    "idle_ms",
    "backpressured_ms",
    "queued_records",
    "parallelism",
    "state_bytes",
    "queue_wait_record_ms",  # ABSENT where the engine has no such figure
    "latency_record_ms",
)
COLUMN = {name: index for index, name in enumerate(SAMPLE_COLUMNS)}
FIGURE_COLUMNS = SAMPLE_COLUMNS[COLUMN["records_in"] :]


@dataclass(frozen=True, slots=True)
class Records:
    """The good records of one batch, in Kafka's order within each partition.

    Attributes:
        jobs: the distinct job ids; ``job`` int32 [n] points into them.
        tasks: the distinct task names; the column ``task`` of ``samples`` points into them.
        samples: int64 [n, len(SAMPLE_COLUMNS)]; in the row of a marker only the coordinates are set.
        append_ms: int64 [n], the broker's append time.
        markers: row index -> marker, for the rows that are markers.
    """

    jobs: tuple[str, ...]
    job: npt.NDArray[np.int32]
    tasks: tuple[str, ...]
    samples: Int64
    append_ms: Int64
    markers: Mapping[int, MinuteMarker]

    def is_marker(self) -> npt.NDArray[np.bool_]:
        """Return bool [n]: which rows are markers."""
        found = np.zeros(len(self.job), dtype=np.bool_)
        found[list(self.markers)] = True
        return found

    def event_ms(self) -> Int64:
        """Return int64 [n]: when each record says it happened."""
        times: Int64 = self.samples[:, COLUMN["sampled_at_ms"]].copy()
        for row, marker in self.markers.items():
            times[row] = marker.minute_end_ms
        return times


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where a record lies in the topic of task metrics, and when the broker took it."""

    partition: int
    offset: int
    append_ms: int


def sample_from_row(job: str, task: str, row: Int64) -> TaskSample:
    """Return the message that a row of ``samples`` came from."""
    values: dict[str, int | None] = {
        name: int(row[COLUMN[name]]) for name in ("subtask", "attempt", "sampled_at_ms", *FIGURE_COLUMNS)
    }
    for name in ("queue_wait_record_ms", "latency_record_ms"):
        values[name] = None if values[name] == ABSENT else values[name]
    return TaskSample(job=job, task=task, **values)  # type: ignore[arg-type]  # only the two nullable figures may be None
