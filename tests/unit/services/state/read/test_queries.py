"""Queries on a real Redis, over records as other programs may write them."""

import asyncio
from collections.abc import Iterator

import pytest
import redis
from aiohttp.test_utils import TestClient, TestServer

from surescale.contracts import topics
from surescale.contracts.capabilities import Capabilities
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.messages import ClusterTopology, Host
from surescale.contracts.windows import encode_window
from surescale.contracts.wire import encode
from surescale.monitor.prices import PriceHistory
from surescale.services.state import keys
from surescale.services.state.api import make_app
from surescale.services.state.connection import connect
from surescale.services.state.documents import HealthDocument
from surescale.services.state.keys import Keys
from surescale.services.state.read.decision_lines import print_decisions
from surescale.services.state.read.overviews import JOBS_AT_ONCE
from surescale.services.state.read.queries import Queries
from surescale.services.state.read.stored import UnreadableView
from surescale.services.state.read.tables import print_job, print_jobs
from surescale.services.state.text_reader import as_text
from surescale.services.state.write.operations import Operation, Remember, condensed
from surescale.services.state.write.projections import Record, project
from surescale.services.state.write.view_store import ViewStore
from tests.support.builders import JOB, window_at

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
def client(redis_url: str) -> Iterator[redis.Redis]:
    """A Redis that holds the view of a pipeline with all these records."""
    client = connect(redis_url)
    store = ViewStore(client, "sparse-")
    store.flush()
    at = {("decisions", 0): 0}
    assert store.begin(at, None)
    keys_of = {topics.CLUSTER_TOPOLOGY: b"sim"}
    records = (Record(topic, 0, offset, keys_of.get(topic, JOB.encode()), raw, 7) for offset, (topic, raw) in enumerate(RECORDS))
    assert store.write(condensed([operation for record in records for operation in project(record)]), at, at)
    yield client
    store.flush()
    client.close()


@pytest.fixture
def queries(client: redis.Redis) -> Queries:
    """Queries on that view."""
    return Queries(client, "sparse-")


def test_records_without_what_has_a_default_are_shown(queries: Queries, capsys: pytest.CaptureFixture[str]) -> None:
    """Such a record is valid, so readers of the view must not depend on those fields."""
    print_jobs(queries.jobs())
    print_job(queries.job(JOB))
    print_decisions(JOB, queries.decisions(JOB, 10))
    shown = capsys.readouterr().out
    assert "warming 0 learners" in shown
    assert "1 -> 2" in shown


