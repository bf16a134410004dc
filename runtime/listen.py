"""Opens the port of one of our HTTP APIs. A port that cannot be opened becomes one readable line; half a request ends.

However many connect, half of the descriptors that the process may have stay free for the role's own work and its health port.
"""

import asyncio
import math
import resource
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakSet

from aiohttp import web

from surescale.contracts.errors import SettingsError, reason_of

REQUEST_WITHIN_S = 20.0
LOOK_EVERY_S = 1.0


class HalfRequests:
    """Ends connections on which no whole request comes in time: aiohttp itself waits for ever for the end of the headers."""

    def __init__(self) -> None:
        """Know no connection yet."""
        self._since: dict[Any, float] = {}  # since when each waits for a request; infinite while it has one

    @web.middleware
    async def middleware(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Note that a whole request has come; for an application that is served."""
        self._since[request.protocol] = math.inf
        try:
            return await handler(request)
        finally:
            self._since[request.protocol] = time.monotonic()

    async def end_late(self, runner: web.AppRunner, within_s: float = REQUEST_WITHIN_S) -> None:
        """Look at a runner's connections until it is cleaned up or this is cancelled."""
        while runner.server is not None:
            now_s = time.monotonic()
            self._since = {each: self._since.get(each, now_s) for each in runner.server.connections}
            for connection, since_s in self._since.items():
                transport = connection.transport
                is_sending = transport is not None and transport.get_write_buffer_size()
                if now_s - since_s > within_s and not is_sending:
                    connection.force_close()
            await asyncio.sleep(min(LOOK_EVERY_S, within_s / 4))


async def listen(runner: web.AppRunner, host: str, port: int, *, option: str, context: ssl.SSLContext | None = None) -> None:
    """Serve a runner's application at an address, with TLS if there is a context; port 0 picks a free one.

    Raises:
        SettingsError: the address cannot be used; the message names the option.
    """
    connections = WeakSet[socket.socket]()
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


class _Listener(socket.socket):
    """Accepts connections and ends those above the bound at once, before they cost a handshake."""

    connections: WeakSet[socket.socket]

    def accept(self) -> tuple[socket.socket, Any]:
        """Return a connection and the address of its other end; asyncio takes `BlockingIOError` for nobody that waits."""
        found, address = super().accept()
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2
        if len(self.connections) >= most:
            self.connections.difference_update([each for each in self.connections if each.fileno() < 0])
        if len(self.connections) >= most:
            found.close()
            raise BlockingIOError
        self.connections.add(found)
        return found, address
