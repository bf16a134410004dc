"""Every overlay on a real API server: accepted as it is, and its pods pass the pod security that its namespace asks for."""

from pathlib import Path

import pytest
import yaml

from tests.kubernetes.live_cluster import LiveCluster
from tests.support.waiting import wait_until

OVERLAYS = Path(__file__).parents[2] / "compose/kubernetes/overlays"
TIMEOUT_S = 120.0


@pytest.mark.parametrize("overlay", sorted(path.name for path in OVERLAYS.iterdir()))
def test_an_overlay_is_accepted_and_its_pods_run(cluster: LiveCluster, overlay: str) -> None:
    """Nothing unknown, nothing defaulted away with a warning, and as many pods ready as each workload asks for."""
    rendered = cluster.kubectl("kustomize", str(OVERLAYS / overlay))
    namespace = f"surescale-{overlay}"
    moved = rendered.replace("namespace: surescale\n", f"namespace: {namespace}\n")
    documents = [each for each in yaml.safe_load_all(moved) if each["kind"] != "Namespace"]
    shipped = next(each for each in yaml.safe_load_all(rendered) if each["kind"] == "Namespace")
    shipped["metadata"]["name"] = namespace
    try:
        cluster.kubectl("apply", "--validate=strict", "--filename=-", stdin=yaml.safe_dump(shipped))
        cluster.kubectl("apply", "--validate=strict", "--filename=-", stdin=yaml.safe_dump_all(documents))
        workloads = [each for each in documents if each["kind"] in ("Deployment", "StatefulSet")]
        for each in workloads:
            path = f"/apis/apps/v1/namespaces/{namespace}/{each['kind'].lower()}s/{each['metadata']['name']}"

            def is_ready(path: str = path) -> bool:
                seen = cluster.ask("GET", path)
                return bool(seen["status"].get("readyReplicas", 0) == seen["spec"]["replicas"] > 0)

            wait_until(is_ready, TIMEOUT_S, what=f"the pods of {path}")
        assert {each["metadata"]["name"] for each in workloads} >= {f"surescale-{role}" for role in ("monitor", "spark", "agent")}
    finally:
        cluster.kubectl("delete", "namespace", namespace, "--wait=false")
