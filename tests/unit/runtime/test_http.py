"""Requests to our own services, against a small real server."""

import http.server
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from surescale.runtime.http import ErrorAnswer, NoAnswer, ask, fetch_json, is_ok
from tests.support.http_server import Handler, sending, serving


class _Echo(Handler):
    def do_GET(self) -> None:
        self.reply(200 if self.path == "/" else 404, f'{{"method": "{self.command}"}}'.encode())

    def do_POST(self) -> None:
        self.do_GET()


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a server that answers only its root."""
    with serving(_Echo) as address:
        yield f"{address}/"


def test_only_status_200_is_ok(url: str) -> None:
    """A missing page is not healthy."""
    assert (is_ok(url), is_ok(url + "absent")) == (True, False)


def test_a_closed_port_is_not_ok() -> None:
    """Nobody answers."""
    with http.server.HTTPServer(("127.0.0.1", 0), _Echo) as server:
        closed = f"http://127.0.0.1:{server.server_address[1]}/"
    assert not is_ok(closed)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_document_is_fetched_by_the_method_asked_for(url: str, method: str) -> None:
    """The answer comes back decoded."""
    assert fetch_json(url, method) == {"method": method}


def test_no_proxy_stands_in_between(url: str) -> None:
    """A proxy of the environment does not know our loopback."""
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:1", "no_proxy": ""}
    program = f"import sys; from surescale.runtime.http import is_ok; sys.exit(not is_ok({url!r}))"
    assert subprocess.run([sys.executable, "-c", program], env=environment, check=False, timeout=60).returncode == 0


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\nX-Long: ", b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n"])
def test_an_answer_that_drips_ends_with_the_time_given(head: bytes) -> None:
    """Every byte comes in time, and the whole never does: in the status line, in a header, in the body."""
    with sending(itertools.chain([head], itertools.repeat(b"x")), pause_s=0.1) as url:
        began_s = time.monotonic()
        with pytest.raises(NoAnswer, match="timed out"):
            ask(url, timeout_s=0.5)
        assert time.monotonic() - began_s < 2


@pytest.mark.parametrize("length", [b"Content-Length: 1000000000000\r\n", b""])
def test_no_more_is_read_than_is_allowed(length: bytes) -> None:
    """Whether the answer says how long it is or not."""
    parts = itertools.chain([b"HTTP/1.1 200 OK\r\n" + length + b"\r\n"], itertools.repeat(b"x" * 1_000))
    with sending(parts) as url, pytest.raises(NoAnswer, match="longer than 5000 bytes"):
        ask(url, timeout_s=10, bytes_max=5_000)


def test_an_answer_that_breaks_off_is_none() -> None:
    """It announced more than it sent."""
    with sending([b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"]) as url, pytest.raises(NoAnswer, match="7 more expected"):
        ask(url, timeout_s=10)


def test_a_redirect_is_an_error_and_not_followed(url: str) -> None:
    """Whoever answers in an engine's place sends us nowhere else."""
    head = f"HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 5\r\n\r\nthere"
    with sending([head.encode()]) as redirecting, pytest.raises(ErrorAnswer, match="302 Found") as raised:
        ask(redirecting, timeout_s=10)
    assert (raised.value.status, raised.value.body) == (302, b"there")


@pytest.mark.parametrize("port", ["65536", "9" * 30, "9" * 5_000, "-1", "x"], ids=["next", "huge", "long", "negative", "word"])
def test_a_port_that_is_none_is_no_answer(port: str) -> None:
    """However large the number: a part of the address may come from outside."""
    with pytest.raises(NoAnswer):
        ask(f"http://127.0.0.1:{port}/", timeout_s=1)


def test_the_body_of_an_error_is_limited_too() -> None:
    """The status alone is left of it."""
    with sending([b"HTTP/1.1 500 Broken\r\nContent-Length: 6\r\n\r\n{....}"]) as broken, pytest.raises(ErrorAnswer) as raised:
        ask(broken, timeout_s=10, bytes_max=5)
    assert (raised.value.status, raised.value.reason, raised.value.body) == (500, "Broken", b"")
