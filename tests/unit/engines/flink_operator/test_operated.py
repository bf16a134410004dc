"""Jobs of the Flink operator as both sources of Flink's figures see them: what the resource asks for stands beside what runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.engines.flink.source import FlinkSource
from surescale.engines.flink_operator.actuator import FlinkOperatorEngine
from surescale.engines.groups.workers import WorkerTopology
from surescale.engines.ports.source import SourceUnavailable
from surescale.engines.prometheus.source import PrometheusSource
from surescale.engines.registry import actuator_of
from surescale.monitor.settings import MonitorSettings
from surescale.rescaler.service.settings import RescalerSettings
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_flink import FakeFlink, QuickClock, fake_flink
from tests.support.fake_objects import FakeObject
from tests.support.fake_operator import KEY, FakeOperator, flink_deployment
from tests.support.flink_source import job_of
from tests.support.role_settings import role_settings

SOURCE = "ca88eee0095684d687a1b6495617f957"
FILE = '[orders]\nnamespace = "shop"\nname = "orders"\n'
VERTICES = f'[orders.vertices]\nparse = "{SOURCE}"\n'
JOBS = '[orders]\nmapping = "flink"\n[orders.tasks.parse]\n'


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    """A recorded cluster with a job of the name."""
    with fake_flink("2.3.0", "running") as server:
        yield server


@pytest.fixture
def server() -> Iterator[tuple[FakeObject, FakeApiServer, str]]:
    """An API server with the job's resource, which asks for 5 subtasks of one vertex."""
    server = FakeApiServer(asks_token=False)
    path = "/apis/flink.apache.org/v1beta1/namespaces/shop/flinkdeployments/orders"
    made = server.objects[path] = FakeObject(path, flink_deployment("shop", "orders", {SOURCE: 5}))
    FakeOperator(lambda: made.document, made.say, lambda: 0).submitted()
    with server.serving() as answering:
        yield made, server, answering.url


def _file(folder: Path, text: str) -> str:
    (folder / "jobs.toml").write_text(text)
    return str(folder / "jobs.toml")


def test_flinks_own_figures_stand_beside_what_the_resource_asks_for(
    flink: FakeFlink, server: tuple[FakeObject, FakeApiServer, str], tmp_path: Path
) -> None:
    """Of a vertex without an override, Flink's own requirement counts. The name is the one that the actuator gives it."""
    made, api, url = server
    shared = {
        "engine": "flink", "actuator": "kubernetes", "engine_url": flink.url, "cluster": "flink", "kubernetes_url": url,
        "flink_resources_file": _file(tmp_path, FILE),
    }  # fmt: skip
    source = FlinkSource(role_settings(MonitorSettings, **shared), QuickClock)
    try:
        source.jobs()
        topology = source.follow("flink/orders").look().topology
        asked = {spec.task: spec.required for spec in topology.tasks}
        assert asked[SOURCE] == 5
        assert set(asked.values()) - {5, None} != set()
        engine = actuator_of(role_settings(RescalerSettings, **shared), 5.0)
        assert isinstance(engine, FlinkOperatorEngine)
        seen = engine.look("flink/orders")
        assert (seen.requirement_id, seen.required) == (topology.requirement_id, asked)
        made.merge({"spec": {"flinkConfiguration": {KEY: f"{SOURCE}:6"}}}, "kubectl-edit")
        changed = source.follow("flink/orders").look().topology
        assert changed.requirement_id != topology.requirement_id
        assert next(spec.required for spec in changed.tasks if spec.task == SOURCE) == 6
        api.is_away = True
        with pytest.raises(SourceUnavailable, match=r"answers 503.*; until then its figures are unknown and it is held"):
            source.follow("flink/orders").look()
    finally:
        source.close()


@pytest.fixture
def default_scheduler() -> Iterator[FakeFlink]:
    """A cluster whose scheduler tells no requirement, with the figures of another one."""
    running = FakeFlink("2.3.0", "running")
    with fake_flink("2.3.0", "default-scheduler") as server:
        own, other = job_of(server, "orders"), job_of(running)
        figures = {asked.replace(other, own): given for asked, given in running.answers.items() if "/vertices/" in asked}
        server.answers = running.answers | server.answers | figures
        scheduler = next(each for each in server.body("GET /jobmanager/config") if each["key"] == "jobmanager.scheduler")
        scheduler["value"] = "default"
        yield server


