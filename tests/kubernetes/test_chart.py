"""The Helm chart: the same objects as the kustomize overlays, installed and upgraded by a real `helm` on a real API server."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kubernetes.live_cluster import Document, HelmFailed, LiveCluster
from tests.support.waiting import wait_until

COMPOSE = Path(__file__).parents[2] / "compose"
CHART = COMPOSE / "helm/surescale"
ROLES = ("monitor", "spark", "agent", "rescaler", "state")
IMAGES = ("monitor", "spark", "agent", "rescaler", "state-service")
OURS_ALONE = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/part-of",
    "helm.sh/chart",
    "checksum/settings",
    "imagePullPolicy",
}
"""What the chart adds, and labels that kustomize puts elsewhere."""
HASHED = re.compile(r"(surescale-(?:pipeline|groups|flink-jobs))-[a-z0-9]{10}")
TIMEOUT_S = 120.0


def _bare(document: Any) -> Any:
    """Return an object without what may differ."""
    if isinstance(document, dict):
        kept = {key: _bare(value) for key, value in document.items() if key not in OURS_ALONE}
        return {key: value for key, value in kept.items() if value != {} or key in ("podSelector", "emptyDir")}
    if isinstance(document, list):
        return [_bare(each) for each in document]
    return document


def _objects(rendered: str) -> dict[tuple[str, str], Document]:
    found = {}
    for each in yaml.safe_load_all(HASHED.sub(r"\1", rendered)):
        if each and each["kind"] != "Namespace":
            each["metadata"].pop("namespace", None)
            found[each["kind"], each["metadata"]["name"]] = _bare(each)
    return found


@pytest.mark.parametrize(
    ("overlay", "values"),
    [
        ("production", ["production"]),
        *((name, ["production", name]) for name in ("flink", "consumers", "secure", "notify")),
        ("flink-operator", ["production", "flink", "flink-operator"]),
        *((name, ["production", "consumers", name]) for name in ("scaled-streams", "keda")),
    ],
)
def test_the_chart_makes_what_the_overlay_makes(cluster: LiveCluster, overlay: str, values: list[str]) -> None:
    """But for the policies that hold for all pods: the chart's hold for its own, since it may share a namespace."""
    files = [f"--values={CHART / name}.yaml" for name in values]
    chart = _objects(cluster.helm("template", "surescale", str(CHART), "--kube-version=1.34", *files))
    ours = _objects(cluster.kubectl("kustomize", str(COMPOSE / "kubernetes/overlays" / overlay)))
    for name in ("surescale-nothing", "surescale-names"):
        (expression,) = chart["NetworkPolicy", name]["spec"].pop("podSelector")["matchExpressions"]
        assert expression["values"] == [f"surescale-{role}" for role in ROLES]
        assert ours["NetworkPolicy", name]["spec"].pop("podSelector") == {}
    assert chart == ours


def test_images_run_by_digest_where_one_is_given(cluster: LiveCluster) -> None:
    """In each container of the role, beside the tag, which says to people what it is."""
    digests = {image: f"sha256:{number:064x}" for number, image in enumerate(IMAGES)}
    given = [f"--set=image.digests.{image}={digest}" for image, digest in digests.items()]
    rendered = cluster.helm("template", "surescale", str(CHART), "--kube-version=1.34", "--set=image.tag=1.2", *given)
    images = set(re.findall(r"image: (\S+)", rendered))
    assert images == {f"surescale/{image}:1.2@{digest}" for image, digest in digests.items()}


def test_what_every_pod_should_have_every_pod_has(cluster: LiveCluster, tmp_path: Path) -> None:
    """Beside what it has itself."""
    pods: dict[str, Any] = {
        "nodeSelector": {"pool": "infra"},
        "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
        "priorityClassName": "high",
        "labels": {"team": "data"},
        "annotations": {"sidecar": "false"},
        "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
        "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
        "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
    }
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"pods": pods}))
    files = [f"--values={CHART / 'secure.yaml'}", f"--values={tmp_path / 'values.yaml'}"]
    objects = _objects(cluster.helm("template", "surescale", str(CHART), "--kube-version=1.34", *files))
    templates = [each["spec"]["template"] for (kind, _), each in objects.items() if kind in ("Deployment", "StatefulSet")]
    assert len(templates) == len(ROLES)
    for template in templates:
        spec = template["spec"]
        alone = ("nodeSelector", "tolerations", "priorityClassName")
        assert {name: spec[name] for name in alone} == {name: pods[name] for name in alone}
        assert template["metadata"]["labels"]["team"] == "data"
        assert template["metadata"]["annotations"]["sidecar"] == "false"
        assert pods["volumes"][0] in spec["volumes"]
        for container in spec["containers"]:
            assert pods["env"][0] in container["env"]
            assert pods["volumeMounts"][0] in container["volumeMounts"]


