"""What the HTTP API promises beside its documents: pages, tags, a description, an event stream, and who may frame its page."""

import asyncio
import functools
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
import redis
from aiohttp.test_utils import TestClient, TestServer

from surescale.services.state.api import make_app
from surescale.services.state.connection import connect
from surescale.services.state.documents import HealthDocument, JobOverview
from surescale.services.state.fleet_documents import ClusterOverview
from surescale.services.state.http.operations import OPERATIONS
from surescale.services.state.http.routes import LINKS, ROUTES
from surescale.services.state.read.queries import Queries
from surescale.services.state.read.view import StaleCursor

JOBS = [f"sim/job-{number:03}" for number in range(7)]


def overview(job: str) -> JobOverview:
    """Return an overview in which only the id matters."""
    return JobOverview(
        job=job, state="running", generation=1, tasks=1, parallelism=1, mode="act", window_end_ms=None, completeness=None,
        load_records_per_minute=None, age_minutes=None, action=None, outcome=None, gate_phase=None, wake_up_ms=None,
        rent_per_day=None, status="fine", utilisation=None, backlog_records=None, latency_ms=None, overloaded_tasks=None,
        configured_parallelism=None, backlog_ms=None,
    )  # fmt: skip


class SomeJobs(Queries):
    """A view of seven jobs whose offsets can be moved."""

    def __init__(self) -> None:
        super().__init__(connect("redis://nowhere"), "")
        self.offsets = {"snapshots/0": 5, "decisions/0": 1}
        self.is_away = False

    def jobs(self, *, after: str = "", limit: int | None = None) -> list[JobOverview]:
        """Return the jobs behind one."""
        return [overview(job) for job in JOBS if job > after][:limit]

    def commands(self, job: str, limit: int, *, after: str = "") -> list[Any]:
        """Know no command."""
        raise StaleCursor(after)

    def clusters(self) -> list[ClusterOverview]:
        """Return none."""
        return []

    def positions(self) -> dict[str, int]:
        """Return the offsets, unless Redis is away."""
        if self.is_away:
            raise redis.ConnectionError("refused")
        return dict(self.offsets)


