"""How the HTTP API shares its work among requests."""

import asyncio
import threading

import redis
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from surescale.services.state.api import make_app
from surescale.services.state.connection import connect
from surescale.services.state.documents import HealthDocument, JobOverview
from surescale.services.state.fleet_documents import Counts
from surescale.services.state.read.queries import Queries

REQUESTS = 40  # more than there are threads


class SlowQueries(Queries):
    """Queries that take until they are let go, and then fail if they are told to."""

    def __init__(self) -> None:
        super().__init__(connect("redis://nowhere"), "")
        self.asked, self.let_go, self.fails = 0, threading.Event(), False

    def jobs(self, *, after: str = "", limit: int | None = None) -> list[JobOverview]:
        """Return no job, once let go."""
        self.asked += 1
        assert self.let_go.wait(30)
        if self.fails:
            raise redis.ConnectionError("gone")
        return []

    def counts(self) -> Counts:
        """Return a count at once."""
        return {"windows": 1}


async def statuses(queries: SlowQueries) -> list[int]:
    """Ask for all jobs many times at once, and in between for the counts; return the statuses."""
    app = make_app(queries, lambda: HealthDocument(role="state-service", ready=True, records=0, rebuilds=0), redis_url="")
    async with TestClient(TestServer(app)) as client:

        async def ask(path: str) -> ClientResponse:
            return await client.get(path)

        waiting = [asyncio.create_task(ask("/jobs")) for _ in range(REQUESTS)]
        while not queries.asked:
            await asyncio.sleep(0.01)
        counts = await asyncio.wait_for(ask("/counts"), 20)
        queries.let_go.set()
        return [counts.status, *[(await answer).status for answer in waiting]]


def test_many_requests_for_all_jobs_cost_one_and_hold_up_no_other() -> None:
    """Each would take a thread for seconds, and there are few."""
    queries = SlowQueries()
    assert asyncio.run(statuses(queries)) == [200] * (REQUESTS + 1)
    assert queries.asked < REQUESTS / 2  # some may come when the first is answered


def test_an_answer_that_fails_fails_for_all_who_wait_for_it() -> None:
    """And only for them: the next request asks again."""
    queries = SlowQueries()
    queries.fails = True
    assert asyncio.run(statuses(queries)) == [200] + [503] * REQUESTS
    asked, queries.fails = queries.asked, False
    assert set(asyncio.run(statuses(queries))) == {200}
    assert queries.asked > asked
