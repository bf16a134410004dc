"""docs/kubernetes.md on a real API server: its commands give the rights, and `surescale doctor` says so."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.engines.flink_operator.doctor import operated_jobs
from surescale.engines.kubernetes.doctor import workloads
from surescale.engines.ports.findings import Finding
from surescale.engines.settings import SourceSettings
from tests.kubernetes.live_cluster import LiveCluster
from tests.kubernetes.test_flink_operator import DEFINITIONS
from tests.support.fake_operator import FakeOperator, flink_deployment
from tests.support.operator_rig import NAME, VERTICES
from tests.support.role_settings import role_settings
from tests.support.waiting import wait_until

KUBERNETES = Path(__file__).parents[2] / "compose/kubernetes"
DEPLOYMENT = "/apis/flink.apache.org/v1beta1/namespaces/streaming/flinkdeployments"


@pytest.fixture
def cluster_of_the_page(cluster: LiveCluster) -> Iterator[LiveCluster]:
    """With the namespaces that the shipped files name."""
    names = ("shop", "streaming")
    for name in names:
        cluster.namespace(name)
    cluster.kubectl("apply", f"--filename={DEFINITIONS}")
    cluster.kubectl("wait", "--for=condition=Established", "crd/flinkdeployments.flink.apache.org", "--timeout=60s")
    yield cluster
    for name in names:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


def test_the_pages_commands_give_all_rights_and_the_doctor_says_so(cluster_of_the_page: LiveCluster, tmp_path: Path) -> None:
    """Before: each line names the rights that are missing, and where they stand. After: all is well."""
    cluster = cluster_of_the_page
    (tmp_path / "token").write_text(cluster.token("surescale", "surescale-rescaler"))
    access = {
        "kubernetes_url": cluster.url,
        "kubernetes_token_file": str(tmp_path / "token"),
        "kubernetes_ca_file": str(cluster.ca_file),
        "actuator": "kubernetes",
    }
    groups, jobs = KUBERNETES / "components/consumers/groups.toml", KUBERNETES / "components/flink-operator/jobs.toml"
    of_groups = role_settings(SourceSettings, engine="kafka", groups_file=str(groups), **access)
    of_jobs = role_settings(SourceSettings, engine="flink", flink_resources_file=str(jobs), **access)

    def findings() -> list[Finding]:
        return [*workloads(of_groups), *operated_jobs(of_jobs)]

    parse, deliver, orders = findings()
    assert "the account that asks may not get deployments/scale.apps, update deployments/scale.apps" in parse.detail
    assert "may not get statefulsets/scale.apps" in deliver.detail
    assert "may not get flinkdeployments.flink.apache.org, patch flinkdeployments.flink.apache.org" in orders.detail
    assert "compose/kubernetes/scaling/flink-operator" in orders.remedy
    for folder in ("scaling", "scaling/flink-operator"):
        cluster.kubectl("apply", "--validate=strict", f"--kustomize={KUBERNETES / folder}")
    wait_until(lambda: not any("may not" in each.detail for each in findings()), what="the rights to take effect")
    assert [each.verdict for each in findings()] == ["problem"] * 3
    assert 'deployments.apps "orders-parse" not found' in findings()[0].detail
    assert 'flinkdeployments.flink.apache.org "orders" not found' in findings()[2].detail
    _make(cluster)
    assert [(each.verdict, each.detail) for each in findings()] == [
        ("ok", "orders/parse: shop/deployments/orders-parse, 1 pods wanted; all rights are there"),
        ("ok", "orders/deliver: shop/statefulsets/orders-deliver, 1 pods wanted; all rights are there"),
        ("ok", "orders: streaming/flinkdeployments/orders, 2 vertices have overrides; all rights are there"),
    ]


def _make(cluster: LiveCluster) -> None:
    """Make what the shipped files name."""
    labels = {"app": "orders"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "worker", "image": "worker:1"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    for kind, name, more in (("Deployment", "orders-parse", {}), ("StatefulSet", "orders-deliver", {"serviceName": "orders"})):
        made = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": spec | more}
        cluster.kubectl("create", "--filename=-", stdin=json.dumps(made))
    document = flink_deployment("streaming", NAME, dict.fromkeys(VERTICES.values(), 2))
    cluster.ask("POST", DEPLOYMENT, document)
    path = f"{DEPLOYMENT}/{NAME}"
    FakeOperator(
        lambda: cluster.ask("GET", path), lambda status: cluster.merge(f"{path}/status", {"status": status}) and None, lambda: 0
    ).submitted()
