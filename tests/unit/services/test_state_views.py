"""Documents of the view on a real Redis, from records as others may write them."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from contracts import topics
from services.state.api import make_app
from services.state.operations import condensed
from services.state.project import Record, project
from services.state.tables import print_decisions, print_job, print_jobs
from services.state.view_store import ViewStore, connect
from services.state.views import Views
from tests.support.builders import JOB

# Every field that has a default is left out, as one who writes the record by hand does, or a version before the field was added.
TOPOLOGY = (
    b'{"type":"topology/1","job":"sim/clicks","version":1,"at_ms":0,"tasks":[{"task":"in[/x]"},{"task":"map(select=[id, n])"}]}'
)
HOSTS = b'{"type":"cluster/1","cluster":"sim","version":1,"at_ms":0,"hosts":[{"host":"h[b]","units":[0,1]}]}'
DECISION = (
    b'{"type":"decision/1","decision_id":"sim/clicks@60000/sure","job":"sim/clicks","span_end_ms":60000,"window_id":"w",'
    b'"policy":{"name":"sure"},"seed":0,"settings_version":0,"topology_version":1,"action":"act","reason":"r","completeness":1.0,'
    b'"minutes_known":1,"tasks":[{"task":"in[/x]","current":1,"ratio":2.0,"proposed":2,"desired":2}]}'
)
COMMAND = (
    b'{"type":"command/1","command_id":"sim/clicks#1.0","cluster":"sim","job":"sim/clicks","desired_generation":1,"step":0,'
    b'"base_placement_generation":0,"decision_id":"sim/clicks@60000/sure","gate_reason":"desired","gate_cause":"trigger",'
    b'"issued_at_ms":60000,"changes":[]}'
)
OUTCOME = (
    b'{"type":"outcome/1","cluster":"sim","job":"sim/clicks","decision_id":"sim/clicks@60000/sure","span_end_ms":60000,'
    b'"status":"commanded","reason":"desired","at_ms":60000,"command_id":"sim/clicks#1.0"}'
)
WARMING = (
    b'{"type":"progress/1","cluster":"sim","job":"sim/clicks","command_id":"sim/clicks#1.0","desired_generation":1,'
    b'"status":"warming","at_ms":60000}'
)
LETTER = (
    b'{"type":"dead-letter/1","topic":"task-metrics","partition":0,"offset":3,"reason":"not_json","field":"","message":"m",'
    b'"refused_by":"spark"}'
)
RECORDS = (
    (topics.JOB_TOPOLOGY, TOPOLOGY),
    (topics.CLUSTER_TOPOLOGY, HOSTS),
    (topics.DECISIONS, DECISION),
    (topics.RESCHEDULE_COMMANDS, COMMAND),
    (topics.RESCHEDULE_EVENTS, OUTCOME),
    (topics.RESCHEDULE_EVENTS, WARMING),
    (topics.DEAD_LETTERS, LETTER),
)


@pytest.fixture
def views(redis_url: str) -> Iterator[Views]:
    """The view of a road on which all these records lie."""
    client = connect(redis_url)
    store = ViewStore(client, "sparse-")
    store.flush()
    at = {("decisions", 0): 0}
    assert store.begin(at, None)
    records = (Record(topic, 0, offset, JOB.encode(), raw, 7) for offset, (topic, raw) in enumerate(RECORDS))
    assert store.write(condensed([operation for record in records for operation in project(record)]), at, at)
    yield Views(store)
    store.flush()
    client.close()


def test_records_without_what_has_a_default_are_shown(views: Views, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a record is valid, so no reader of the view may miss the fields."""
    print_jobs(views.jobs())
    print_job(views.job(JOB))
    print_decisions(JOB, views.decisions(JOB, 10))
    shown = capsys.readouterr().out
    assert "warming 0 learners" in shown
    assert "1 -> 2" in shown


def test_names_with_brackets_are_shown_as_they_are(views: Views, capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks of SQL jobs are named so; rich takes brackets for markup, leaves them out, or ends with an error."""
    print_job(views.job(JOB))
    shown = capsys.readouterr().out
    assert "in[/x]" in shown
    assert "map(select=[id, n])" in shown


class _Scanned:
    """Redis as it may be while it makes its table of keys larger: a scan names a key twice."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def scan_iter(self, **asked: Any) -> list[str]:
        return 2 * list(self._client.scan_iter(**asked))


def test_a_dead_letter_is_told_once_although_a_scan_names_its_key_twice(views: Views) -> None:
    """Redis promises to name every key, not to name it once."""
    views._client = _Scanned(views._client)
    assert [letter["offset"] for letter in views.dead_letters(10)] == [3]


@pytest.mark.parametrize("limit", ["0", "501", "-1", "x", "9" * 5_000])
def test_a_limit_that_is_none_is_a_bad_request(views: Views, limit: str) -> None:
    """Also one that is longer than Python turns into a number."""

    async def ask() -> tuple[int, str]:
        app = make_app(views, dict, redis_url="redis://here")
        async with TestClient(TestServer(app)) as client, client.get("/dead-letters", params={"limit": limit}) as answer:
            return answer.status, (await answer.json())["error"]

    status, error = asyncio.run(ask())
    assert status == 400
    assert error.startswith("limit: ")
    assert error.endswith("is not a whole number from 1 to 500")
