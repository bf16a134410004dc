"""The Kubernetes manifests, offline: against the schemas of the API, and for what pod security `restricted` asks."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from surescale.contracts.settings import from_environment
from surescale.contracts.topics import TOPICS
from surescale.engines.flink_operator.doctor import rights_for
from surescale.engines.flink_operator.resource import API, read_operated_jobs
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.chains import chains_of
from surescale.engines.kubernetes.requirement import targets_of
from surescale.engines.kubernetes.target import Target
from surescale.rescaler.service.settings import RescalerSettings
from tests.support.kustomized import KUBERNETES, rendered

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed: no schemas")
yaml = pytest.importorskip("yaml")

OVERLAYS = sorted(path.name for path in (KUBERNETES / "overlays").iterdir())
OLDEST, NEWEST = "1.30", "1.37"
IMAGES = ("monitor", "spark", "agent", "rescaler", "state-service")
STANDARD = ("monitor", "spark", "agent", "rescaler", "state")


def read(path: Path) -> list[dict[str, Any]]:
    """Return the objects of a file; libyaml takes a tenth of the time."""
    return list(yaml.load_all(path.read_text(), yaml.CSafeLoader))


def documents() -> list[dict[str, Any]]:
    """Return every object of the base as it is written."""
    files = sorted(path for path in (KUBERNETES / "base").glob("*.yaml") if path.name != "kustomization.yaml")
    return [document for path in files for document in read(path)]


def component(file: str) -> list[dict[str, Any]]:
    """Return the objects of a file of the component that makes executors pods of their own."""
    return read(KUBERNETES / "components/spark-executors" / file)


def scaling(kind: str) -> list[dict[str, Any]]:
    """Return the objects of a kind that give rights in a namespace whose workloads are scaled."""
    return [each for each in read(KUBERNETES / "scaling/access.yaml") if each["kind"] == kind]


def workloads() -> dict[str, dict[str, Any]]:
    """Return the roles' workloads by role."""
    kinds = {"Deployment", "StatefulSet"}
    found = [document for document in documents() if document["kind"] in kinds]
    return {document["metadata"]["name"].removeprefix("surescale-"): document["spec"] for document in found}


def containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of a workload, those that run first included."""
    pod = spec["template"]["spec"]
    return [*pod.get("initContainers", []), *pod["containers"]]


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_object_fits_the_schemas(version: str) -> None:
    """Strictly: an unknown field is an error."""
    for document in documents():
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.parametrize("file", ["access.yaml", "network.yaml", "executor.yaml"])
def test_the_components_own_objects_fit_the_schemas(file: str) -> None:
    """Rights, network, and the template of an executor's pod."""
    for document in component(file):
        kubernetes_validate.validate(document, NEWEST, strict=True)


def test_every_overlay_renders_and_fits_the_schemas() -> None:
    """Patches find their targets; every image has a tag; every role is there."""
    from tests.support.kubernetes_schemas import check  # here, so that this file is skipped by its own words

    for overlay in OVERLAYS:
        found = rendered(overlay)
        for document in found:
            check(document)
            assert document["kind"] == "Namespace" or document["metadata"]["namespace"] == "surescale"
        specs = [document["spec"] for document in found if document["kind"] in {"Deployment", "StatefulSet"}]
        images = [container["image"] for spec in specs for container in containers(spec)]
        assert len(specs) == len(STANDARD), overlay
        assert all(":" in image.rpartition("/")[2] for image in images), overlay


def test_an_overlay_of_ones_own_runs_images_by_digest(tmp_path: Path) -> None:
    """In each of their containers, in place of the tag."""
    wanted = {image: f"registry.example/{image}@sha256:{number:064x}" for number, image in enumerate(IMAGES)}
    pinned = [
        {"name": f"surescale/{image}", "newName": name, "digest": digest}
        for image, (name, _, digest) in ((image, whole.partition("@")) for image, whole in wanted.items())
    ]
    base = os.path.relpath(KUBERNETES / "base", tmp_path.resolve())  # kustomize takes no whole paths
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({"resources": [base], "images": pinned}))
    specs = [each["spec"] for each in rendered(str(tmp_path)) if each["kind"] in {"Deployment", "StatefulSet"}]
    images = {container["image"] for spec in specs for container in containers(spec)}
    assert images == set(wanted.values())


def test_the_five_roles_are_there() -> None:
    """Each with an account and a budget of its own."""
    assert set(workloads()) == set(STANDARD)
    for kind in ("ServiceAccount", "PodDisruptionBudget"):
        names = {document["metadata"]["name"] for document in documents() if document["kind"] == kind}
        assert names == {f"surescale-{role}" for role in STANDARD}


