"""The engine's HTTP API as an actuator sees it: wanted units in, progress of a job out. JSON over loopback or network."""

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from contracts.commands import RescheduleCommand
from contracts.ids import split_job
from contracts.wire import encode
from rescaler.actuators.base import Accepted, EngineAway, EngineRefused, JobSeen, Rescale

_TRY_AGAIN = frozenset({408, 425, 429})  # of the 4xx; every 5xx as well


class EngineHttp:
    """``PUT /jobs/{name}/resource-requirements`` and ``GET /jobs/{name}``."""

    def __init__(self, url: str, timeout_ms: int = 5_000) -> None:
        self._url = url.rstrip("/")
        self._timeout_s = timeout_ms / 1_000
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # an engine is a neighbour: no proxy

    def request(self, command: RescheduleCommand) -> Accepted:
        """Ask for a command to be carried out; the same one again gets the same answer."""
        answer = self._call("PUT", f"{_path(command.job)}/resource-requirements", encode(command))
        return Accepted(effective_at_ms=_whole(answer, "effective_at_ms"), done_at_ms=_whole(answer, "done_at_ms"))

    def look(self, job: str) -> JobSeen:
        """Look at a job."""
        answer = self._call("GET", _path(job))
        last = answer.get("rescale")
        if not isinstance(last, dict):
            return JobSeen(_whole(answer, "generation"), None)
        rescale = Rescale(
            command_id=str(last.get("command_id")),
            state=last.get("state"),  # type: ignore[arg-type]  # anything but "done" and "failed" means: not yet
            effective_at_ms=_whole(last, "effective_at_ms"),
            done_at_ms=_whole(last, "done_at_ms"),
            code=str(last.get("code") or ""),
            learners=_whole(last, "learners", 0),
            lag_bytes=_whole(last, "lag_bytes", 0),
            units=_wholes(last, "units"),
        )
        return JobSeen(_whole(answer, "generation"), rescale)

    def _call(self, method: str, path: str, body: bytes | None = None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"} if body else {}
        request = urllib.request.Request(self._url + path, data=body, method=method, headers=headers)
        try:
            with self._opener.open(request, timeout=self._timeout_s) as response:
                return _document(response.read())
        except urllib.error.HTTPError as error:
            raise _refusal(error) from None
        except (OSError, http.client.HTTPException) as error:
            raise EngineAway(f"{method} {self._url}{path}: {error}") from None


def _path(job: str) -> str:
    return f"/jobs/{urllib.parse.quote(split_job(job)[1], safe='')}"


def _refusal(error: urllib.error.HTTPError) -> EngineRefused | EngineAway:
    if error.code >= 500 or error.code in _TRY_AGAIN:
        return EngineAway(f"{error.url}: HTTP {error.code}")
    try:
        answer = _document(error.read())
    except (EngineAway, OSError, http.client.HTTPException):
        answer = {}
    return EngineRefused(str(answer.get("code") or f"HTTP_{error.code}"), str(answer.get("message") or ""))


def _document(raw: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(raw)
    except ValueError:
        raise EngineAway(f"the engine's answer is no JSON document: {raw[:80]!r}") from None
    if not isinstance(answer, dict):
        raise EngineAway(f"the engine's answer is no JSON object: {raw[:80]!r}")
    return answer


def _whole(answer: dict[str, Any], field: str, absent: int | None = None) -> int:
    value = answer.get(field)
    if value is None and absent is not None:
        return absent
    if not isinstance(value, int):
        raise EngineAway(f"the engine's answer has no integer {field!r}: {value!r}")
    return value


def _wholes(answer: dict[str, Any], field: str) -> tuple[int, ...]:
    values = answer.get(field) or []
    if not isinstance(values, list) or not all(isinstance(value, int) for value in values):
        raise EngineAway(f"the engine's answer has no integers {field!r}: {values!r}")
    return tuple(values)
