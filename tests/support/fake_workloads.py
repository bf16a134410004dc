"""Workloads of a fake cluster, with their pods, as the API shows them."""

from dataclasses import dataclass, field
from typing import Any, Literal

Document = dict[str, Any]
Ill = Literal["", "image", "crash", "config", "unready"]
"""What is wrong with the pods of a workload."""

START_MS = 3_000
DRAIN_MS = 2_000
IMAGE = "registry.example/worker:1"


@dataclass(slots=True)
class FakePod:
    """One pod. ``placed_ms``: when a node was found; ``ends_ms``: when it will have drained."""

    name: str
    created_ms: int
    placed_ms: int | None = None
    ends_ms: int | None = None
    ill: Ill = ""

    def is_ready(self, now_ms: int) -> bool:
        """Say whether it has started and is well."""
        return self.placed_ms is not None and now_ms >= self.placed_ms + START_MS and not self.ill

    def document(self, namespace: str, labels: dict[str, str], now_ms: int) -> Document:
        """Return it as the API shows it."""
        meta: Document = {"name": self.name, "namespace": namespace, "uid": f"uid-{self.name}", "labels": labels}
        if self.ends_ms is not None:
            meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": DRAIN_MS // 1_000}
        return {"metadata": meta, "spec": {"containers": [{"name": "worker", "image": IMAGE}]}, "status": self._status(now_ms)}

    def _status(self, now_ms: int) -> Document:
        if self.placed_ms is None:
            why = {
                "reason": "Unschedulable",
                "message": "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available.",
            }
            return {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"} | why]}
        ready = self.is_ready(now_ms)
        has_run = ready or self.ill in ("crash", "unready")
        conditions = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": str(ready)}]
        container = {"name": "worker", "image": IMAGE, "imageID": "", "ready": ready} | self._container(has_run)
        return {"phase": "Running" if has_run else "Pending", "conditions": conditions, "containerStatuses": [container]}

    def _container(self, has_run: bool) -> Document:
        waiting = {
            "image": {"reason": "ImagePullBackOff", "message": f'Back-off pulling image "{IMAGE}": not found'},
            "crash": {"reason": "CrashLoopBackOff", "message": "back-off 40s restarting failed container=worker"},
            "config": {"reason": "CreateContainerConfigError", "message": 'secret "kafka" not found'},
        }.get(self.ill)
        if waiting is None:
            running = {"startedAt": "2026-01-01T00:00:00Z"}
            return {"restartCount": 0, "state": {"running": running} if has_run else {"waiting": {"reason": "ContainerCreating"}}}
        last = {"lastState": {"terminated": {"exitCode": 3, "reason": "Error"}}} if self.ill == "crash" else {}
        return {"restartCount": 4 if self.ill == "crash" else 0, "state": {"waiting": waiting}} | last


@dataclass(slots=True)
class FakeWorkload:
    """One object with a scale.

    Attributes:
        version: of the resource; the cluster gives every change a new one.
        writers: ``managedFields`` that have the number of pods.
        ill: what is wrong with pods that are created from now on.
        failure: what the controller says about pods that it could not create; empty if it could.
    """

    namespace: str
    name: str
    replicas: int
    uid: str
    version: int
    resource: str = "deployments"
    api: str = "apps/v1"
    kind: str = "Deployment"
    annotations: dict[str, str] = field(default_factory=dict)
    owners: list[Document] = field(default_factory=list)
    writers: list[Document] = field(default_factory=list)
    is_being_deleted: bool = False
    has_selector: bool = True
    ill: Ill = ""
    failure: str = ""
    pods: list[FakePod] = field(default_factory=list)
    made: int = 0
    history: list[tuple[str, int, int]] = field(default_factory=list)
    """Every write of the number: by whom, from, to."""

    @property
    def labels(self) -> dict[str, str]:
        """Of its pods."""
        return {"app": self.name}

    def running(self, now_ms: int) -> int:
        """How many pods work."""
        return sum(pod.is_ready(now_ms) for pod in self.pods)

    def write(self, replicas: int, manager: str, *, operation: str = "Update", subresource: str = "") -> None:
        """Change the number of pods, as the API server does: the former owner loses the field unless an apply agrees with it."""
        if operation == "Apply" or replicas != self.replicas:
            agrees = replicas == self.replicas
            self.writers = [each for each in self.writers if agrees and each["manager"] != manager]
            entry = {"manager": manager, "operation": operation, "apiVersion": self.api, "fieldsType": "FieldsV1"}
            entry |= {"time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
            self.writers.append(entry | ({"subresource": subresource} if subresource else {}))
        self.history.append((manager, self.replicas, replicas))
        self.replicas = replicas

    def meta(self) -> Document:
        """Name, life and state, as both the object and its scale have them."""
        return {"name": self.name, "namespace": self.namespace, "uid": self.uid, "resourceVersion": str(self.version)}

    def scale(self) -> Document:
        """Return the scale subresource."""
        status: Document = {"replicas": len(self.pods)} | ({"selector": f"app={self.name}"} if self.has_selector else {})
        return {
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": self.meta() | {"creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"replicas": self.replicas} if self.replicas else {},
            "status": status,
        }

    def document(self, now_ms: int) -> Document:
        """Return the object."""
        meta = self.meta() | {"managedFields": self.writers, "annotations": self.annotations, "ownerReferences": self.owners}
        if self.is_being_deleted:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        template = {"metadata": {"labels": self.labels}, "spec": {"containers": [{"name": "worker", "image": IMAGE}]}}
        spec: Document = {"replicas": self.replicas, "selector": {"matchLabels": self.labels}, "template": template}
        if self.kind == "StatefulSet":
            spec["serviceName"] = self.name
        status: Document = {"replicas": len(self.pods), "readyReplicas": self.running(now_ms)}
        if self.failure and self.kind == "Deployment":
            status["conditions"] = [
                {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": self.failure}
            ]
        return {"kind": self.kind, "apiVersion": self.api, "metadata": meta, "spec": spec, "status": status}

    def events(self) -> list[Document]:
        """Return what the controller of another kind than a Deployment has said of pods that it could not create."""
        of = {"kind": self.kind, "namespace": self.namespace, "name": self.name, "uid": self.uid}
        create = f"create Pod {self.name}-{self.made} in {self.kind} {self.name}"
        failed = f"{create} failed error: {self.failure}" if self.failure else ""
        said = [("2026-01-01T00:00:00Z", "an older trouble"), ("2026-01-01T00:59:00Z", failed)]
        return [
            {
                "metadata": {"name": f"{self.name}.{number}", "namespace": self.namespace},
                "involvedObject": of,
                "reason": "FailedCreate",
                "message": message,
                "type": "Warning",
                "lastTimestamp": at,
            }
            for number, (at, message) in enumerate(said)
        ]