def test_a_job_that_is_upgraded_can_be_sized_under_any_scheduler(
    default_scheduler: FakeFlink, server: tuple[FakeObject, FakeApiServer, str], tmp_path: Path
) -> None:
    """Where the file allows it. Its minutes tell how long an upgrade stops it: a new JobManager knows nothing of it."""
    made, _, url = server
    made.merge({"spec": {"flinkConfiguration": {"jobmanager.scheduler": None}}}, "kubectl-edit")
    found = {}
    for allows in ("", 'rescale = "upgrade"\n'):
        shared = {
            "engine": "flink", "actuator": "kubernetes", "engine_url": default_scheduler.url, "cluster": "flink",
            "kubernetes_url": url, "flink_resources_file": _file(tmp_path, FILE + allows),
        }  # fmt: skip
        source = FlinkSource(role_settings(MonitorSettings, **shared), QuickClock)
        try:
            source.jobs()
            first = source.follow("flink/orders").look().topology
            can = source.cluster_topology().engine
            found[bool(allows)] = (can.acts, can.takes_effect, {spec.scalable for spec in first.tasks})
            if not allows:
                continue
            engine = actuator_of(role_settings(RescalerSettings, **shared), 5.0)
            seen = engine.look("flink/orders")
            assert (seen.requirement_id, seen.required) == (first.requirement_id, {s.task: s.required for s in first.tasks})
            assert {spec.task: spec.required for spec in first.tasks}[SOURCE] == 5
            detail = default_scheduler.body(f"GET /jobs/{job_of(default_scheduler, 'orders')}")
            detail["timestamps"]["CREATED"] += 60_000
            detail["timestamps"]["RUNNING"] += 60_000
            detail["now"] += 120_000
            detail["vertices"][0]["parallelism"] += 1
            later = source.follow("flink/orders").look().topology
            assert (later.attempt, later.restart_ms) == (first.attempt + 60_000, None)
        finally:
            source.close()
    assert found == {False: ("none", "checkpoint", {False}), True: ("counts", "restart", {True})}


def test_prometheus_figures_go_with_the_operator(server: tuple[FakeObject, FakeApiServer, str], tmp_path: Path) -> None:
    """By the names of its tasks; nothing is asked of Flink."""
    made, _, url = server
    (tmp_path / "prometheus.toml").write_text(JOBS)
    shared = {
        "engine": "flink", "actuator": "kubernetes", "source": "prometheus", "kubernetes_url": url,
        "flink_resources_file": _file(tmp_path, FILE + VERTICES), "cluster": "flink", "engine_url": "http://127.0.0.1:1",
    }  # fmt: skip
    settings = role_settings(MonitorSettings, **shared, prometheus_file=str(tmp_path / "prometheus.toml"))
    PrometheusSource(settings).close()
    workers = WorkerTopology(settings)
    try:
        required = workers.requirements.required("orders")
        assert required is not None
        assert (dict(required.counts), required.epoch) == ({"parse": 5}, "0" * 31 + "1")
        assert workers.requirements.required("somebody else's") is None
        can = workers.topology().engine
        assert can is not None
        assert (can.engine, can.acts) == ("flink", "counts")
        engine = actuator_of(role_settings(RescalerSettings, **shared), 5.0)
        seen = engine.look("flink/orders")
        assert (seen.requirement_id, seen.running, engine.capabilities()) == (required.id, {"parse": 5}, can)
        made.merge({"spec": {"flinkConfiguration": {KEY: "5"}}}, "kubectl-edit")
        with pytest.raises(
            SourceUnavailable, match="is not a map like VERTEX:4,VERTEX:2; correct it; until then its figures are"
        ):
            workers.requirements.required("orders")
    finally:
        workers.requirements.close()


def test_tasks_without_a_vertex_are_refused_when_the_monitor_starts(
    server: tuple[FakeObject, FakeApiServer, str], tmp_path: Path
) -> None:
    """Not when the first command fails."""
    (tmp_path / "prometheus.toml").write_text(JOBS)
    settings = role_settings(
        MonitorSettings,
        engine="flink",
        actuator="kubernetes",
        source="prometheus",
        kubernetes_url=server[2],
        flink_resources_file=_file(tmp_path, FILE),
        prometheus_file=str(tmp_path / "prometheus.toml"),
    )
    with pytest.raises(SettingsError, match=r"orders\.vertices\.parse: not set, and 'parse' is not a vertex id of Flink"):
        PrometheusSource(settings)
