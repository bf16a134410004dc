"""A JobManager that plays recorded answers, and changes what a test asks for."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.recorded_flink import Moment, recorded
from tests.support.stub_server import StubRequest, StubResponse, StubServer, answering

FASTER = 40
"""So much faster than the wall does a ``QuickClock`` run: a minute takes a second and a half."""


class FakeFlink:
    """Answers by request; ``change`` what a recording says, or let the server say something else."""

    def __init__(self, version: str, moment: Moment) -> None:
        self.answers = recorded(version, moment)
        self.instead: Callable[[StubRequest], StubResponse | None] = lambda _: None
        self.url = ""
        self.asked: list[StubRequest] = []

    def body(self, request: str) -> Any:
        """Return the document of an answer, to be changed in place."""
        return self.answers[request]["body"]

    def answer(self, asked: StubRequest) -> StubResponse:
        """Return what to answer."""
        changed = self.instead(asked)
        if changed is not None:
            return changed
        request = f"{asked.method} {asked.path}"
        known = self.answers.get(request) or self.answers.get(request.partition("?")[0])
        if known is None:
            return StubResponse(404, json.dumps({"errors": [f"Unable to load requested file {asked.path}."]}).encode())
        return StubResponse(known["status"], json.dumps(known["body"]).encode())


@contextmanager
def fake_flink(version: str, moment: Moment) -> Iterator[FakeFlink]:
    """Play one recorded moment until the block is left."""
    flink = FakeFlink(version, moment)
    server: StubServer
    with answering(flink.answer) as server:
        flink.url, flink.asked = server.url, server.asked
        yield flink


class QuickClock:
    """The wall's clock, sped up."""

    def __init__(self, closed: threading.Event, began_ms: int | None = None) -> None:
        """``began_ms``: where it begins; None: at the present time."""
        self._closed = closed
        self._began_s = time.monotonic()
        self._began_ms = time.time_ns() // 1_000_000 if began_ms is None else began_ms

    def now_ms(self) -> int:
        """Return the present time."""
        return self._began_ms + round((time.monotonic() - self._began_s) * 1000 * FASTER)

    def wait(self, seconds: float) -> bool:
        """Wait."""
        return self._closed.wait(max(0.0, seconds / FASTER))
