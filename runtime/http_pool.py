"""HTTP over kept connections, for a service that is asked many times a minute. Never through a proxy; redirects are not followed.

As in ``runtime.http``, the whole answer must come within the time given and within a number of bytes. A status that is no success
is an answer like any other: the caller knows what it means. Imports only the standard library. Within a client's call
that is traced, each request has a span.
"""

import selectors
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import cast
from urllib.parse import urlsplit

from surescale.runtime.beats import beat
from surescale.runtime.http import ANSWER_BYTES_MAX, DeadlineResponse, NoAnswer, Place, connect, read_body
from surescale.runtime.printable import one_line
from surescale.runtime.tracing.conventions import ERROR_TYPE, STATUS_CODE, requested
from surescale.runtime.tracing.spans import span_at_work

IDLE_MAX = 8  # connections kept; more are closed after their answer
_WRONG_FROM = 400
_SAFE_TO_REPEAT = frozenset({"GET", "PUT", "DELETE"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, whatever its status. ``reason`` and ``location`` are safe to print."""

    status: int
    reason: str
    content_type: str
    location: str
    """Where a redirect points to; empty without one, and for what is no address."""
    body: bytes
    retry_after: str = ""
    """When the service asks to be asked again; empty without a word."""


class ConnectionPool:
    """Connections to one service. Thread-safe: each request has a connection of its own while it runs."""

    def __init__(self, url: str, context: ssl.SSLContext | None = None, *, is_public: bool = False) -> None:
        """Connect to nothing yet.

        Args:
            url: ``http://`` or ``https://``, host, and if need be port and a path that every request's path is put behind; or
                ``unix://`` and the path of a socket.
            context: for https; None: the system's authorities and no client certificate.
            is_public: connect to no private address.
        """
        parts = urlsplit(url)
        self._host, self._port, self._base = parts.hostname or "", parts.port, parts.path.rstrip("/")
        self._socket = parts.path if parts.scheme == "unix" else ""
        if self._socket:
            self._host, self._base = "localhost", ""
        self._is_secure, self._context, self._is_public = parts.scheme == "https", context, is_public
        self._idle: list[HTTPConnection] = []
        self._lock = threading.Lock()

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        timeout_s: float,
        bytes_max: int = ANSWER_BYTES_MAX,
        place: Place | None = None,
    ) -> Answer:
        """Send a request and return the answer. One that a kept connection lost at once is repeated on a new one, but no POST.

        ``place``: of the answer, if few large ones are to be in memory at a time.

        Raises:
            PrivateAddress: the pool connects to public addresses only, and the host has another.
            NoAnswer: there is no whole answer of at most ``bytes_max`` bytes within ``timeout_s``.
        """
        beat()
        scheme = "https" if self._is_secure else "http"
        about = requested(method, scheme, self._host, self._port, self._base + path.partition("?")[0])
        with span_at_work().request(method, about) as span:
            try:
                answer = self._answered(method, path, body, headers, timeout_s, bytes_max, place)
            except Exception as error:
                span.note({ERROR_TYPE: type(error).__name__})
                raise
            span.note({STATUS_CODE: answer.status})
            if answer.status >= _WRONG_FROM:
                span.note({ERROR_TYPE: str(answer.status)})
                span.fail(answer.reason)
            return answer

    def _answered(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str] | None,
        timeout_s: float,
        bytes_max: int,
        place: Place | None,
    ) -> Answer:
        deadline_s = time.monotonic() + timeout_s
        ask = partial(self._ask_on, method=method, path=self._base + path, body=body, headers=dict(headers or {}))
        request = partial(ask, deadline_s=deadline_s, bytes_max=bytes_max, place=place)
        try:
            kept = self._acquire()
            if kept is not None:
                try:
                    return request(kept)
                except (ConnectionError, HTTPException):
                    if method not in _SAFE_TO_REPEAT:
                        raise
            return request(self._new(timeout_s))
        except PrivateAddress:
            raise
        except (OSError, HTTPException, ValueError) as error:
            raise NoAnswer(_in_words(error)) from None

    def close(self) -> None:
        """Close what is kept."""
        with self._lock:
            kept, self._idle = self._idle, []
        for connection in kept:
            connection.close()

    def _ask_on(
        self,
        connection: HTTPConnection,
        *,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        deadline_s: float,
        bytes_max: int,
        place: Place | None,
    ) -> Answer:
        """Send a request over a connection, and keep or close it afterwards."""
        is_kept = False
        try:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError("timed out")
            connection.timeout = left_s
            if connection.sock is not None:
                connection.sock.settimeout(left_s)
            connection.response_class = cast(type[HTTPResponse], partial(DeadlineResponse, deadline_s))
            connection.request(method, path, body=body, headers=headers)
            with connection.getresponse() as response:
                answer = _whole(response, bytes_max, place)
                is_kept = not response.will_close
            return answer
        finally:
            self._release(connection) if is_kept else connection.close()

    def _new(self, timeout_s: float) -> HTTPConnection:
        if self._socket:
            return _SocketConnection(self._socket, timeout_s)
        made = (
            HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._context)
            if self._is_secure
            else HTTPConnection(self._host, self._port, timeout=timeout_s)
        )
        made._create_connection = connect_publicly if self._is_public else connect  # type: ignore[attr-defined]
        return made

    def _acquire(self) -> HTTPConnection | None:
        """Return a kept connection that the other side has not closed."""
        while True:
            with self._lock:
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if connection.sock is not None and not _is_readable(connection):
                return connection
            connection.close()

    def _release(self, connection: HTTPConnection) -> None:
        with self._lock:
            if len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()


class _SocketConnection(HTTPConnection):
    """A connection over a socket of this machine."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Connect; called when the first request is sent."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(self.timeout)
        try:
            made.connect(self._path)
        except OSError:
            made.close()
            raise
        self.sock = made


def _whole(response: HTTPResponse, bytes_max: int, place: Place | None) -> Answer:
    return Answer(
        status=response.status,
        reason=one_line(response.reason),
        content_type=response.headers.get_content_type(),
        location=_address(response.headers.get("Location", "")),
        body=read_body(response, bytes_max, place),
        retry_after=response.headers.get("Retry-After", ""),
    )


def _address(location: str) -> str:
    """Return where a redirect points to; empty for what is no address."""
    shown = one_line(location)
    try:
        _ = urlsplit(shown).port  # a bracket that is left open, a port that is none
    except ValueError:
        return ""
    return shown


def _is_readable(connection: HTTPConnection) -> bool:
    """Say whether an idle connection has something to read: its end, or bytes nobody asked for."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection.sock, selectors.EVENT_READ)
        return bool(selector.select(0))


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


_NAT64 = IPv6Network("64:ff9b::/96")
_ISATAP = 0x5EFE  # the third quarter of an address that ends in one of version 4, for a tunnel
_GLOBAL, _DOCUMENTATION = IPv6Network("2000::/3"), IPv6Network("3fff::/20")


class PrivateAddress(ValueError):
    """A host has an address that is not public."""


def is_public(address: str) -> bool:
    """Return whether an address is reached over the internet: none of this machine, of a link or of a private network.

    >>> [is_public(each) for each in ("192.0.43.8", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.1", "fd00::1")]
    [True, False, False, False, False]
    """
    found = ip_address(address.partition("%")[0])
    inside = _inside(found)
    if found in _DOCUMENTATION or (isinstance(found, IPv6Address) and found not in _GLOBAL and not inside):
        return False  # Python takes a network for global of which it knows nothing
    return all(each.is_global and not each.is_multicast for each in (found, *inside))


def connect_publicly(address: tuple[str, int], timeout: float, source_address: tuple[str, int] | None = None) -> socket.socket:
    """Return a connection, as `connect`: whoever chooses a host must not reach what lies behind this machine.

    Raises:
        PrivateAddress: one of the host's addresses is not public.
        OSError: it has none, or nobody answers.
    """
    return connect(address, timeout, source_address, check=_check_public)


def _check_public(address: str) -> None:
    if not is_public(address):
        raise PrivateAddress(f"its address {address} is of this machine or of a private network")


def _inside(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """Return the addresses of version 4 that one of version 6 stands for."""
    if isinstance(address, IPv4Address):
        return []
    last = IPv4Address(int(address) & 0xFFFF_FFFF)
    is_last = address in _NAT64 or int(address) >> 32 & 0xFDFF_FFFF == _ISATAP
    return [each for each in (address.ipv4_mapped, address.sixtofour, last if is_last else None) if each is not None]
