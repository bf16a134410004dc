"""Parses raw records into columns, on executors. It decodes with the same code as every other role, so a refused record carries
the exact reason and field path.
"""

from operator import attrgetter
from typing import TYPE_CHECKING

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import MinuteMarker, TaskSample, beginning_of
from surescale.contracts.wire import decode, decoder
from surescale.runtime.tracing.context import LENGTH, TRACEPARENT
from surescale.spark_streaming.columns import FIGURE_COLUMNS

if TYPE_CHECKING:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyspark.sql import DataFrame

SOURCE_COLUMNS = ("key", "value", "partition", "offset", "timestamp")
TRACE = "traceparent"
"""Column of the header of that name, where the query reads headers: only while the job traces."""
_IS_TRACE = f"each -> each.key = '{TRACEPARENT}' AND octet_length(each.value) = {LENGTH}"
_TRACE_OF_HEADERS = f"try_element_at(filter(headers, {_IS_TRACE}), 1).value AS {TRACE}"
INTEGER_COLUMNS = ("subtask", "attempt", "sampled_at_ms", *FIGURE_COLUMNS)

Row = tuple[object, ...]
_NO_FIGURES: Row = (None,) * len(INTEGER_COLUMNS)
_MICROSECONDS_PER_MS = 1_000
_RECORD = TaskSample | MinuteMarker  # made once: building a union takes as long as decoding a record
_figures_of = attrgetter(*INTEGER_COLUMNS)


def source_columns(records: "DataFrame", *, with_headers: bool = False) -> "DataFrame":
    """Return the columns of the source that ``parse_batch`` takes.

    ``with_headers``: the column ``headers`` of the source travels too, as far as it is a ``traceparent``.
    """
    header = [_TRACE_OF_HEADERS] if with_headers else []
    return records.selectExpr(*(f"`{name}`" for name in SOURCE_COLUMNS), *header)


def parsed_schema() -> "pa.Schema":
    """Return the columns of parsed records: a sample, a marker (``raw`` but no ``task``) or a refusal (``reason`` set)."""
    import pyarrow as pa

    return pa.schema(
        [
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("append_ms", pa.int64()),
            ("job", pa.string()),  # null in a refused record
            ("task", pa.string()),  # null in a marker
            *((name, pa.int64()) for name in INTEGER_COLUMNS),  # null where the engine does not know it
            ("raw", pa.binary()),  # a marker's whole record, or the beginning of a refused one
            ("key", pa.binary()),  # of a refused record
            ("reason", pa.string()),
            ("field", pa.string()),
            ("message", pa.string()),
            (TRACE, pa.binary()),  # null without the header, and where headers are not read
        ]
    )


def parse_batch(batch: "pa.RecordBatch") -> "pa.RecordBatch":
    """Return one row of ``parsed_schema`` per record of a batch with the columns ``SOURCE_COLUMNS``, and perhaps ``TRACE``."""
    import pyarrow as pa

    schema = parsed_schema()
    keys, values = batch.column("key").to_pylist(), batch.column("value").to_pylist()
    rows = [parse_record(key, value) for key, value in zip(keys, values, strict=True)]
    columns = list(zip(*rows, strict=True)) or [()] * (len(schema) - 4)
    append_us = batch.column("timestamp").cast(pa.int64()).to_numpy()
    own = [pa.array(column, field.type) for column, field in zip(columns, list(schema)[3:-1], strict=True)]
    coordinates = [batch.column("partition"), batch.column("offset"), pa.array(append_us // _MICROSECONDS_PER_MS)]
    trace = batch.column(TRACE) if TRACE in batch.schema.names else pa.nulls(batch.num_rows, pa.binary())
    return pa.record_batch([*coordinates, *own, trace], schema=schema)


def parse_record(key: bytes | None, value: bytes | None) -> Row:
    """Return the row of one record, without its coordinates."""
    try:
        message = decode(value, _RECORD)
    except RecordRejected as rejected:
        return (None, None, *_NO_FIGURES, beginning_of(value), key, rejected.reason, rejected.field, rejected.message)
    if isinstance(message, MinuteMarker):
        return (message.job, None, *_NO_FIGURES, value, None, None, None, None)
    return (message.job, message.task, *_figures_of(message), None, None, None, None, None)


def marker_of(raw: bytes) -> MinuteMarker:
    """Return a marker that an executor has validated."""
    return decoder(MinuteMarker).decode(raw)