def test_the_alert_rules_reach_prometheus_operator_as_they_are(cluster: LiveCluster) -> None:
    """But for where the runbook is; and a pod monitor stands in place of the annotations."""
    chosen = ["--set=prometheus.rules=true", "--set=prometheus.podMonitor=true", "--set=prometheus.runbook=https://x/y"]
    objects = _objects(cluster.helm("template", "surescale", str(CHART), "--kube-version=1.34", *chosen))
    rules = (COMPOSE / "observability/alerts.yml").read_text().replace("docs/runbook.md", "https://x/y")
    assert objects["PrometheusRule", "surescale-alerts"]["spec"] == yaml.safe_load(rules)
    assert ("PodMonitor", "surescale") in objects
    assert not any("prometheus.io" in json.dumps(each) for each in objects.values())


def test_of_several_monitors_one_watches(cluster: LiveCluster) -> None:
    """Whatever the settings say: two that both watch would send each sample twice."""
    chosen = ["--set=monitor.replicas=2", "--set-string=settings.SURESCALE_LEADER_ELECT=false"]
    objects = _objects(cluster.helm("template", "surescale", str(CHART), "--kube-version=1.34", *chosen))
    assert objects["Deployment", "surescale-monitor"]["spec"]["replicas"] == 2
    assert objects["ConfigMap", "surescale-pipeline"]["data"]["SURESCALE_LEADER_ELECT"] == "true"