@pytest.mark.parametrize("role", STANDARD)
def test_a_pod_meets_restricted_pod_security(role: str) -> None:
    """Not root, no capability, no escalation, the default seccomp profile, a root file system that cannot be written."""
    spec = workloads()[role]
    pod = spec["template"]["spec"]["securityContext"]
    assert (pod["runAsNonRoot"], pod["seccompProfile"]) == (True, {"type": "RuntimeDefault"})
    for container in containers(spec):
        confined = container["securityContext"]
        assert confined["capabilities"] == {"drop": ["ALL"]}
        assert (confined["allowPrivilegeEscalation"], confined["readOnlyRootFilesystem"]) == (False, True)
        assert "memory" in container["resources"]["limits"]
    assert spec["template"]["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("role", STANDARD)
def test_a_pod_has_probes_that_ask_the_health_port(role: str) -> None:
    """Liveness asks only whether the role hangs: one that waits for Kafka must not be killed for it. A standby is well."""
    (container,) = workloads()[role]["template"]["spec"]["containers"]
    asked = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "readiness", "liveness")}
    assert {name: get["path"] for name, get in asked.items()} == {
        "startup": "/live",
        "readiness": "/live" if role == "rescaler" else "/health",
        "liveness": "/live",
    }
    assert {get["port"] for get in asked.values()} <= {port["name"] for port in container["ports"]}


@pytest.mark.parametrize("role", STANDARD)
def test_selectors_meet_the_labels_of_the_pods(role: str) -> None:
    """Workload, budget and account speak of the same pods."""
    spec = workloads()[role]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["selector"]["matchLabels"] == labels == {"app.kubernetes.io/name": f"surescale-{role}"}
    assert spec["template"]["spec"]["serviceAccountName"] == f"surescale-{role}"


def test_an_upgrade_ends_all_monitors_before_it_starts_new_ones() -> None:
    """One with the setting for several and one without would both watch. Of the others new pods come first."""
    recreated = {role for role, spec in workloads().items() if spec.get("strategy", {}).get("type") == "Recreate"}
    assert recreated == {"monitor"}


def test_there_are_never_more_agents_than_partitions() -> None:
    """One more would never become ready."""
    (scaler,) = (document["spec"] for document in documents() if document["kind"] == "HorizontalPodAutoscaler")
    assert scaler["scaleTargetRef"]["name"] == "surescale-agent"
    assert scaler["maxReplicas"] <= TOPICS["snapshots"].partitions
    assert "replicas" not in workloads()["agent"]  # the autoscaler's, and only its


def test_nothing_is_allowed_that_is_not_named() -> None:
    """One policy takes everything away, and no other gives everything back."""
    policies = {document["metadata"]["name"]: document["spec"] for document in documents() if document["kind"] == "NetworkPolicy"}
    nothing = policies.pop("surescale-nothing")
    assert nothing == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, spec in policies.items():
        assert all(rule.get("ports") for rule in [*spec.get("ingress", []), *spec.get("egress", [])]), name


@pytest.mark.parametrize("role", STANDARD)
def test_prometheus_finds_a_pods_metrics(role: str) -> None:
    """By annotations that name the image's health port, which is open to its namespace and to nobody else."""
    template = workloads()[role]["template"]
    (container,) = template["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    said = template["metadata"]["annotations"]
    assert said == {"prometheus.io/scrape": "true", "prometheus.io/port": str(ports["metrics"]), "prometheus.io/path": "/metrics"}
    assert f"SURESCALE_HEALTH_PORT={ports['metrics']} " in (KUBERNETES.parent / "Dockerfile").read_text()
    (policy,) = (found["spec"] for found in documents() if found["metadata"]["name"] == "surescale-metrics")
    assert f"surescale-{role}" in policy["podSelector"]["matchExpressions"][0]["values"]


def test_with_executors_as_pods_the_driver_alone_has_a_token() -> None:
    """Within a role of its own; its executors run the image that the overlay names for it."""
    found = rendered("executors")
    specs = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] in {"Deployment", "StatefulSet"}}
    with_token = {name for name, spec in specs.items() if spec["template"]["spec"]["automountServiceAccountToken"]}
    assert with_token == {"surescale-spark"}
    (driver,) = specs["surescale-spark"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable.get("value") for variable in driver["env"]}
    assert environment["SPARK_EXECUTOR_IMAGE"] == driver["image"] == "registry.example/surescale/spark:0.1.0"
    bound = [
        each["subjects"]
        for each in found
        if each["kind"] == "RoleBinding" and each["roleRef"]["name"] == "surescale-spark-driver"
    ]
    assert bound == [[{"kind": "ServiceAccount", "name": "surescale-spark", "namespace": "surescale"}]]


