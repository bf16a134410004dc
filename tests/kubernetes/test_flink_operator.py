"""The Flink operator's resources on a real API server, with the rights of the shipped role and no more.

API server, definitions of the resources, roles, versions and field managers are real; the operator itself is played, so is Flink.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from surescale.engines.flink_operator.actuator import FlinkOperatorEngine
from surescale.engines.flink_operator.resource import API, DEPLOYMENTS, SESSION_JOBS
from surescale.engines.ports.actuator import EngineRefused
from tests.kubernetes.live_cluster import Document, LiveCluster
from tests.kubernetes.rig import LiveClusterRig
from tests.ports.requirement_contract import AFTER, BEFORE, CLUSTER, JOB, RequirementContract, RequirementRig
from tests.ports.test_operator_contract import check_a_change_that_does_not_come
from tests.support.fake_operator import KEY, UPGRADES_IN_MS, FakeOperator, flink_deployment
from tests.support.operator_rig import NAME, VERTICES, OperatedRig, operated_job
from tests.support.waiting import wait_until

DEFINITIONS = Path(__file__).with_name("flink_operator.yaml")
ACCESS = Path(__file__).parents[2] / "compose/kubernetes/scaling/flink-operator/access.yaml"
PARSE, COUNT = VERTICES["parse"], VERTICES["count"]
NEVER_YET = {"upgradeMode": "savepoint", "state": "running"}
Write = Callable[["LiveOperatedRig"], None]


class LiveOperatedRig(LiveClusterRig, OperatedRig):
    """A FlinkDeployment."""

    manager = None

    def __init__(
        self, cluster: LiveCluster, namespace: str, folder: Path, resource: str = DEPLOYMENTS, *, upgrades: bool = False
    ) -> None:
        super().__init__(cluster, namespace, folder)
        self.job = operated_job(namespace, resource=resource, upgrades=upgrades)
        self.path = self.job.target.path
        document = flink_deployment(namespace, NAME, self.before if resource == DEPLOYMENTS else {})
        if upgrades:
            document["spec"]["flinkConfiguration"]["jobmanager.scheduler"] = "default"
        if resource == SESSION_JOBS:
            document["spec"].pop("job")
            self.cluster.ask("POST", self.job.session(NAME).path.rpartition("/")[0], document)
            text = ",".join(f"{vertex}:{count}" for vertex, count in self.before.items())
            spec = {"deploymentName": NAME, "flinkConfiguration": {KEY: text}, "job": NEVER_YET}
            document = {"apiVersion": API, "kind": "FlinkSessionJob", "metadata": {"name": NAME}, "spec": spec}
        self.cluster.ask("POST", self.path.rpartition("/")[0], document)
        self.operator = FakeOperator(lambda: cluster.ask("GET", self.path), self._say, self.now_ms)
        self.operator.submitted()
        self.api = FlinkOperatorEngine(self.client, {NAME: self.job}, CLUSTER)

    @property
    def configuration(self) -> Document:
        """As the administrator sees it."""
        found: Document = self.cluster.ask("GET", self.path)["spec"]["flinkConfiguration"]
        return found

    def merge(self, change: Document) -> None:
        """As with ``kubectl edit``."""
        self.cluster.merge(self.path, change)

    def pass_seconds(self, seconds: float) -> None:
        """Wait for some of it; the operator looks."""
        if self.cluster.api_server.answers():
            self.operator.look()
        super().pass_seconds(seconds)

    def write(self, configuration: Mapping[str, str]) -> None:
        """As somebody else."""
        self.merge({"spec": {"flinkConfiguration": dict(configuration)}})

    def _say(self, status: Document) -> None:
        self.cluster.merge(f"{self.path}/status", {"status": status})


@pytest.fixture(scope="module")
def defined(cluster: LiveCluster) -> LiveCluster:
    """With the operator's definitions."""
    cluster.kubectl("apply", f"--filename={DEFINITIONS}")
    for kind in (DEPLOYMENTS, SESSION_JOBS):
        cluster.kubectl("wait", "--for=condition=Established", f"crd/{kind}.flink.apache.org", "--timeout=60s")
    return cluster


@pytest.fixture
def made(defined: LiveCluster, namespace: str, tmp_path: Path) -> tuple[LiveCluster, str, Path]:
    """A namespace in which the shipped roles for the operator's jobs hold."""
    defined.kubectl("apply", f"--namespace={namespace}", f"--filename={ACCESS}")
    for verb in ("get", "patch"):
        wait_until(lambda verb=verb: _may(defined, namespace, verb), what=f"the right to {verb}")  # type: ignore[misc]
    return defined, namespace, tmp_path


@pytest.fixture
def rig(made: tuple[LiveCluster, str, Path]) -> Iterator[LiveOperatedRig]:
    """A job that runs."""
    rig = LiveOperatedRig(*made)
    yield rig
    rig.client.close()