def test_settings_of_jobs_are_applied_from_values(cluster: LiveCluster, tmp_path: Path) -> None:
    """Each file as it is, under the release's own name; with TLS as the user who may write settings."""
    files = {"a.toml": '[jobs."shop/*"]\nmax = 3\n', "b.toml": '[jobs."flink/orders"]\nmin = 2\n'}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump({"jobs": {"files": files}}))
    chosen = [f"--values={CHART / 'secure.yaml'}", f"--values={tmp_path / 'values.yaml'}", "--namespace=streaming"]
    objects = _objects(cluster.helm("template", "surescale", str(CHART), "--kube-version=1.34", *chosen))
    assert objects["ConfigMap", "surescale-jobs"]["data"] == files
    pod = objects["CronJob", "surescale-jobs"]["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    folder = next(each["mountPath"] for each in container["volumeMounts"] if each["name"] == "jobs")
    assert container["command"] == ["surescale", "job", "apply", "--file", folder, "--prune"]
    assert container["args"] == ["--name", "streaming/surescale", "--by", "chart surescale"]
    assert {"name": "SURESCALE_KAFKA_USERNAME", "value": "surescale-operator"} in container["env"]
    secrets = [each["secret"]["secretName"] for each in pod["volumes"] if "secret" in each]
    assert secrets == ["surescale-access-operator"]


def test_it_installs_upgrades_and_goes(cluster: LiveCluster, namespace: str) -> None:
    """All pods become ready; a changed setting replaces them, and page and API stay up; only the checkpoint's volume stays."""
    where = [f"--namespace={namespace}", f"--kubeconfig={cluster.kubeconfig}"]
    cluster.helm("install", "sizes", str(CHART), *where)
    paths = {role: _path(namespace, role) for role in ROLES}
    for role, path in paths.items():
        wait_until(lambda path=path: _is_ready(cluster, path), TIMEOUT_S, what=f"the pods of {role}")  # type: ignore[misc]
    changed = ("settings.SURESCALE_CLUSTER=other", "rescaler.replicas=1", "state.replicas=2")
    cluster.helm("upgrade", "sizes", str(CHART), *(f"--set={each}" for each in changed), *where)

    def is_replaced_and_up() -> bool:
        assert cluster.ask("GET", paths["state"])["status"].get("availableReplicas", 0) > 0
        return _is_ready(cluster, paths["state"])

    wait_until(is_replaced_and_up, TIMEOUT_S, what="the new pods of the state service")
    wait_until(lambda: _generation(cluster, paths["agent"]) == 2, TIMEOUT_S, what="the agents to be replaced")
    for role, path in paths.items():
        wait_until(lambda path=path: _is_ready(cluster, path), TIMEOUT_S, what=f"the new pods of {role}")  # type: ignore[misc]
    settings = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/configmaps/sizes-pipeline")["data"]
    assert settings["SURESCALE_CLUSTER"] == "other"
    cluster.helm("uninstall", "sizes", "--wait", *where)
    assert not any(cluster.is_there(path) for path in paths.values())
    (claim,) = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")["items"]
    assert claim["metadata"]["name"] == "checkpoint-sizes-spark-0"


def test_with_keda_it_installs(cluster: LiveCluster, namespace: str) -> None:
    """KEDA's namespace alone may come to the port that the service has for it."""
    where = [f"--namespace={namespace}", f"--kubeconfig={cluster.kubeconfig}"]
    files = [f"--values={CHART / name}.yaml" for name in ("production", "consumers", "keda")]
    cluster.helm("install", "sizes", str(CHART), *files, "--set=keda.namespace=scalers", *where)
    wait_until(lambda: _is_ready(cluster, _path(namespace, "state")), TIMEOUT_S, what="the pods of the state service")
    service = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/services/sizes-state")["spec"]["ports"]
    assert {each["name"]: (each["port"], each["targetPort"]) for each in service}["keda"] == (8075, "keda")
    settings = cluster.ask("GET", f"/api/v1/namespaces/{namespace}/configmaps/sizes-pipeline")["data"]
    assert settings["SURESCALE_KEDA_PORT"] == "8075"
    policy = cluster.ask("GET", f"/apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies/sizes-keda")["spec"]
    (rule,) = policy["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "scalers"}}}]
    assert [each["port"] for each in rule["ports"]] == ["keda"]
    cluster.helm("uninstall", "sizes", "--wait", *where)
    assert not cluster.is_there(_path(namespace, "state"))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("image.digests.monitor=latest", "'/image/digests/monitor': 'latest' does not match pattern"),
        ("agent.replicas.min=0", "'/agent/replicas/min': minimum: got 0, want 1"),
        ("agent.replicas.max=1", "agent.replicas: max is less than min; set a max of at least that"),
        ("setings.SURESCALE_CLUSTER=x", "additional properties 'setings' not allowed"),
        ("settings.BOOTSTRAP=kafka:9092", "'/settings': additional properties 'BOOTSTRAP' not allowed"),
        ("settings.SURESCALE_SEED=3", "'/settings/SURESCALE_SEED'"),
        ("consumers.enabled=true", "consumers.groups: say what scales each group, as TOML"),
        ("flink.url=flink:8081", "'/flink/url'"),
        ("pods.tolerations=x", "'/pods/tolerations': got string, want array"),
        ("prometheus.rules=yes", "'/prometheus/rules': got string, want boolean"),
        ("jobs.files.orders=x", "invalid propertyName 'orders'"),
        ("jobs.schedule=hourly", "'/jobs/schedule': 'hourly' does not match pattern"),
        ("monitor.replicas=0", "'/monitor/replicas': minimum: got 0, want 1"),
        ("state.replicas=0", "'/state/replicas': minimum: got 0, want 1"),
        ("scaledStreams.enabled=true", "scaledStreams.namespaces: name the namespaces whose ScaledStreams set jobs"),
        ("keda.namespace=Keda", "'/keda/namespace': 'Keda' does not match pattern"),
        ("ingress.enabled=true", "ingress.host: say under which name people reach the page"),
        ("flink.enabled=true,consumers.enabled=true", "flink.enabled, consumers.enabled: a release serves one cluster"),
        ("flink.enabled=true,flinkOperator.enabled=true", "flinkOperator.jobs: say which resource runs each job, as TOML"),
        ("flinkOperator.enabled=true", "flinkOperator.enabled: set flink.enabled too"),
    ],
)
def test_a_wrong_value_is_named(cluster: LiveCluster, wrong: str, said: str) -> None:
    """Before anything reaches the cluster. A number as a setting is refused: Helm would write a million as 1e+06."""
    with pytest.raises(HelmFailed) as failed:
        cluster.helm("template", "surescale", str(CHART), "--kube-version=1.34", f"--set={wrong}")
    assert said in str(failed.value)


def test_the_schema_knows_exactly_the_values_there_are() -> None:
    """So none can be misspelt; that it accepts the shipped ones is what every other test shows."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert schema["properties"].keys() - {"global"} == values.keys()


def _path(namespace: str, role: str) -> str:
    return f"/apis/apps/v1/namespaces/{namespace}/{'statefulsets' if role == 'spark' else 'deployments'}/sizes-{role}"


def _is_ready(cluster: LiveCluster, path: str) -> bool:
    seen = cluster.ask("GET", path)
    status, wanted = seen["status"], seen["spec"]["replicas"]
    is_new = status.get("observedGeneration") == seen["metadata"]["generation"]
    return bool(is_new and status.get("readyReplicas", 0) == status.get("updatedReplicas", 0) == wanted > 0)


def _generation(cluster: LiveCluster, path: str) -> int:
    revision = cluster.ask("GET", path)["metadata"]["annotations"]["deployment.kubernetes.io/revision"]
    return int(revision)
