"""The settings choose the source and the actuator; each is found by its engine's entry point."""

import json
import sys
from pathlib import Path

import pytest

from surescale.contracts.errors import SettingsError
from surescale.engines.compose.actuator import ComposeEngine
from surescale.engines.kubernetes.actuator import KubernetesEngine
from surescale.engines.ports.actuator import EngineApi, EngineRefused, EngineUnavailable
from surescale.engines.processes import reconcile
from surescale.engines.processes.actuator import ProcessesEngine
from surescale.engines.processes.worker_store import WorkerStore
from surescale.engines.registry import actuator_of
from surescale.engines.simulated.actuator import EngineHttp
from surescale.rescaler.service.settings import RescalerSettings
from tests.support.fake_jobmanager import FakeJobManager
from tests.support.role_settings import role_settings
from tests.support.waiting import wait_until
from tests.support.worker_processes import kill_all


def made_by(settings: RescalerSettings) -> EngineApi:
    """Return the actuator that a rescaler uses."""
    return actuator_of(settings, settings.engine_timeout_ms / 1_000)


def test_the_simulated_engine_is_the_default() -> None:
    """Over its HTTP interface."""
    assert isinstance(made_by(RescalerSettings()), EngineHttp)


def test_flink_is_asked_with_the_token_and_within_the_time(tmp_path: Path) -> None:
    """The token's file may change while the process runs; without it nobody asks."""
    token = tmp_path / "token"
    token.write_text("first\n")
    played = FakeJobManager()
    with played.serving() as server:
        engine = made_by(RescalerSettings(engine="flink", engine_url=server.url, engine_token_file=str(token)))
        assert engine.capabilities().engine == "flink"
        assert {asked.headers["Authorization"] for asked in server.asked} == {"Bearer first"}
        token.unlink()
        with pytest.raises(EngineUnavailable, match="SURESCALE_ENGINE_TOKEN_FILE"):
            engine.look("sim/orders")


def test_without_an_actuator_every_command_is_refused() -> None:
    """Such a cluster is watched and advised about."""
    engine = made_by(RescalerSettings(engine="kafka"))
    assert (engine.capabilities().engine, engine.capabilities().acts) == ("kafka", "none")
    with pytest.raises(EngineRefused, match="NO_ACTUATOR: SURESCALE_ACTUATOR is none; name one"):
        engine.look("sim/orders")


def test_processes_are_started_as_the_groups_file_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any command, and in the file's own folder."""
    monkeypatch.setattr(reconcile, "STEADY_S", 1.0)
    command = [sys.executable, "-c", "import pathlib, time; pathlib.Path('here').touch(); time.sleep(600)"]
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"shop": {"groups": {"parse": {"workers": {"command": command}}}}}))
    folder = tmp_path / "workers"
    engine = made_by(
        role_settings(
            RescalerSettings, engine="kafka", actuator="processes", groups_file=str(file), workers_folder=str(folder), cluster="c"
        )
    )
    assert isinstance(engine, ProcessesEngine)
    engine.start()
    try:
        wait_until((tmp_path / "here").exists, what="the worker")
        assert engine.look("c/shop").required == {"parse": 1}
        wait_until(lambda: engine.look("c/shop").running == {"parse": 1}, what="the worker to have run for a while")
        with pytest.raises(EngineRefused, match="UNKNOWN_JOB: SURESCALE_GROUPS_FILE has no job 'orders'"):
            engine.look("c/orders")
    finally:
        engine.stop()
        kill_all(WorkerStore(folder, "c"))


def test_compose_is_asked_as_the_groups_file_says(tmp_path: Path) -> None:
    """Over a socket of this machine; every group of a job has a service, or none has."""
    file, service = tmp_path / "groups.json", {"project": "shop", "service": "parse"}
    groups: dict[str, object] = {"parse": {"compose": service}}
    file.write_text(json.dumps({"shop": {"groups": groups}}))
    url = f"unix://{tmp_path}/docker.sock"
    settings = role_settings(
        RescalerSettings, engine="kafka", actuator="compose", groups_file=str(file), compose_url=url, cluster="c"
    )
    engine = made_by(settings)
    assert isinstance(engine, ComposeEngine)
    engine.start()
    try:
        with pytest.raises(
            EngineUnavailable, match=r"docker\.sock/version: No such file or directory; start the engine, or set SURESC"
        ):
            engine.look("c/shop")
    finally:
        engine.stop()
    groups["count"] = {}
    file.write_text(json.dumps({"shop": {"groups": groups}}))
    with pytest.raises(SettingsError, match=r"SURESCALE_GROUPS_FILE: shop\.groups\.count\.compose: not set, though other"):
        made_by(settings)


def test_kubernetes_is_asked_as_the_groups_file_says(tmp_path: Path) -> None:
    """Every group of a job has a workload, or none has."""
    file, target = tmp_path / "groups.json", {"namespace": "shop", "name": "parse"}
    groups: dict[str, object] = {"parse": {"kubernetes": target}}
    file.write_text(json.dumps({"shop": {"groups": groups}, "watched": {"groups": {"other": {}}}}))
    settings = role_settings(
        RescalerSettings,
        engine="kafka",
        actuator="kubernetes",
        groups_file=str(file),
        kubernetes_url="http://127.0.0.1:1",
        cluster="c",
    )
    engine = made_by(settings)
    assert isinstance(engine, KubernetesEngine)
    with pytest.raises(
        EngineUnavailable, match=r"GET http://127\.0\.0\.1:1/apis/apps/v1/namespaces/shop/deployments/parse/scale: "
    ):
        engine.look("c/shop")
    groups["count"] = {}
    file.write_text(json.dumps({"shop": {"groups": groups}}))
    with pytest.raises(SettingsError, match=r"SURESCALE_GROUPS_FILE: shop\.groups\.count\.kubernetes: not set, though other"):
        made_by(settings)


def test_a_certificate_that_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    """The message names the settings."""
    (tmp_path / "ca.pem").write_text("no certificate")
    settings = RescalerSettings(engine="flink", engine_url="https://flink:8081", engine_ca_file=str(tmp_path / "ca.pem"))
    with pytest.raises(SettingsError, match="SURESCALE_ENGINE_CA_FILE"):
        made_by(settings)
