"""The health port: what is said when it cannot be had."""

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from surescale.contracts.errors import SettingsError
from surescale.contracts.settings import PipelineSettings
from surescale.runtime import health
from surescale.runtime.health import CONNECTIONS_MAX, HealthServer
from surescale.runtime.http_answers import HEADERS
from surescale.runtime.ports import free_port
from tests.support.watched import WatchedTime, idle_watchdog

IDLE = idle_watchdog()


def test_a_port_that_is_taken_is_one_line_with_the_setting() -> None:
    """And not the operating system's number alone."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        says = rf"^SURESCALE_HEALTH_PORT: 127\.0\.0\.1:{port} cannot be listened on \(address already in use\); name another"
        with pytest.raises(SettingsError, match=says):
            HealthServer(PipelineSettings(health_port=port), lambda: {"ready": True}, IDLE)


def test_a_report_that_fails_is_a_server_error_and_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not a connection that breaks off, and a trace beside the log."""

    def report() -> Mapping[str, Any]:
        raise RuntimeError("dictionary changed size during iteration")

    port = free_port()
    with HealthServer(PipelineSettings(health_port=port), report, IDLE), pytest.raises(HTTPError, match="500"):
        urlopen(f"http://127.0.0.1:{port}/health", timeout=5)
    assert [record.getMessage() for record in caplog.records] == ["the health check itself failed"]
    assert "Traceback" not in capfd.readouterr().err


def test_a_path_that_does_not_exist_is_answered_in_json_with_those_that_do() -> None:
    """Like an unknown path of the state API."""
    port = free_port()
    with (
        HealthServer(PipelineSettings(health_port=port), lambda: {"ready": True}, IDLE),
        pytest.raises(HTTPError, match="404") as refused,
    ):
        urlopen(f"http://127.0.0.1:{port}/healthz?x=1", timeout=5)
    assert refused.value.headers["Content-Type"] == "application/json"
    assert json.load(refused.value) == {"error": "no such path: /healthz; there are /health and /live"}


@pytest.mark.parametrize(
    ("sent", "status", "why"),
    [
        (b"POST /health HTTP/1.0\r\n\r\n", 405, "only GET and HEAD are answered here"),
        (b"<script>alert(1)</script> /health HTTP/1.0\r\n\r\n", 405, "only GET and HEAD are answered here"),
        (b"GET /health HTTP/9.9\r\n\r\n", 505, "malformed request: Invalid HTTP version"),
        (b"GET /health HTTP/<b>\r\n\r\n", 400, "malformed request: Bad request version"),
        (b"GET / he HTTP/1.0 <b> \r\n\r\n", 400, "malformed request: Bad request version"),
        (b"GET /healthz\r\n\r\n", 404, "no such path: /healthz; there are /health and /live"),
        (b"GET /" + b"x" * 70_000 + b" HTTP/1.0\r\n\r\n", 414, "malformed request: Request-URI Too Long"),
        (b"GET /health HTTP/1.0\r\n" + b"X: y\r\n" * 200 + b"\r\n", 431, "malformed request: Too many headers"),
    ],
)
def test_what_cannot_be_read_is_refused_like_all_else(sent: bytes, status: int, why: str) -> None:
    """In JSON that repeats nothing of the request, with the headers of every answer."""
    port = free_port()
    with (
        HealthServer(PipelineSettings(health_port=port), lambda: {"ready": True}, IDLE),
        socket.create_connection(("127.0.0.1", port), timeout=20) as client,
    ):
        client.sendall(sent)
        answer = HTTPResponse(client)
        answer.begin()
        assert (answer.status, json.load(answer)) == (status, {"error": why})
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert answer.headers["Content-Type"] == "application/json"


def test_a_probe_may_ask_for_the_headers_alone() -> None:
    """As some balancers do."""
    port = free_port()
    with HealthServer(PipelineSettings(health_port=port), lambda: {"ready": False}, IDLE):
        client = HTTPConnection("127.0.0.1", port, timeout=20)
        client.request("HEAD", "/health")
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (503, b"")
        client.close()


def test_liveness_fails_with_the_loop_that_hangs_and_readiness_does_not() -> None:
    """Each is a question of its own."""
    time_of, port = WatchedTime(), free_port()
    with (
        HealthServer(PipelineSettings(health_port=port), lambda: {"ready": True}, time_of.watchdog),
        time_of.watchdog.loop("the loop"),
    ):
        with urlopen(f"http://127.0.0.1:{port}/live", timeout=5) as answer:
            assert json.load(answer) == {"role": "agent", "alive": True}
        time_of.run(121)
        with pytest.raises(HTTPError, match="503") as failed:
            urlopen(f"http://127.0.0.1:{port}/live", timeout=5)
        assert json.load(failed.value) == {
            "role": "agent",
            "alive": False,
            "hangs": "the loop of agent has not turned for 121 s",
        }
        assert urlopen(f"http://127.0.0.1:{port}/health", timeout=5).status == 200


def test_whoever_asks_and_goes_away_leaves_no_trace_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """A probe that gives up is no error of the role."""
    port = free_port()
    with HealthServer(PipelineSettings(health_port=port), lambda: {"ready": True, "much": "x" * 4_000_000}, IDLE):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
            probe.sendall(b"GET /health HTTP/1.0\r\n\r\n")
            assert probe.recv(1)
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, as a killed probe does
        assert urlopen(f"http://127.0.0.1:{port}/health", timeout=5).status == 200
    assert "Traceback" not in capfd.readouterr().err


def test_connections_that_send_nothing_hold_few_threads_and_keep_no_probe_out() -> None:
    """However many there are; a role's threads are limited."""
    port, before = free_port(), threading.active_count()
    with HealthServer(PipelineSettings(health_port=port), lambda: {"ready": True}, IDLE):
        idle = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(10 * CONNECTIONS_MAX)]
        assert urlopen(f"http://127.0.0.1:{port}/health", timeout=2).status == 200
        assert idle[0].recv(1) == b""
        assert threading.active_count() - before <= 2 * CONNECTIONS_MAX
        for connection in idle:
            connection.close()


@pytest.mark.parametrize("head", [b"", b"GET /health HTTP/1.0\r\nX-Long: "])
def test_a_request_that_drips_is_ended(monkeypatch: pytest.MonkeyPatch, head: bytes) -> None:
    """Every byte comes in time, and the whole never does."""
    monkeypatch.setattr(health, "REQUEST_WITHIN_S", 0.5)
    port = free_port()
    with (
        HealthServer(PipelineSettings(health_port=port), lambda: {"ready": True}, IDLE),
        socket.create_connection(("127.0.0.1", port), timeout=0.05) as connection,
    ):
        connection.sendall(head)
        deadline_s, answer = time.monotonic() + 3, b"nothing yet"
        while answer:
            assert time.monotonic() < deadline_s
            with contextlib.suppress(TimeoutError):
                answer = sent_and_received(connection)


def sent_and_received(connection: socket.socket) -> bytes:
    """Send one more byte; return what comes back, nothing if the server has ended the connection."""
    try:
        connection.sendall(b"x")
        return connection.recv(1)
    except ConnectionError:
        return b""
