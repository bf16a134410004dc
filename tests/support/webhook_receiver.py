"""A receiver of events over HTTP that behaves as it is told: it checks signatures on its own, and may be slow, huge or away."""

import base64
import contextlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from surescale.runtime.ports import free_port
from tests.support.http_server import Handler, serving

KEY = "whsec_" + base64.b64encode(bytes(range(32))).decode()
Answer = Callable[[BaseHTTPRequestHandler], None]


def answer(status: int, **headers: str) -> Answer:
    """Answer with a status."""

    def say(to: BaseHTTPRequestHandler) -> None:
        to.send_response(status)
        for name, value in headers.items():
            to.send_header(name.replace("_", "-"), value)
        to.send_header("Content-Length", "0")
        to.end_headers()

    return say


TAKE = answer(204)


def drip(to: BaseHTTPRequestHandler) -> None:
    """Send a byte now and then, and never end."""
    to.send_response(200)
    to.send_header("Content-Length", "1000000")
    to.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(600):
            to.wfile.write(b"x")
            time.sleep(0.05)


def flood(to: BaseHTTPRequestHandler) -> None:
    """Send more than anybody would read."""
    to.send_response(200)
    to.end_headers()
    with contextlib.suppress(OSError):
        for _ in range(1_000):
            to.wfile.write(b"x" * 2**20)


def hang_up(to: BaseHTTPRequestHandler) -> None:
    """Close without a word."""
    to.close_connection = True


@dataclass
class Receiver:
    """What came in; ``answers`` are given one by one, then the last one for ever."""

    port: int
    answers: list[Answer] = field(default_factory=lambda: [TAKE])
    requests: list[tuple[dict[str, str], dict[str, Any]]] = field(default_factory=list)
    """Headers, with lower case names, and events, whatever was answered."""
    taken: list[dict[str, Any]] = field(default_factory=list)
    """Events that were answered with ``TAKE``."""

    @property
    def url(self) -> str:
        """Its address, whose query is a secret."""
        return f"http://127.0.0.1:{self.port}/hook?token=se-cret"

    def kinds(self) -> list[str]:
        """Kinds of the events taken, in their order."""
        return [event["type"].removeprefix("surescale.") for event in list(self.taken)]


def is_signed(headers: dict[str, str], body: bytes, key: str = KEY) -> bool:
    """Verify a signature as the standard says, by other code than the sender's."""
    secret = base64.b64decode(key.split("_", 1)[1])
    signed = ".".join((headers["webhook-id"], headers["webhook-timestamp"], body.decode()))
    expected = base64.b64encode(hmac.new(secret, signed.encode(), "sha256").digest()).decode()
    is_fresh = abs(time.time() - int(headers["webhook-timestamp"])) < 300
    return is_fresh and f"v1,{expected}" in headers["webhook-signature"].split(" ")


@contextlib.contextmanager
def listening(receiver: Receiver) -> Iterator[Receiver]:
    """Let a receiver listen for a while; on the same port again if it did before."""

    class Hook(Handler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.body()
            headers = {name.lower(): value for name, value in self.headers.items()}
            event = json.loads(body)
            say = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
            is_well = self.path == "/hook?token=se-cret" and ("webhook-id" not in headers or is_signed(headers, body))
            receiver.requests.append((headers, event))
            if not is_well:
                say = answer(403)
            if is_well and say is TAKE:
                receiver.taken.append(event)
            say(self)

    with serving(Hook, receiver.port):
        yield receiver


@contextlib.contextmanager
def a_receiver() -> Iterator[Receiver]:
    """A receiver on a free port."""
    with listening(Receiver(free_port())) as receiver:
        yield receiver
