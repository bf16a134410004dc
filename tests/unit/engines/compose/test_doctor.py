"""What the doctor says of services of Compose before anybody relies on scaling them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.engines.compose.doctor import services
from surescale.engines.compose.target import Service
from surescale.engines.groups.chains import Group
from surescale.engines.settings import SourceSettings
from tests.support.fake_docker import FakeDocker
from tests.support.role_settings import role_settings, write_groups

COUNTS = {"parse": 1, "count": 2}
GROUPS = {task: Group(compose=Service("shop", task)) for task in COUNTS}


@pytest.fixture
def docker() -> FakeDocker:
    """An engine on which both services run."""
    found = FakeDocker()
    for task, count in COUNTS.items():
        found.scale(task, count)
    return found


@pytest.fixture
def settings(docker: FakeDocker, tmp_path: Path) -> Iterator[SourceSettings]:
    """How it is asked."""
    file = tmp_path / "groups.json"
    with docker.serving() as answering:
        yield role_settings(SourceSettings, engine="kafka", actuator="compose", groups_file=file, compose_url=answering.url)


def said(settings: SourceSettings, **more: Group) -> list[tuple[str, str]]:
    """Return each finding, with ``more`` groups in the job."""
    write_groups(settings, orders={**GROUPS, **more})
    return [(each.verdict, each.detail) for each in services(settings)]


def test_services_that_can_be_scaled_are_named(settings: SourceSettings) -> None:
    """With the containers that are wanted."""
    wanted = [("ok", "orders/parse: shop/parse, 1 containers wanted"), ("ok", "orders/count: shop/count, 2 containers wanted")]
    assert said(settings) == wanted


def test_each_service_that_cannot_is_named_with_the_reason(settings: SourceSettings, docker: FakeDocker) -> None:
    """One that does not run, and one that nobody starts again."""
    docker.of("parse")[0].status = "exited"
    for each in docker.of("count"):
        each.config["HostConfig"]["RestartPolicy"] = {"Name": "no"}
    (first, parse), (second, count) = said(settings)
    assert (first, parse) == ("problem", "orders/parse: shop/parse: none of its containers runs")
    assert (second, "its containers are not restarted" in count) == ("problem", True)


def test_what_keeps_all_from_being_checked_is_said_once(settings: SourceSettings, docker: FakeDocker) -> None:
    """No engine, or a file that names a service for one group only."""
    docker.is_away = True
    ((verdict, detail),) = said(settings)
    assert (verdict, "answers 503: the engine is starting" in detail) == ("problem", True)
    ((verdict, detail),) = said(settings, other=Group())
    assert (verdict, "orders.groups.other.compose: not set" in detail) == ("problem", True)
