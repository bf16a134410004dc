"""A fake container engine, as far as the actuator `compose` asks it, over a real socket and on a clock of its own.

It keeps what the engine promises and the actuator relies on: names are unique, a container that runs is not removed, one that was
stopped stays stopped, a stop is answered when the container has ended. What goes wrong is set by the test. The live test
(`tests/integration/test_compose_actuator.py`) runs the same contract on a real engine.
"""

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.stub_server import StubRequest, StubResponse, StubServer, answering

Document = dict[str, Any]
_PATH = re.compile(r"/v(?P<api>\d+\.\d+)/(?P<kind>containers|images)/(?P<rest>.+)")
_UP, _DOWN = ("running", "restarting", "paused"), ("exited", "created", "dead")


class _Answered(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.given = StubResponse(status, json.dumps({"message": message}).encode())


@dataclass(slots=True)
class FakeContainer:
    """One container, as it was made and as it runs. ``started_ms``: when it began to run last."""

    id: str
    name: str
    config: Document
    image: str
    status: str = "created"
    started_ms: int = 0
    restarts: int = 0
    exit_code: int = 0
    error: str = ""
    health: str = ""

    @property
    def service(self) -> str:
        """The service that it belongs to."""
        return str(self.config["Labels"]["com.docker.compose.service"])

    @property
    def number(self) -> int:
        """Within the service."""
        return int(self.config["Labels"]["com.docker.compose.container-number"])


@dataclass(slots=True)
class FakeDocker:
    """One engine with one Compose project.

    Attributes:
        api, api_min: versions of the API that it speaks.
        now_ms: the clock.
        images: ids by name.
        ill: what happens to containers of a service that start from now on: ``crash``, ``memory``, ``unhealthy``, ``starting`` or
            ``port`` (which cannot be started).
        is_away: nobody can answer now.
        may_end: containers that were asked to end do so only while it is set.
        before: called with every request before it is handled, so that something may happen in between.
    """

    api: str = "1.47"
    api_min: str = "1.24"
    now_ms: int = 1_800_000_000_000
    images: dict[str, str] = field(default_factory=lambda: {"worker:1": "sha256:aaa"})
    ill: dict[str, str] = field(default_factory=dict)
    is_away: bool = False
    may_end: threading.Event = field(default_factory=threading.Event)
    before: Callable[[StubRequest], None] = lambda asked: None
    containers: dict[str, FakeContainer] = field(default_factory=dict)
    stopped: list[str] = field(default_factory=list)
    """Names of the containers that were asked to end, in order."""
    _ids: Iterator[int] = field(default_factory=lambda: count(1))
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        """Let containers end when they are asked to."""
        self.may_end.set()

    # What a test does

    def up(self, service: str, number: int, **more: Any) -> FakeContainer:
        """Make and start one container as ``docker compose up`` does. ``more``: of its host configuration."""
        name = f"shop-{service}-{number}"
        labels = {
            "com.docker.compose.project": "shop",
            "com.docker.compose.service": service,
            "com.docker.compose.container-number": str(number),
            "com.docker.compose.oneoff": "False",
            "com.docker.compose.config-hash": "h",
        }
        host = {"RestartPolicy": {"Name": "unless-stopped"}, "NetworkMode": "shop_default", **more}
        with self._lock:
            made = self._make(name, {"Image": "worker:1", "Labels": labels, "HostConfig": host})
            made.config["Hostname"] = made.id[:12]
            self._start(made)
            made.started_ms -= 3_600_000
        return made

    def scale(self, service: str, wanted: int) -> None:
        """Do what ``docker compose up --scale`` does, at once."""
        with self._lock:
            found = sorted(self.of(service), key=lambda each: each.number)
            for each in found[wanted:]:
                del self.containers[each.id]
            for number in range(len(found) + 1, wanted + 1):
                self.up(service, number)

    def again(self, service: str, wanted: int) -> None:
        """Do what ``docker compose up --force-recreate`` does."""
        with self._lock:
            self.containers = {id_: each for id_, each in self.containers.items() if each.service != service}
            for number in range(1, wanted + 1):
                self.up(service, number)

    def of(self, service: str) -> list[FakeContainer]:
        """Return the containers of a service."""
        return [each for each in self.containers.values() if each.service == service]

    @contextmanager
    def serving(self) -> Iterator[StubServer]:
        """Answer until the block is left."""
        with answering(self._answer) as server:
            yield server

    # Requests

    def _answer(self, asked: StubRequest) -> StubResponse:
        self.before(asked)
        if self.is_away:
            return StubResponse(503, b'{"message": "the engine is starting"}')
        try:
            return self._handled(asked)
        except _Answered as answered:
            return answered.given

    def _handled(self, asked: StubRequest) -> StubResponse:
        parts = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/version":
            return _given({"ApiVersion": self.api, "MinAPIVersion": self.api_min, "Version": "28.2.2"})
        found = _PATH.fullmatch(parts.path)
        if found is None or tuple(map(int, found["api"].split("."))) > tuple(map(int, self.api.split("."))):
            raise _Answered(400, f"client version is too new or the page is not found: {parts.path}")
        rest = found["rest"]
        if found["kind"] == "images":
            name = unquote(rest.removesuffix("/json"))
            if name not in self.images:
                raise _Answered(404, f"No such image: {name}")
            return _given({"Id": self.images[name]})
        if rest == "json":
            return _given([{"Id": each.id} for each in self._listed(json.loads(query["filters"])["label"])])
        if rest == "create":
            return self._create(query["name"], json.loads(asked.body))
        id_, _, verb = rest.partition("/")
        with self._lock:
            container = self.containers.get(id_)
        if container is None:
            raise _Answered(404, f"No such container: {id_}")
        match asked.method, verb:
            case "GET", "json":
                return _given(self._document(container))
            case "POST", "start":
                return self._started(container)
            case "POST", "rename":
                return self._renamed(container, query["name"])
            case "POST", "stop":
                return self._stop(container)
            case "DELETE", "":
                return self._removed(container)
        raise _Answered(404, "page not found")

    def _listed(self, labels: list[str]) -> list[FakeContainer]:
        wanted = dict(label.split("=", 1) for label in labels)
        with self._lock:
            return [each for each in self.containers.values() if wanted.items() <= each.config["Labels"].items()]

    def _create(self, name: str, body: Document) -> StubResponse:
        with self._lock:
            if any(each.name == name for each in self.containers.values()):
                raise _Answered(409, f'Conflict. The container name "/{name}" is already in use by container')
            if body["Image"] not in self.images:
                raise _Answered(404, f"No such image: {body['Image']}")
            made = self._make(name, body)
        return _given({"Id": made.id, "Warnings": []}, 201)

    def _make(self, name: str, config: Document) -> FakeContainer:
        made = FakeContainer(f"{next(self._ids):064x}"[::-1], name, config, self.images[config["Image"]])
        self.containers[made.id] = made
        return made

    def _started(self, container: FakeContainer) -> StubResponse:
        with self._lock:
            if container.status == "running":
                return StubResponse(304, b"")
            if self.ill.get(container.service) == "port":
                container.error = "driver failed programming external connectivity: port is already allocated"
                raise _Answered(500, container.error)
            self._start(container)
        return StubResponse(204, b"")

    def _start(self, container: FakeContainer) -> None:
        ill = self.ill.get(container.service)
        container.status, container.started_ms = "running", self.now_ms
        if ill in ("crash", "memory"):
            container.status, container.restarts, container.exit_code = "restarting", 4, 137 if ill == "memory" else 3
        container.health = ill if ill in ("unhealthy", "starting") else ""

    def _renamed(self, container: FakeContainer, name: str) -> StubResponse:
        with self._lock:
            if any(each.name == name for each in self.containers.values()):
                raise _Answered(409, f'Conflict. The container name "/{name}" is already in use by container')
            container.name = name
        return StubResponse(204, b"")

    def _stop(self, container: FakeContainer) -> StubResponse:
        self.stopped.append(container.name)
        if container.status in _DOWN:
            return StubResponse(304, b"")
        assert self.may_end.wait(30), "a test has left a container draining"
        container.status, container.exit_code = "exited", 143
        return StubResponse(204, b"")

    def _removed(self, container: FakeContainer) -> StubResponse:
        with self._lock:
            if container.status in _UP:
                raise _Answered(409, f"cannot remove container /{container.name}: container is {container.status}")
            self.containers.pop(container.id, None)
        return StubResponse(204, b"")

    def _document(self, each: FakeContainer) -> Document:
        started = datetime.fromtimestamp(each.started_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f123Z")
        config = {key: value for key, value in each.config.items() if key not in ("HostConfig", "NetworkingConfig")}
        killed = self.ill.get(each.service) == "memory" and each.status == "restarting"
        state = {
            "Status": each.status,
            "ExitCode": each.exit_code,
            "Error": each.error,
            "StartedAt": started,
            "OOMKilled": killed,
        }
        if each.health:
            state["Health"] = {"Status": each.health, "Log": [{"Output": "connection refused\n"}]}
        network = {
            "Aliases": [each.name, "parse", each.id[:12]],
            "IPAMConfig": None,
            "NetworkID": "n1",
            "IPAddress": "172.18.0.2",
        }
        return {
            "Id": each.id,
            "Name": f"/{each.name}",
            "Image": each.image,
            "RestartCount": each.restarts,
            "State": state,
            "Config": config,
            "HostConfig": each.config["HostConfig"],
            "NetworkSettings": {"Networks": {"shop_default": network}},
        }


def _given(document: Any, status: int = 200) -> StubResponse:
    return StubResponse(status, json.dumps(document).encode())