def test_names_with_brackets_are_shown_as_they_are(queries: Queries, capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks of SQL jobs have such names. rich would take brackets for markup and drop them, or fail."""
    print_job(queries.job(JOB))
    shown = capsys.readouterr().out
    assert "in[/x]" in shown
    assert "map(select=[id, n])" in shown


def ask(queries: Queries, path: str) -> tuple[int, str]:
    """Return status and error of the API's answer."""

    async def answered() -> tuple[int, str]:
        app = make_app(queries, unasked_health, redis_url="redis://here")
        async with TestClient(TestServer(app)) as client, client.get(path) as answer:
            return answer.status, (await answer.json())["error"]

    return asyncio.run(answered())


def status_of(queries: Queries, path: str) -> int:
    """Return the status of the API's answer."""

    async def answered() -> int:
        app = make_app(queries, unasked_health, redis_url="redis://here")
        async with TestClient(TestServer(app)) as client, client.get(path) as answer:
            return answer.status

    return asyncio.run(answered())


def reads(client: redis.Redis) -> int:
    """Return how many times Redis has read from its connections."""
    return int(client.info("stats")["total_reads_processed"])


def unasked_health() -> HealthDocument:
    """Fail: this test does not ask for the health."""
    raise AssertionError("nobody asks for the health here")


def test_a_dead_letter_is_listed_once_if_a_scan_names_its_key_twice(
    client: redis.Redis, queries: Queries, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis promises to name every key, not to name it only once: it may repeat keys while it enlarges its table."""
    scan = client.scan_iter
    monkeypatch.setattr(client, "scan_iter", lambda **asked: 2 * list(scan(**asked)))
    assert [letter.record.offset for letter in queries.dead_letters(10)] == [3]


BEGINS = '{"appended_ms":1,"partition":0,"offset":0,"record":'
UNREADABLE = {
    "of another shape": BEGINS + '{"phase":7}}',
    "a number of 5,000 digits": BEGINS + '{"phase":' + "9" * 5_000 + "}}",
    "deeply nested": BEGINS + '{"phase":' + "[" * 5_000 + "]" * 5_000 + "}}",
    "no object": BEGINS + "7}",
    "no JSON": "junk",
    "damaged": "zAAAA",
}
PARTS = ("topology", "settings", "gate", "mappings")


@pytest.mark.parametrize("stored", UNREADABLE.values(), ids=UNREADABLE)
def test_documents_that_cannot_be_read_are_left_out_and_named(client: redis.Redis, queries: Queries, stored: str) -> None:
    """Another version wrote them, or somebody who may write to Redis: the rest of the same job and all other jobs are shown."""
    key = Keys("sparse-")
    for part in PARTS:
        client.hset(key(keys.job("sim/other")), part, stored)
    client.hset(key(keys.job(JOB)), "gate", stored)
    client.hset(key(keys.bodies("outcomes", JOB)), "sim/clicks@60000/sure", stored)
    client.sadd(key(keys.JOBS), "sim/other")
    client.hset(key(keys.CLOCKS), "main", stored)
    job, other = queries.jobs()
    assert (job.job, job.parallelism, job.unreadable) == (JOB, 2, ("outcome", "gate"))
    assert (other.job, other.unreadable) == ("sim/other", ("topology", "settings", "gate"))
    whole = queries.job(JOB)
    assert (whole.topology is not None, whole.gate, whole.unreadable) == (True, None, ("gate",))
    assert queries.decisions(JOB, 1)[0].unreadable == ("outcome",)
    cluster = queries.cluster("sim")
    assert (cluster.jobs, cluster.unreadable) == ((JOB, "sim/other"), ("sim/other",))
    assert queries.cluster_info("sim").unreadable_jobs == ("sim/other",)
    assert queries.clocks() == {}
    for path in ("/jobs", f"/jobs/{JOB}", "/clusters/sim", "/clusters/sim/info", f"/jobs/{JOB}/decisions", "/clocks"):
        assert status_of(queries, path) == 200


def test_a_single_document_that_cannot_be_read_is_an_error_that_says_what_to_do(client: redis.Redis, queries: Queries) -> None:
    """Kafka has everything, so the view can be rebuilt."""
    of = "sim/clicks@60000/sure"
    client.hset(Keys("sparse-")(keys.bodies("decisions", JOB)), of, UNREADABLE["of another shape"])
    with pytest.raises(UnreadableView, match="surescale job list --rebuild"):
        queries.decision(of)
    status, error = ask(queries, f"/decisions/{of}")
    assert status == 503
    assert error.startswith("another version wrote the view")


def test_what_cannot_be_read_is_said_in_the_tables(
    client: redis.Redis, queries: Queries, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gap in a table would look as if nothing had arrived yet."""
    client.hset(Keys("sparse-")(keys.job(JOB)), "gate", "junk")
    print_jobs(queries.jobs())
    print_job(queries.job(JOB))
    assert capsys.readouterr().out.count("sim/clicks: gate cannot be read and is left out") == 2


def test_a_jobs_days_are_summed_once_for_each_minute_and_the_oldest_go(client: redis.Redis) -> None:
    """A window that comes again adds nothing, and a sum that no number holds does not stop the view."""
    store, at = ViewStore(client, "sparse-"), {("decisions", 0): 0}

    def minute(number: int, day: int, slots: int = 3) -> Remember:
        sums = (("minutes", 1), ("slots", slots), ("compared", 1), ("saved", -2))
        return Remember("windows", JOB, str(number), number, b"{}", 240, "windows", day=day, of_day=sums)

    assert store.write([minute(1, 100), minute(2, 100), minute(1, 100)], at, at)
    days = Keys("sparse-")(keys.days(JOB))
    told = {name: int(value) for name, value in as_text(client).hgetall(days).items()}
    assert told == {"100.minutes": 2, "100.slots": 6, "100.compared": 2, "100.saved": -4}
    assert store.write([minute(day, day) for day in range(101, 100 + keys.DAYS_KEPT)], at, at)
    assert client.hexists(days, "100.slots")
    assert store.write([minute(1_000, 100 + keys.DAYS_KEPT), minute(1_001, 100 + keys.DAYS_KEPT, 2**53)], at, at)
    assert not client.hexists(days, "100.slots")
    assert client.hlen(days) == keys.DAYS_KEPT * 4
    assert store.is_whole()


def test_a_jobs_days_cost_what_a_slot_cost_then(client: redis.Redis, queries: Queries) -> None:
    """The last price of a day counts for it, and stays until there is news; days before the first that is known have that one."""
    store, at = ViewStore(client, "sparse-"), {("decisions", 0): 0}
    engine = Capabilities(engine="flink", acts="counts", places="itself")

    def costs(day: int, price: float | None, *, hour: int = 0) -> Record:
        at_ms = (day * 24 + hour) * 60 * MINUTE_MS
        host = Host(host="tm", slots=1) if price is None else Host(host="tm", slots=1, price_per_s=price)
        hosts = ClusterTopology(cluster="sim", version=at_ms, at_ms=at_ms, hosts=(host,), engine=engine)
        return Record(topics.CLUSTER_TOPOLOGY, 0, at_ms, b"sim", encode(hosts), 7)

    told = [costs(101, 1.0), costs(101, 2.0, hour=23), costs(103, None), costs(104, 5.0), costs(104, 5.0, hour=1)]
    minutes = [
        Remember("windows", JOB, str(day), day, b"{}", 240, "windows", day=day, of_day=(("minutes", 1), ("slots", 1)))
        for day in (100, 101, 103, 104)
    ]
    assert store.write(condensed([*(each for record in told for each in project(record)), *minutes]), at, at)
    rent = queries.job(JOB).rent
    assert rent is not None
    assert [day.dollars for day in rent.days] == [300, 120, 120, 120]
    assert rent.month is not None
    assert rent.month.dollars == 660

    assert store.write([each for day in range(105, 200) for each in project(costs(day, 7.0))], at, at)
    prices = Keys("sparse-")(keys.timeline("prices", "sim"))
    assert client.zcard(prices) == keys.DAYS_KEPT + 1
    assert store.is_whole()


def test_a_view_built_from_the_newest_record_of_the_hosts_prices_the_days_alike(client: redis.Redis) -> None:
    """All that its topic keeps; the monitor tells in it what slots have cost."""
    engine, history, at = Capabilities(engine="flink", acts="counts", places="itself"), PriceHistory(), {("decisions", 0): 0}
    records = []
    for day, price in ((100, 1.0), (101, 2.0), (102, 2.0), (104, 5.0)):
        hosts = (Host(host="tm", slots=1, price_per_s=price),)
        at_ms = day * 24 * 60 * MINUTE_MS
        told = history.noted(ClusterTopology(cluster="sim", version=at_ms, at_ms=at_ms, hosts=hosts, engine=engine))
        records.append(Record(topics.CLUSTER_TOPOLOGY, 0, day, b"sim", encode(told), 7))
    sums = (("minutes", 1), ("slots", 1))
    others: list[Operation] = [
        *project(Record(topics.JOB_TOPOLOGY, 0, 1, JOB.encode(), TOPOLOGY, 7)),
        *(Remember("windows", JOB, str(day), day, b"{}", 9, "windows", day=day, of_day=sums) for day in range(99, 106)),
    ]
    dollars = []
    for prefix, read in (("grown-", records), ("rebuilt-", records[-1:])):
        store = ViewStore(client, prefix)
        store.flush()
        assert store.begin(at, None)
        for record in read:
            assert store.write(condensed(list(project(record))), at, at)
        assert store.write(condensed(others), at, at)
        assert store.is_whole()
        rent = Queries(client, prefix).job(JOB).rent
        assert rent is not None
        dollars.append([day.dollars for day in rent.days])
        store.flush()
    assert dollars == [[300, 300, 120, 120, 120, 60, 60]] * 2


def test_an_overview_says_the_same_as_the_whole_job(queries: Queries) -> None:
    """It is read in another way, for many jobs at once."""
    (overview,), whole = queries.jobs(), queries.job(JOB)
    assert whole.rent is not None
    assert whole.decision is not None
    assert whole.decision.outcome is not None
    assert overview.rent_per_day == whole.rent.per_day
    assert (overview.action, overview.outcome) == (whole.decision.record.action, whole.decision.outcome.record.status)


@pytest.mark.parametrize(("wall_minute", "word"), [(12, "overloaded"), (13, "unknown")])
def test_a_job_is_judged_by_a_window_of_at_most_two_minutes(client: redis.Redis, wall_minute: int, word: str) -> None:
    """By the wall's clock where the pipeline has no other; in the overview and on the job's own page."""
    window = Record(topics.SNAPSHOTS, 0, 0, JOB.encode(), encode_window(window_at(10)), 7)
    assert ViewStore(client, "sparse-").write(condensed(list(project(window))), {("snapshots", 0): 1}, {("decisions", 0): 0})
    queries = Queries(client, "sparse-", wall_ms=lambda: wall_minute * MINUTE_MS)
    (overview,), whole = queries.jobs(), queries.job(JOB)
    assert (overview.status, whole.status) == (word, word)
    assert whole.conditions[-1].status is (word != "unknown")


def test_a_job_that_ended_leaves_the_list_after_a_day(client: redis.Redis) -> None:
    """Such as one that has another name now; pages stay full, and its own page remains."""
    names = ("sim/a-renamed", "sim/b-failed", "sim/renamed")
    states = (b"finished", b"failed", b"finished")
    bodies = [TOPOLOGY.replace(b"sim/clicks", name.encode()) for name in names]
    ended = [body[:-1] + b',"state":"%b"}' % state for body, state in zip(bodies, states, strict=True)]
    records = [Record(topics.JOB_TOPOLOGY, 0, at, names[at].encode(), raw, 7) for at, raw in enumerate(ended)]
    operations = condensed([operation for record in records for operation in project(record)])
    assert ViewStore(client, "sparse-").write(operations, {("snapshots", 0): 1}, {("decisions", 0): 0})
    a_day, later = (Queries(client, "sparse-", wall_ms=lambda minutes=minutes: minutes * MINUTE_MS) for minutes in (1_440, 1_441))
    assert [each.job for each in a_day.jobs()] == ["sim/a-renamed", "sim/b-failed", JOB, "sim/renamed"]
    assert [each.job for each in later.jobs()] == ["sim/b-failed", JOB]
    assert [each.job for each in later.jobs(limit=2)] == ["sim/b-failed", JOB]
    assert [each.job for each in later.jobs(after="sim/b-failed", limit=5)] == [JOB]
    assert later.job("sim/renamed").status == "ended"


def test_the_figures_of_tasks_are_those_of_the_latest_decision(queries: Queries) -> None:
    """Also of a job that has none; of those that are asked for alone."""
    found, left_out = queries.task_figures([JOB, "sim/unknown"])
    assert [(each.job, each.task, each.desired) for each in found] == [
        (JOB, "in[/x]", 2), (JOB, "map(select=[id, n])", None),
    ]  # fmt: skip
    assert left_out == 0
    assert queries.task_figures([]) == ([], 0)


@pytest.mark.parametrize("jobs", [0, 1, 2 * JOBS_AT_ONCE + 1])
def test_overviews_are_read_for_many_jobs_at_once(client: redis.Redis, queries: Queries, jobs: int) -> None:
    """Three round trips for each part of the jobs: none of them asks once a job."""
    if jobs > 1:
        client.sadd(Keys("sparse-")(keys.JOBS), *[f"sim/j{number:04}" for number in range(jobs - 1)])
    elif not jobs:
        client.delete(Keys("sparse-")(keys.JOBS))
    before = reads(client)
    assert len(queries.jobs()) == jobs
    assert reads(client) - before <= 20 + jobs // 5  # Redis reads a long round trip in several pieces


@pytest.mark.parametrize("limit", ["0", "501", "-1", "x", "9" * 5_000])
def test_an_invalid_limit_is_a_bad_request(queries: Queries, limit: str) -> None:
    """Also one with more digits than Python converts."""

    status, error = ask(queries, f"/dead-letters?limit={limit}")
    assert status == 400
    assert error.startswith("limit: ")
    assert error.endswith("is not a whole number from 1 to 500")
