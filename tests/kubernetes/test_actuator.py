"""The actuator `kubernetes` on a real API server, with the rights of the shipped role and no more."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.actuator import EngineRefused
from surescale.rescaler.execution import RequirementExecution
from tests.kubernetes.conftest import ACCESS
from tests.kubernetes.live_cluster import NODE, LiveCluster
from tests.kubernetes.rig import LiveRig
from tests.ports.requirement_contract import AFTER, BEFORE, JOB, RequirementRig, RestContract
from tests.support.waiting import wait_until

IMAGE_GONE = {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "worker:1": not found'}}
PIPELINES = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: pipelines.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: pipelines, singular: pipeline, kind: Pipeline}
  versions:
    - name: v1
      served: true
      storage: true
      subresources:
        status: {}
        scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas, labelSelectorPath: .status.selector}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


@pytest.fixture
def rig(cluster: LiveCluster, namespace: str, tmp_path: Path) -> Iterator[LiveRig]:
    """A job that runs."""
    rig = LiveRig(cluster, namespace, tmp_path)
    yield rig
    rig.client.close()


class TestLiveKubernetes(RestContract):
    """What every engine that is asked for counts does alike."""

    @pytest.fixture(autouse=True)
    def _where(self, cluster: LiveCluster, namespace: str, tmp_path: Path) -> None:
        self._made = (cluster, namespace, tmp_path)

    @contextlib.contextmanager
    def opened(self) -> Iterator[RequirementRig]:
        """A job that runs."""
        rig = LiveRig(*self._made)
        yield rig
        rig.client.close()


def _refused(rig: LiveRig, after: dict[str, int]) -> EngineRefused:
    command = rig.command(after)
    with pytest.raises(EngineRefused) as refused:
        rig.api.request(command)
    assert "\n" not in str(refused.value)
    return refused.value


def _rights() -> list[tuple[str, str, str]]:
    """Return every right of the rescaler's role that the two workloads of a rig need: group, resource, verb."""
    roles = [each for each in yaml.safe_load_all(ACCESS.read_text()) if each["kind"] == "Role"]
    rules = next(role for role in roles if role["metadata"]["name"] == "surescale-rescaler")["rules"]
    return [
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if group != "keda.sh"  # not installed here: its answer is 404 for anyone who may ask
    ]


@pytest.mark.parametrize("missing", _rights())
def test_a_right_that_is_missing_is_named_before_anything_is_written(rig: LiveRig, missing: tuple[str, str, str]) -> None:
    """The API server's own words, and where all rights stand."""
    group, resource, verb = missing
    role = next(each for each in yaml.safe_load_all(ACCESS.read_text()) if each["metadata"]["name"] == "surescale-rescaler")
    role["rules"] = [
        {"apiGroups": [of], "resources": [each], "verbs": [each_verb]}
        for rule in role["rules"]
        for of in rule["apiGroups"]
        for each in rule["resources"]
        for each_verb in rule["verbs"]
        if (of, each, each_verb) != missing
    ]
    command = rig.command({"parse": 2, "count": 3})  # made while the job may still be looked at
    rig.cluster.kubectl("replace", f"--namespace={rig.namespace}", "--filename=-", stdin=json.dumps(role))
    wait_until(lambda: not _may(rig, group, resource, verb), what="the right to be gone")
    with pytest.raises(EngineRefused) as raised:
        rig.api.request(command)
    refused = raised.value
    assert refused.code == "NO_PERMISSION"
    assert f'cannot {verb} resource "{resource}" in API group "{group}" in the namespace "{rig.namespace}"' in refused.detail
    assert "compose/kubernetes/scaling" in refused.detail
    assert rig.required == BEFORE


def _may(rig: LiveRig, group: str, resource: str, verb: str) -> bool:
    """Ask the API server whether the rescaler's account has a right now: a changed role takes effect a moment later."""
    kind, _, subresource = resource.partition("/")
    attributes = {"namespace": rig.namespace, "group": group, "resource": kind, "subresource": subresource, "verb": verb}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": "system:serviceaccount:surescale:surescale-rescaler", "resourceAttributes": attributes},
    }
    answer = rig.cluster.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def _autoscaled(rig: LiveRig) -> None:
    rig.cluster.kubectl("autoscale", "deployment", "parse", f"--namespace={rig.namespace}", "--max=5", "--cpu-percent=50")


