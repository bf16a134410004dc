"""Servers over HTTP that answer in a thread of the test: by a handler, or with bytes that need be no answer at all."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """Writes no line about requests."""

    def body(self) -> bytes:
        """Return the request's body."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status: int, body: bytes = b"", kind: str = "application/json") -> None:
        """Answer; ``kind`` is the body's."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests are quiet."""


@contextlib.contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler], port: int = 0) -> Iterator[str]:
    """Serve for a while on a port, or on a free one; gives the address."""
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextlib.contextmanager
def sending(parts: Iterable[bytes], pause_s: float = 0.0) -> Iterator[str]:
    """Yield the address of a server that answers one request with these parts, a pause before each."""
    done = threading.Event()

    def send() -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.recv(4_096)
            for part in parts:
                if done.wait(pause_s):
                    return
                connection.sendall(part)

    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = threading.Thread(target=send, daemon=True)
        sender.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        done.set()
        sender.join(10)
