"""HTTP requests to our own services, never through a proxy: they run on this machine or in this network.

The whole answer must come within the time given, however slowly the other side sends it, and within a number of bytes. Redirects
are not followed. Imports only the standard library, so that probes start fast.
"""

from __future__ import annotations

import contextlib
import io
import json
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead, InvalidURL
from typing import Any, cast
from urllib.error import HTTPError

from surescale.runtime.beats import beat
from surescale.runtime.deadlines import DeadlineReader

ANSWER_BYTES_MAX = 64 * 2**20


class NoAnswer(Exception):
    """No whole answer: nobody answers in time, what answers does not speak HTTP, or it sends too much."""


class ErrorAnswer(Exception):
    """An answer with another status than success."""

    def __init__(self, status: int, reason: str, body: bytes) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason
        self.body = body
        """Empty if it broke off or is too long."""


class DeadlineResponse(HTTPResponse):
    """A response whose whole reading ends at a point in time of ``time.monotonic``."""

    def __init__(self, deadline_s: float, sock: socket.socket, *args: Any, **more: Any) -> None:
        """Read the socket until ``deadline_s``."""
        super().__init__(sock, *args, **more)
        self.fp = io.BufferedReader(DeadlineReader(sock, self.fp.detach(), deadline_s))


def _deadline_s(connection: HTTPConnection) -> float:
    assert connection.timeout is not None, "every request has a timeout"
    return time.monotonic() + connection.timeout


