"""A small HTTP server that answers what a test wants, and remembers what it was asked."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import ThreadingHTTPServer

from tests.support.http_server import Handler


@dataclass(frozen=True, slots=True)
class StubRequest:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    client: tuple[str, int]
    """Address of the other end; requests over one connection share it."""


@dataclass(frozen=True, slots=True)
class StubResponse:
    """One answer. ``closes``: the server closes the connection after it, without saying so."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=lambda: {"Content-Type": "application/json"})
    closes: bool = False


@dataclass(slots=True)
class StubServer:
    """A server that is up."""

    url: str
    asked: list[StubRequest] = field(default_factory=list)


@contextmanager
def answering(
    give: Callable[[StubRequest], StubResponse], context: ssl.SSLContext | None = None, port: int = 0
) -> Iterator[StubServer]:
    """Answer requests of HTTP/1.1 on kept connections until the block is left."""
    known = StubServer("")
    connections: set[socket.socket] = set()

    class Stub(Handler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and body in one piece: in two, each answer on a kept connection waits 40 ms for an acknowledgement

        def setup(self) -> None:
            """Remember the connection."""
            super().setup()
            connections.add(self.connection)

        def finish(self) -> None:
            """Forget it."""
            connections.discard(self.connection)
            super().finish()

        def _answer(self) -> None:
            body = self.body()
            host, port = self.client_address[:2]
            known.asked.append(StubRequest(self.command, self.path, dict(self.headers), body, (str(host), int(port))))
            given = give(known.asked[-1])
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(given.body)))
            self.end_headers()
            self.wfile.write(given.body)
            self.close_connection = self.close_connection or given.closes

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer  # the names that the base class looks for

    with ThreadingHTTPServer(("127.0.0.1", port), Stub) as server:
        server.daemon_threads = True
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        known.url = f"http{'s' if context else ''}://localhost:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        try:
            yield known
        finally:
            server.shutdown()
            for connection in tuple(connections):  # else each test leaves some to the end of the process
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
