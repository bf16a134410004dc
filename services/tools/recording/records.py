"""One record of a topic as it was read, and what it says about itself: its job, its event time. Pure.

A record that does not parse is kept as it is, so that a replay treats it as the pipeline did.
"""

import msgspec

from contracts import topics
from contracts.errors import RecordRejected
from contracts.ids import cluster_of
from contracts.windows import decode_window

# These stay in force: they are recorded from the beginning, whatever time is asked for, and come first.
FACTS = (topics.JOB_SETTINGS, topics.POLICY_RELEASES, topics.JOB_TOPOLOGY, topics.CLUSTER_TOPOLOGY, topics.CLOCK)
OF_A_JOB = (
    topics.TASK_METRICS,
    topics.DECISIONS,
    topics.RESCHEDULE_COMMANDS,
    topics.RESCHEDULE_EVENTS,
    topics.SNAPSHOTS,
)
MINUTE_HEADER = "minute"  # of a window's record: its end


class RawRecord(msgspec.Struct, frozen=True, array_like=True):
    """One record with its place and the broker's time for it; ``topic`` is the table's name, without prefix."""

    topic: str
    partition: int
    offset: int
    append_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class _Fields(msgspec.Struct):
    """The fields in which records of any kind give their job, cluster and event time."""

    job: str | None = None
    cluster: str | None = None
    sampled_at_ms: int | None = None
    minute_end_ms: int | None = None
    span_end_ms: int | None = None
    issued_at_ms: int | None = None
    at_ms: int | None = None


_decoder = msgspec.json.Decoder(_Fields)


def job_of(record: RawRecord) -> str | None:
    """Return the job a record is about, None if it names none."""
    if topics.TOPICS[record.topic].key == "job" and record.key:
        return record.key.decode("utf-8", "replace")
    return _fields_of(record).job


def is_about(record: RawRecord, jobs: frozenset[str]) -> bool:
    """Return whether a record belongs to a recording of these jobs (none named: of all).

    A record about a whole cluster belongs to each of its jobs, the clock to all.
    """
    if not jobs or record.topic == topics.CLOCK:
        return True
    job = job_of(record)
    if job is not None:
        return job in jobs
    return _fields_of(record).cluster in {cluster_of(name) for name in jobs}


def event_ms(record: RawRecord) -> int | None:
    """Return the event time of a record, None if it has none."""
    if record.topic == topics.SNAPSHOTS:
        return _window_end_ms(record)
    fields = _fields_of(record)
    times = (fields.sampled_at_ms, fields.minute_end_ms, fields.span_end_ms, fields.issued_at_ms, fields.at_ms)
    return next((time for time in times if time is not None), None)


def is_between(record: RawRecord, from_ms: int | None, until_ms: int | None) -> bool:
    """Return whether a record's event time lies in (from, until], as samples lie in their minute. Facts always do."""
    if record.topic in FACTS or (from_ms is None and until_ms is None):
        return True
    at_ms = event_ms(record)
    return at_ms is None or ((from_ms is None or at_ms > from_ms) and (until_ms is None or at_ms <= until_ms))


def _window_end_ms(record: RawRecord) -> int | None:
    for name, value in record.headers:
        if name == MINUTE_HEADER and value and value.isdigit():
            return int(value)
    try:
        return decode_window(record.value).window_end_ms
    except RecordRejected:
        return None


def _fields_of(record: RawRecord) -> _Fields:
    try:
        return _decoder.decode(record.value or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Fields()
