"""Opens the port of one of our HTTP APIs. A port that cannot be opened becomes one readable line.

Half a request ends, and so does an answer that its reader does not take.

However many connect, half of the descriptors that the process may have stay free for the role's own work and its health port.
Beyond that, each new connection takes the place of the oldest ones on which nobody is being answered, or takes the answer.
"""

import asyncio
import contextlib
import logging
import resource
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from aiohttp import StreamReader, web
from aiohttp.http_exceptions import HttpProcessingError

from surescale.contracts.errors import SettingsError, reason_of
from surescale.contracts.plurals import counted
from surescale.runtime.backoff import Throttle
from surescale.runtime.http_answers import BROKEN, HEADERS, Refusal, kept, malformed, refusal

REQUEST_WITHIN_S = 20.0
TAKEN_WITHIN_S = 60.0  # a whole answer, by a slow but honest reader
SLOW_AFTER_S = 5.0  # who takes longer may have to make room
LOOK_EVERY_S = 1.0
MALFORMED_SAID_EVERY_S = 60.0
SHARE_ENDED = 20  # of the connections there may be, at once: looking for the oldest costs a look at all


class HalfRequests:
    """Ends connections on which no whole request comes in time, or an answer is not taken: aiohttp itself waits for ever."""

    def __init__(self) -> None:
        """Know no connection yet."""
        self._since: dict[Any, float] = {}  # since when each waits for a request, or for the rest of one
        self._bodies: dict[Any, StreamReader] = {}  # of requests that are being answered: headers come before the body
        self._sending: dict[Any, float] = {}  # since when there is something left to send of the request's answer

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Note that a request has come; for an application that is served."""
        self._since[request.protocol], self._bodies[request.protocol] = time.monotonic(), request.content
        self._sending.pop(request.protocol, None)
        try:
            return await handler(request)
        finally:
            self._since[request.protocol] = time.monotonic()
            self._bodies.pop(request.protocol, None)

    def answered(self) -> set[int]:
        """Return the descriptors of connections on which a request is being answered, or a reader takes an answer."""
        found, now_s = set[int](), time.monotonic()
        for connection in self._since:
            transport = connection.transport
            if transport is None or now_s - self._sending.get(connection, now_s) > SLOW_AFTER_S:
                continue
            if self._is_whole(connection) or transport.get_write_buffer_size():
                found.add(transport.get_extra_info("socket").fileno())
        return found

    def _is_whole(self, connection: Any) -> bool:
        """Say whether a whole request is being answered on a connection."""
        body = self._bodies.get(connection)
        return body is not None and body.is_eof()

    async def end_late(
        self, runner: web.AppRunner, within_s: float = REQUEST_WITHIN_S, taken_within_s: float = TAKEN_WITHIN_S
    ) -> None:
        """Look at a runner's connections until it is cleaned up or this is cancelled."""
        while runner.server is not None:
            now_s = time.monotonic()
            self._since = {each: self._since.get(each, now_s) for each in runner.server.connections}
            self._sending = {
                each: self._sending.get(each, now_s)
                for each in self._since
                if each.transport is not None and each.transport.get_write_buffer_size()
            }
            for connection, since_s in self._since.items():
                sending_s = self._sending.get(connection)
                if sending_s is None:
                    if now_s - since_s > within_s and not self._is_whole(connection):
                        connection.force_close()
                elif now_s - sending_s > taken_within_s:
                    connection.transport.abort()  # to close it would wait for its reader
            await asyncio.sleep(min(LOOK_EVERY_S, within_s / 4, taken_within_s / 4))


