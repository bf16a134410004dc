"""What the doctor says of the jobs that the Flink operator runs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.contracts.settings import PipelineSettings
from surescale.engines.flink_operator import FlinkOperatorSettings
from surescale.engines.flink_operator.doctor import operated_jobs
from surescale.engines.settings import SourceSettings
from tests.support.fake_api_server import FakeApiServer
from tests.support.fake_objects import FakeObject
from tests.support.fake_operator import KEY, FakeOperator, flink_deployment
from tests.support.role_settings import role_settings

ROLE = frozenset(
    ("flink.apache.org", kind, verb) for kind in ("flinkdeployments", "flinksessionjobs") for verb in ("get", "patch")
)
VERTEX = "a" * 32


@pytest.fixture
def server() -> FakeApiServer:
    """A cluster with a job, behind a proxy."""
    server = FakeApiServer(rules=ROLE, asks_token=False)
    path = "/apis/flink.apache.org/v1beta1/namespaces/shop/flinkdeployments/orders"
    made = server.objects[path] = FakeObject(path, flink_deployment("shop", "orders", {VERTEX: 2}))
    FakeOperator(lambda: made.document, made.say, lambda: 0).submitted()
    return server


@pytest.fixture
def settings(server: FakeApiServer, tmp_path: Path) -> Iterator[PipelineSettings]:
    """The settings of a role that scales it."""
    file = tmp_path / "jobs.toml"
    file.write_text('[orders]\nnamespace = "shop"\nname = "orders"\n')
    with server.serving() as answering:
        yield role_settings(
            SourceSettings, engine="flink", actuator="kubernetes", flink_resources_file=str(file), kubernetes_url=answering.url
        )


def _said(settings: PipelineSettings) -> tuple[str, str]:
    (found,) = operated_jobs(settings)
    assert "\n" not in found.detail
    return found.verdict, found.detail


def test_a_job_that_can_be_changed_in_place_is_fine(settings: PipelineSettings) -> None:
    """With what its resource asks for."""
    assert _said(settings) == ("ok", "orders: shop/flinkdeployments/orders, 1 vertices have overrides; all rights are there")


def test_each_trouble_is_one_line(settings: PipelineSettings, server: FakeApiServer) -> None:
    """Somebody else's, not in place, unreadable, gone, no right, nobody answers."""
    (made,) = server.objects.values()
    where = "orders: shop/flinkdeployments/orders"
    made.merge({"spec": {"flinkConfiguration": {"job.autoscaler.enabled": "true"}}}, "kubectl-edit")
    assert _said(settings) == (
        "problem",
        f"{where}: the operator's own autoscaler scales it (job.autoscaler.enabled); "
        'set that to "false", or leave the job out of surescale',
    )
    made.merge({"spec": {"flinkConfiguration": {"job.autoscaler.enabled": None, "jobmanager.scheduler": None}}}, "kubectl-edit")
    assert "set jobmanager.scheduler: adaptive there" in _said(settings)[1]
    made.merge({"spec": {"flinkConfiguration": {KEY: "4"}}}, "kubectl-edit")
    assert "is not a map like VERTEX:4,VERTEX:2; correct it" in _said(settings)[1]
    server.objects.clear()
    assert _said(settings)[1].endswith('flinkdeployments.flink.apache.org "orders" not found')
    server.rules = frozenset(rule for rule in ROLE if rule[2] != "patch")
    assert _said(settings) == ("problem", f"{where}: the account that asks may not patch flinkdeployments.flink.apache.org")
    server.is_away = True
    assert "answers 503" in _said(settings)[1]
    Path(settings.part(FlinkOperatorSettings).flink_resources_file).write_text("")
    assert "names no job" in _said(settings)[1]
