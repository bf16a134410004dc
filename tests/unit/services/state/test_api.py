"""How the HTTP API shares its work among requests."""

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer, make_mocked_request

from surescale.services.state.api import make_app
from surescale.services.state.connection import connect
from surescale.services.state.documents import HealthDocument, JobOverview
from surescale.services.state.fleet_documents import Counts
from surescale.services.state.http import answers
from surescale.services.state.http.answers import LARGE_OF_CLIENT_MAX
from surescale.services.state.http.routes import ROUTES
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


def app_of(queries: Queries) -> web.Application:
    """Return an application that is ready."""
    return make_app(queries, lambda: HealthDocument(role="state-service", ready=True, records=0, rebuilds=0), redis_url="")


async def first_done(tasks: list[asyncio.Task[Any]], count: int) -> AsyncIterator[Any]:
    """Yield the results of the first few that end."""
    for each in itertools.islice(asyncio.as_completed(tasks), count):
        yield await each


def asking(path: str) -> web.Request:
    """Return a request for a path without names in it."""
    return make_mocked_request("GET", path, match_info={})


async def statuses(queries: SlowQueries) -> list[int]:
    """Ask for all jobs many times at once, and in between for the counts; return the statuses."""
    async with TestClient(TestServer(app_of(queries))) as client:

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


@pytest.mark.parametrize(
    ("of_client", "of_all", "status", "words"),
    [(LARGE_OF_CLIENT_MAX, 1_000, 429, "large answers are being made for 127.0.0.1"), (1_000, 20, 503, "too many large answers")],
)
def test_more_different_lists_than_there_is_room_for_are_refused_and_what_is_small_is_answered(
    monkeypatch: pytest.MonkeyPatch, of_client: int, of_all: int, status: int, words: str
) -> None:
    """Each with another limit, so that none is the answer to another; those let in come, and then there is room again."""
    monkeypatch.setattr(answers, "LARGE_OF_CLIENT_MAX", of_client)
    monkeypatch.setattr(answers, "LARGE_MAX", of_all)
    room, queries = min(of_client, of_all), SlowQueries()

    async def run() -> None:
        async with asyncio.timeout(60), TestClient(TestServer(app_of(queries))) as client:

            async def ask(path: str) -> tuple[int, str, str]:
                async with client.get(path) as answer:
                    return answer.status, answer.headers.get("Retry-After", ""), await answer.text()

            asked = [asyncio.create_task(ask(f"/jobs?limit={number}")) for number in range(1, room + 11)]
            refused = [each async for each in first_done(asked, 10)]
            assert {(code, later) for code, later, _ in refused} == {(status, "1")}
            assert all(words in text for *_, text in refused)
            for small in ("/counts", "/health"):
                assert (await ask(small))[0] == 200
            assert (await ask("/jobs?limit=11111"))[0] == status  # a wrong parameter is not looked at either
            queries.let_go.set()
            assert sorted(code for code, *_ in await asyncio.gather(*asked)) == [200] * room + [status] * 10
            assert (await ask("/jobs?limit=400"))[0] == 200

    asyncio.run(run())


def test_clients_take_turns() -> None:
    """Who asks for one list does not wait for all those that another asked for before."""
    order = list[str]()

    class Noted(SlowQueries):
        def jobs(self, *, after: str = "", limit: int | None = None) -> list[JobOverview]:
            order.append(after)
            return super().jobs(after=after, limit=limit)

    queries = Noted()

    async def run() -> None:
        made = answers.Answers(queries)
        route = next(each for each in ROUTES if each.path == "/jobs")
        many = [asyncio.create_task(made.made(route, asking(f"/jobs?cursor=many{number}"), "many")) for number in range(20)]
        while not order:
            await asyncio.sleep(0.01)
        one = asyncio.create_task(made.made(route, asking("/jobs?cursor=one"), "one"))
        while len(order) < 2:
            await asyncio.sleep(0.01)
        queries.let_go.set()
        await asyncio.gather(one, *many)

    asyncio.run(asyncio.wait_for(run(), 60))
    assert order[1] == "one"


def test_an_answer_that_fails_fails_for_all_who_wait_for_it() -> None:
    """And only for them: the next request asks again."""
    queries = SlowQueries()
    queries.fails = True
    assert asyncio.run(statuses(queries)) == [200] + [503] * REQUESTS
    asked, queries.fails = queries.asked, False
    assert set(asyncio.run(statuses(queries))) == {200}
    assert queries.asked > asked
