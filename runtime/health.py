"""A role's own small HTTP server, on loopback unless told otherwise.

``GET /health`` answers 200 with a JSON document when the role is ready, else 503; ``GET /metrics`` shows its figures.
"""

import json
import logging
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from contracts.errors import SettingsError, reason_of
from contracts.settings import RoadSettings
from runtime.metrics import RoleMetrics

HealthReport = Callable[[], Mapping[str, Any]]
_log = logging.getLogger("surescale.health")


class HealthServer:
    """Serves ``report()``, whose key ``ready`` decides between 200 and 503, and the role's metrics. Port 0 serves nothing."""

    def __init__(self, settings: RoadSettings, report: HealthReport, metrics: RoleMetrics | None = None) -> None:
        """Take the port.

        Raises:
            SettingsError: it cannot be had; names the setting and the fix.
        """
        host, port = settings.health_host, settings.health_port
        shown = metrics.of(report) if metrics else None
        try:
            self._server = _Server((host, port), _handler(report, shown)) if port else None
        except OSError as error:
            raise SettingsError(
                f"SURESCALE_HEALTH_PORT: {host}:{port} cannot be listened on ({reason_of(error)}); name another port "
                "(with it or with --health-port), or address (SURESCALE_HEALTH_HOST)"
            ) from None

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


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Whoever asks may go away before the answer: that is no error of the role, and no trace belongs beside its log."""
        _log.debug("an answer to %s broke off", client_address, exc_info=True)


def _handler(report: HealthReport, metrics: RoleMetrics | None) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].rstrip("/")
            if path == "/health":
                self._show_health()
            elif path == "/metrics" and metrics is not None:
                self._show_metrics(metrics)
            else:
                self.send_error(404)

        def _show_health(self) -> None:
            try:
                document = dict(report())
                body = json.dumps(document).encode()
            except Exception:
                _log.exception("the state of health cannot be told")
                self.send_error(500)
                return
            self._answer(200 if document.get("ready") else 503, body, "application/json")

        def _show_metrics(self, metrics: RoleMetrics) -> None:
            try:
                page, content_type = metrics.page(self.headers.get("Accept", ""))
            except Exception:
                _log.exception("the metrics cannot be shown")
                self.send_error(500)
                return
            self._answer(200, page, content_type)

        def _answer(self, status: int, body: bytes, content_type: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Polls are not worth a line."""

    return Handler
