"""What the doctor says of the workloads that are to be scaled."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.engines.groups.chains import Group
from surescale.engines.kubernetes.client import rights_for
from surescale.engines.kubernetes.doctor import workloads
from surescale.engines.kubernetes.target import Target
from surescale.engines.settings import SourceSettings
from tests.support.fake_api_server import FakeApiServer, autoscaler
from tests.support.kubernetes_rig import shipped_rules
from tests.support.role_settings import role_settings, write_groups

TARGETS = {"parse": Target("shop", "parse"), "count": Target("shop", "count")}
GROUPS = {task: Group(kubernetes=target) for task, target in TARGETS.items()}


@pytest.fixture
def server() -> FakeApiServer:
    """A cluster with both workloads, behind a proxy."""
    found = FakeApiServer(rules=shipped_rules(), asks_token=False)
    for task in TARGETS:
        found.deploy(task, 2)
    return found


@pytest.fixture
def settings(server: FakeApiServer, tmp_path: Path) -> Iterator[SourceSettings]:
    """The settings of a role that scales them."""
    file = tmp_path / "groups.json"
    with server.serving() as answering:
        yield role_settings(SourceSettings, engine="kafka", actuator="kubernetes", groups_file=file, kubernetes_url=answering.url)


def said(settings: SourceSettings, **more: Group) -> list[tuple[str, str]]:
    """Verdict and detail of each finding, with ``more`` groups in the job."""
    write_groups(settings, orders={**GROUPS, **more})
    return [(each.verdict, each.detail) for each in workloads(settings)]


def test_workloads_that_are_there_and_nobodys_are_fine(settings: SourceSettings) -> None:
    """With how many pods they want."""
    assert said(settings) == [
        ("ok", f"orders/{task}: shop/deployments/{task}, 2 pods wanted; all rights are there") for task in TARGETS
    ]


def test_each_trouble_is_a_line_of_its_own(settings: SourceSettings, server: FakeApiServer) -> None:
    """One is somebody else's, the other is gone."""
    parse, count = server.workloads
    server.autoscalers.append(autoscaler("hpa", parse))
    server.workloads.remove(count)
    (_, owned), (_, gone) = said(settings)
    assert owned.startswith("orders/parse: shop/deployments/parse: HorizontalPodAutoscaler hpa scales it; delete that")
    assert gone.startswith("orders/count: GET ")
    assert gone.endswith('deployments.apps "count" not found')


def test_rights_that_are_missing_are_named_together(settings: SourceSettings, server: FakeApiServer) -> None:
    """Also those that only an act would need. The other workloads are checked all the same."""
    server.rules = shipped_rules() - {("apps", "deployments/scale", "update"), ("", "events", "list")}
    assert said(settings) == [
        (
            "problem",
            f"orders/{task}: shop/deployments/{task}: the account that asks may not update deployments/scale.apps, list events",
        )
        for task in TARGETS
    ]


def test_what_is_asked_for_is_what_the_shipped_role_gives() -> None:
    """No more and no less, for a Deployment and a StatefulSet together."""
    needed = {
        (right.group, "/".join(filter(None, (right.resource, right.subresource))), right.verb)
        for resource in ("deployments", "statefulsets")
        for right in rights_for(Target("shop", "parse", resource))
    }
    assert needed == shipped_rules()


def test_a_server_that_does_not_answer_is_said_once(settings: SourceSettings, server: FakeApiServer) -> None:
    """Not for each workload."""
    server.is_away = True
    ((verdict, detail),) = said(settings)
    assert (verdict, "answers 503" in detail) == ("problem", True)


def test_a_job_of_which_a_part_cannot_be_scaled_is_a_problem(settings: SourceSettings) -> None:
    """As at the start of the roles."""
    ((verdict, detail),) = said(settings, other=Group())
    assert (verdict, "orders.groups.other.kubernetes: not set" in detail) == ("problem", True)
