"""The source as a whole: its jobs, what they are asked to be, what the actuator can do, and files that contradict each other."""

import json
from pathlib import Path
from typing import Any

import pytest

from surescale.contracts.errors import SettingsError
from surescale.engines.groups.chains import read_chains
from surescale.engines.kubernetes import KUBERNETES
from surescale.engines.ports.source import UnknownJob
from surescale.engines.processes import PROCESSES
from surescale.engines.processes.worker_store import WorkerStore
from surescale.engines.prometheus.source import PrometheusSource
from surescale.engines.registry import source_of
from surescale.monitor.settings import MonitorSettings
from tests.ports.source_contract import assert_ends
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_prometheus import fake_prometheus
from tests.support.kubernetes_rig import shipped_rules
from tests.support.role_settings import role_settings
from tests.support.set_clock import SetClock

NOW_MS = 1_700_000_039_500


def files(folder: Path, groups: dict[str, Any]) -> dict[str, str]:
    """Return the settings of two files that know the job ``orders``: in Prometheus with the tasks parse and count."""
    figures = {"records_in": "in", "records_out": "out"}
    job = {"subtask": ["pod"], "tasks": {"parse": {}, "count": {"upstream": ["parse"]}}, "figures": figures}
    (folder / "jobs.json").write_text(json.dumps({"orders": job, "clicks": job}))
    (folder / "groups.json").write_text(json.dumps({"orders": {"groups": groups}}))
    return {"prometheus_file": str(folder / "jobs.json"), "groups_file": str(folder / "groups.json")}


def of(**more: Any) -> PrometheusSource:
    """Return the source that settings name."""
    source = source_of(role_settings(MonitorSettings, engine="kafka", source="prometheus", cluster="shop", **more))
    assert isinstance(source, PrometheusSource)
    return source


def test_the_jobs_are_those_of_the_file_that_are_to_be_watched(tmp_path: Path) -> None:
    """No request is made for them."""
    known = files(tmp_path, {"parse": {}, "count": {}})
    assert of(**known).jobs() == ["shop/clicks", "shop/orders"]
    source = of(**known, jobs="o*")
    assert source.jobs() == ["shop/orders"]
    with pytest.raises(UnknownJob, match="name it in SURESCALE_PROMETHEUS_FILE"):
        source.minutes("shop/clicks", 0)


@pytest.mark.parametrize(
    ("job", "engine", "has_left"),
    [
        ("shop/order-totals", "kafka", True),
        ("shop/orders", "kafka", False),
        ("shop/clicks", "kafka", False),  # in the file, and another monitor's
        ("shop/returns", "kafka", False),  # not in the file, and another monitor's
        ("else/order-totals", "kafka", False),
        ("shop/order-totals", "flink", False),
    ],
)
def test_a_job_that_left_the_file_has_ended(tmp_path: Path, job: str, engine: str, has_left: bool) -> None:
    """It had another name before the monitor was started again, and must not seem silent for ever."""
    source = of(**files(tmp_path, {"parse": {}, "count": {}}), jobs="o*")
    assert_ends(source, job, engine, has_left=has_left)


def test_without_an_actuator_jobs_are_only_watched(tmp_path: Path) -> None:
    """Whatever their engine is."""
    file = files(tmp_path, {"parse": {}, "count": {}})["prometheus_file"]
    assert of(prometheus_file=file).cluster_topology().engine.acts == "none"
    flink = source_of(
        role_settings(MonitorSettings, engine="flink", actuator="none", source="prometheus", cluster="shop", prometheus_file=file)
    ).cluster_topology()
    assert flink is not None
    assert (flink.engine.engine, flink.engine.acts, flink.hosts) == ("flink", "none", ())


def test_what_workers_are_asked_to_be_stands_beside_what_runs(tmp_path: Path) -> None:
    """Of processes on this machine and of pods alike."""
    command = {"workers": {"command": ["true"]}}
    known = files(tmp_path, {"parse": command, "count": command})
    with fake_prometheus() as prometheus:
        prometheus.series = {name: [({"task": task, "pod": task}, 1.0) for task in ("parse", "count")] for name in ("in", "out")}
        prometheus.now_s = lambda: NOW_MS / 1000
        folder = str(tmp_path / "workers")
        settings = role_settings(
            MonitorSettings,
            engine="kafka",
            source="prometheus",
            actuator="processes",
            cluster="shop",
            workers_folder=folder,
            prometheus_url=prometheus.url,
            **known,  # type: ignore[arg-type]
        )
        source = PrometheusSource(settings, lambda _: SetClock(NOW_MS))
        assert source.cluster_topology().engine == PROCESSES
        store = WorkerStore(Path(folder), "shop")
        first = store.deploy(read_chains(tmp_path / "groups.json")["orders"])
        required = store.change("orders", first, {"parse": 3, "count": 2})
        assert required is not None
        topology = source.follow("shop/orders").look().topology
        assert [(spec.parallelism, spec.required) for spec in topology.tasks] == [(1, 3), (1, 2)]
        assert (topology.epoch, topology.requirement_id) == (required.epoch, required.id)
        unknown = source.follow("shop/clicks").look().topology
        assert [spec.required for spec in unknown.tasks] == [None, None]
        source.close()


def test_pods_are_asked_for_through_the_cluster(tmp_path: Path) -> None:
    """With the rights of the monitor that is shipped."""
    server = FakeApiServer(rules=shipped_rules("surescale-monitor"), asks_token=False)
    for task in ("parse", "count"):
        server.deploy(task, 4)
    known = files(tmp_path, {task: {"kubernetes": {"namespace": "shop", "name": task}} for task in ("parse", "count")})
    with server.serving() as answering, fake_prometheus() as prometheus:
        prometheus.series = {name: [({"task": task, "pod": task}, 1.0) for task in ("parse", "count")] for name in ("in", "out")}
        prometheus.now_s = lambda: NOW_MS / 1000
        settings = role_settings(
            MonitorSettings,
            engine="kafka",
            source="prometheus",
            actuator="kubernetes",
            cluster="shop",
            kubernetes_url=answering.url,
            prometheus_url=prometheus.url,
            **known,  # type: ignore[arg-type]
        )
        source = PrometheusSource(settings, lambda _: SetClock(NOW_MS))
        assert source.cluster_topology().engine == KUBERNETES
        assert [spec.required for spec in source.follow("shop/orders").look().topology.tasks] == [4, 4]
        source.close()


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        ({"parse": {}}, "SURESCALE_GROUPS_FILE: orders has no task count, which the other file has"),
        ({"parse": {}, "count": {}, "sink": {}}, "SURESCALE_PROMETHEUS_FILE: orders has no task sink, which the other file has"),
    ],
)
def test_two_files_must_know_the_same_tasks(tmp_path: Path, groups: dict[str, Any], said: str) -> None:
    """What is asked for is held against what runs, task by task."""
    with pytest.raises(SettingsError, match=f"{said}; give both the same tasks"):
        of(**files(tmp_path, groups))
