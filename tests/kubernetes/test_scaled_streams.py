"""ScaledStreams on a real API server: what `kubectl` accepts and shows, and a real state service within the shipped rights."""

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from surescale.contracts.settings import PipelineSettings
from tests.kubernetes.live_cluster import Document, LiveCluster
from tests.support import view_pipeline
from tests.support.streams_rig import condition, in_force, resource, tells
from tests.support.view_pipeline import a_pipeline, send
from tests.support.waiting import wait_until

settings, processes, service = view_pipeline.settings, view_pipeline.processes, view_pipeline.service
SHIPPED = Path(__file__).parents[2] / "compose/kubernetes/scaling/scaled-streams"
ACCOUNT = "surescale-state"


@pytest.fixture
def shop(cluster: LiveCluster, namespace: str) -> str:
    """A namespace with ScaledStreams, in which the state service's account has its rights."""
    cluster.kubectl("apply", "--validate=strict", f"--filename={SHIPPED / 'definition.yaml'}")
    cluster.kubectl("wait", "--for=condition=Established", "crd/scaledstreams.surescale.dev", "--timeout=120s")
    cluster.kubectl("apply", f"--namespace={namespace}", f"--filename={SHIPPED / 'access.yaml'}")
    account = f"/api/v1/namespaces/surescale/serviceaccounts/{ACCOUNT}"
    if not cluster.is_there(account):
        cluster.kubectl("create", "serviceaccount", ACCOUNT, "--namespace=surescale")
    return namespace


def apply(cluster: LiveCluster, document: Document) -> None:
    """Apply a resource as people do."""
    cluster.kubectl("apply", "--filename=-", stdin=yaml.safe_dump(document))


def test_kubectl_refuses_what_no_job_can_have(cluster: LiveCluster, shop: str) -> None:
    """A misspelt setting, a number out of range, a word that is none, a pattern: by name, before anything is stored."""
    for spec, named in (
        ({"maxx": 3}, 'unknown field "spec.maxx"'),
        ({"max": 0}, "spec.max"),
        ({"step-up": 1.0}, "spec.step-up"),
        ({"mode": "acting"}, "spec.mode"),
        ({"job": "sim/*"}, "spec.job"),
        ({"exclude": "someday"}, "spec.exclude"),
    ):
        with pytest.raises(AssertionError) as refused:
            apply(cluster, resource("clicks", shop, **spec))
        assert named in str(refused.value)


def test_a_job_is_set_and_kubectl_tells_how_it_is(
    cluster: LiveCluster, shop: str, settings: PipelineSettings, service: Callable[..., str], tmp_path: Path
) -> None:
    """`get` has its columns, `describe` the conditions and the events; a resource that goes lets its job go."""
    send(settings, *a_pipeline())
    (tmp_path / "token").write_text(cluster.token("surescale", ACCOUNT))
    apply(cluster, resource("clicks", shop, mode="act", max=3, align=True, exclude=["sat-sun 00:00-24:00 Europe/Berlin"]))
    service(
        SURESCALE_STREAM_NAMESPACES=shop,
        SURESCALE_KUBERNETES_URL=cluster.url,
        SURESCALE_KUBERNETES_TOKEN_FILE=str(tmp_path / "token"),
        SURESCALE_KUBERNETES_CA_FILE=str(cluster.ca_file),
    )
    path = f"/apis/surescale.dev/v1alpha1/namespaces/{shop}/scaledstreams/clicks"
    shown = tells(lambda: cluster.ask("GET", path), "True", "Set")
    assert condition(shown)["observedGeneration"] == shown["metadata"]["generation"] == 1
    assert (in_force(settings).mode, in_force(settings).parallelism_max) == ("act", 3)

    def described() -> str:
        return cluster.kubectl("describe", "scaledstream", "clicks", f"--namespace={shop}")

    wait_until(lambda: described().count("Rescaled") >= 3, what="the events")
    assert "Rescaling" in described()
    columns, line = cluster.kubectl("get", "scaledstreams", f"--namespace={shop}").splitlines()
    assert columns.split() == ["NAME", "JOB", "MODE", "HEALTH", "SUBTASKS", "WANTED", "SET", "AGE"]
    assert line.split()[:3] == ["clicks", "sim/clicks", "act"]
    version = shown["metadata"]["resourceVersion"]
    apply(cluster, resource("clicks", shop, mode="act", max=4))
    wait_until(lambda: in_force(settings).parallelism_max == 4, what="the new maximum")
    again = tells(lambda: cluster.ask("GET", path), "True", "Set")
    assert again["metadata"]["resourceVersion"] != version
    cluster.kubectl("delete", "scaledstream", "clicks", f"--namespace={shop}")
    wait_until(lambda: in_force(settings).applied_from == "", what="the job to be let go")