def _applied(*words: str) -> Callable[[LiveRig], None]:
    """Apply the Deployment as it is, number of pods included."""

    def applied(rig: LiveRig) -> None:
        seen = rig.cluster.ask("GET", rig.targets["parse"].path)
        spec = {key: seen["spec"][key] for key in ("replicas", "selector", "template")}
        manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "parse"}, "spec": spec}
        rig.cluster.kubectl("apply", *words, f"--namespace={rig.namespace}", "--filename=-", stdin=json.dumps(manifest))

    return applied


_BY_ARGO_CD = _applied("--server-side", "--field-manager=argocd-controller", "--force-conflicts")


@pytest.mark.parametrize(
    ("owned", "said"),
    [
        (_autoscaled, "HorizontalPodAutoscaler parse scales it; delete that"),
        (_BY_ARGO_CD, "argocd-controller applies its spec.replicas; leave replicas out"),
        (_applied(), "`kubectl apply` sets its spec.replicas every time"),
    ],
)
def test_what_somebody_else_scales_is_refused_and_named(rig: LiveRig, owned: Callable[[LiveRig], None], said: str) -> None:
    """As the API server really records it."""
    owned(rig)
    refused = _refused(rig, {"parse": 2, "count": 3})
    assert refused.code == "OTHER_OWNER"
    assert f"deployments/parse: {said}" in refused.detail
    assert rig.required == BEFORE


def test_we_are_no_foreign_owner_to_ourselves(rig: LiveRig) -> None:
    """Nor is somebody who scaled by hand once; the API server says who wrote the number last."""
    for after in (AFTER, BEFORE):
        assert rig.carry_out(rig.command(after))[-1].status == "applied"
    rig.require(AFTER)
    rig.settle(AFTER)
    assert rig.carry_out(rig.command(BEFORE))[-1].status == "applied"
    writers = {each["manager"] for each in rig.cluster.ask("GET", rig.targets["count"].path)["metadata"]["managedFields"]}
    assert "surescale" in writers


def test_a_status_that_changes_meanwhile_costs_another_try(rig: LiveRig) -> None:
    """The resource version that was read is stale, the number is not."""
    target = rig.targets["parse"]
    read = rig.client.scale(target)
    rig.cluster.merge(target.path, {"metadata": {"annotations": {"seen": "yes"}}})
    rig.api._set(target, read, 2)
    assert rig.required == {**BEFORE, "parse": 2}


@pytest.mark.parametrize("task", ["parse", "count"])
def test_a_quota_is_named(rig: LiveRig, task: str) -> None:
    """A Deployment says so in a condition, a StatefulSet's controller by an event. What fits stays."""
    rig.offer_slots(3)
    *_, partly, failed = rig.carry_out(rig.command({task: BEFORE[task] + 3}, deadline_s=60.0))
    assert partly.waiting_for == "slots"
    assert f"{task}: {rig.namespace} may have no more pods: " in partly.detail
    assert "exceeded quota: pods-of-all" in partly.detail
    assert (failed.code, rig.required) == ("PARTLY", {**BEFORE, task: BEFORE[task] + 1})