def _may(cluster: LiveCluster, namespace: str, verb: str) -> bool:
    attributes = {"namespace": namespace, "group": "flink.apache.org", "resource": DEPLOYMENTS, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "system:serviceaccount:surescale:surescale-rescaler", "resourceAttributes": attributes},
    }
    answer = cluster.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


class TestLiveOperated(RequirementContract):
    """What every engine that is asked for counts does alike."""

    @pytest.fixture(autouse=True)
    def _where(self, made: tuple[LiveCluster, str, Path]) -> None:
        self._made = made

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """A job that runs."""
        rig = LiveOperatedRig(*self._made)
        yield rig
        rig.client.close()

    def test_fewer_slots_than_asked_end_with_what_runs(self, rig: RequirementRig) -> None:
        """The operator does not say how much of a change runs: at the deadline all of it is taken back."""
        check_a_change_that_does_not_come(rig)


def test_a_job_under_the_default_scheduler_is_upgraded_where_that_is_allowed(made: tuple[LiveCluster, str, Path]) -> None:
    """It stops and runs again under its id; nothing but the overrides of the resource was written."""
    rig = LiveOperatedRig(*made, upgrades=True)
    try:
        before = rig.api.look(JOB).epoch
        reports = rig.carry_out(rig.command())
        assert [report.status for report in reports] == ["accepted", "applied"]
        assert reports[-1].duration_ms >= UPGRADES_IN_MS
        seen = rig.api.look(JOB)
        assert (seen.epoch, seen.required, seen.running) == (before, AFTER, AFTER)
        assert rig.configuration == {"jobmanager.scheduler": "default", KEY: f"{PARSE}:1,{COUNT}:3"}
    finally:
        rig.client.close()


@pytest.mark.parametrize(
    ("form", "after"),
    [
        ({KEY: f"{PARSE}:1,{COUNT}:2"}, {KEY: f"{PARSE}:1,{COUNT}:3"}),
        ({KEY: f"{{{PARSE}: 1, {COUNT}: 2}}"}, {KEY: f"{{{PARSE}: 1, {COUNT}: 3}}"}),
        ({KEY: {PARSE: 1, COUNT: 2}}, {KEY: {PARSE: 1, COUNT: 3}}),
        ({KEY: {PARSE: "1", COUNT: "2"}}, {KEY: {PARSE: "1", COUNT: "3"}}),
        ({f"{KEY}.{PARSE}": "1", f"{KEY}.{COUNT}": "2"}, {f"{KEY}.{PARSE}": "1", f"{KEY}.{COUNT}": "3"}),
        (
            {"pipeline": {"name": "x", "jobvertex-parallelism-overrides": f"{PARSE}:1,{COUNT}:2"}},
            {"pipeline": {"name": "x", "jobvertex-parallelism-overrides": f"{PARSE}:1,{COUNT}:3"}},
        ),
        (
            {"pipeline": {"jobvertex-parallelism-overrides": {PARSE: 1, COUNT: 2}}},
            {"pipeline": {"jobvertex-parallelism-overrides": {PARSE: 1, COUNT: 3}}},
        ),
    ],
)
def test_every_form_of_the_configuration_is_kept(rig: LiveOperatedRig, form: Document, after: Document) -> None:
    """Only the number of one vertex changes, and everything else that stands there stays."""
    rest = {"jobmanager.scheduler": "adaptive", "state": {"backend": {"type": "rocksdb"}}}
    rig.merge({"spec": {"flinkConfiguration": {KEY: None}}})
    rig.merge({"spec": {"flinkConfiguration": form | rest}})
    rig.operator.submitted()
    rig.api.request(rig.command())
    assert rig.configuration == after | rest
    assert rig.api.look(JOB).required == AFTER
    rig.api.withdraw(rig.command(), BEFORE)


def test_a_session_job_of_a_map_of_strings_is_scaled(made: tuple[LiveCluster, str, Path]) -> None:
    """Its session cluster chooses the scheduler."""
    rig = LiveOperatedRig(*made, SESSION_JOBS)
    try:
        assert rig.carry_out(rig.command())[-1].status == "applied"
        assert rig.configuration == {KEY: f"{PARSE}:1,{COUNT}:3"}
        managers = rig.cluster.ask("GET", rig.path)["metadata"]["managedFields"]
        ours = next(each for each in managers if each["manager"] == "surescale")
        assert ours["fieldsV1"] == {"f:spec": {"f:flinkConfiguration": {f"f:{KEY}": {}}}}
    finally:
        rig.client.close()


