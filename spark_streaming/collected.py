"""Splits the parsed rows of one task into the columns of the merge step. No Spark session, no I/O."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from surescale.spark_streaming.columns import ABSENT, COLUMN, NULLABLE_COLUMNS, SAMPLE_COLUMNS, Int64, Records
from surescale.spark_streaming.minutes import Refused
from surescale.spark_streaming.stages import INTEGER_COLUMNS, TRACE, marker_of

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]


def split(table: "pa.Table") -> tuple[Records, tuple[Refused, ...]]:
    """Return the good and the refused records of a table of ``stages.parsed_schema``.

    Rows are sorted by (partition, offset). Spark usually delivers them so, and a job's minutes depend on it.
    """
    if not _is_ordered(table.column("partition").to_numpy(), table.column("offset").to_numpy()):
        table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    is_refused = table.column("reason").is_valid().to_numpy()
    if not is_refused.any():
        return _records(table), ()
    return _records(table.filter(~is_refused)), _refused(table.filter(is_refused))


def reached(records: Records, refused: Sequence[Refused]) -> dict[int, int]:
    """Return the offset after the last record of each partition that a batch has records of."""
    good = records.samples[:, [COLUMN["partition"], COLUMN["offset"]]]
    at = np.concatenate([good, np.array([each.at for each in refused], dtype=np.int64).reshape(-1, 2)])
    return {each: int(at[at[:, 0] == each, 1].max()) + 1 for each in np.unique(at[:, 0]).tolist()}


def _is_ordered(partition: Int64, offset: Int64) -> bool:
    """Return whether the rows are already sorted, as they are when a task reads one partition."""
    step = np.diff(partition)
    return bool(((step > 0) | ((step == 0) & (np.diff(offset) > 0))).all())


def _records(table: "pa.Table") -> Records:
    jobs, job = _codes(table, "job")
    tasks, task = _codes(table, "task")
    samples = np.zeros((len(table), len(SAMPLE_COLUMNS)), dtype=np.int64)
    samples[:, COLUMN["task"]] = np.maximum(task, 0)
    for name in ("partition", "offset", *INTEGER_COLUMNS):
        samples[:, COLUMN[name]] = _integers(table, name)
    is_marker = np.flatnonzero(task < 0)
    raw = table.column("raw").take(is_marker).to_pylist()
    traces = table.column(TRACE).take(is_marker).to_pylist()
    return Records(
        jobs=jobs,
        job=job,
        tasks=tasks,
        samples=samples,
        append_ms=table.column("append_ms").to_numpy(),
        markers={row: marker_of(value) for row, value in zip(is_marker.tolist(), raw, strict=True)},
        traces={row: header for row, header in zip(is_marker.tolist(), traces, strict=True) if header is not None},
    )


def _integers(table: "pa.Table", name: str) -> Int64:
    """Return a column with nulls filled in: figures that the engine does not know, and everything in a marker's row."""
    column = table.column(name)
    filled = column.fill_null(ABSENT if name in NULLABLE_COLUMNS else 0) if column.null_count else column
    numbers: Int64 = filled.to_numpy()
    return numbers


def _codes(table: "pa.Table", name: str) -> tuple[tuple[str, ...], "np.ndarray[tuple[int], np.dtype[np.int32]]"]:
    """Return the distinct texts of a column and int32 [n] into them, -1 where it is null."""
    encoded = table.column(name).dictionary_encode().combine_chunks()
    if len(table) == 0:
        return (), np.zeros(0, dtype=np.int32)
    return tuple(encoded.dictionary.to_pylist()), encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)


def _refused(table: "pa.Table") -> tuple[Refused, ...]:
    names = ("partition", "offset", "reason", "field", "message", "key", "raw")
    columns = (table.column(name).to_pylist() for name in names)
    return tuple(Refused(*values) for values in zip(*columns, strict=True))
