"""Reads the simulated engine's figures over its HTTP API."""

import urllib.parse
from collections.abc import Callable
from typing import Self, TypeVar

import msgspec

from surescale.contracts.errors import RecordRejected
from surescale.contracts.messages import ClusterTopology, EngineEvent, HourlyLoad, JobTopology, TaskSample
from surescale.contracts.topology import check_cluster
from surescale.contracts.wire import decode
from surescale.engines.ports.source import FinishedMinute, Source, SourceUnavailable, UnknownJob
from surescale.engines.settings import SourceSettings
from surescale.runtime.http import ErrorAnswer, NoAnswer, ask

T = TypeVar("T")

ANSWER_TIMEOUT_S = 15.0
LIST_TIMEOUT_S = 5.0  # the main loop asks for the list: it delays the end of the process
MINUTES_MAX = 60  # in one answer
_JOB = "/jobs/"  # paths of one job: only there does 404 mean an unknown job


class _Minute(msgspec.Struct, frozen=True):
    minute_end_ms: int
    samples: tuple[msgspec.Raw, ...]
    topology: JobTopology
    reached_wall_ms: int | None = None


class _Minutes(msgspec.Struct, frozen=True):
    minutes: list[_Minute]


class _Job(msgspec.Struct, frozen=True):
    job: str


class _Jobs(msgspec.Struct, frozen=True):
    jobs: list[_Job]


class _Hours(msgspec.Struct, frozen=True):
    hours: tuple[HourlyLoad, ...]


class _Events(msgspec.Struct, frozen=True):
    events: list[EngineEvent]


class _Problem(msgspec.Struct, frozen=True):
    message: str


class EngineSource(Source):
    """Client of ``surescale run engine``. Thread-safe: it keeps nothing between calls."""

    def __init__(self, url: str, watches: Callable[[str], bool] = lambda _: True) -> None:
        """``watches`` says whether a job of a name is to be watched."""
        self._url = url.rstrip("/")
        self._watches = watches

    @classmethod
    def of(cls, settings: SourceSettings) -> Self:
        """Return the one of a role's settings."""
        return cls(settings.engine_url, settings.watches)

    def jobs(self) -> list[str]:
        """Return the ids of the jobs that are to be watched."""
        jobs = self._get("/jobs", _Jobs, LIST_TIMEOUT_S).jobs
        return sorted(entry.job for entry in jobs if self._watches(entry.job.partition("/")[2]))

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return finished minutes; the engine waits about half a second for one."""
        answer = self._get(f"{_path(job)}/figures?after_ms={after_ms}&limit_minutes={MINUTES_MAX}", _Minutes)
        return [_finished(each) for each in answer.minutes]

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return the hours of the trace before it starts."""
        return self._get(f"{_path(job)}/history", _Hours).hours

    def cluster_topology(self) -> ClusterTopology:
        """Return the hosts."""
        topology = self._get("/cluster", ClusterTopology)
        try:
            check_cluster(topology)
        except RecordRejected as error:
            raise SourceUnavailable(f"{self._url}/cluster gave an unexpected answer: {error}") from None
        return topology

    def events(self, after_id: str) -> list[EngineEvent]:
        """Return the events after one; all of them, if the engine does not know it because it has restarted."""
        return self._get(f"/events?after={urllib.parse.quote(after_id, safe='')}", _Events).events

    def close(self) -> None:
        """Do nothing: nothing is kept between calls."""

    def _get(self, path: str, kind: type[T], timeout_s: float = ANSWER_TIMEOUT_S) -> T:
        try:
            return decode(ask(self._url + path, timeout_s=timeout_s), kind)
        except ErrorAnswer as error:
            message = _message(error)
            if error.status == 404 and path.startswith(_JOB):
                raise UnknownJob(f"{self._url}{path}: {message}") from None
            raise SourceUnavailable(f"{self._url}{path} answered {error.status}: {message}") from None
        except NoAnswer as error:
            raise SourceUnavailable(f"{self._url} does not answer: {error}") from None
        except RecordRejected as error:
            raise SourceUnavailable(f"{self._url}{path} gave an unexpected answer: {error}") from None


def _finished(minute: _Minute) -> FinishedMinute:
    samples: list[TaskSample] = []
    malformed: list[bytes] = []
    for raw in minute.samples:
        try:
            samples.append(decode(bytes(raw), TaskSample))
        except RecordRejected:
            malformed.append(bytes(raw))
    return FinishedMinute(minute.minute_end_ms, tuple(samples), minute.topology, minute.reached_wall_ms, tuple(malformed))


def _path(job: str) -> str:
    name = job.partition("/")[2]
    return _JOB + urllib.parse.quote(name, safe="")


def _message(error: ErrorAnswer) -> str:
    try:
        return decode(error.body, _Problem).message
    except RecordRejected:
        return error.reason
