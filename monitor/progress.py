"""Finds what was last published of each job by reading the topics themselves: the monitor keeps no state of its own.

The markers also tell of another monitor of the same cluster: they lie between one's own, and its figures mix with them.
"""

import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing

from confluent_kafka import KafkaException, Message

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import ClusterTopology, JobTopology, MinuteMarker, TaskSample
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, CLUSTER_TOPOLOGY, JOB_TOPOLOGY, TASK_METRICS
from surescale.contracts.wire import decode
from surescale.engines.settings import ClusterSettings
from surescale.runtime.backoff import Throttle
from surescale.runtime.kafka import LogReader
from surescale.runtime.printable import printable
from surescale.runtime.topic_records import headers_of, parsed, pipeline_now_ms
from surescale.runtime.tracing.context import Headers

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
        with closing(LogReader(settings, [TASK_METRICS], last=tail)) as reader:
            marked = _markers(record.value() for record in reader.read_to_end())
            # Read after the markers, since the clock may run fast.
            found = _newest(marked, (now_ms or _pipeline_now_ms)(settings) + settings.ahead_of_clock_ms_max)
            if set(jobs) <= set(found) or reader.began_at_beginning or tail >= TAIL_RECORDS_MAX:
                return found
        tail = TAIL_RECORDS_MAX


def last_topologies(settings: PipelineSettings) -> list[JobTopology]:
    """Return the last topology of each job, of all clusters.

    Raises:
        KafkaException: the broker does not answer.
    """
    with closing(LogReader(settings, [JOB_TOPOLOGY])) as reader:
        return list({topology.job: topology for topology in parsed(reader.read_to_end(), JobTopology)}.values())


def last_cluster(settings: ClusterSettings) -> ClusterTopology | None:
    """Return what was last published of this cluster's hosts, if anything was.

    Raises:
        KafkaException: the broker does not answer.
    """
    with closing(LogReader(settings, [CLUSTER_TOPOLOGY])) as reader:
        return {each.cluster: each for each in parsed(reader.read_to_end(), ClusterTopology)}.get(settings.cluster)


def _pipeline_now_ms(settings: PipelineSettings) -> int:
    with closing(LogReader(settings, [CLOCK])) as reader:
        return pipeline_now_ms(settings, list(reader.read_to_end()))


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


HEADER = "monitor"
"""Of each marker: the host and process of the monitor that wrote it."""
LOOK_EVERY_S, SAY_EVERY_S = 30.0, 600.0
MARKERS_READ = 500  # per partition and look: markers come last in a minute
_NAME_MAX = 128
_TIMEOUT_S = 5.0


def own_name() -> str:
    """Return the host and number of this process, in at most 128 letters."""
    return f"{socket.gethostname()}:{os.getpid()}"[-_NAME_MAX:]


def own_header() -> Headers:
    """Return the header that names this process."""
    return [(HEADER, own_name().encode()[:_NAME_MAX])]


class OtherMonitors:
    """Looks now and then at the newest markers. ``name`` is that of another monitor at work, empty if there is none."""

    def __init__(self, settings: PipelineSettings, log: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self.name = ""
        self._settings, self._log, self._now_s = settings, log, now_s
        ((_, self._own),) = own_header()
        self._own_at: dict[int, int] = {}  # offset of the newest marker of one's own, by partition
        self._seldom, self._looked_s = Throttle(SAY_EVERY_S), now_s()

    def look(self) -> None:
        """Look if it is time to; a Kafka that is away is looked at later."""
        if self._now_s() - self._looked_s < LOOK_EVERY_S:
            return
        self._looked_s = self._now_s()
        try:
            with closing(LogReader(self._settings, [TASK_METRICS], last=MARKERS_READ)) as reader:
                self.take(reader.read_to_end(_TIMEOUT_S))
        except (KafkaException, TimeoutError):
            return
        if self.name and self._seldom.is_time():
            self._log.warning(
                "another monitor (%s) watches cluster %s too: every minute comes twice, and their figures mix; stop one of them",
                self.name, self._settings.cluster,
            )  # fmt: skip

    def take(self, records: Iterable[Message]) -> None:
        """Look at records: a marker of somebody else behind one's own means that both are at work."""
        self.name = ""
        for record in records:
            key, partition, offset = record.key() or b"", int(record.partition() or 0), int(record.offset() or 0)
            writer = next((value for name, value in headers_of(record) if name == HEADER), None)
            if writer is None or not key.startswith(f"{self._settings.cluster}/".encode()):
                continue
            if writer == self._own:
                self._own_at[partition] = offset
            elif offset > self._own_at.get(partition, offset):
                self.name = printable(writer[:_NAME_MAX].decode(errors="replace"))
