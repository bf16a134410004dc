"""A job whose tasks are workloads of a real control plane, and the actuator with the rights that are shipped, no more."""

import time
from collections.abc import Mapping
from pathlib import Path

from surescale.engines.groups.chains import Chain, Group
from surescale.engines.kubernetes.actuator import KubernetesEngine
from surescale.engines.kubernetes.client import KubernetesClient
from surescale.engines.kubernetes.target import Target
from surescale.runtime.access import Access
from tests.kubernetes.live_cluster import Document, LiveCluster
from tests.ports.requirement_contract import BEFORE, CLUSTER, JOB, RequirementRig
from tests.support.waiting import wait_until

QUOTA = "pods-of-all"
SLEPT_S_MAX = 0.3
TIMEOUT_S = 60.0


class LiveClusterRig(RequirementRig):
    """With the client of the shipped account. Its clock runs faster than the wall's: a second is a third of one."""

    def __init__(self, cluster: LiveCluster, namespace: str, folder: Path) -> None:
        self.cluster, self.namespace = cluster, namespace
        self._ahead_s = 0.0
        token = folder / "token"
        token.write_text(cluster.token("surescale", "surescale-rescaler"))
        self.client = KubernetesClient(cluster.url, Access(token_file=str(token), ca_file=str(cluster.ca_file)))

    def pass_seconds(self, seconds: float) -> None:
        """Wait for some of it."""
        slept_s = min(seconds, SLEPT_S_MAX)
        time.sleep(slept_s)
        self._ahead_s += seconds - slept_s

    def now_ms(self) -> int:
        """The rig's time."""
        return int((time.time() + self._ahead_s) * 1_000)

    def go_away(self) -> None:
        """Kill the API server."""
        self.cluster.api_server.kill()

    def come_back(self) -> None:
        """Start it again on the same data."""
        self.cluster.api_server.start()
        self.cluster.api_server.wait_ready()


class LiveRig(LiveClusterRig):
    """`parse` is a Deployment, `count` a StatefulSet."""

    def __init__(self, cluster: LiveCluster, namespace: str, folder: Path) -> None:
        super().__init__(cluster, namespace, folder)
        self.targets = {"parse": Target(namespace, "parse"), "count": Target(namespace, "count", "statefulsets")}
        self.api: KubernetesEngine = self.engine(self.targets)
        for task, count in BEFORE.items():
            self.deploy(task, count)
        self.settle(BEFORE)

    def engine(self, targets: Mapping[str, Target]) -> KubernetesEngine:
        """Return an actuator of other targets."""
        name = JOB.removeprefix(f"{CLUSTER}/")
        return KubernetesEngine(
            self.client, {name: Chain(name, {task: Group(kubernetes=target) for task, target in targets.items()})}, CLUSTER
        )

    @property
    def required(self) -> dict[str, int]:
        """As the administrator sees it."""
        return {task: self.cluster.ask("GET", target.path)["spec"]["replicas"] for task, target in self.targets.items()}

    # What a rig can do

    def require(self, parallelism: Mapping[str, int]) -> None:
        """As with ``kubectl scale``."""
        for task, count in parallelism.items():
            target = self.targets[task]
            self.cluster.kubectl(
                "scale", f"--namespace={self.namespace}", f"{target.resource}/{target.name}", f"--replicas={count}"
            )

    def submit_again(self) -> None:
        """Delete the objects and make them again."""
        for task, target in self.targets.items():
            self.cluster.kubectl("delete", f"--namespace={self.namespace}", target.resource, target.name)
            self.deploy(task, BEFORE[task])
        self.settle(BEFORE)

    def offer_slots(self, slots: int) -> None:
        """Limit the pods of the namespace: each needs one of its own, also the one that parses."""
        spec = {"hard": {"pods": str(slots + BEFORE["parse"])}}
        path = f"/api/v1/namespaces/{self.namespace}/resourcequotas"
        if self.cluster.is_there(f"{path}/{QUOTA}"):
            self.cluster.merge(f"{path}/{QUOTA}", {"spec": spec})
        else:
            self.cluster.ask("POST", path, {"metadata": {"name": QUOTA}, "spec": spec})
        wait_until(lambda: self.cluster.ask("GET", f"{path}/{QUOTA}").get("status", {}).get("hard") == spec["hard"], TIMEOUT_S)

    # More

    def deploy(self, task: str, count: int, **template: Document) -> None:
        """Make the workload of a task."""
        target = self.targets[task]
        labels = {"app": target.name}
        pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "worker", "image": "worker:1"}]} | template}
        spec: Document = {"replicas": count, "selector": {"matchLabels": labels}, "template": pod}
        kind = "Deployment"
        if target.resource == "statefulsets":
            kind, spec = "StatefulSet", spec | {"serviceName": target.name, "podManagementPolicy": "Parallel"}
        path = target.path.rpartition("/")[0]
        self.cluster.ask("POST", path, {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": target.name}, "spec": spec})
