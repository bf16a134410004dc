"""Records and keys that try to stop the view: each is answered, counted and passed, and the rest is shown."""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import redis

from surescale.contracts import topics
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.window_history import WindowHistory
from surescale.contracts.windows import WindowCounts, encode_window
from surescale.contracts.wire import encode
from surescale.runtime.http import is_ok
from surescale.services.doctor import checks
from surescale.services.local_stack.servers import LocalRedis
from surescale.services.state import keys
from surescale.services.state.connection import connect, evicts
from surescale.services.state.read.queries import Queries
from surescale.services.state.write import projector as projector_module
from surescale.services.state.write.operations import Operation
from surescale.services.state.write.projections import PROJECTED, Record, project
from surescale.services.state.write.projector import Projector
from surescale.services.state.write.view_store import ViewStore
from tests.support import view_pipeline
from tests.support.builders import JOB, row, topology
from tests.support.view_pipeline import a_pipeline, send
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
    whole = store.dump()
    store.client.hset(store.key(keys.POSITIONS), "decisions/zero", "abc")
    second = Projector(settings, store, view_pipeline.LOG)
    second.catch_up(30)
    second.close()
    assert second.rebuilds == 1
    assert store.dump() == whole


@pytest.mark.parametrize("harm", ["jobs gone", "jobs lost a member", "clusters gone", "floors gone", "another kind", "positions"])
def test_a_view_that_has_lost_keys_is_built_anew(
    settings: PipelineSettings, store: ViewStore, projector: Projector, harm: str
) -> None:
    """Deleted, evicted, or of another kind: no job is missing in silence, and nobody has to delete anything."""
    send(settings, *a_pipeline())
    projector.catch_up(60)
    whole, rebuilds = store.dump(), projector.rebuilds
    jobs = store.key(keys.JOBS)
    match harm:
        case "jobs gone":
            store.client.delete(jobs)
        case "jobs lost a member":
            store.client.srem(jobs, JOB)
        case "clusters gone":
            store.client.delete(store.key(keys.CLUSTERS))
        case "floors gone":
            store.client.delete(store.key(keys.FLOORS))
        case "another kind":
            store.client.set(jobs, "x")
        case _:
            store.client.set(store.key(keys.POSITIONS), "x")
    assert store.positions() is None
    projector.catch_up(60)
    assert (store.dump(), projector.rebuilds) == (whole, rebuilds + 1)
    projector.catch_up(60)
    assert projector.rebuilds == rebuilds + 1


def test_a_key_of_another_kind_is_healed_when_it_is_written_next(
    settings: PipelineSettings, store: ViewStore, projector: Projector
) -> None:
    """The record that met it is not lost, and the view is built anew once."""
    send(settings, *a_pipeline())
    projector.catch_up(60)
    whole, rebuilds = store.dump(), projector.rebuilds
    key = store.key(keys.job(JOB))
    store.client.delete(key)
    store.client.set(key, "x")
    newer = encode(JobSettings(job=JOB, version=99, priority=7))
    send(settings, (topics.JOB_SETTINGS, JOB, newer))
    projector.catch_up(60)
    found = store.dump()
    assert projector.rebuilds == rebuilds + 1
    assert found.keys() == whole.keys()
    kept = Queries(store.client, settings.topic_prefix).job(JOB).settings
    assert kept is not None
    assert kept.record.version == 99


@pytest.mark.parametrize("harm", ["job gone", "job of another kind", "timeline gone", "documents gone", "a document gone"])
def test_a_job_that_lost_keys_is_noticed_and_the_view_built_anew(
    settings: PipelineSettings, service: Callable[..., str], harm: str, tmp_path: Path
) -> None:
    """With no record of that job: the role looks by itself."""
    send(settings, *a_pipeline())
    service()
    health = f"http://127.0.0.1:{settings.health_port}/health"
    wait_until(lambda: is_ok(health), timeout_s=60, what="the view")
    with closing(connect(settings.redis_url)) as client:
        store = ViewStore(client, settings.topic_prefix)
        wait_until(store.is_whole, what="a whole view")
        whole = store.dump()
        job, timeline, bodies = (
            store.key(name) for name in (keys.job(JOB), keys.timeline("decisions", JOB), keys.bodies("decisions", JOB))
        )
        match harm:
            case "job gone":
                client.delete(job)
            case "job of another kind":
                client.delete(job)
                client.set(job, "x")
            case "timeline gone":
                client.delete(timeline)
            case "documents gone":
                client.delete(bodies)
            case _:
                client.hdel(bodies, client.hkeys(bodies)[0])
        assert not store.is_whole()
        log = tmp_path / "state.log"
        wait_until(lambda: "the view in Redis has lost keys of a job" in log.read_text(), timeout_s=60, what="its line")
        wait_until(lambda: store.positions() is not None and store.is_whole() and is_ok(health), timeout_s=60, what="the view")
        assert store.dump() == whole


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