def connect(
    address: tuple[str, int],
    timeout: float,
    source_address: tuple[str, int] | None = None,
    *,
    check: Callable[[str], None] = lambda _: None,
) -> socket.socket:
    """Return a connection, as ``socket.create_connection``, whose addresses share the time: each could take all of it.

    ``check``: refuses an address that must not be reached. What is connected to was checked, so a name that resolves to another
    address a moment later changes nothing.

    Raises:
        OSError: it has none, or nobody answers; and what ``check`` raises.
    """
    until_s = time.monotonic() + timeout
    host, port = address
    found = [str(each[4][0]) for each in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for each in found:
        check(each)
    problem = OSError(f"{host} has no address")
    for number, each in enumerate(found):
        try:
            share_s = _left_s(until_s) / (len(found) - number)
            made = socket.create_connection((each, port), share_s, source_address)
        except OSError as error:  # a host with both versions may be reached by one of them only
            problem = error
        else:
            made.settimeout(timeout)
            return made
    raise problem


def _left_s(until_s: float) -> float:
    left_s = until_s - time.monotonic()
    if left_s <= 0:
        raise TimeoutError("timed out")
    return left_s


def _in_time(connection: HTTPConnection) -> None:
    connection.response_class = cast(type[HTTPResponse], partial(DeadlineResponse, _deadline_s(connection)))
    # The library's own place for another way to connect; it is not documented, and a test sees that it is used.
    connection._create_connection = connect  # type: ignore[attr-defined]


class _Connection(HTTPConnection):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        _in_time(self)


class _SecureConnection(HTTPSConnection):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        _in_time(self)


class _Handler(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_Connection, req)


class _SecureHandler(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(_SecureConnection, req)


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener without the standard handlers of proxies, redirects, files and FTP."""
    opener = urllib.request.OpenerDirector()
    handlers = (
        _Handler(),
        _SecureHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
    )
    for handler in handlers:
        opener.add_handler(handler)
    return opener


_direct = _opener()


def open_url(request: str | urllib.request.Request, *, timeout_s: float) -> HTTPResponse:
    """Return the answer to a request (a URL means GET); close it after use.

    Raises:
        urllib.error.HTTPError: it was answered with a status of 300 or more.
        OSError: nobody answers in time. Reading the answer raises it too, if the rest does not come in time.
        http.client.HTTPException: what answers does not speak HTTP, or the address is none.
    """
    beat()
    try:
        return cast(HTTPResponse, _direct.open(request, timeout=timeout_s))
    except OverflowError:
        raise InvalidURL("its port is above 65535") from None


def ask(
    request: str | urllib.request.Request, *, timeout_s: float, bytes_max: int = ANSWER_BYTES_MAX, place: Place | None = None
) -> bytes:
    """Return the body of the answer to a request; ``place`` as in `read_body`.

    Raises:
        ErrorAnswer: the status is 300 or more.
        NoAnswer: there is no whole answer of at most ``bytes_max`` bytes within ``timeout_s``.
    """
    try:
        with open_url(request, timeout_s=timeout_s) as answer:
            return read_body(answer, bytes_max, place)
    except HTTPError as error:
        raise ErrorAnswer(error.code, str(error.reason), _body_of(error, bytes_max, place)) from None
    except (OSError, HTTPException, ValueError) as error:
        raise NoAnswer(str(getattr(error, "reason", error))) from None


class LargeAnswers:
    """Lets few large answers be in memory at a time, however many threads ask: each alone is within its limit."""

    def __init__(self, at_once: int, large_bytes: int) -> None:
        """``large_bytes``: fewer are not large."""
        self.large_bytes, self._places = large_bytes, threading.BoundedSemaphore(at_once)

    @contextlib.contextmanager
    def reading(self, timeout_s: float) -> Iterator[Place]:
        """Read one answer in the block, and keep a place in it from where the answer is large; it may wait so long for one."""
        place = Place(self.large_bytes, self._places, time.monotonic() + timeout_s)
        try:
            yield place
        finally:
            if place.is_taken:
                self._places.release()


class Place:
    """Of one answer among the large ones, once it is one."""

    def __init__(self, large_bytes: int, places: threading.BoundedSemaphore, deadline_s: float) -> None:
        self.large_bytes, self._places, self._deadline_s = large_bytes, places, deadline_s
        self.is_taken = False

    def take(self) -> None:
        """Wait for it; once it is taken, do nothing.

        Raises:
            TimeoutError: there is none in time.
        """
        left_s = max(0.0, self._deadline_s - time.monotonic())
        self.is_taken = self.is_taken or self._places.acquire(timeout=left_s)
        if not self.is_taken:
            raise TimeoutError("it is large, and other large answers are being read")


LARGE = LargeAnswers(at_once=2, large_bytes=256 * 2**10)
"""Of all engines together, whose jobs are looked at by a thread each. What is made of an answer of 32 MB may take 150."""


def read_body(answer: HTTPResponse, bytes_max: int, place: Place | None = None) -> bytes:
    """Return the body of an answer; ``place``: taken before more than the first part of a large one is read.

    Raises:
        ValueError: it is longer than ``bytes_max``.
        http.client.IncompleteRead: it broke off.
        OSError: it did not come in time.
    """
    body = b"" if place is None else answer.read(place.large_bytes)
    if place is not None and len(body) == place.large_bytes:
        place.take()
    body += answer.read(bytes_max + 1 - len(body))
    if len(body) > bytes_max:
        raise ValueError(f"the answer is longer than {bytes_max} bytes")
    if answer.length:
        raise IncompleteRead(body, answer.length)
    return body


def _body_of(error: HTTPError, bytes_max: int, place: Place | None) -> bytes:
    try:
        with error:
            return read_body(cast(HTTPResponse, error), bytes_max, place)
    except (OSError, HTTPException, ValueError):
        return b""


def fetch_json(url: str, method: str = "GET", *, timeout_s: float = 30.0) -> Any:
    """Return the decoded JSON document that a URL answers with; raises as ``open_url`` does, and ValueError for other content."""
    with open_url(urllib.request.Request(url, method=method), timeout_s=timeout_s) as answer:
        return json.loads(read_body(answer, ANSWER_BYTES_MAX))


def is_ok(url: str) -> bool:
    """Return whether a GET is answered with status 200."""
    try:
        with open_url(url, timeout_s=2.0) as answer:
            return answer.status == 200
    except (OSError, ValueError, HTTPException):
        return False