def settings_where_clients_read(found: list[dict[str, Any]], setting: str, file: str, *, volume: str) -> RescalerSettings:
    """Return the settings of a pipeline whose monitor and rescaler, and nobody else, have a token; both find the file."""
    specs = {each["metadata"]["name"]: each["spec"] for each in found if each["kind"] in {"Deployment", "StatefulSet"}}
    clients = {"surescale-monitor", "surescale-rescaler"}
    assert {name for name, spec in specs.items() if spec["template"]["spec"]["automountServiceAccountToken"]} == clients
    (pipeline,) = (each["data"] for each in found if each["kind"] == "ConfigMap" and "SURESCALE_BOOTSTRAP" in each["data"])
    (kept,) = (each for each in found if each["kind"] == "ConfigMap" and file in each["data"])
    for name in clients:
        pod = specs[name]["template"]["spec"]
        (mount,) = (each["mountPath"] for each in pod["containers"][0]["volumeMounts"] if each["name"] == volume)
        assert pipeline[setting] == f"{mount}/{file}"
        assert {"name": volume, "configMap": {"name": kept["metadata"]["name"]}} in pod["volumes"]
    return from_environment(RescalerSettings, {name: value for name, value in pipeline.items() if name.startswith("SURESCALE_")})


def test_with_workers_as_pods_monitor_and_rescaler_alone_have_a_token() -> None:
    """Both read the groups file, whose workloads the shipped roles cover."""
    settings = settings_where_clients_read(rendered("consumers"), "SURESCALE_GROUPS_FILE", "groups.toml", volume="groups")
    groups = GroupsSettings(str(KUBERNETES / "components/consumers/groups.toml"))
    assert (settings.engine, settings.actuator_kind) == ("kafka", "kubernetes")
    chains = chains_of(replace(settings, parts=(groups,)), "kubernetes")
    allowed = {resource for role in scaling("Role") for rule in role["rules"] for resource in rule["resources"]}
    namespace = yaml.safe_load((KUBERNETES / "scaling/kustomization.yaml").read_text())["namespace"]
    for chain in chains.values():
        for target in targets_of(chain).values():
            assert (target.namespace, f"{target.resource}/scale" in allowed) == (namespace, True)


def test_for_flink_monitor_and_rescaler_alone_reach_its_api_and_see_its_secret() -> None:
    """The settings are those of a Flink cluster, the network policy opens its port, and no pod has a token for Kubernetes."""
    found = rendered("flink")
    pods = {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in found
        if each["kind"] in {"Deployment", "StatefulSet"}
    }
    clients = {"surescale-monitor", "surescale-rescaler"}
    volume = {"name": "engine", "secret": {"secretName": "surescale-engine", "optional": True, "defaultMode": 0o440}}
    assert {name for name, pod in pods.items() if volume in pod["volumes"]} == clients
    assert not any(pod["automountServiceAccountToken"] for pod in pods.values())
    (pipeline,) = (each["data"] for each in found if each["kind"] == "ConfigMap" and "SURESCALE_BOOTSTRAP" in each["data"])
    settings = from_environment(RescalerSettings, pipeline)
    assert (settings.engine, settings.actuator_kind, settings.pipeline_clock) == ("flink", "flink", False)
    (policy,) = (each["spec"] for each in found if each["metadata"]["name"] == "surescale-engine")
    assert policy["egress"] == [{"ports": [{"port": urlsplit(settings.engine_url).port}]}]
    assert set(policy["podSelector"]["matchExpressions"][0]["values"]) == clients


def test_the_rights_to_scale_are_least_and_fit_the_schemas() -> None:
    """Nothing but a scale may be changed, nothing named by a star; each account has its own role."""
    for document in [*scaling("Role"), *scaling("RoleBinding")]:
        kubernetes_validate.validate(document, NEWEST, strict=True)
    for role in scaling("Role"):
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            writes = set(rule["verbs"]) - {"get", "list"}
            assert not writes or (writes == {"update"} and all(each.endswith("/scale") for each in rule["resources"]))
    accounts = {each["metadata"]["name"] for each in documents() if each["kind"] == "ServiceAccount"}
    for binding in scaling("RoleBinding"):
        (subject,) = binding["subjects"]
        assert (subject["namespace"], binding["roleRef"]["name"]) == ("surescale", subject["name"])
        assert subject["name"] in accounts


