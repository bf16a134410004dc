"""Records and keys that try to stop the view: each is answered, counted and passed, and the rest is shown."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
import redis
from aiohttp import ClientSession, TCPConnector

from surescale.contracts import topics
from surescale.contracts.capabilities import Capabilities
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import Balance
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClockSegment, ClusterTopology, Host
from surescale.contracts.releases import Release
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import WindowCounts, encode_window
from surescale.contracts.wire import encode
from surescale.runtime.http import is_ok
from surescale.services.doctor import checks
from surescale.services.local_stack.servers import LocalRedis
from surescale.services.state import keys
from surescale.services.state.connection import connect, evicts
from surescale.services.state.http.answers import LARGE_OF_CLIENT_MAX
from surescale.services.state.read.queries import Queries
from surescale.services.state.write import projector as projector_module
from surescale.services.state.write.operations import Operation
from surescale.services.state.write.projections import PROJECTED, Record, project
from surescale.services.state.write.projector import Projector
from surescale.services.state.write.view_store import ViewStore
from tests.support import view_pipeline
from tests.support.builders import JOB, row, topology
from tests.support.shadow_records import shadow_decision
from tests.support.view_pipeline import a_pipeline, dumped, send
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
settings, store, projector = view_pipeline.settings, view_pipeline.store, view_pipeline.projector
service, processes = view_pipeline.service, view_pipeline.processes

_SETTINGS = encode(JobSettings(job=JOB, version=9))
HOSTILE = (
    b"",
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"type":' + b"9" * 4_301 + b"}",
    b'{"x":1e999}',
    _SETTINGS[:-1] + b',"note":' + b"9" * 5_000 + b"}",
    _SETTINGS[:-1] + b',"note":' + b"[" * 900 + b"]" * 900 + b"}",
    _SETTINGS.replace(b'"priority":0', b'"priority":' + b"9" * 4_000),
    b'{"type":"rescaler-state/1","cluster":"x","kind":"cluster","id":"placement","at_ms":1,"body":{"placement_generation":1e999}}',
    b'{"type":"rescaler-state/1","cluster":"sim","kind":"cluster","id":"topology","at_ms":1,"body":{"x":1}}',
)


def test_hostile_records_on_every_topic_leave_the_rest_of_the_view_as_it_is(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """Whatever lies in a record and in its key: the projector goes on, and what others wrote is shown."""
    hostile = [(topic, key, raw) for topic in PROJECTED for raw in HOSTILE for key in ("x" * 30_000, "sim/cluster/topology")]
    send(settings, *hostile, *[(topics.RESCALER_STATE, "sim/cluster/topology", None)], *a_pipeline())
    projector.catch_up(60)
    queries = Queries(store.client, settings.topic_prefix)
    assert [job.job for job in queries.jobs()] == [JOB]
    assert queries.cluster("sim").topology is not None
    assert queries.counts()["windows"] == 60
    assert projector.unreadable.total() > 100


def test_a_record_that_breaks_its_projection_is_counted_and_passed(
    settings: PipelineSettings, store: ViewStore, projector: Projector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistake of ours at one record must not stop the view for as long as Kafka keeps the record."""

    def breaks_at_decisions(record: Record) -> tuple[Operation, ...]:
        if record.topic == topics.DECISIONS:
            raise ValueError("unforeseen")
        return project(record)

    monkeypatch.setattr(projector_module, "project", breaks_at_decisions)
    send(settings, *a_pipeline())
    projector.catch_up(30)
    counts = Queries(store.client, settings.topic_prefix).counts()
    assert counts["unreadable"] == {"decisions": 8}
    assert counts["windows"] == 60


def test_counts_that_would_overflow_stay_as_they_are(settings: PipelineSettings, store: ViewStore, projector: Projector) -> None:
    """Windows may claim 2^53 samples each; Redis counts to 2^63."""
    history, claimed = WindowHistory(JOB, 1), WindowCounts(samples=2**53)
    windows = [
        encode_window(history.close(minute * MINUTE_MS, {"source": row(records_in=1)}, topology(), counts=claimed))
        for minute in range(1, 1_101)
    ]
    send(settings, *[(topics.SNAPSHOTS, JOB, raw) for raw in windows])
    projector.catch_up(60)
    counts = Queries(store.client, settings.topic_prefix).counts()
    assert counts["windows"] == 1_100
    assert 2**60 < int(str(counts["metrics"])) < 2**63