def test_nodes_that_are_full_are_named(rig: LiveRig) -> None:
    """In the scheduler's own words."""
    rig.cluster.merge(f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": True}})
    try:
        *_, partly, failed = rig.carry_out(rig.command({"parse": 2}, deadline_s=60.0))
    finally:
        rig.cluster.merge(f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": None}})
    assert partly.waiting_for == "slots"
    assert "waits for a node: 0/1 nodes are available: 1 node(s) were unschedulable" in partly.detail
    assert (failed.code, rig.required) == ("DEADLINE", BEFORE)


def test_an_image_that_cannot_be_pulled_is_named(rig: LiveRig) -> None:
    """What a kubelet says of the container, as the API server keeps it."""
    rig.cluster.node.well |= _pods(rig, "parse")
    rig.cluster.node.ill["parse"] = IMAGE_GONE
    *_, failed = rig.carry_out(rig.command({"parse": 3}, deadline_s=60.0))
    assert failed.code == "DEADLINE"
    assert "image worker:1 cannot be pulled (Back-off pulling image" in failed.detail
    assert rig.required == BEFORE


def _pods(rig: LiveRig, app: str, *, ending: bool = False) -> set[str]:
    """Return the names of the pods of a workload: those that were asked to end, or the others."""
    found = rig.cluster.ask("GET", f"/api/v1/namespaces/{rig.namespace}/pods?labelSelector=app%3D{app}")["items"]
    return {pod["metadata"]["name"] for pod in found if ("deletionTimestamp" in pod["metadata"]) == ending}


def test_a_pod_that_drains_still_runs(rig: LiveRig) -> None:
    """A smaller number is applied when the last one is gone."""
    assert rig.carry_out(rig.command({"parse": 3}))[-1].status == "applied"
    rig.cluster.node.is_draining_slowly = True
    work = RequirementExecution(rig.command({"parse": 1}))
    work.step(rig.api, now_ms=rig.now_ms(), wall_ms=rig.now_ms())
    wait_until(lambda: len(_pods(rig, "parse", ending=True)) == 2, what="two to be asked to end")
    rig.pass_seconds(1.0)
    assert work.step(rig.api, now_ms=rig.now_ms(), wall_ms=rig.now_ms()) == []
    assert rig.api.look(JOB).running == {**BEFORE, "parse": 3}
    rig.cluster.node.is_draining_slowly = False
    rig.settle(BEFORE)
    (applied,) = work.step(rig.api, now_ms=rig.now_ms(), wall_ms=rig.now_ms())
    assert applied.status == "applied"


def test_a_custom_resource_with_a_scale_is_scaled(rig: LiveRig) -> None:
    """Its pods are those that its status selects; without a selector it is refused."""
    rig.cluster.kubectl("apply", "--filename=-", stdin=PIPELINES)
    rig.cluster.kubectl("wait", "--for=condition=Established", "crd/pipelines.example.org", "--timeout=60s")
    target = Target(rig.namespace, "orders", "pipelines", "example.org/v1")
    made = {"apiVersion": "example.org/v1", "kind": "Pipeline", "metadata": {"name": "orders"}, "spec": {"replicas": 1}}
    rig.cluster.ask("POST", target.path.rpartition("/")[0], made)
    rule = {"apiGroups": ["example.org"], "resources": ["pipelines", "pipelines/scale"], "verbs": ["get", "update"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "pipelines"}, "rules": [rule]}
    rig.cluster.kubectl("apply", f"--namespace={rig.namespace}", "--filename=-", stdin=json.dumps(role))
    account = "--serviceaccount=surescale:surescale-rescaler"
    rig.cluster.kubectl("create", "rolebinding", "pipelines", f"--namespace={rig.namespace}", "--role=pipelines", account)
    rig.api = rig.engine({"parse": target})
    needed = [("get", "pipelines"), ("get", "pipelines/scale"), ("update", "pipelines/scale")]
    wait_until(lambda: all(_may(rig, "example.org", kind, verb) for verb, kind in needed), what="the rights to take effect")
    assert _refused(rig, {"parse": 3}).code == "NO_SELECTOR"
    rig.cluster.merge(f"{target.path}/status", {"status": {"replicas": 1, "selector": "app=parse"}})
    rig.api.request(rig.command({"parse": 3}))
    assert rig.cluster.ask("GET", target.path)["spec"]["replicas"] == 3


def test_a_deployment_that_is_gone_is_named(rig: LiveRig) -> None:
    """By a request, and by a look."""
    command = rig.command({"parse": 3})
    rig.cluster.kubectl("delete", "deployment", "parse", f"--namespace={rig.namespace}")
    for call in (lambda: rig.api.request(command), lambda: rig.api.look(JOB)):
        with pytest.raises(EngineRefused, match=r'deployments\.apps "parse" not found; create it, or correct') as refused:
            call()
        assert refused.value.code == "TARGET_GONE"
