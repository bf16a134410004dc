"""How far each job's minutes have come, read from the topic itself: the monitor keeps no state of its own."""

from collections.abc import Sequence

from contracts.errors import RecordRejected
from contracts.messages import MinuteMarker, TaskSample
from contracts.settings import RoadSettings
from contracts.topics import TASK_METRICS
from contracts.wire import decode
from runtime.kafka import LogReader

TAIL_RECORDS = 20_000  # of a partition: some minutes of a thousand tasks
TAIL_RECORDS_MAX = 60_000  # they are held at once, and a container's memory is small


def last_markers(settings: RoadSettings, jobs: Sequence[str]) -> dict[str, int]:
    """Return the end of the last marked minute of each job that has one, reading back as far as needed and sensible.

    A job of which nothing is found there is new, or lags far behind: it begins with the oldest minute that its source has, and
    what is sent twice counts once.

    Raises:
        KafkaException: the broker does not answer.
    """
    tail = TAIL_RECORDS
    while True:
        reader = LogReader(settings, [TASK_METRICS], last=tail)
        try:
            found = _markers([record.value() for record in reader.read_to_end()])
            if set(jobs) <= set(found) or reader.began_at_beginning or tail >= TAIL_RECORDS_MAX:
                return found
        finally:
            reader.close()
        tail = TAIL_RECORDS_MAX


def _markers(values: Sequence[bytes | None]) -> dict[str, int]:
    ends: dict[str, int] = {}
    for raw in values:
        if raw is None or b'"minute/1"' not in raw[:64]:
            continue
        try:
            record = decode(raw, TaskSample | MinuteMarker)
        except RecordRejected:
            continue  # the snapshot stage refuses it with its coordinates
        if isinstance(record, MinuteMarker):
            ends[record.job] = max(ends.get(record.job, 0), record.minute_end_ms)
    return ends
