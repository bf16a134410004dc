"""The Flink Kubernetes operator as far as the actuator relies on it, by its documentation and sources. No operator runs here.

It reads the resource every now and then and writes its status. A change of the overrides is asked of Flink in place, through the
request that the actuator ``flink`` makes too; it is called deployed once every vertex runs as wanted. Anything else than the
overrides is left alone here.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_jobmanager import FakeJob, FakeJobManager

Document = dict[str, Any]
API = "flink.apache.org/v1beta1"
KEY = "pipeline.jobvertex-parallelism-overrides"
UPGRADES_IN_MS = 40_000
"""How long a job is down whose scheduler cannot change it in place."""
SCALES_IN_MS = 3_000
"""How long a change takes that is not carried out by a JobManager."""


def flink_deployment(namespace: str, name: str, overrides: Mapping[str, int], **configuration: Any) -> Document:
    """Return a FlinkDeployment that may be changed in place."""
    asked = {"jobmanager.scheduler": "adaptive"}
    if overrides:
        asked[KEY] = ",".join(f"{vertex}:{count}" for vertex, count in overrides.items())
    return {
        "apiVersion": API,
        "kind": "FlinkDeployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "flinkVersion": "v2_0",
            "mode": "native",
            "flinkConfiguration": asked | configuration,
            "job": {"state": "running", "upgradeMode": "last-state", "jarURI": "local:///orders.jar"},
        },
    }


@dataclass(slots=True)
class FakeOperator:
    """One resource that is looked after.

    Attributes:
        read: returns the resource.
        say: writes its status.
        now_ms: the clock.
        manager: carries changes out; without one they take `SCALES_IN_MS`, and fit if they are not more than `slots`.
        job: of the manager.
        stands: it looks at nothing.
    """

    read: Callable[[], Document]
    say: Callable[[Document], None]
    now_ms: Callable[[], int]
    manager: FakeJobManager | None = None
    job: FakeJob | None = None
    slots: int = 8
    stands: bool = False
    status: Document = field(default_factory=dict)
    _since_ms: int = 0
    _submissions: int = 0

    def submitted(self) -> None:
        """Say that the job was submitted as its resource asks, and runs."""
        self._submissions += 1
        resource = self.read()
        job_id = self.job.jid if self.job is not None else f"{self._submissions:032x}"
        kept = _kept(resource)
        self.status = {
            "jobStatus": {"jobId": job_id, "jobName": resource["metadata"]["name"], "state": "RUNNING"},
            "lifecycleState": "STABLE",
            "observedGeneration": resource["metadata"]["generation"],
            "reconciliationStatus": {"state": "DEPLOYED", "lastReconciledSpec": kept, "lastStableSpec": kept},
        }
        self.say(json.loads(json.dumps(self.status)))

    def look(self) -> None:
        """Do what there is to do by now."""
        if self.stands:
            return
        resource, before = self.read(), json.dumps(self.status)
        wanted, reconciliation = _overrides(resource), self.status["reconciliationStatus"]
        if self.status["observedGeneration"] != resource["metadata"]["generation"]:
            self.status["observedGeneration"] = resource["metadata"]["generation"]
            if _kept(resource) != reconciliation["lastReconciledSpec"]:
                reconciliation |= {"state": "UPGRADING", "lastReconciledSpec": _kept(resource)}
                self.status["lifecycleState"], self._since_ms = "UPGRADING", self.now_ms()
                if not _in_place(resource):
                    self._stop()
                elif self.manager is not None and self.job is not None:
                    self.manager.require(self.job, wanted)
        elif not _in_place(resource) and reconciliation["state"] == "UPGRADING":
            if self.now_ms() - self._since_ms >= UPGRADES_IN_MS and max(wanted.values(), default=0) <= self.slots:
                self._start(wanted)
        elif reconciliation["state"] == "UPGRADING" and self._runs(wanted):
            reconciliation |= {"state": "DEPLOYED", "lastStableSpec": reconciliation["lastReconciledSpec"]}
            self.status["lifecycleState"] = "STABLE"
        if json.dumps(self.status) != before:
            self.say(json.loads(json.dumps(self.status)))

    def _stop(self) -> None:
        self.status["jobStatus"] |= {"state": "FINISHED"}
        if self.job is not None:
            self.job.state = "FINISHED"

    def _start(self, wanted: Mapping[str, int]) -> None:
        """Submit the job again, under its id, as the operator does with an application."""
        self.status["jobStatus"] |= {"state": "RUNNING"}
        reconciliation = self.status["reconciliationStatus"]
        reconciliation |= {"state": "DEPLOYED", "lastStableSpec": reconciliation["lastReconciledSpec"]}
        self.status["lifecycleState"] = "STABLE"
        if self.job is not None:
            self.job.state, self.job.created_at_ms = "RUNNING", self.now_ms()
            self.job.required = self.job.running = {**self.job.running, **wanted}

    def _runs(self, wanted: Mapping[str, int]) -> bool:
        if self.job is not None:
            return all(self.job.running[vertex] == count for vertex, count in wanted.items())
        return self.now_ms() - self._since_ms >= SCALES_IN_MS and max(wanted.values(), default=0) <= self.slots


def _in_place(resource: Document) -> bool:
    return bool(resource["spec"]["flinkConfiguration"].get("jobmanager.scheduler") == "adaptive")


def _kept(resource: Document) -> str:
    return json.dumps({"resource_metadata": {"apiVersion": API, "firstDeployment": False}, "spec": resource["spec"]})


def _overrides(resource: Document) -> dict[str, int]:
    text = resource["spec"]["flinkConfiguration"].get(KEY, "")
    return {vertex: int(count) for vertex, _, count in (each.partition(":") for each in text.split(",") if each)}