def _apply(*words: str, **configuration: Any) -> Write:
    def write(rig: LiveOperatedRig) -> None:
        document = {
            "apiVersion": API,
            "kind": "FlinkDeployment",
            "metadata": {"name": NAME},
            "spec": {"flinkConfiguration": {"jobmanager.scheduler": "adaptive"} | configuration},
        }
        rig.cluster.kubectl("apply", *words, f"--namespace={rig.namespace}", "--filename=-", stdin=json.dumps(document))
        rig.operator.submitted()

    return write


_BY_ARGO = ("--server-side", "--field-manager=argocd-controller", "--force-conflicts")
_TEXT = {KEY: f"{PARSE}:1,{COUNT}:2"}
_NESTED = {"pipeline": {"jobvertex-parallelism-overrides": {PARSE: 1, COUNT: 2}}}


@pytest.mark.parametrize(
    ("own", "said"),
    [
        (_apply(*_BY_ARGO, **_TEXT), f"argocd-controller sets {KEY}; leave that key out of what argocd-controller applies"),
        (_apply(**_TEXT), f"`kubectl apply` sets {KEY} every time; leave that key out of the manifest"),
        (_apply(**{"job.autoscaler.enabled": "true"}), "the operator's own autoscaler scales it (job.autoscaler.enabled)"),
    ],
)
def test_what_somebody_else_decides_is_refused_and_named(rig: LiveOperatedRig, own: Write, said: str) -> None:
    """As the API server really records it."""
    own(rig)
    command = rig.command()
    with pytest.raises(EngineRefused) as refused:
        rig.api.request(command)
    assert refused.value.code == "OTHER_OWNER"
    assert said in refused.value.detail
    assert rig.api.look(JOB).required == BEFORE


def test_a_nested_key_that_somebody_applies_is_named(rig: LiveOperatedRig) -> None:
    """The API server lists its owner level by level."""
    rig.merge({"spec": {"flinkConfiguration": {KEY: None}}})
    _apply(*_BY_ARGO, **_NESTED)(rig)
    command = rig.command()
    with pytest.raises(EngineRefused, match=f"argocd-controller sets {KEY}") as refused:
        rig.api.request(command)
    assert refused.value.code == "OTHER_OWNER"


def test_who_applies_other_keys_is_no_owner_and_keeps_them(rig: LiveOperatedRig) -> None:
    """And their next apply does not take the overrides away."""
    apply = _apply(*_BY_ARGO, **{"state.backend.type": "rocksdb"})
    apply(rig)
    rig.api.request(rig.command())
    apply(rig)
    assert rig.api.look(JOB).required == AFTER
    assert rig.configuration["state.backend.type"] == "rocksdb"


def test_a_status_that_changes_meanwhile_costs_another_try(rig: LiveOperatedRig) -> None:
    """The resource version that was read is stale, what is asked for is not."""
    command, real = rig.command(), rig.client.patch
    stale = [True, True]

    def patch(*words: Any) -> Any:
        if stale and stale.pop():
            rig.merge({"metadata": {"annotations": {"seen": str(len(stale))}}})
        return real(*words)

    rig.client.patch = patch  # type: ignore[method-assign]
    rig.api.request(command)
    assert stale == []
    assert rig.api.look(JOB).required == AFTER


@pytest.mark.parametrize("missing", ["get", "patch"])
def test_a_right_that_is_missing_is_named_before_anything_is_written(rig: LiveOperatedRig, missing: str) -> None:
    """In the API server's own words, and where all rights stand."""
    command = rig.command()
    verbs = [verb for verb in ("get", "patch") if verb != missing]
    rule = {"apiGroups": ["flink.apache.org"], "resources": [DEPLOYMENTS, SESSION_JOBS], "verbs": verbs}
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "surescale-rescaler-flink"},
        "rules": [rule],
    }
    rig.cluster.kubectl("replace", f"--namespace={rig.namespace}", "--filename=-", stdin=json.dumps(role))
    wait_until(lambda: not _may(rig.cluster, rig.namespace, missing), what="the right to be gone")
    with pytest.raises(EngineRefused, match=rf'cannot {missing} resource "flinkdeployments"') as refused:
        rig.api.request(command)
    assert refused.value.code == "NO_PERMISSION"
    assert "compose/kubernetes/scaling" in refused.value.detail
    assert rig.configuration[KEY] == f"{PARSE}:1,{COUNT}:2"


def test_a_resource_that_is_gone_is_named(rig: LiveOperatedRig) -> None:
    """By a request, and by a look."""
    command = rig.command()
    rig.cluster.kubectl("delete", "flinkdeployment", NAME, f"--namespace={rig.namespace}")
    for call in (lambda: rig.api.request(command), lambda: rig.api.look(JOB)):
        with pytest.raises(EngineRefused, match=r'flinkdeployments.flink.apache.org "orders" not found; create it') as refused:
            call()
        assert refused.value.code == "TARGET_GONE"