class MalformedRequests(logging.Filter):
    """Lets a line a minute through about malformed requests. Anybody may send them, and aiohttp writes a traceback of each."""

    def __init__(self) -> None:
        """Have seen none yet."""
        super().__init__()
        self._count, self._seldom = 0, Throttle(MALFORMED_SAID_EVERY_S)

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether the record is written; one about a malformed request becomes a line of ours."""
        error = record.exc_info[1] if record.exc_info else None
        if not isinstance(error, HttpProcessingError | web.RequestPayloadError):
            return True
        self._count += 1
        if not self._seldom.is_time():
            return False
        record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
        record.msg, record.args = "%s so far, the last one: %s", (counted(self._count, "malformed request"), malformed(error))
        return True


def _show_few_malformed_requests() -> None:
    log = logging.getLogger("aiohttp.server")
    if not any(isinstance(each, MalformedRequests) for each in log.filters):
        log.addFilter(MalformedRequests())


def _answer_alike(server: web.Server, refused: Refusal) -> None:
    """Have all answers of a server look the same, also those to what aiohttp cannot read, or refuses before any of our code."""
    log = logging.getLogger("aiohttp.server")

    def answer(status: int, why: str, headers: dict[str, str] | None = None) -> web.Response:
        return web.Response(body=refused(status, why), status=status, content_type="application/json", headers=headers)

    class Connection(web.RequestHandler):
        __slots__ = ()

        def handle_error(
            self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None, message: str | None = None
        ) -> web.StreamResponse:
            log.error("cannot answer %s", request.remote, exc_info=exc)
            if request.writer.output_size > 0:
                raise ConnectionError("the answer has begun")
            made = answer(status, f"malformed request: {malformed(exc)}" if status < 500 and exc is not None else BROKEN)
            made.force_close()
            return made

        async def finish_response(
            self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
        ) -> tuple[web.StreamResponse, bool]:
            if isinstance(resp, web.HTTPException):
                resp = answer(resp.status, resp.text or resp.reason, kept(resp.headers))
            if not resp.prepared:
                add_headers(resp)
            return await super().finish_response(request, resp, start_time)

    class Server(web.Server):
        def __call__(self) -> web.RequestHandler:
            connection = super().__call__()
            connection.__class__ = Connection
            return connection

    server.__class__ = Server  # aiohttp has no way to say of which kind its connections are


def add_headers(response: web.StreamResponse) -> None:
    """Add the headers of every answer to one; what it says itself stays."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)


def runner_of(app: web.Application) -> web.AppRunner:
    """Return the runner of an application. Bodies stay compressed: to unpack a little of one may take the process for seconds."""
    return web.AppRunner(app, access_log=None, auto_decompress=False)


async def listen(
    runner: web.AppRunner,
    host: str,
    port: int,
    *,
    option: str,
    half_requests: HalfRequests,
    context: ssl.SSLContext | None = None,
    refused: Refusal = refusal,
) -> None:
    """Serve a runner's application at an address, with TLS if there is a context; port 0 picks a free one.

    Args:
        runner: of the application; it is set up.
        host: its address.
        port: its port.
        option: names the address in errors.
        half_requests: whose middleware the application has; it tells which connections may not be ended.
        context: for TLS.
        refused: makes the body of what is refused before it reaches the application.

    Raises:
        SettingsError: the address cannot be used; the message names the option.
    """
    _show_few_malformed_requests()
    assert runner.server is not None, "the runner is not set up"
    _answer_alike(runner.server, refused)
    connections = _Connections(half_requests)
    try:
        # As asyncio does: a name may have several addresses.
        for family, kind, protocol, _, address in dict.fromkeys(
            socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        ):
            listener = _Listener(family, kind, protocol)
            listener.connections = connections
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            await web.SockSite(runner, listener, ssl_context=context).start()
    except OSError as error:
        raise SettingsError(f"{option}: cannot listen on {host}:{port} ({reason_of(error)}); name another one") from None


class _Connections:
    """The connections of an API, oldest first."""

    def __init__(self, half_requests: HalfRequests) -> None:
        self._half_requests = half_requests
        self._open = WeakKeyDictionary[socket.socket, None]()
        self._room = 0  # for so many more there is room for sure

    def take(self, connection: socket.socket) -> bool:
        """Take one in; return whether there is room for it."""
        if self._room <= 0:
            self._room = self._make_room(resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        if self._room <= 0:
            return False
        self._room -= 1
        self._open[connection] = None
        return True

    def _make_room(self, most: int) -> int:
        """Return for how many there is room; if for none, end the oldest few on which nobody is answered."""
        for closed in [each for each in self._open if each.fileno() < 0]:
            del self._open[closed]
        if len(self._open) < most:
            return most - len(self._open)
        answered, ended = self._half_requests.answered(), 0
        for oldest in list(self._open):
            if ended >= max(1, most // SHARE_ENDED):
                break
            if oldest.fileno() not in answered:
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its transport sees the end, and closes it
                del self._open[oldest]
                ended += 1
        return ended


class _Listener(socket.socket):
    """Accepts connections, and ends those for which there is no room at once, before they cost a handshake."""

    connections: _Connections

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and the address of its other end; asyncio takes `BlockingIOError` for nobody that waits."""
        found, address = super().accept()
        if not self.connections.take(found):
            found.close()
            raise BlockingIOError
        return found, address
