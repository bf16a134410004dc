"""The engine's HTTP API as an actuator uses it: wanted units in, progress of a job out, as JSON."""

import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Self, TypeVar

import msgspec

from surescale.contracts.capabilities import SIMULATED, Capabilities
from surescale.contracts.commands import NamedUnits, Rescale, RescheduleCommand
from surescale.contracts.errors import RecordRejected
from surescale.contracts.ids import split_job
from surescale.contracts.messages import Count, JobState, Parallelism, Text, TimeMs
from surescale.contracts.wire import decode, encode
from surescale.engines.ports.actuator import CANNOT_WITHDRAW, Accepted, EngineRefused, EngineUnavailable, JobStatus
from surescale.engines.settings import ClusterSettings
from surescale.runtime.http import ErrorAnswer, NoAnswer, ask

ANSWER_BYTES_MAX = 16 * 2**20
CODE_LENGTH_MAX = 64
DETAIL_LENGTH_MAX = 1_024
_TRY_AGAIN = frozenset({408, 425, 429})  # among 4xx; every other status too

T = TypeVar("T")


class _Times(msgspec.Struct, frozen=True):
    effective_at_ms: TimeMs
    done_at_ms: TimeMs


class _Rescale(_Times, frozen=True):
    command_id: str = ""
    state: str | None = None
    code: str | None = None
    learners: Count | None = None
    lag_bytes: Count | None = None
    units: NamedUnits | None = None


class _Task(msgspec.Struct, frozen=True):
    task: Text
    parallelism: Parallelism = 1


class _Topology(msgspec.Struct, frozen=True):
    tasks: tuple[_Task, ...] = ()


class _Job(msgspec.Struct, frozen=True):
    generation: Count
    rescale: _Rescale | None = None
    state: JobState = "running"
    topology: _Topology = _Topology()
    required: dict[str, Parallelism] = {}


class _Cluster(msgspec.Struct, frozen=True):
    engine: Capabilities = SIMULATED


class _Problem(msgspec.Struct, frozen=True):
    code: str | None = None
    message: str | None = None


class EngineHttp:
    """``PUT /jobs/{name}/resource-requirements``, ``GET /jobs/{name}`` and ``GET /cluster``."""

    def __init__(self, url: str, timeout_ms: int = 5_000) -> None:
        self._url = url.rstrip("/")
        self._timeout_s = timeout_ms / 1_000

    @classmethod
    def of(cls, settings: ClusterSettings, timeout_s: float) -> Self:
        """Return the one of a role's settings."""
        return cls(settings.engine_url, round(timeout_s * 1_000))

    def capabilities(self) -> Capabilities:
        """Return what the engine says it can do."""
        return self._call("GET", "/cluster", _Cluster).engine

    def request(self, command: RescheduleCommand) -> Accepted:
        """Request that a command be carried out; repeating it gets the same answer."""
        answer = self._call("PUT", f"{_path(command.job)}/resource-requirements", _Times, encode(command))
        return Accepted(effective_at_ms=answer.effective_at_ms, done_at_ms=answer.done_at_ms)

    def look(self, job: str) -> JobStatus:
        """Return the progress of a job."""
        answer = self._call("GET", _path(job), _Job)
        running = {task.task: task.parallelism for task in answer.topology.tasks}
        return JobStatus(
            generation=answer.generation,
            rescale=None if answer.rescale is None else _rescale(answer.rescale),
            required=answer.required or running,
            running=running,
            state=answer.state,
        )

    def withdraw(self, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        """Refuse: this interface has no way to take a command back.

        Raises:
            EngineRefused: always.
        """
        raise EngineRefused(CANNOT_WITHDRAW, "this engine carries out what it has accepted")

    def _call(self, method: str, path: str, kind: type[T], body: bytes | None = None) -> T:
        headers = {"Content-Type": "application/json"} if body else {}
        request = urllib.request.Request(self._url + path, data=body, method=method, headers=headers)
        try:
            return decode(ask(request, timeout_s=self._timeout_s, bytes_max=ANSWER_BYTES_MAX), kind)
        except ErrorAnswer as error:
            raise _refusal(error, f"{method} {self._url}{path}") from None
        except NoAnswer as error:
            raise EngineUnavailable(f"{method} {self._url}{path}: {error}") from None
        except RecordRejected as error:
            raise EngineUnavailable(f"{method} {self._url}{path} gave an unexpected answer: {error}") from None


def _rescale(last: _Rescale) -> Rescale:
    return Rescale(
        command_id=last.command_id,
        state=last.state,  # type: ignore[arg-type]  # anything but "done" and "failed" means "not yet"
        effective_at_ms=last.effective_at_ms,
        done_at_ms=last.done_at_ms,
        code=(last.code or "")[:CODE_LENGTH_MAX],
        learners=last.learners or 0,
        lag_bytes=last.lag_bytes or 0,
        units=last.units or (),
    )


def _path(job: str) -> str:
    return f"/jobs/{urllib.parse.quote(split_job(job)[1], safe='')}"


def _refusal(error: ErrorAnswer, request: str) -> EngineRefused | EngineUnavailable:
    if not 400 <= error.status < 500 or error.status in _TRY_AGAIN:
        return EngineUnavailable(f"{request}: HTTP {error.status}")
    try:
        problem = decode(error.body, _Problem)
    except RecordRejected:
        problem = _Problem()
    code = problem.code or f"HTTP_{error.status}"
    return EngineRefused(code[:CODE_LENGTH_MAX], (problem.message or "")[:DETAIL_LENGTH_MAX])
