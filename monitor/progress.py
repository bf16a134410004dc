"""Finds what was last published of each job by reading the topics themselves: the monitor keeps no state of its own."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from contracts.errors import RecordRejected
from contracts.messages import JobTopology, MinuteMarker, TaskSample
from contracts.settings import PipelineSettings
from contracts.topics import CLOCK, JOB_TOPOLOGY, TASK_METRICS
from contracts.wire import decode
from runtime.kafka import LogReader
from runtime.topic_records import parsed, pipeline_now_ms

TAIL_RECORDS = 20_000  # per partition: a few minutes of a thousand tasks
TAIL_RECORDS_MAX = 60_000  # reading more takes longer than sending the minutes again


def last_markers(
    settings: PipelineSettings, jobs: Sequence[str], now_ms: Callable[[PipelineSettings], int] | None = None
) -> dict[str, int]:
    """Return the end of each job's last marked minute, reading back only as far as needed and sensible.

    A job not found there is new, or lags far behind: it starts with the oldest minute its source has, and records sent twice
    count once. Markers further ahead of the pipeline's clock than records may be are not the monitor's own and do not count: a
    forged one would hide its job for good. ``now_ms`` tells the clock's time, by default from Kafka.

    Raises:
        KafkaException: the broker does not answer.
    """
    tail = TAIL_RECORDS
    while True:
        reader = LogReader(settings, [TASK_METRICS], last=tail)
        try:
            marked = _markers(record.value() for record in reader.read_to_end())
            # Read after the markers, since the clock may run fast.
            found = _newest(marked, (now_ms or _pipeline_now_ms)(settings) + settings.ahead_of_clock_ms_max)
            if set(jobs) <= set(found) or reader.began_at_beginning or tail >= TAIL_RECORDS_MAX:
                return found
        finally:
            reader.close()
        tail = TAIL_RECORDS_MAX


def last_topologies(settings: PipelineSettings) -> list[JobTopology]:
    """Return the last topology of each job, of all clusters.

    Raises:
        KafkaException: the broker does not answer.
    """
    reader = LogReader(settings, [JOB_TOPOLOGY])
    try:
        return list({topology.job: topology for topology in parsed(reader.read_to_end(), JobTopology)}.values())
    finally:
        reader.close()


def _pipeline_now_ms(settings: PipelineSettings) -> int:
    reader = LogReader(settings, [CLOCK])
    try:
        return pipeline_now_ms(settings, list(reader.read_to_end()))
    finally:
        reader.close()


def _newest(marked: Mapping[str, set[int]], latest_ms: int) -> dict[str, int]:
    believed = {job: [end for end in ends if end <= latest_ms] for job, ends in marked.items()}
    return {job: max(ends) for job, ends in believed.items() if ends}


def _markers(values: Iterable[bytes | None]) -> dict[str, set[int]]:
    ends: dict[str, set[int]] = {}
    for raw in values:
        if raw is None or b'"minute/1"' not in raw[:64]:
            continue
        try:
            record = decode(raw, TaskSample | MinuteMarker)
        except RecordRejected:
            continue  # the snapshot stage refuses it with its coordinates
        if isinstance(record, MinuteMarker):
            ends.setdefault(record.job, set()).add(record.minute_end_ms)
    return ends
