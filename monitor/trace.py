"""A recording as a source: records of ``task-metrics`` as JSON lines, in recorded order.

Each line is a sample or a marker; lines of hosts (``cluster/1``) and events (``engine-event/1``) may appear among them. A
job's minute is everything between two of its markers. Samples after a job's last marker are not a finished minute and are left
out.
"""

import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from surescale.contracts.errors import RecordRejected, SettingsError, reason_of
from surescale.contracts.ids import split_job
from surescale.contracts.messages import ClusterTopology, EngineEvent, HourlyLoad, MinuteMarker, TaskSample
from surescale.contracts.topology import check_cluster
from surescale.contracts.wire import decode
from surescale.engines.ports.source import FinishedMinute, Source, UnknownJob

MINUTES_MAX = 60  # in one answer

Line = TaskSample | MinuteMarker | ClusterTopology | EngineEvent


@dataclass(slots=True)
class _Recorded:
    minutes: list[FinishedMinute] = field(default_factory=list)
    history: tuple[HourlyLoad, ...] = ()


class TraceSource(Source):
    """Serves a recording; all its minutes are finished."""

    def __init__(self, lines: Iterable[bytes], name: str) -> None:
        """Parse the lines; ``name`` identifies them in messages.

        Raises:
            SettingsError: a line cannot be used; the message names line and field.
        """
        self._jobs: dict[str, _Recorded] = {}
        self._cluster: ClusterTopology | None = None
        self._events: list[EngineEvent] = []
        open_samples: dict[str, list[TaskSample]] = {}
        for number, line in enumerate(lines, start=1):
            if line.strip():
                self._take(_parsed(line, f"{name}, line {number}"), open_samples, f"{name}, line {number}")
        if not self._jobs:
            raise SettingsError(f"{name}: no marker in it, so no minute is finished; record task-metrics from its beginning")

    @classmethod
    def of_file(cls, path: Path) -> "TraceSource":
        """Read a file.

        Raises:
            SettingsError: it cannot be read, or a line cannot be used.
        """
        try:
            with path.open("rb") as lines:
                return cls(lines, str(path))
        except OSError as error:
            raise SettingsError(
                f"SURESCALE_TRACE_FILE: {path} cannot be read ({reason_of(error)}); name a recording (with it or with --trace)"
            ) from None

    @property
    def is_finite(self) -> bool:
        """Return True: a recording has an end."""
        return True

    def jobs(self) -> list[str]:
        """Return the ids of the jobs that have a marker, sorted."""
        return sorted(self._jobs)

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return recorded minutes after a time, oldest first."""
        minutes = self._of(job).minutes
        first = bisect.bisect_right(minutes, after_ms, key=lambda minute: minute.minute_end_ms)
        return minutes[first : first + MINUTES_MAX]

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return the load history of the first marker that carries one."""
        return self._of(job).history

    def cluster_topology(self) -> ClusterTopology | None:
        """Return the last hosts in the recording."""
        return self._cluster

    def events(self, after_id: str) -> list[EngineEvent]:
        """Return the recorded events after one."""
        found = next((at for at in range(len(self._events), 0, -1) if self._events[at - 1].identity == after_id), 0)
        return self._events[found:]

    def close(self) -> None:
        """Do nothing: the file has been read."""

    def _take(self, record: Line, open_samples: dict[str, list[TaskSample]], where: str) -> None:
        if isinstance(record, TaskSample):
            open_samples.setdefault(record.job, []).append(record)
        elif isinstance(record, ClusterTopology):
            self._cluster = record
        elif isinstance(record, EngineEvent):
            self._events.append(record)
        else:
            self._finish(record, tuple(open_samples.pop(record.job, ())), where)

    def _finish(self, marker: MinuteMarker, samples: tuple[TaskSample, ...], where: str) -> None:
        recorded = self._jobs.setdefault(marker.job, _Recorded())
        if recorded.minutes and marker.minute_end_ms <= recorded.minutes[-1].minute_end_ms:
            raise SettingsError(f"{where}: minute_end_ms: the minutes of job {marker.job} go backwards; sort the file by time")
        recorded.minutes.append(FinishedMinute(marker.minute_end_ms, samples, marker.topology, marker.reached_wall_ms))
        recorded.history = recorded.history or marker.load_history

    def _of(self, job: str) -> _Recorded:
        if job not in self._jobs:
            raise UnknownJob(f"the recording has no job {job!r}")
        return self._jobs[job]


def _parsed(line: bytes, where: str) -> Line:
    try:
        record = decode(line, TaskSample | MinuteMarker | ClusterTopology | EngineEvent)
        if isinstance(record, TaskSample | MinuteMarker):
            split_job(record.job)
        elif isinstance(record, ClusterTopology):
            check_cluster(record)
        return record
    except RecordRejected as rejected:
        raise SettingsError(f"{where}: {rejected}; correct the line or leave it out") from None
