"""The stage on static frames: records in, columns out."""

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from surescale.contracts.messages import MinuteMarker, TaskSample
from surescale.contracts.wire import encode
from surescale.spark_streaming.columns import COLUMN, Records
from surescale.spark_streaming.columns import Coordinates as At
from surescale.spark_streaming.minutes import Refused
from surescale.spark_streaming.stages import SOURCE_COLUMNS, parsed, source_columns
from tests.support.record_columns import records_of
from tests.unit.spark_streaming.pipeline import JOB, marker, sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = (
    "key binary, value binary, partition int, offset long, timestamp timestamp, headers array<struct<key:string,value:binary>>"
)
Row = tuple[bytes | None, bytes | None, int, int]


def run(spark: "SparkSession", *rows: Row) -> tuple[Records, tuple[Refused, ...]]:
    """Run the stage over rows that the broker appended at 1,000 ms plus their offset."""
    stamped = [(*row, datetime.fromtimestamp((1_000 + row[3]) / 1_000, UTC), None) for row in rows]
    return run_with_headers(spark, *stamped, with_headers=False)


def run_with_headers(
    spark: "SparkSession", *rows: tuple[object, ...], with_headers: bool = True
) -> tuple[Records, tuple[Refused, ...]]:
    """Run the stage over rows of ``SCHEMA``, as a task does that reads them."""
    return parsed(source_columns(spark.createDataFrame(rows, SCHEMA), with_headers=with_headers).toArrow().to_batches())


def raw(message: TaskSample | MinuteMarker, partition: int, offset: int) -> Row:
    """Return the row of a message."""
    return message.job.encode(), encode(message), partition, offset


def test_good_records_become_the_columns_of_the_merge_step(spark: "SparkSession") -> None:
    """Samples of several jobs and tasks and a marker, the same as when built from the messages directly."""
    messages = [sample(60_000, 7), sample(60_000, 2, task="sink", subtask=3), marker(1), sample(61_000, 1, job="sim/other")]
    records, refused = run(spark, *(raw(message, 0, offset) for offset, message in enumerate(messages)))
    expected = records_of([(At(0, offset, 1_000 + offset), message) for offset, message in enumerate(messages)])
    assert refused == ()
    assert [records.jobs[code] for code in records.job] == [message.job for message in messages]
    assert records.samples[[0, 1, 3], 1:].tolist() == expected.samples[[0, 1, 3], 1:].tolist()
    assert [records.tasks[code] for code in records.samples[[0, 1, 3], COLUMN["task"]]] == ["map", "sink", "map"]
    assert records.markers == expected.markers
    assert records.append_ms.tolist() == expected.append_ms.tolist()


def test_the_order_is_that_of_partition_and_offset(spark: "SparkSession") -> None:
    """However the rows of a batch come in."""
    records, _ = run(spark, *(raw(sample(60_000), *at) for at in [(1, 5), (0, 9), (1, 4), (0, 8)]))
    at = records.samples[:, [COLUMN["partition"], COLUMN["offset"]]].tolist()
    assert at == [[0, 8], [0, 9], [1, 4], [1, 5]]


def test_refused_records_carry_coordinates_reason_and_payload(spark: "SparkSession") -> None:
    """A good record beside them passes."""
    records, refused = run(spark, (b"k", b"{", 2, 7), raw(sample(60_000), 2, 8), (None, None, 2, 9))
    assert len(records.job) == 1
    assert [(each.at, each.reason, each.key, each.payload) for each in refused] == [
        ((2, 7), "not_json", b"k", b"{"),
        ((2, 9), "not_json", None, b""),
    ]


def test_only_the_source_columns_are_read(spark: "SparkSession") -> None:
    """Headers and other columns of the source do not travel to the workers."""
    frame = spark.createDataFrame([], SCHEMA)
    assert tuple(source_columns(frame).columns) == SOURCE_COLUMNS
    assert set(SOURCE_COLUMNS) < set(frame.columns)


def test_the_place_of_a_marker_in_its_trace_travels_with_it(spark: "SparkSession") -> None:
    """Of headers of the right name and length; samples, others, none at all and values of any length bring nothing."""
    good, stamp = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", datetime.fromtimestamp(1, UTC)
    headers: list[list[tuple[str, bytes | None]] | None] = [
        [("minute", b"7"), ("traceparent", good)],
        [("traceparent", good + b"-more")],
        [("traceparent", None)],
        [],
        None,
    ]
    rows = [(*raw(marker(minute), 0, minute), stamp, each) for minute, each in enumerate(headers, 1)]
    rows.append((*raw(sample(60_000), 0, 9), stamp, [("traceparent", good)]))
    records, refused = run_with_headers(spark, *rows)
    assert refused == ()
    assert (len(records.markers), len(records.job)) == (5, 6)
    assert {records.markers[row].minute_end_ms: header for row, header in records.traces.items()} == {60_000: good}


@pytest.mark.parametrize(
    ("value", "reason", "field"),
    [
        (b"\xff\xfe", "not_json", ""),
        (b'{"type":"other/1"}', "unknown_type", "type"),
        (encode(sample(1)).replace(b'"records_in":0', b'"records_in":-1'), "invalid_field", "records_in"),
        (encode(sample(1)).replace(b'"task":"map",', b""), "invalid_field", "task"),
        (encode(sample(1, job="nocluster")), "invalid_field", "job"),
        (
            encode(marker(1)).replace(b'{"task":"map"', b'{"task":"map","parallelism":0'),
            "invalid_field",
            "topology.tasks[0].parallelism",
        ),
    ],
)
def test_a_bad_record_names_its_field(value: bytes, reason: str, field: str) -> None:
    """Reason from the closed set, path of the field, and no columns."""
    row = {"key": JOB.encode(), "value": value, "partition": 0, "offset": 7, "timestamp": datetime.fromtimestamp(1, UTC)}
    records, (refused,) = parsed([pa.RecordBatch.from_pylist([row])])
    assert len(records.job) == 0
    assert (refused.at, refused.reason, refused.field) == ((0, 7), reason, field)
