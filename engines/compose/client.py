"""Client of a container engine: the few requests of its API that scaling a service takes.

They have been the same since API 1.41 (Docker 20.10). The engine says what it speaks, and is asked in that, or in `API` if it
speaks more.
"""

import json
import threading
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from surescale.contracts.addresses import without_password
from surescale.contracts.errors import UNREADABLE
from surescale.contracts.figures import known_count
from surescale.contracts.wire import decoder
from surescale.engines.compose.answers import ONE_OFF, PROJECT, Container, Created, Image, Listed, Version
from surescale.engines.compose.errors import SETTING, ComposeUnavailable, NotAnEngine, NotFound, problem_of
from surescale.runtime.http import LARGE, NoAnswer
from surescale.runtime.http_pool import ConnectionPool

T = TypeVar("T")

DEFAULT_URL = "unix:///var/run/docker.sock"
API_MIN, API = (1, 41), (1, 48)
MANY_NETWORKS = (1, 44)
"""From here on a container can be made in several networks at once."""
ANSWER_TIMEOUT_S = 10.0
STOP_DEFAULT_S = 10
"""How long the engine lets a container drain that names no time."""
STOP_MAX_S = 30 * 86_400
"""So long it is waited for; an engine takes any number of seconds, a socket does not. Then it is asked again."""
ANSWER_BYTES_MAX = 16 * 2**20


class ComposeClient:
    """One engine. Thread-safe. Every method may raise each ``ComposeError``."""

    def __init__(self, url: str = "", *, timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        """Connect to nothing yet.

        Args:
            url: ``unix://`` and the path of the engine's socket, or the http address of a proxy before it; empty: `DEFAULT_URL`.
            timeout_s: how long a whole answer may take.
        """
        self._url, self._timeout_s = without_password(url or DEFAULT_URL).rstrip("/"), timeout_s
        self._connections = ConnectionPool(url or DEFAULT_URL)
        self._spoken: tuple[int, int] | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Close the kept connections."""
        self._connections.close()

    def api(self) -> tuple[int, int]:
        """Return the version of the API that is spoken.

        Raises:
            NotAnEngine: there is none that both sides speak.
        """
        with self._lock:
            if self._spoken is None:
                version = self._call("GET", "/version", Version, versioned=False)
                spoken, least = _numbers(version.api), _numbers(version.api_min)
                if spoken is None or spoken < API_MIN or (least or API) > API:
                    raise NotAnEngine(
                        f"{self._url}: the engine speaks API {version.api_min or '?'} to {version.api}, surescale "
                        f"{API_MIN[0]}.{API_MIN[1]} to {API[0]}.{API[1]}; use Docker 20.10 or a later one"
                    )
                self._spoken = min(spoken, API)
            return self._spoken

    def containers(self, project: str) -> list[Container]:
        """Return the containers of a project, those of ``docker compose run`` left out."""
        filters = json.dumps({"label": [f"{PROJECT}={project}", f"{ONE_OFF}=False"]})
        listed = self._call("GET", f"/containers/json?{urlencode({'all': 'true', 'filters': filters})}", list[Listed])
        found = []
        for each in listed:
            try:
                found.append(self._call("GET", f"/containers/{each.id}/json", Container))
            except NotFound:  # removed meanwhile
                continue
        return found

    def image(self, name: str) -> str:
        """Return the id of the image that has a name now.

        Raises:
            NotFound: none has it.
        """
        return self._call("GET", f"/images/{quote(name, safe='/:@')}/json", Image).id

    def create(self, name: str, body: dict[str, Any]) -> str:
        """Make a container, which does not run yet; return its id.

        Raises:
            NameConflict: another has that name; nothing was made.
        """
        path = f"/containers/create?{urlencode({'name': name})}"
        return self._call("POST", path, Created, msgspec.json.encode(body)).id

    def start(self, container: str) -> None:
        """Start a container; one that runs stays as it is."""
        self._call("POST", f"/containers/{container}/start", None)

    def rename(self, container: str, name: str) -> None:
        """Give a container another name."""
        self._call("POST", f"/containers/{container}/rename?{urlencode({'name': name})}", None)

    def stop(self, container: Container) -> None:
        """Ask a container to end, and wait until it has; when its own time is up, the engine kills it."""
        grace_s = container.config.get("StopTimeout")
        patience_s = self._timeout_s + (STOP_DEFAULT_S if grace_s is None else min(max(0, grace_s), STOP_MAX_S))
        self._call("POST", f"/containers/{container.id}/stop", None, timeout_s=patience_s)

    def remove(self, container: str) -> None:
        """Remove a container that does not run. As with Compose, its volumes stay."""
        self._call("DELETE", f"/containers/{container}", None)

    def _call(
        self,
        method: str,
        path: str,
        kind: type[T] | None,
        body: bytes | None = None,
        *,
        versioned: bool = True,
        timeout_s: float | None = None,
    ) -> T:
        request = f"{method} {self._url}{path.partition('?')[0]}"
        if versioned:
            path = f"/v{'.'.join(map(str, self.api()))}{path}"
        headers = {"Accept": "application/json"} | ({"Content-Type": "application/json"} if body is not None else {})
        patience_s = timeout_s or self._timeout_s
        with LARGE.reading(patience_s) as place:
            try:
                answer = self._connections.ask(
                    method, path, body, headers, timeout_s=patience_s, bytes_max=ANSWER_BYTES_MAX, place=place
                )
            except NoAnswer as error:
                raise ComposeUnavailable(
                    f"{request}: {error}; start the engine, or set {SETTING} to its socket, which this role must be allowed "
                    "to use"
                ) from None
            if answer.status >= 300 and answer.status != 304:  # it is so already
                raise problem_of(answer, request)
            if kind is None:
                return None  # type: ignore[return-value]
            try:
                return decoder(kind).decode(answer.body)
            except UNREADABLE:
                raise NotAnEngine(
                    f"{request} answers {answer.status} with {answer.content_type} that is not an answer of a container engine; "
                    f"set {SETTING} to its socket"
                ) from None


def _numbers(version: str) -> tuple[int, int] | None:
    major, minor = map(known_count, version.partition(".")[::2])
    return None if major is None or minor is None else (major, minor)
