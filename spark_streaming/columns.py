"""Validated records as columns, as executors hand them to the merge step. No Spark, no Kafka, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from surescale.contracts.messages import MinuteMarker, TaskSample

Int64 = npt.NDArray[np.int64]

ABSENT = -1  # the engine does not know the figure; real figures are never negative

SAMPLE_COLUMNS = (
    "task",  # index into a table of names beside the samples
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
    "queue_wait_record_ms",
    "latency_record_ms",
    "arrived_records",
    "in_pool_permille",
    "watermark_lag_ms",
    "as_of_ms",
)
COLUMN = {name: index for index, name in enumerate(SAMPLE_COLUMNS)}
FIGURE_COLUMNS = SAMPLE_COLUMNS[COLUMN["records_in"] :]
NULLABLE_COLUMNS = frozenset(  # ABSENT where the engine does not know them
    (
        "busy_ms",
        "idle_ms",
        "backpressured_ms",
        "queued_records",
        *SAMPLE_COLUMNS[COLUMN["queue_wait_record_ms"] :],
    )
)


@dataclass(frozen=True, slots=True)
class Records:
    """The good records of one batch, in Kafka's order within each partition.

    Attributes:
        jobs: the distinct job ids; ``job`` int32 [n] indexes them.
        tasks: the distinct task names; the column ``task`` of ``samples`` indexes them.
        samples: int64 [n, len(SAMPLE_COLUMNS)]; in a marker's row only the coordinates are set.
        append_ms: int64 [n], the broker's append time.
        markers: row index -> marker.
        traces: row index of a marker -> its header ``traceparent``, where the query reads headers.
    """

    jobs: tuple[str, ...]
    job: npt.NDArray[np.int32]
    tasks: tuple[str, ...]
    samples: Int64
    append_ms: Int64
    markers: Mapping[int, MinuteMarker]
    traces: Mapping[int, bytes] = field(default_factory=dict)

    def is_marker(self) -> npt.NDArray[np.bool_]:
        """Return bool [n]: which rows are markers."""
        found = np.zeros(len(self.job), dtype=np.bool_)
        found[list(self.markers)] = True
        return found

    def event_ms(self) -> Int64:
        """Return int64 [n]: the event time of each record."""
        times: Int64 = self.samples[:, COLUMN["sampled_at_ms"]].copy()
        for row, marker in self.markers.items():
            times[row] = marker.minute_end_ms
        return times


@dataclass(frozen=True, slots=True)
class Coordinates:
    """A record's position in the topic ``task-metrics``, and when the broker appended it."""

    partition: int
    offset: int
    append_ms: int


def sample_from_row(job: str, task: str, row: Int64) -> TaskSample:
    """Return the message a row of ``samples`` came from, without what no window uses."""
    values: dict[str, int | None] = {
        name: int(row[COLUMN[name]]) for name in ("subtask", "attempt", "sampled_at_ms", *FIGURE_COLUMNS)
    }
    for name in NULLABLE_COLUMNS:
        values[name] = None if values[name] == ABSENT else values[name]
    return TaskSample(job=job, task=task, **values)  # type: ignore[arg-type]  # only the nullable figures may be None
