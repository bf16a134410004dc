"""Parses a task's raw records into the columns of the merge step. It decodes with the same code as every other role, so a refused
record carries the exact reason and field path. No Spark session, no I/O.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from surescale.contracts.errors import UNREADABLE, RecordRejected
from surescale.contracts.ids import split_job
from surescale.contracts.messages import MinuteMarker, TaskSample, beginning_of
from surescale.contracts.wire import decode, decoder
from surescale.runtime.tracing.context import LENGTH, TRACEPARENT
from surescale.spark_streaming.columns import ABSENT, COLUMN, FIGURE_COLUMNS, SAMPLE_COLUMNS, Int64, Records
from surescale.spark_streaming.minutes import Refused

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame

SOURCE_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
TRACE = "traceparent"
"""Column of the header of that name, where the query reads headers: only while the job traces."""
_IS_TRACE = f"each -> each.key = '{TRACEPARENT}' AND octet_length(each.value) = {LENGTH}"
_TRACE_OF_HEADERS = f"try_element_at(filter(headers, {_IS_TRACE}), 1).value AS {TRACE}"
_INTEGERS = ("subtask", "attempt", "sampled_at_ms", *FIGURE_COLUMNS)
_OWN = [COLUMN[name] for name in _INTEGERS]
_COORDINATES = [COLUMN["partition"], COLUMN["offset"]]
_integers_of = attrgetter(*_INTEGERS)
_NO_INTEGERS = (0,) * len(_INTEGERS)
_MICROSECONDS_PER_MS = 1_000
_RECORD = TaskSample | MinuteMarker  # made once: building a union takes as long as decoding a record


def source_columns(records: "DataFrame", *, with_headers: bool = False) -> "DataFrame":
    """Return the columns of the source that ``parsed`` takes.

    ``with_headers``: the column ``headers`` of the source travels too, as far as it is a ``traceparent``.
    """
    header = [_TRACE_OF_HEADERS] if with_headers else []
    return records.selectExpr(*(f"`{name}`" for name in SOURCE_COLUMNS), *header)


def parsed(batches: Iterable["pa.RecordBatch"]) -> tuple[Records, tuple[Refused, ...]]:
    """Return the good and the refused records of batches with the columns ``SOURCE_COLUMNS``, and perhaps ``TRACE``.

    They are sorted by (partition, offset). Spark usually delivers them so, and a job's minutes depend on it.
    """
    import pyarrow as pa

    table = pa.Table.from_batches(batches)
    if not _is_ordered(table.column("partition").to_numpy(), table.column("offset").to_numpy()):
        table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    at = np.column_stack([table.column("partition").to_numpy(), table.column("offset").to_numpy()]).astype(np.int64)
    jobs, tasks = _Numbers(), _Numbers()
    good, job, task, integers = list[int](), list[int](), list[int](), list[int | None]()
    markers, refused = dict[int, MinuteMarker](), list[Refused]()
    decoded = decoder(_RECORD).decode
    for row, (key, value) in enumerate(zip(table.column("key").to_pylist(), table.column("value").to_pylist(), strict=True)):
        try:
            message = decoded(value or b"")
            if message.job not in jobs:
                split_job(message.job)
        except (RecordRejected, *UNREADABLE):
            refused.append(_refused(at[row].tolist(), key, value))
            continue
        if type(message) is TaskSample:
            task.append(tasks[message.task])
            integers += _integers_of(message)
        else:
            markers[len(good)] = message
            task.append(0)
            integers += _NO_INTEGERS
        job.append(jobs[message.job])
        good.append(row)
    samples = np.zeros((len(good), len(SAMPLE_COLUMNS)), dtype=np.int64)
    samples[:, COLUMN["task"]] = task
    samples[:, _COORDINATES] = at[good]
    samples[:, _OWN] = pa.array(integers, pa.int64()).fill_null(ABSENT).to_numpy().reshape(len(good), len(_OWN))
    append_ms = table.column("timestamp").cast(pa.int64()).to_numpy() // _MICROSECONDS_PER_MS
    headers = table.column(TRACE) if markers and TRACE in table.column_names else None
    traces = {} if headers is None else {number: headers[good[number]].as_py() for number in markers}
    records = Records(
        jobs=tuple(jobs),
        job=np.array(job, dtype=np.int32),
        tasks=tuple(tasks),
        samples=samples,
        append_ms=append_ms[good],
        markers=markers,
        traces={number: header for number, header in traces.items() if header is not None},
    )
    return records, tuple(refused)


def reached(records: Records, refused: Sequence[Refused]) -> dict[int, int]:
    """Return the offset after the last record of each partition that a batch has records of."""
    good = records.samples[:, _COORDINATES]
    at = np.concatenate([good, np.array([each.at for each in refused], dtype=np.int64).reshape(-1, 2)])
    return {each: int(at[at[:, 0] == each, 1].max()) + 1 for each in np.unique(at[:, 0]).tolist()}


class _Numbers(dict[str, int]):
    """Names, numbered in the order in which they are first asked for."""

    def __missing__(self, name: str) -> int:
        """Give a new name the next number."""
        self[name] = number = len(self)
        return number


def _refused(at: Sequence[int], key: bytes | None, value: bytes | None) -> Refused:
    """Decode a record again as other roles do, for the reason."""
    try:
        decode(value, _RECORD)
    except RecordRejected as why:
        return Refused(at[0], at[1], why.reason, why.field, why.message, key, beginning_of(value))
    raise AssertionError("a record was refused and is not")


def _is_ordered(partition: Int64, offset: Int64) -> bool:
    """Return whether the rows are already sorted, as they are when a task reads one partition."""
    step = np.diff(partition)
    return bool(((step > 0) | ((step == 0) & (np.diff(offset) > 0))).all())
