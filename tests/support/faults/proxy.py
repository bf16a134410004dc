"""A TCP proxy between two programs that can cut, delay, hang or forge their connection while they run."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Self

_CHUNK = 65_536
LOOPBACK = "127.0.0.1"


@dataclass(slots=True)
class Link:
    """One connection between two programs: everything that arrives at ``port`` goes to ``target``."""

    name: str
    port: int
    target: int
    is_cut: bool = False
    is_hanging: bool = False
    delay_s: float = 0.0
    answer: bytes | None = None
    """Sent in place of what the target would answer."""
    refused: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    def restore(self) -> None:
        """Pass everything on again."""
        self.is_cut, self.is_hanging, self.delay_s, self.answer = False, False, 0.0, None

    async def serve(self) -> None:
        """Listen until cancelled."""
        server = await asyncio.start_server(self._accept, LOOPBACK, self.port)
        async with server:
            await server.serve_forever()

    def drop(self) -> None:
        """Break every open connection, as a router that restarts does."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            if self.is_cut:
                self.refused += 1
            elif self.answer is not None:
                await asyncio.wait_for(reader.read(_CHUNK), 5)
                writer.write(self.answer)
                await writer.drain()
            else:
                await self._connect(reader, writer)
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass  # also cancelled: the callback of asyncio's server would log it
        finally:
            self._open.discard(writer)
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection(LOOPBACK, self.target)
        self._open.add(here)
        try:
            ways = [asyncio.create_task(self._pass(reader, here)), asyncio.create_task(self._pass(there, writer))]
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
        finally:
            self._open.discard(here)
            here.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK):
            while self.is_hanging:
                await asyncio.sleep(0.02)
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            writer.write(chunk)
            await writer.drain()


class Proxies:
    """Runs links in a thread of its own; leaving the ``with`` block ends them."""

    def __init__(self) -> None:
        self.links: dict[str, Link] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def add(self, link: Link) -> Link:
        """Open a link."""
        self.links[link.name] = link

        async def begin() -> None:
            self._loop.create_task(link.serve(), name=link.name)

        self._do(begin())
        return link

    def cut(self, link: Link) -> None:
        """Break a link's connections, and refuse new ones until it is restored."""
        link.is_cut = True
        self._loop.call_soon_threadsafe(link.drop)

    def drop(self, link: Link) -> None:
        """Break a link's connections once."""
        self._loop.call_soon_threadsafe(link.drop)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _end(self) -> None:
        # A connection that is cancelled before it began would be logged by the callback of asyncio's server.
        self._loop.set_exception_handler(lambda loop, context: None)
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*others, return_exceptions=True)
