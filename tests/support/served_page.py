"""The state API and its page, served from a real Redis into which the real projections have put a recorded demo."""

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import zstandard
from aiohttp import web

from surescale.runtime.ports import LOOPBACK, free_port
from surescale.services.state.access import Tokens
from surescale.services.state.api import DecideWithout, make_app
from surescale.services.state.connection import connect
from surescale.services.state.documents import HealthDocument
from surescale.services.state.http.operations import Execute
from surescale.services.state.read.queries import Queries
from surescale.services.state.write.operations import condensed
from surescale.services.state.write.projections import Record, project
from surescale.services.state.write.view_store import Positions, ViewStore

if TYPE_CHECKING:
    from playwright.sync_api import Page

RECORDED = Path(__file__).parent.parent / "recordings" / "page" / "pipeline.zst"
BATCH = 200


def recorded() -> list[Record]:
    """Return the records of a demo of 150 minutes in which one host was lost and one joined, in the broker's order."""
    return msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(RECORDED.read_bytes()), type=list[Record])


class View:
    """A view of its own in Redis, that records are put into."""

    def __init__(self, redis_url: str, prefix: str) -> None:
        self._client = connect(redis_url)
        self.store = ViewStore(self._client, prefix)
        self.queries = Queries(self._client, prefix)
        self.store.flush()
        self._at: Positions = {("snapshots", 0): 0}
        assert self.store.begin(self._at, None)

    def take(self, records: Iterable[Record]) -> None:
        """Project records, and store what they change with their offsets, as the projector does."""
        waiting = list(records)
        for at in range(0, len(waiting), BATCH):
            few = waiting[at : at + BATCH]
            operations = [operation for record in few for operation in project(record)]
            after = self._at | {(record.topic, record.partition): record.offset + 1 for record in few}
            assert self.store.write(condensed(operations), after, self._at)
            self._at = after

    def close(self) -> None:
        """Remove it."""
        self.store.flush()
        self._client.close()


class Served:
    """The API in a thread of its own; it can go away and come back at the same address."""

    def __init__(
        self,
        view: View,
        port: int,
        tokens: Tokens | None = None,
        execute: Execute | None = None,
        decide_without: DecideWithout | None = None,
    ) -> None:
        self.url = f"http://{LOOPBACK}:{port}/"
        self._view, self._port, self._tokens = view, port, tokens or Tokens()
        given = {"execute": execute, "decide_without": decide_without}
        self._work: dict[str, Any] = {name: work for name, work in given.items() if work}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._runner: web.AppRunner | None = None
        self.start()

    def start(self) -> None:
        """Listen."""
        self._run(self._start())

    def go_away(self) -> None:
        """End all streams and listen no more."""
        assert self._runner is not None
        self._run(self._runner.cleanup())

    def stop(self) -> None:
        """Go away for good."""
        self.go_away()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _run(self, work: Coroutine[object, object, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _start(self) -> None:
        app = make_app(
            self._view.queries,
            lambda: HealthDocument(role="state-service", ready=True, records=0, rebuilds=0),
            redis_url="redis://here",
            tokens=self._tokens,
            **self._work,
        )
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, self._port).start()


@contextmanager
def serving(page: "Page", view: View, tokens: Tokens | None = None, **work: Any) -> Iterator[Served]:
    """Give the API to a page that is left before the API goes: it would complain that nobody answers."""
    served = Served(view, free_port(), tokens, **work)
    try:
        yield served
    finally:
        page.goto("about:blank")
        served.stop()
