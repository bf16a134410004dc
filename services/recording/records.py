"""One record of a topic as it was read, and what it says about itself: its job, its event time. Pure.

A record that does not parse is kept as it is: what a replay makes of it is what the road made of it.
"""

import msgspec

from contracts import topics
from contracts.errors import RecordRejected
from contracts.ids import cluster_of
from contracts.windows import decode_window

# What stays in force once said: kept from the beginning, whatever stretch of time is asked for, and first in a recording.
FACTS = (topics.JOB_SETTINGS, topics.POLICY_RELEASES, topics.JOB_TOPOLOGY, topics.CLUSTER_TOPOLOGY, topics.CLOCK)
OF_A_JOB = (
    topics.TASK_METRICS,
    topics.DECISIONS,
    topics.RESCHEDULE_COMMANDS,
    topics.RESCHEDULE_EVENTS,
    topics.SNAPSHOTS,
)
MINUTE_HEADER = "minute"  # of a window's record: its end


class Record(msgspec.Struct, frozen=True, array_like=True):
    """One record with where it lay and when the broker took it; ``topic`` is the table's name, without prefix."""

    topic: str
    partition: int
    offset: int
    append_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class _Said(msgspec.Struct):
    """The fields by which records of any kind tell their job, their cluster and their event time."""

    job: str | None = None
    cluster: str | None = None
    sampled_at_ms: int | None = None
    minute_end_ms: int | None = None
    span_end_ms: int | None = None
    issued_at_ms: int | None = None
    at_ms: int | None = None


_decoder = msgspec.json.Decoder(_Said)


def job_of(record: Record) -> str | None:
    """Return the job that a record is about, None where it names none."""
    if topics.TOPICS[record.topic].key == "job" and record.key:
        return record.key.decode("utf-8", "replace")
    return _said(record).job


def is_about(record: Record, jobs: frozenset[str]) -> bool:
    """Say whether a record belongs to a recording of these jobs; all of them when none is named.

    What concerns a whole cluster belongs to every job of it, the clock to all.
    """
    if not jobs or record.topic == topics.CLOCK:
        return True
    job = job_of(record)
    if job is not None:
        return job in jobs
    return _said(record).cluster in {cluster_of(name) for name in jobs}


def event_ms(record: Record) -> int | None:
    """Return the event time of a record, None where it tells none."""
    if record.topic == topics.SNAPSHOTS:
        return _window_end_ms(record)
    said = _said(record)
    times = (said.sampled_at_ms, said.minute_end_ms, said.span_end_ms, said.issued_at_ms, said.at_ms)
    return next((time for time in times if time is not None), None)


def is_between(record: Record, from_ms: int | None, until_ms: int | None) -> bool:
    """Say whether a record's event time lies in (from, until], as a minute's samples lie in their minute; facts always do."""
    if record.topic in FACTS or (from_ms is None and until_ms is None):
        return True
    at_ms = event_ms(record)
    return at_ms is None or ((from_ms is None or at_ms > from_ms) and (until_ms is None or at_ms <= until_ms))


def _window_end_ms(record: Record) -> int | None:
    for name, value in record.headers:
        if name == MINUTE_HEADER and value and value.isdigit():
            return int(value)
    try:
        return decode_window(record.value).window_end_ms
    except RecordRejected:
        return None


def _said(record: Record) -> _Said:
    try:
        return _decoder.decode(record.value or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Said()
