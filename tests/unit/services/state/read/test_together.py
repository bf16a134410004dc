"""Views of two pipelines in a real Redis, as one."""

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from msgspec import UNSET
from msgspec.structs import replace

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.record_keys import record_key
from surescale.contracts.wire import encode
from surescale.services.state.connection import connect
from surescale.services.state.read.queries import Queries
from surescale.services.state.read.together import Together
from surescale.services.state.write.operations import Operation, condensed
from surescale.services.state.write.projections import Record, project
from surescale.services.state.write.view_store import ViewStore
from tests.support.builders import topology
from tests.support.view_pipeline import decision

FIRST, SECOND = "together-a-", "together-b-"
NOW_MS = 600 * MINUTE_MS


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """A Redis with the empty views of both."""
    made = connect(redis_url)
    stores = [ViewStore(made, prefix) for prefix in (FIRST, SECOND)]
    for store in stores:
        store.flush()
        assert store.begin({("decisions", 0): 0}, None)
    yield made
    for store in stores:
        store.flush()
    made.close()


def take(client: redis.Redis, prefix: str, *records: tuple[str, Any], at_ms: int) -> None:
    """Show records in the view of one pipeline, appended at a time."""
    operations: list[Operation] = []
    for offset, (topic, record) in enumerate(records):
        operations += project(Record(topic, 0, offset, (record_key(record) or "").encode(), encode(record), at_ms))
    at = {("decisions", 0): 0}
    assert ViewStore(client, prefix).write(condensed(operations), at, at)


def together(client: redis.Redis) -> Together:
    """Return both as one."""
    return Together(client, (FIRST, SECOND), 10, lambda: NOW_MS)


def test_the_pipeline_is_the_first_one_alone(client: redis.Redis) -> None:
    """A role of another one that is at work must not hide that the first one's is not, nor the other way round."""
    mine = replace(topology(), at_ms=NOW_MS)
    take(client, FIRST, (topics.JOB_TOPOLOGY, mine), (topics.DECISIONS, decision(6)), at_ms=NOW_MS - 30 * MINUTE_MS)
    silent = replace(mine, job="sim/silent", at_ms=0)
    take(client, SECOND, (topics.JOB_TOPOLOGY, silent), (topics.DECISIONS, decision(9, job="sim/silent")), at_ms=NOW_MS)
    alone = Queries(client, FIRST, lambda: NOW_MS)
    shown = together(client)
    assert shown.pipeline() == alone.pipeline()
    shown.clock_apart = lambda: "a clock is wrong"
    assert "a clock is wrong" in str(shown.pipeline())


@pytest.mark.parametrize("moved", [2, 40])
def test_jobs_that_were_moved_cost_no_look_each(client: redis.Redis, moved: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is where it was seen last, the first half in the second pipeline, and that is found out for all at once."""
    jobs = [f"sim/{number:02}" for number in range(moved)]
    known = [(topics.JOB_TOPOLOGY, replace(topology(), job=job)) for job in jobs]
    half = moved // 2
    take(client, FIRST, *known[:half], at_ms=1)
    take(client, SECOND, *known, at_ms=2)
    take(client, FIRST, *known[half:], at_ms=3)
    trips = []
    send = redis.client.Pipeline.execute

    def counted(pipe: Any) -> Any:
        trips.append(pipe)
        return send(pipe)

    monkeypatch.setattr(redis.client.Pipeline, "execute", counted)
    shown = together(client)
    assert shown.job_ids() == jobs
    assert len(trips) == 2  # one of each pipeline
    assert [shown.prefix_of(job) for job in jobs] == [SECOND] * half + [FIRST] * (moved - half)


def test_a_job_says_whose_it_is_where_several_pipelines_are_shown(client: redis.Redis) -> None:
    """In the list and by itself; where one is shown, it is no question."""
    take(client, FIRST, (topics.JOB_TOPOLOGY, replace(topology(), job="sim/a")), at_ms=1)
    take(client, SECOND, (topics.JOB_TOPOLOGY, replace(topology(), job="sim/b")), at_ms=1)
    shown = together(client)
    of = {"sim/a": FIRST, "sim/b": SECOND}
    assert {each.job: each.pipeline for each in shown.jobs()} == of
    assert {job: shown.overview(job).pipeline for job in of} == of
    assert {job: shown.job(job).pipeline for job in of} == of
    for alone in (Queries(client, FIRST, lambda: NOW_MS), Together(client, (FIRST,), 10, lambda: NOW_MS)):
        assert [each.pipeline for each in alone.jobs()] == [alone.job("sim/a").pipeline] == [UNSET]


def test_a_pipeline_of_which_no_job_is_known_is_said(client: redis.Redis) -> None:
    """A mistyped prefix is told from one whose pipeline has just begun."""
    take(client, FIRST, (topics.JOB_TOPOLOGY, topology()), at_ms=1)
    shown = Together(client, (FIRST, SECOND, "mistyped-"), 10, lambda: NOW_MS)
    assert shown.silent() == {
        SECOND: "its pipeline knows no job yet",
        "mistyped-": "no state service has kept a view under this prefix on this Redis; correct the prefix, or start its state "
        "service",
    }