def test_with_the_flink_operator_monitor_and_rescaler_alone_have_a_token_and_the_file_that_they_read() -> None:
    """Every job of the file lies where the shipped role holds, and the role is what the actuator needs, no more."""
    found = rendered("flink-operator")
    settings = settings_where_clients_read(found, "SURESCALE_FLINK_RESOURCES_FILE", "jobs.toml", volume="flink-jobs")
    assert (settings.engine, settings.actuator_kind) == ("flink", "kubernetes")
    access = [*yaml.safe_load_all((KUBERNETES / "scaling/flink-operator/access.yaml").read_text())]
    for document in access:
        kubernetes_validate.validate(document, NEWEST, strict=True)
    roles = {each["metadata"]["name"]: each["rules"] for each in access if each["kind"] == "Role"}
    (rule,), (watching,) = roles["surescale-rescaler-flink"], roles["surescale-monitor-flink"]
    namespace = yaml.safe_load((KUBERNETES / "scaling/flink-operator/kustomization.yaml").read_text())["namespace"]
    jobs = read_operated_jobs(KUBERNETES / "components/flink-operator/jobs.toml")
    assert {job.target.namespace for job in jobs.values()} == {namespace}
    targets = [Target(namespace, "x", resource, API) for resource in ("flinkdeployments", "flinksessionjobs")]
    needed = {(right.group, right.resource, right.verb) for target in targets for right in rights_for(target)}
    assert needed == {(group, kind, verb) for group in rule["apiGroups"] for kind in rule["resources"] for verb in rule["verbs"]}
    assert watching == rule | {"verbs": ["get"]}


def test_spark_is_told_of_the_names_and_ports_that_the_manifests_have() -> None:
    """Driver, template, account and ports: nothing of it is checked before executors fail to come."""
    lines = [line.split() for line in (KUBERNETES / "components/spark-executors/spark-defaults.conf").read_text().splitlines()]
    said = {words[0].removeprefix("spark."): words[1] for words in lines if words and words[0] != "#"}
    (driver,) = (each for each in rendered("executors") if each["kind"] == "StatefulSet")
    (container,) = driver["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: str(port["containerPort"]) for port in container["ports"]}
    name, service = driver["metadata"]["name"], driver["spec"]["serviceName"]
    assert said["kubernetes.driver.pod.name"] == f"{name}-0"
    assert said["driver.host"] == f"{name}-0.{service}.{said['kubernetes.namespace']}.svc"
    assert (said["driver.port"], said["blockManager.port"]) == (ports["driver"], ports["blocks"])
    (mount,) = (mount["mountPath"] for mount in container["volumeMounts"] if mount["name"] == "spark-settings")
    assert said["kubernetes.executor.podTemplateFile"] == f"{mount}/executor.yaml"
    (template,) = component("executor.yaml")
    assert [each["name"] for each in template["spec"]["containers"]] == [said["kubernetes.executor.podTemplateContainerName"]]
    accounts = {each["metadata"]["name"] for each in component("access.yaml") if each["kind"] == "ServiceAccount"}
    assert accounts == {said["kubernetes.authenticate.executor.serviceAccountName"]}


def test_the_cron_job_of_the_tournament_is_restricted_and_its_command_is_one() -> None:
    """It fits the schemas, runs without rights of its own, never twice at once, and surescale reads its words."""
    from click.testing import CliRunner

    from surescale.services.tools.tournament.command import command

    folder = KUBERNETES / "components/tournament"
    found = [each for file in ("cronjob.yaml", "network.yaml") for each in yaml.safe_load_all((folder / file).read_text())]
    for document in found:
        kubernetes_validate.validate(document, NEWEST, strict=True)
    (job,) = (each for each in found if each["kind"] == "CronJob")
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    pod = job["spec"]["jobTemplate"]["spec"]["template"]
    assert pod["spec"]["securityContext"]["runAsNonRoot"]
    assert pod["spec"]["automountServiceAccountToken"] is False
    (container,) = pod["spec"]["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    surescale, group, name, *words = container["command"]
    assert (surescale, group, name) == ("surescale", "policy", "tournament")
    asked = CliRunner().invoke(command, [*words, "--help"])
    assert asked.exit_code == 0
    (policy,) = (each for each in found if each["kind"] == "NetworkPolicy")
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
