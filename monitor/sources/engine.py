"""Figures of the simulated engine, by its HTTP API."""

import json
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import TypeVar

import msgspec

from contracts.errors import RecordRejected
from contracts.messages import ClusterTopology, EngineEvent, HourlyLoad, JobTopology, TaskSample
from contracts.wire import decode
from monitor.sources.base import FinishedMinute, SourceAway, UnknownJob

T = TypeVar("T")

ANSWER_TIMEOUT_S = 15.0
MINUTES_MAX = 60  # in one answer
_JOB = "/jobs/"  # paths of one job: only there 404 says that the job is unknown


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


class EngineSource:
    """Client of ``surescale engine``. Safe for many threads: it keeps nothing between calls."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        # Never through a proxy: the engine is beside us.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @property
    def is_finite(self) -> bool:
        """An engine goes on."""
        return False

    def jobs(self) -> list[str]:
        """Return the ids of all jobs."""
        return sorted(entry.job for entry in self._get("/jobs", _Jobs).jobs)

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return finished minutes; the engine waits about half a second for one."""
        answer = self._get(f"{_path(job)}/figures?after_ms={after_ms}&limit_minutes={MINUTES_MAX}", _Minutes)
        return [_finished(each) for each in answer.minutes]

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return the hours of the trace before it starts."""
        return self._get(f"{_path(job)}/history", _Hours).hours

    def cluster_topology(self) -> ClusterTopology:
        """Return the hosts."""
        return self._get("/cluster", ClusterTopology)

    def events(self, after: int) -> list[EngineEvent]:
        """Return the events after the first ``after`` ones."""
        return self._get(f"/events?after={after}", _Events).events

    def _get(self, path: str, kind: type[T]) -> T:
        try:
            with self._opener.open(self._url + path, timeout=ANSWER_TIMEOUT_S) as answer:
                return msgspec.json.decode(answer.read(), type=kind)
        except urllib.error.HTTPError as error:
            message = _message(error)
            if error.code == 404 and path.startswith(_JOB):
                raise UnknownJob(f"{self._url}{path}: {message}") from None
            raise SourceAway(f"{self._url}{path} answered {error.code}: {message}") from None
        except (OSError, HTTPException) as error:
            raise SourceAway(f"{self._url} does not answer: {getattr(error, 'reason', error)}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise SourceAway(f"{self._url}{path} answered something else than expected: {error}") from None


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


def _message(error: urllib.error.HTTPError) -> str:
    try:
        return str(json.loads(error.read())["message"])
    except (ValueError, TypeError, KeyError, OSError, HTTPException):
        return str(error.reason)
