"""Reads the rescaler's memory back from Kafka. Anybody may have written there, so whatever cannot be used is confined."""

import logging
from collections.abc import Callable, Iterable
from contextlib import closing
from typing import NamedTuple

from confluent_kafka import Message

from surescale.contracts.errors import RecordRejected
from surescale.contracts.partitioner import partition_of
from surescale.contracts.rescaler_state import KEY_SHOWN_MAX, MemoryKey, RescalerRecord, memory_key, memory_of
from surescale.contracts.topics import RESCALER_STATE
from surescale.rescaler.control.controller import Unreadable, check_memory, held_in_words
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.traces import Traces
from surescale.runtime.kafka import LogReader
from surescale.runtime.topic_records import append_ms, headers_of, key_of, value_of

_log = logging.getLogger("surescale.memory")
LARGE_BYTES = 64 * 1024
LARGE_BYTES_MAX = 24 * 1024 * 1024
"""Of all records together that are larger than ``LARGE_BYTES``. Beyond it, the largest count as unreadable: a job's memory has
some kilobytes, and fifty jobs with 16,384 vnodes in each of five tasks stay below it."""
Count = Callable[[str], None]


class _Latest(NamedTuple):
    """The latest record under a key."""

    record: Message | None  # None: it is too large to be kept
    where: str
    at_ms: int


def remembered(
    settings: RescalerSettings,
    count: Count = lambda _: None,
    traces: Traces | None = None,
) -> list[RescalerRecord | Unreadable]:
    """Return the latest record under each key of this cluster's memory, sorted by key; ``traces`` receives their headers.

    Raises:
        KafkaException, TimeoutError: Kafka does not answer.
    """
    with closing(LogReader(settings, [RESCALER_STATE])) as reader:
        partition = partition_of(settings.cluster, len(reader.partitions))
        return memory_in(reader.read_to_end(), settings.cluster, partition, count, traces)


def memory_in(
    records: Iterable[Message],
    cluster: str,
    partition: int,
    count: Count,
    traces: Traces | None = None,
) -> list[RescalerRecord | Unreadable]:
    """Return the memory of a cluster, whose partition is given, that these records hold; otherwise as ``remembered``.

    Whatever else begins with the cluster's name is passed. ``count`` hears of it, and of what cannot be read, as "rejected".
    """
    latest = _latest(records, cluster, partition, count)
    found: list[RescalerRecord | Unreadable] = []
    for key in sorted(latest, key=str):
        kept = latest.pop(key)  # its bytes are not needed once it is decoded
        memory = _read(key, kept)
        found.append(memory)
        if isinstance(memory, Unreadable):
            count("rejected")
            _log.warning("%s", memory.why)
        elif traces is not None and kept.record is not None:
            traces.restore(memory.kind, memory.id, headers_of(kept.record), kept.at_ms)
    return found


def _latest(records: Iterable[Message], cluster: str, partition: int, count: Count) -> dict[MemoryKey, _Latest]:
    latest: dict[MemoryKey, _Latest] = {}
    large: dict[MemoryKey, int] = {}
    passed, first, mine = 0, "", f"{cluster}/".encode()
    for record in records:
        raw, value = key_of(record) or b"", value_of(record)
        if not raw.startswith(mine):
            continue
        where = f"{RESCALER_STATE}[{record.partition()}]@{record.offset()}"
        key = _memory_key(raw) if record.partition() == partition else None
        if key is None:
            passed, first = passed + 1, first or f"{where}, key {raw[:KEY_SHOWN_MAX]!r}"
            count("rejected")
            continue
        large.pop(key, None)
        if value is None:
            latest.pop(key, None)
            continue
        latest[key] = _Latest(record, where, append_ms(record))
        if len(value) <= LARGE_BYTES:
            continue
        large[key] = len(value)
        while sum(large.values()) > LARGE_BYTES_MAX:
            largest = max(large, key=lambda each: (large[each], str(each)))
            del large[largest]
            latest[largest] = latest[largest]._replace(record=None)
    if passed:
        words = "%d records of %s are no memory of cluster %s and are passed; the first: %s"
        _log.warning(words, passed, RESCALER_STATE, cluster, first)
    return latest


def _memory_key(raw: bytes) -> MemoryKey | None:
    try:
        return memory_key(raw)
    except RecordRejected:
        return None


def _read(key: MemoryKey, latest: _Latest) -> RescalerRecord | Unreadable:
    try:
        if latest.record is None:
            raise RecordRejected("too_large", "", f"the large records together are over {LARGE_BYTES_MAX >> 20} MiB")
        record = memory_of(str(key).encode(), value_of(latest.record))
        check_memory(record)
    except RecordRejected as error:
        why = held_in_words(latest.where, key, error)
        return Unreadable(key, why, latest.at_ms)
    return record
