"""A role's health endpoint: ``GET /health`` on loopback answers 200 with a JSON document when the role is ready, else 503."""

import json
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HealthReport = Callable[[], Mapping[str, Any]]


class HealthServer:
    """Serves ``report()``; its key ``ready`` decides between 200 and 503. Port 0 serves nothing."""

    def __init__(self, port: int, report: HealthReport) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(report)) if port else None

    def __enter__(self) -> "HealthServer":
        """Serve in a daemon thread."""
        if self._server:
            threading.Thread(target=self._server.serve_forever, name="health", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving and free the port."""
        if self._server:
            self._server.shutdown()
            self._server.server_close()


def _handler(report: HealthReport) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.rstrip("/") != "/health":
                self.send_error(404)
                return
            answer = dict(report())
            body = json.dumps(answer).encode()
            self.send_response(200 if answer.get("ready") else 503)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Health polls are not worth a line."""

    return Handler