def test_offsets_that_are_none_make_the_view_be_rebuilt(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """Another program wrote among them: the view cannot know what it covers."""
    send(settings, *a_pipeline())
    projector.catch_up(30)
    whole = dumped(store)
    store.client.hset(store.key(keys.POSITIONS), "decisions/zero", "abc")
    second = Projector(settings, store, view_pipeline.LOG)
    second.catch_up(30)
    second.close()
    assert second.rebuilds == 1
    assert dumped(store) == whole


@pytest.mark.parametrize("harm", ["jobs gone", "jobs lost a member", "clusters gone", "sizes gone", "another kind", "positions"])
def test_a_view_that_has_lost_keys_is_built_anew(
    settings: PipelineSettings, store: ViewStore, projector: Projector, harm: str
) -> None:
    """Deleted, evicted, or of another kind: no job is missing in silence, and nobody has to delete anything."""
    send(settings, *a_pipeline())
    projector.catch_up(60)
    whole, rebuilds = dumped(store), projector.rebuilds
    jobs = store.key(keys.JOBS)
    match harm:
        case "jobs gone":
            store.client.delete(jobs)
        case "jobs lost a member":
            store.client.srem(jobs, JOB)
        case "clusters gone":
            store.client.delete(store.key(keys.CLUSTERS))
        case "sizes gone":
            store.client.delete(store.key(keys.SIZES))
        case "another kind":
            store.client.set(jobs, "x")
        case _:
            store.client.set(store.key(keys.POSITIONS), "x")
    assert store.positions() is None
    projector.catch_up(60)
    assert (dumped(store), projector.rebuilds) == (whole, rebuilds + 1)
    projector.catch_up(60)
    assert projector.rebuilds == rebuilds + 1


def of_every_kind() -> list[tuple[str, str, msgspec.Struct | bytes | None]]:
    """Return records that together make keys of every kind."""
    balance = Balance(cluster="sim", generation=1, sequence=0, status="settled", reason="none_better", at_ms=1, hosts_version=1)
    placing = Capabilities(engine="flink", acts="counts", places="itself")
    priced = ClusterTopology(
        cluster="flink", version=1, at_ms=1, hosts=(Host(host="tm", slots=1, price_per_s=1.0),), engine=placing
    )
    return [
        *a_pipeline(),
        (topics.CLUSTER_TOPOLOGY, "flink", priced),
        (topics.CLOCK, "main", ClockSegment(pipeline="main", sequence=0, e0_ms=0, w0_ms=0, speed=1.0, until_ms=1)),
        (topics.POLICY_RELEASES, "sim", Release(cluster="sim", policy="sure", sha256="", valid_from_ms=0)),
        (topics.RESCHEDULE_EVENTS, "sim", balance),
        (topics.SHADOW_DECISIONS, "sim", shadow_decision(1)),
    ]


HARMS = ("gone", "of another kind", "an entry gone", "an entry more")


def harm(store: ViewStore, key: str, how: str) -> None:
    """Do to a key what an eviction or another program does."""
    client, kind = store.client, store.client.type(key)
    if how in ("gone", "of another kind"):
        client.delete(key)
        if how == "of another kind":
            client.set(key, "x")
    elif kind == "hash":
        client.hdel(key, client.hkeys(key)[0]) if how == "an entry gone" else client.hset(key, "other", "x")
    elif kind == "set":
        client.spop(key) if how == "an entry gone" else client.sadd(key, "other")
    else:
        client.zpopmin(key) if how == "an entry gone" else client.zadd(key, {"other": 1})


def test_every_key_that_is_not_what_it_was_is_noticed(settings: PipelineSettings, store: ViewStore, projector: Projector) -> None:
    """Whatever kind of key, and whatever became of it; a timeline that vanished together with its documents too."""
    send(settings, *of_every_kind())
    projector.catch_up(60)
    whole = dumped(store)
    present = {key.removeprefix(store.key("")).partition(":")[0] for key in whole}
    timelines = {f"{name}{part}" for name in keys.TIMELINES for part in ("", ".bodies")}
    assert present > timelines | {keys.JOBS, keys.CLUSTERS, keys.CLOCKS, keys.COUNTS, keys.SIZES, "job", "cluster", "releases"}
    spare = f"spare of {settings.topic_prefix}"
    for key in whole.keys() - {store.key(keys.POSITIONS)}:
        store.client.copy(key, spare, replace=True)
        for how in HARMS:
            harm(store, key, how)
            assert not store.is_whole(), (key, how)
            store.client.copy(spare, key, replace=True)
            assert store.is_whole(), (key, how)
    store.client.delete(spare)
    for name in keys.TIMELINES:
        owned = [key for key in whole if key.startswith((store.key(f"{name}:"), store.key(f"{name}.")))]
        assert len(owned) in (2, 3)
        saved = {key: dumped(store)[key] for key in owned}
        store.client.delete(*owned)
        assert not store.is_whole(), name
        store.give_up()
        projector.catch_up(60)
        assert {key: dumped(store)[key] for key in owned} == saved
    assert dumped(store) == whole


@pytest.mark.parametrize("how", ["gone", "of another kind", "an entry gone"])
def test_a_key_that_lost_something_is_not_taken_for_whole_when_it_is_written_next(
    settings: PipelineSettings, store: ViewStore, projector: Projector, how: str
) -> None:
    """The record that met it is not lost, and the view is built anew once."""
    send(settings, *a_pipeline())
    projector.catch_up(60)
    whole, rebuilds = dumped(store), projector.rebuilds
    harm(store, store.key(keys.job(JOB)), how)
    newer = encode(JobSettings(job=JOB, version=99, priority=7))
    send(settings, (topics.JOB_SETTINGS, JOB, newer))
    projector.catch_up(60)
    found = dumped(store)
    assert projector.rebuilds == rebuilds + 1
    assert found.keys() == whole.keys()
    assert store.is_whole()
    kept = Queries(store.client, settings.topic_prefix).job(JOB).settings
    assert kept is not None
    assert kept.record.version == 99


OF_A_JOB = tuple(keys.timeline("decisions", JOB).replace("decisions", f"decisions{part}") for part in ("", ".bodies"))
LOST = {
    "a job": (keys.job(JOB),),
    "a cluster": (keys.cluster("sim"),),
    "a timeline": OF_A_JOB[:1],
    "its documents": OF_A_JOB[1:],
    "a timeline with its documents": OF_A_JOB,
    "dead letters with their documents": (keys.timeline("dead-letters", "*"), keys.bodies("dead-letters", "*")),
}


@pytest.mark.parametrize("lost", LOST)
def test_keys_that_are_lost_are_noticed_and_the_view_built_anew(
    settings: PipelineSettings, service: Callable[..., str], lost: str, tmp_path: Path
) -> None:
    """With no further record: the role looks by itself."""
    send(settings, *a_pipeline())
    service()
    health = f"http://127.0.0.1:{settings.health_port}/health"
    wait_until(lambda: is_ok(health), timeout_s=60, what="the view")
    with closing(connect(settings.redis_url)) as client:
        store = ViewStore(client, settings.topic_prefix)
        wait_until(lambda: client.hget(store.key(keys.COUNTS), "windows") == "60", what="the whole view")
        whole = dumped(store)
        owned = [key for name in LOST[lost] for key in client.keys(store.key.pattern(name))]
        assert client.delete(*owned) >= len(LOST[lost])
        built_anew(store, whole, health, tmp_path / "state.log")


def built_anew(store: ViewStore, whole: dict[str, object], health: str, log: Path) -> None:
    """Wait until the role has said that keys are lost, and the view is what it was."""
    assert not store.is_whole()
    wait_until(lambda: "the view in Redis has lost keys" in log.read_text(), timeout_s=60, what="its line")
    wait_until(lambda: store.positions() is not None and store.is_whole() and is_ok(health), timeout_s=60, what="the view")
    wait_until(lambda: dumped(store) == whole, timeout_s=60, what="what it was")


@pytest.fixture
def evicting(tmp_path: Path) -> Iterator[redis.Redis]:
    """A Redis of its own that drops keys when it is full."""
    server = LocalRedis(tmp_path / "redis")
    server.start()
    try:
        server.wait_ready()
        with closing(connect(server.url)) as client:
            client.config_set("maxmemory", "64mb")
            client.config_set("maxmemory-policy", "allkeys-lru")
            yield client
    finally:
        server.stop()


def address(client: redis.Redis) -> str:
    """Return the address of a local server."""
    return f"redis://127.0.0.1:{client.connection_pool.connection_kwargs['port']}/0"


@pytest.mark.parametrize(("policy", "verdict"), [("allkeys-lru", "problem"), ("volatile-lru", "problem"), ("noeviction", "ok")])
def test_the_doctor_names_a_redis_that_drops_keys(evicting: redis.Redis, policy: str, verdict: str) -> None:
    """Whatever the policy chooses them by; where no limit is set it never comes into force."""
    evicting.config_set("maxmemory-policy", policy)
    found, *_ = checks.view(PipelineSettings(redis_url=address(evicting)))
    assert (found.verdict, bool(evicts(evicting))) == (verdict, verdict == "problem")
    if verdict != "ok":
        assert f"maxmemory-policy {policy}" in found.detail
        assert "noeviction" in found.remedy
    evicting.config_set("maxmemory", "0")
    found, *_ = checks.view(PipelineSettings(redis_url=address(evicting)))
    assert (found.verdict, evicts(evicting)) == ("ok", "")


def test_a_redis_that_drops_keys_is_refused_until_it_no_longer_does(
    settings: PipelineSettings, service: Callable[..., str], evicting: redis.Redis, tmp_path: Path
) -> None:
    """The role says so in one line and is not ready; then it builds the view anew, since nobody knows what is missing."""
    send(settings, *a_pipeline())
    service(SURESCALE_REDIS_URL=address(evicting))
    log = tmp_path / "state.log"
    said = "it drops keys when it is full (maxmemory-policy allkeys-lru); set noeviction there"
    wait_until(lambda: said in log.read_text(), timeout_s=60, what="the refusal")
    health = f"http://127.0.0.1:{settings.health_port}/health"
    assert not is_ok(health)
    assert evicting.keys("*") == []
    evicting.config_set("maxmemory-policy", "noeviction")
    wait_until(lambda: is_ok(health), timeout_s=60, what="the view")
    assert Queries(evicting, settings.topic_prefix).job_ids() == [JOB]
    assert "Traceback" not in log.read_text()


def test_keys_that_redis_drops_while_it_is_full_come_back(
    settings: PipelineSettings, service: Callable[..., str], evicting: redis.Redis, tmp_path: Path
) -> None:
    """Even where it drops them between two looks of the role, and nobody else writes."""
    evicting.config_set("maxmemory-policy", "noeviction")
    send(settings, *a_pipeline())
    service(SURESCALE_REDIS_URL=address(evicting))
    health = f"http://127.0.0.1:{settings.health_port}/health"
    wait_until(lambda: is_ok(health), timeout_s=60, what="the view")
    store = ViewStore(evicting, settings.topic_prefix)
    wait_until(lambda: evicting.hget(store.key(keys.COUNTS), "windows") == "60", what="the whole view")
    whole = dumped(store)
    evicting.config_set("maxmemory-policy", "allkeys-random")
    evicting.config_set("maxmemory", int(evicting.info("memory")["used_memory"]) - 4_096)
    wait_until(lambda: evicting.set("filler", "x") and int(evicting.info("stats")["evicted_keys"]) > 2, what="an eviction")
    evicting.config_set("maxmemory", "0")
    evicting.delete("filler")
    wait_until(lambda: store.positions() is not None and store.is_whole() and is_ok(health), timeout_s=60, what="the view")
    wait_until(lambda: dumped(store) == whole, timeout_s=60, what="what it was")


def test_a_reader_that_asks_for_many_lists_holds_up_nobody_who_asks_for_little(
    settings: PipelineSettings, service: Callable[..., str]
) -> None:
    """Some are refused, with when to ask again; all others are answered, and so is what is small meanwhile."""
    send(settings, *a_pipeline())
    url = service()
    wait_until(lambda: is_ok(f"{url}/health"), 60, "a ready state service")
    statuses, small = Counter[int](), list[int]()

    async def run() -> None:
        async with ClientSession(connector=TCPConnector(limit=0)) as client:

            async def ask(path: str) -> int:
                async with client.get(url + path) as answer:
                    await answer.read()
                    assert answer.status == 200 or answer.headers["Retry-After"] == "1"
                    return answer.status

            paths = [f"/jobs/{JOB}/{what}?limit={limit}" for limit in range(1, 151) for what in ("decisions", "commands")]
            many = [asyncio.create_task(ask(path)) for path in paths]
            while not all(each.done() for each in many):
                small.extend([await ask("/health"), await ask(f"/jobs/{JOB}"), await ask("/counts")])
            statuses.update(await asyncio.gather(*many))
            assert await ask(f"/jobs/{JOB}/history") == 200

    asyncio.run(asyncio.wait_for(run(), 240))
    assert set(statuses) == {200, 429}
    assert statuses[200] >= LARGE_OF_CLIENT_MAX
    assert len(small) >= 3
    assert set(small) == {200}
