"""The event stream: tells its readers that the view has changed, not how, and they ask again for what they show.

So a reader that was away needs no list of what it has missed: the id of an event says how far the view was, and a reader that
comes back with an older one gets an event at once. It works with any number of writers of the view, and across restarts.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

import msgspec
import redis
from aiohttp import web

from surescale.services.state.documents import ChangeDocument

LOOK_EVERY_S = 1.0
ALIVE_EVERY_S = 15.0  # a comment, so that neither side takes a quiet stream for a dead one
STREAMS_MAX = 200
RETRY_MS = 2_000


@dataclass(eq=False, slots=True)
class _Reader:
    client: str
    has_left: bool = False
    """It made room for a reader of another client."""


class Changes:
    """Watches the offsets that the view stands for, while anybody listens."""

    def __init__(self, positions: Callable[[], Mapping[str, int]]) -> None:
        """``positions`` reads them, in a thread; it may raise redis.RedisError."""
        self._positions = positions
        self._now: ChangeDocument | None = None
        self._by_topic: Counter[str] = Counter()
        self._changed = asyncio.Condition()
        self._readers: list[_Reader] = []  # in the order in which they came
        self._watch: asyncio.Task[None] | None = None
        self._closed = False

    async def answer(self, request: web.Request, client: str) -> web.StreamResponse:
        """Answer a request of a client with events until either side ends it.

        Raises:
            web.HTTPServiceUnavailable: too many are listening.
        """
        headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response, reader = web.StreamResponse(headers=headers), self._let_in(client)
        try:
            await self._wake()  # who made room
            await response.prepare(request)
            if self._watch is None:
                self._watch = asyncio.create_task(self._look())
            await response.write(f"retry: {RETRY_MS}\n\n".encode())
            async for lines in self._events(request.headers.get("Last-Event-ID", ""), reader):
                await response.write(lines)
        except ConnectionError:
            pass  # the reader went away
        finally:
            if not reader.has_left:
                self._readers.remove(reader)
            if not self._readers and self._watch is not None:
                self._watch.cancel()
                self._watch = self._now = None
        return response

    def _let_in(self, client: str) -> _Reader:
        """Take a reader. Where there is no room, the client with the most gives its oldest one, if that leaves it more."""
        if len(self._readers) >= STREAMS_MAX:
            of_each = Counter(each.client for each in self._readers)
            ((greatest, most),) = of_each.most_common(1)
            if of_each[client] + 1 >= most:
                raise web.HTTPServiceUnavailable(text=f"{STREAMS_MAX} readers listen already; ask again later")
            oldest = next(each for each in self._readers if each.client == greatest)
            oldest.has_left = True
            self._readers.remove(oldest)
        reader = _Reader(client)
        self._readers.append(reader)
        return reader

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def close(self) -> None:
        """End all streams."""
        self._closed = True
        await self._wake()

    async def _events(self, last_id: str, reader: _Reader) -> AsyncIterator[bytes]:
        seen: ChangeDocument | None = None
        while not (self._closed or reader.has_left):
            try:
                async with asyncio.timeout(ALIVE_EVERY_S):
                    now = await self._other_than(seen, reader)
            except TimeoutError:
                yield b": alive\n\n"
                continue
            if now is None:
                return
            if seen is not None or now.problem or last_id != str(now.records):
                yield _event(now)
            seen = now

    async def _other_than(self, seen: ChangeDocument | None, reader: _Reader) -> ChangeDocument | None:
        """Wait for a change that a reader has not seen; None: its stream ends."""

        def is_time() -> bool:
            return self._closed or reader.has_left or (self._now is not None and self._now != seen)

        async with self._changed:
            await self._changed.wait_for(is_time)
            return None if self._closed or reader.has_left else self._now

    async def _look(self) -> None:
        while True:
            now = await self._read()
            async with self._changed:
                if now != self._now:
                    self._now = now
                    self._changed.notify_all()
            await asyncio.sleep(LOOK_EVERY_S)

    async def _read(self) -> ChangeDocument:
        before = self._now
        try:
            positions = await asyncio.to_thread(self._positions)
        except redis.RedisError as error:
            return ChangeDocument(records=before.records if before else 0, topics=(), problem=f"Redis does not answer: {error}")
        by_topic: Counter[str] = Counter()
        for place, offset in positions.items():
            by_topic[place.rpartition("/")[0]] += offset
        changed = tuple(topic for topic in sorted(by_topic) if before is None or by_topic[topic] != self._by_topic[topic])
        records = by_topic.total()
        if before is not None and before.problem is None and records == before.records:
            return before
        self._by_topic = by_topic
        return ChangeDocument(records=records, topics=changed)


def _event(change: ChangeDocument) -> bytes:
    kind = "problem" if change.problem else "view"
    return b"id: %d\nevent: %b\ndata: %b\n\n" % (change.records, kind.encode(), msgspec.json.encode(change))
