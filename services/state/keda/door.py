"""Opens KEDA's port, lets a number of connections in from each address, and passes what they say on to the gRPC server.

That counts connections too, but not whose they are: a single client could take all of them, and keep them.
"""

import asyncio
import contextlib
from collections import Counter

from surescale.services.state.http.answers import client_of

TAKES_WITHIN_S = 30.0
"""Whoever takes nothing of its answers for so long is ended, or it would keep its place, and what it was sent, for ever."""
_PIECE_BYTES = 64 * 1024


class Door:
    """One port. Who comes when there is no room for them is turned away at once."""

    def __init__(self, inner: str, connections_max: int, of_each_max: int) -> None:
        """``inner``: the Unix socket on which the gRPC server listens; ``of_each_max``: connections of one address."""
        self._inner, self._connections_max, self._of_each_max = inner, connections_max, of_each_max
        self._inside, self._going = Counter[str](), set[asyncio.Task[None]]()
        self._server: asyncio.Server | None = None

    async def open(self, host: str, port: int) -> int:
        """Open the port and return it.

        Raises:
            OSError: it is taken.
        """
        self._server = await asyncio.start_server(self._come, host, port)
        opened: int = self._server.sockets[0].getsockname()[1]
        return opened

    def shut(self) -> None:
        """Let nobody in any more."""
        if self._server is not None:
            self._server.close()

    async def close(self) -> None:
        """Let nobody in any more, and end who is inside."""
        self.shut()
        for each in self._going:
            each.cancel()
        await asyncio.gather(*self._going, return_exceptions=True)

    def _come(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        who = client_of("", (writer.get_extra_info("peername") or ("",))[0])
        if self._inside[who] >= self._of_each_max or self._inside.total() >= self._connections_max:
            writer.transport.abort()
            return
        self._inside[who] += 1
        task = asyncio.create_task(self._pass_on(reader, writer))
        self._going.add(task)
        task.add_done_callback(lambda _: self._leave(who, task))

    def _leave(self, who: str, task: "asyncio.Task[None]") -> None:
        self._going.discard(task)
        self._inside -= Counter((who,))  # keeps no address without any

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers = [writer]
        try:
            answers, inner = await asyncio.open_unix_connection(self._inner)
            writers.append(inner)
            ways = [asyncio.create_task(_pump(*way)) for way in ((reader, inner), (answers, writer))]
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
        except OSError:
            pass
        finally:
            for each in writers:
                each.close()
        with contextlib.suppress(OSError):
            async with asyncio.timeout(TAKES_WITHIN_S):
                await writer.wait_closed()
        writer.transport.abort()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(_PIECE_BYTES):
            writer.write(piece)
            async with asyncio.timeout(TAKES_WITHIN_S):
                await writer.drain()
