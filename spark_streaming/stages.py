"""Stages of the query, DataFrame to DataFrame; they run on executors and know neither streams nor checkpoints.

``parsed`` is map-only: there is no shuffle between the source and the merge step, so a job's records stay in Kafka's order. It
decodes with the same code as every other role, so a refused record carries the exact reason and field path. Its rows are whole
batches of parsed records as compressed Arrow streams: passing 33 columns per record through the JVM's rows and back took ten
times as long as parsing them.
"""

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import MinuteMarker, TaskSample, beginning_of
from surescale.contracts.wire import decode
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
PACKED_SCHEMA = "records int, packed binary"  # packed: an Arrow stream of parsed_schema()

Row = tuple[object, ...]
_NO_FIGURES: Row = (None,) * len(INTEGER_COLUMNS)
_MICROSECONDS_PER_MS = 1_000
_RECORD = TaskSample | MinuteMarker  # made once: building a union takes as long as decoding a record
_figures_of = attrgetter(*INTEGER_COLUMNS)


def parsed(records: "DataFrame", *, with_headers: bool = False) -> "DataFrame":
    """Return the records parsed and validated, many per row of ``PACKED_SCHEMA``; ``unpacked`` opens them.

    ``with_headers``: the column ``headers`` of the source travels too, as far as it is a ``traceparent``.
    """
    header = [_TRACE_OF_HEADERS] if with_headers else []
    return records.selectExpr(*(f"`{name}`" for name in SOURCE_COLUMNS), *header).mapInArrow(pack_batches, PACKED_SCHEMA)


def pack_batches(batches: Iterable["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    """Parse Arrow batches with the columns ``SOURCE_COLUMNS``, and perhaps ``TRACE``; runs in a Python worker of an executor."""
    import pyarrow as pa

    schema = pa.schema([("records", pa.int32()), ("packed", pa.binary())])
    compressed = pa.ipc.IpcWriteOptions(compression="lz4")  # the JVM copies these bytes many times on their way to the driver
    for batch in batches:
        found = parse_batch(batch)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema, options=compressed) as stream:
            stream.write_batch(found)
        yield pa.record_batch(
            [pa.array([found.num_rows], pa.int32()), pa.array([sink.getvalue().to_pybytes()], pa.binary())], schema=schema
        )


def unpacked(collected: "pa.Table") -> "pa.Table":
    """Return the rows of ``parsed_schema`` inside a collected table of ``PACKED_SCHEMA``."""
    import pyarrow as pa

    streams = (pa.ipc.open_stream(pa.py_buffer(packed)) for packed in collected.column("packed").to_pylist())
    return pa.concat_tables([parsed_schema().empty_table(), *(stream.read_all() for stream in streams)])


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
    return msgspec.json.decode(raw, type=MinuteMarker)