def with_client(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Give a test a client of the API and its view before all that pytest gives."""

    async def run(**given: Any) -> None:
        queries = SomeJobs()
        app = make_app(queries, lambda: HealthDocument(role="state-service", ready=True, records=0, rebuilds=0), redis_url="")
        async with asyncio.timeout(60), TestClient(TestServer(app)) as client:
            await test(client, queries, **given)

    @functools.wraps(test)
    def to_the_end(**given: Any) -> None:
        asyncio.run(run(**given))

    signature = inspect.signature(test)
    to_the_end.__signature__ = signature.replace(parameters=[*signature.parameters.values()][2:])  # type: ignore[attr-defined]
    return to_the_end


@with_client
async def test_pages_follow_each_other_to_the_end(client: TestClient[Any, Any], view: SomeJobs) -> None:
    """Each says where the next one is; the last one does not."""
    path, seen, pages = "/jobs?limit=3", [], 0
    while path:
        async with client.get(path) as answer:
            seen += [job["job"] for job in await answer.json()]
            pages += 1
            path = str(answer.links["next"]["url"].relative()) if answer.links else ""
    assert (seen, pages) == (JOBS, 3)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/jobs?offset=3", "offset: no such parameter; this path takes limit, cursor"),
        ("/clusters?limit=3", "limit: no such parameter; this path takes none"),
        ("/jobs?limit=0", "limit: '0' is not a whole number from 1 to 500"),
        ("/jobs?limit=" + "9" * 5_000, "is not a whole number"),
        ("/jobs/sim/a/history?minutes=241", "minutes: '241' is not a whole number from 1 to 240"),
        ("/jobs/sim/a/commands?cursor=gone", "cursor: 'gone' is not in the view, or no longer; ask again without it"),
    ],
)
@with_client
async def test_what_a_path_does_not_take_is_refused(client: TestClient[Any, Any], view: SomeJobs, path: str, words: str) -> None:
    """In a line that names the parameter and says what is taken."""
    async with client.get(path) as answer:
        assert answer.status == 400
        assert words in (await answer.json())["error"]


@with_client
async def test_an_answer_that_has_not_changed_is_not_sent_again(client: TestClient[Any, Any], view: SomeJobs) -> None:
    """The reader shows the tag of what it has; another tag gets the whole answer."""
    async with client.get("/jobs") as first:
        tag = first.headers["ETag"]
    async with client.get("/jobs", headers={"If-None-Match": tag}) as again:
        assert (again.status, await again.read(), again.headers["ETag"]) == (304, b"", tag)
    async with client.get("/jobs?limit=2", headers={"If-None-Match": tag}) as other:
        assert other.status == 200


@with_client
async def test_the_description_names_every_path_parameter_and_answer(client: TestClient[Any, Any], view: SomeJobs) -> None:
    """And refers to no schema that it does not have."""
    async with client.get("/openapi.json") as answer:
        text = await answer.text()
    document = json.loads(text)
    of_operations = {operation.path for operation in OPERATIONS}
    assert set(document["paths"]) == {"/", *(link.partition("?")[0] for link in LINKS), *of_operations}
    for path in of_operations:
        described = document["paths"][path]["post"]
        assert described["security"] == [{"bearer": []}]
        assert {"400", "401", "403", "404", "409", "413", "415", "422", "503"} < set(described["responses"])
        assert [each["name"] for each in described["parameters"]][-1] == "Idempotency-Key"
    for route in ROUTES:
        names = [each["name"] for each in document["paths"][route.path]["get"]["parameters"]]
        assert names[len(names) - len(route.parameters) :] == [each.name for each in route.parameters]
    assert set(refers(document)) <= {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    overview = document["components"]["schemas"]["JobOverview"]["properties"]
    assert overview["status"]["enum"]


def refers(document: object) -> list[str]:
    """Return every reference in a document."""
    if isinstance(document, Mapping):
        return [value if key == "$ref" else ref for key, value in document.items() for ref in (refers(value) or [""])
                if key == "$ref" or ref]  # fmt: skip
    return [ref for item in document for ref in refers(item)] if isinstance(document, list) else []


async def event(answer: Any) -> dict[str, str]:
    """Return the next event of a stream by field; comments are passed over."""
    found: dict[str, str] = {}
    while True:
        line = (await answer.content.readline()).decode().rstrip("\n")
        if not line and "event" in found:
            return found
        name, _, value = line.partition(": ")
        if name:
            found[name] = value


@with_client
async def test_the_stream_tells_of_each_change_and_of_redis_away_and_back(client: TestClient[Any, Any], view: SomeJobs) -> None:
    """A new reader gets an event at once; then one a change, with the topics that grew."""
    async with client.get("/events") as answer:
        assert answer.content_type == "text/event-stream"
        first = await event(answer)
        assert (first["id"], first["event"], json.loads(first["data"])["topics"]) == ("6", "view", ["decisions", "snapshots"])
        view.offsets["snapshots/0"] = 9
        then = await event(answer)
        assert (then["id"], json.loads(then["data"])["topics"]) == ("10", ["snapshots"])
        view.is_away = True
        away = await event(answer)
        assert (away["event"], away["id"]) == ("problem", "10")
        view.is_away = False
        assert (await event(answer))["event"] == "view"


@with_client
async def test_a_reader_that_comes_back_hears_at_once_what_it_has_missed(client: TestClient[Any, Any], view: SomeJobs) -> None:
    """And nothing if the view stands where it stood."""
    async with client.get("/events", headers={"Last-Event-ID": "2"}) as answer:
        assert (await event(answer))["id"] == "6"
    async with client.get("/events", headers={"Last-Event-ID": "6"}) as answer:
        view.offsets["decisions/0"] = 2
        assert (await event(answer))["id"] == "7"


def test_streams_end_when_the_service_ends() -> None:
    """Rather than hold it up."""

    async def run() -> None:
        view = SomeJobs()
        app = make_app(view, lambda: HealthDocument(role="state-service", ready=True, records=0, rebuilds=0), redis_url="")
        client = TestClient(TestServer(app))
        await client.start_server()
        answer = await client.get("/events")
        await event(answer)
        async with asyncio.timeout(20):
            await client.server.close()
        answer.close()
        await client.close()

    asyncio.run(run())


@pytest.mark.parametrize("path", ["/", "/jobs", "/nowhere", "/health"])
@with_client
async def test_every_answer_says_what_a_browser_may_do_with_it(client: TestClient[Any, Any], view: SomeJobs, path: str) -> None:
    """No script but ours, in nobody's frame, and no guess at its kind."""
    async with client.get(path) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://attacker.example/jobs", 421),
        ("http://attacker.example:80@127.0.0.1/jobs", 421),
        ("HTTP://attacker.example", 421),
        ("http://127.0.0.1:8080/jobs", 200),
        ("//attacker.example/jobs", 404),
    ],
)
@with_client
async def test_a_whole_address_must_be_ours_too(client: TestClient[Any, Any], view: SomeJobs, target: str, status: int) -> None:
    """Whatever the header Host says: a cache in front may go by the address."""
    reader, writer = await asyncio.open_connection(client.host, client.port)
    writer.write(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
    assert int((await reader.read()).split()[1]) == status
    writer.close()
