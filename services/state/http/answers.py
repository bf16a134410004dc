"""Makes answers in threads, and shares the work among requests: what is large never holds up what is small.

Whoever asks for an answer that is being made waits for it, so that repeated requests cost one. Large answers (lists of jobs and
decisions, histories) have two threads of their own, and are made for each client one after the other, so that clients take
turns.
"""

import asyncio
import hashlib
import ipaddress
import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from aiohttp import web

from surescale.services.state.http.routes import Route
from surescale.services.state.read.queries import Queries

SHORT_BYTES = 1_024  # what is shorter gains nothing from compression
SMALL_AT_ONCE, LARGE_AT_ONCE = 4, 2
LARGE_OF_CLIENT_MAX = 32  # waiting or in the making; a page asks for a handful
LARGE_MAX = 128
LATER = {"Retry-After": "1"}


class Made(NamedTuple):
    """An answer: its bytes, their tag before compression, and the cursor of the page that follows."""

    body: bytes
    tag: str
    is_packed: bool = False
    next_cursor: str = ""


def as_text(document: object) -> str:
    """Return a document as it is answered."""
    return json.dumps(msgspec.to_builtins(document))


def made_of(whole: str | bytes, *, may_pack: bool = False, next_cursor: str = "") -> Made:
    """Return an answer of a text, or of the bytes of a file."""
    body = whole.encode() if isinstance(whole, str) else whole
    tag = hashlib.blake2b(body, digest_size=12).hexdigest()
    if not may_pack or len(body) <= SHORT_BYTES:
        return Made(body, tag, next_cursor=next_cursor)
    packer = zlib.compressobj(level=6, wbits=31)  # with the header of gzip
    return Made(packer.compress(body) + packer.flush(), tag, is_packed=True, next_cursor=next_cursor)


def takes_packed(request: web.Request) -> bool:
    """Say whether whoever asks reads what is compressed."""
    return "gzip" in request.headers.get("Accept-Encoding", "").lower()


def client_of(name: str, address: str | None) -> str:
    """Return who asks: the name of a token, else an address, of IPv6 the network of which one machine may have every address.

    >>> client_of("", "2001:db8::1") == client_of("", "2001:db8::2"), client_of("", "10.0.0.1"), client_of("ana", "10.0.0.1")
    (True, '10.0.0.1', 'ana')
    """
    if name:
        return name
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return address or ""
    return str(ipaddress.ip_network(f"{found}/64", strict=False)) if found.version == 6 and not found.ipv4_mapped else str(found)


@dataclass(slots=True)
class _Turn:
    """Whose large answer is made next, of one client."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    asked: int = 0


class Answers:
    """Answers of the routes."""

    def __init__(self, queries: Queries) -> None:
        """Have none in the making."""
        self._queries = queries
        self._in_the_making: dict[tuple[str, bool], asyncio.Task[Made]] = {}
        self._turns: dict[str, _Turn] = {}
        self._small = ThreadPoolExecutor(SMALL_AT_ONCE, "answer")
        self._large = ThreadPoolExecutor(LARGE_AT_ONCE, "large answer")

    async def made(self, route: Route, request: web.Request, client: str) -> Made:
        """Return the answer to a request of a client.

        Raises:
            web.HTTPTooManyRequests: the client has too many large ones in the making.
            web.HTTPServiceUnavailable: all clients together have.
        """
        asked = request.path_qs, takes_packed(request)
        task = self._in_the_making.get(asked)
        if task is None:
            making = self._make_large(route, request, client) if route.is_large else self._make_in(self._small, route, request)
            task = self._in_the_making[asked] = asyncio.create_task(making)
            task.add_done_callback(lambda _: self._in_the_making.pop(asked))
        return await asyncio.shield(task)  # who goes away does not end it for the others

    def close(self) -> None:
        """Make no more."""
        for threads in (self._small, self._large):
            threads.shutdown(wait=False, cancel_futures=True)

    async def _make_large(self, route: Route, request: web.Request, client: str) -> Made:
        own = self._turns.get(client) or _Turn()
        if own.asked >= LARGE_OF_CLIENT_MAX:
            text = f"{own.asked} large answers are being made for {client} already; ask again when they have come"
            raise web.HTTPTooManyRequests(text=text, headers=LATER)
        if sum(each.asked for each in self._turns.values()) >= LARGE_MAX:
            raise web.HTTPServiceUnavailable(text="too many large answers are asked for at once; ask again later", headers=LATER)
        self._turns[client] = own
        own.asked += 1
        try:
            async with own.turn:
                return await self._make_in(self._large, route, request)
        finally:
            own.asked -= 1
            if not own.asked:
                del self._turns[client]

    async def _make_in(self, threads: ThreadPoolExecutor, route: Route, request: web.Request) -> Made:
        return await asyncio.get_running_loop().run_in_executor(threads, self._make, route, request)

    def _make(self, route: Route, request: web.Request) -> Made:
        asked, may_pack = route.read(request.match_info, request.query), takes_packed(request)
        found = route.query(self._queries, asked)
        if route.cursor_of is None or not isinstance(found, list) or asked.limit is None or len(found) < asked.limit:
            return made_of(as_text(found), may_pack=may_pack)
        shown = found[:-1]
        return made_of(as_text(shown), may_pack=may_pack, next_cursor=route.cursor_of(shown[-1]))
