"""A role's small HTTP server, on loopback by default.

``GET /health`` answers 200 with a JSON document when the role is ready and no loop of it has a fault, else 503.
``GET /live`` answers 200 while all its loops
turn, else 503 and says which one hangs. ``GET /metrics`` serves its metrics.
Clients that send nothing, or little by little, hold a bounded number of threads for a bounded time.
"""

import contextlib
import io
import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.settings import PipelineSettings
from surescale.runtime.deadlines import DeadlineReader
from surescale.runtime.http_answers import HEADERS, malformed
from surescale.runtime.metrics import RoleMetrics
from surescale.runtime.threads import background
from surescale.runtime.watchdog import Watchdog

CONNECTIONS_MAX = 16  # at once; another one takes the place of the oldest
REQUEST_WITHIN_S = 5.0
HealthReport = Callable[[], Mapping[str, Any]]
_log = logging.getLogger("surescale.health")


class HealthServer:
    """Serves ``report()``, whose key ``ready`` decides between 200 and 503, liveness, and metrics. Port 0 serves nothing.

    Its threads are its own, so it answers whatever a loop of the role does.
    """

    def __init__(
        self, settings: PipelineSettings, report: HealthReport, watchdog: Watchdog, metrics: RoleMetrics | None = None
    ) -> None:
        """Bind the port.

        Raises:
            SettingsError: the port is not available; names the setting and the fix.
        """
        self._over = threading.Event()
        host, port = settings.health_host, settings.health_port
        shown = metrics.of(report, watchdog) if metrics else None
        try:
            self._server = _Server((host, port), _handler(report, watchdog, shown)) if port else None
        except OSError as error:
            raise SettingsError(
                f"SURESCALE_HEALTH_PORT: {host}:{port} cannot be listened on ({reason_of(error)}); name another port "
                "(with it or with --health-port), or address (SURESCALE_HEALTH_HOST)"
            ) from None

    def __enter__(self) -> "HealthServer":
        """Serve in a daemon thread."""
        if self._server:
            background(self._server.serve_forever, "health", self._over.is_set).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving and free the port."""
        self._over.set()
        if self._server:
            self._server.shutdown()
            self._server.server_close()


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # else a burst of connections makes a probe wait for its retry

    def __init__(self, *args: Any, **more: Any) -> None:
        self._open: dict[socket.socket, None] = {}  # oldest first
        self._lock = threading.Lock()
        super().__init__(*args, **more)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread; if there are too many, end the oldest connection, so that a probe always gets its turn."""
        with self._lock:
            if len(self._open) >= CONNECTIONS_MAX:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection that was answered."""
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that disconnect before the answer; they are no error of the role."""
        _log.debug("an answer to %s broke off", client_address, exc_info=True)


def _handler(report: HealthReport, watchdog: Watchdog, metrics: RoleMetrics | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = REQUEST_WITHIN_S
        default_request_version = "HTTP/1.0"  # an answer to 0.9 would have no headers

        def setup(self) -> None:
            """Give the whole request a deadline; ``timeout`` alone starts again with every byte."""
            super().setup()
            deadline_s = time.monotonic() + REQUEST_WITHIN_S
            self.rfile = io.BufferedReader(DeadlineReader(self.connection, self.rfile.detach(), deadline_s))

        def version_string(self) -> str:
            return HEADERS["Server"]

        def do_GET(self) -> None:
            path = self.path.partition("?")[0].rstrip("/")
            if path == "/health":
                self._show_health()
            elif path == "/live":
                document = watchdog.document()
                self._answer(200 if document["alive"] else 503, json.dumps(document).encode(), "application/json")
            elif path == "/metrics" and metrics is not None:
                self._show_metrics(metrics)
            else:
                there_are = "/health, /live and /metrics" if metrics is not None else "/health and /live"
                self._refuse(404, f"no such path: {path or '/'}; there are {there_are}")

        do_HEAD = do_GET

        def _show_health(self) -> None:
            try:
                document = dict(report())
                if faults := watchdog.faults():
                    document |= {"ready": False, "faults": faults}
                body = json.dumps(document).encode()
            except Exception:
                _log.exception("the health check itself failed")
                self._refuse(500, "the health check itself failed; the role's log says why")
                return
            self._answer(200 if document.get("ready") else 503, body, "application/json")

        def _show_metrics(self, metrics: RoleMetrics) -> None:
            try:
                page, content_type = metrics.page(self.headers.get("Accept", ""))
            except Exception:
                _log.exception("the metrics cannot be shown")
                self._refuse(500, "the metrics cannot be shown; the role's log says why")
                return
            self._answer(200, page, content_type)

        def _refuse(self, status: int, why: str) -> None:
            self._answer(status, json.dumps({"error": why}).encode(), "application/json")

        def _answer(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            for name, value in HEADERS.items():
                if name != "Server":  # which has been sent
                    self.send_header(name, value)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
            """Answer what cannot be read, and every method but GET and HEAD."""
            self.close_connection = True
            if code == HTTPStatus.NOT_IMPLEMENTED:
                self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered here")
            else:
                self._refuse(code, f"malformed request: {malformed(ValueError(message or HTTPStatus(code).phrase))}")

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing: polls are not worth a line."""

    return Handler
