"""The Helm chart's templates are made from the kustomize manifests; what `helm` makes of them, tests/kubernetes says."""

from typing import Any

import pytest

yaml = pytest.importorskip("yaml")

from compose.chart import CHART, COMPONENTS, MANIFESTS, ROLES, apply, lines, templates  # noqa: E402

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
BY_HAND = {"NOTES.txt", "_helpers.tpl", "ingress.yaml", "jobs.yaml", "podmonitor.yaml"}


def objects(file: str) -> dict[str, Any]:
    """Return the objects of a file of the base by kind."""
    return {each["kind"]: each for each in yaml.safe_load_all((MANIFESTS / "base" / file).read_text())}


def settings(folder: str) -> dict[str, str]:
    """Return the settings that a kustomization gives the roles."""
    (made,) = yaml.safe_load((MANIFESTS / folder / "kustomization.yaml").read_text())["configMapGenerator"]
    return dict(each.split("=", 1) for each in made["literals"])


def test_the_committed_templates_are_what_the_manifests_make() -> None:
    """`make chart` writes them; nothing else lies there but what is written by hand."""
    committed = {path.name: path.read_text() for path in (CHART / "templates").iterdir() if path.name not in BY_HAND}
    assert committed == templates()


def test_the_values_defaults_are_the_bases() -> None:
    """Settings, sizes and numbers of replicas of `values.yaml`, which is written by hand."""
    assert VALUES["settings"].items() <= settings("base").items()
    for role in ROLES:
        workload = next(each for kind, each in objects(f"{role}.yaml").items() if kind in ("Deployment", "StatefulSet"))
        assert VALUES[role]["resources"] == workload["spec"]["template"]["spec"]["containers"][0]["resources"], role
    agents = objects("agent.yaml")["HorizontalPodAutoscaler"]["spec"]
    assert VALUES["agent"]["replicas"] == {"min": agents["minReplicas"], "max": agents["maxReplicas"]}
    assert VALUES["agent"]["averageCpuPercent"] == agents["metrics"][0]["resource"]["target"]["averageUtilization"]
    assert VALUES["rescaler"]["replicas"] == objects("rescaler.yaml")["Deployment"]["spec"]["replicas"]
    spark = objects("spark.yaml")["StatefulSet"]["spec"]
    assert spark["template"]["spec"]["containers"][0]["command"][4] == f"local[{VALUES['spark']['threads']}]"
    claim = spark["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]
    assert VALUES["spark"]["storage"]["size"] == claim["storage"]


@pytest.mark.parametrize("name", ["production", "secure", "notify"])
def test_a_value_file_has_the_settings_of_its_overlay(name: str) -> None:
    """So that `--values NAME.yaml` is the overlay NAME."""
    assert yaml.safe_load((CHART / f"{name}.yaml").read_text())["settings"] == settings(f"overlays/{name}")


def test_every_component_of_the_chart_is_a_value_that_is_off() -> None:
    """A release has none of them unless it says so."""
    assert {value: VALUES[value]["enabled"] for value in COMPONENTS.values()} == dict.fromkeys(COMPONENTS.values(), False)


def test_what_a_patch_does_holds_under_its_condition_only() -> None:
    """It adds an item or a key, takes one away, or replaces a scalar; of two that replace it, the later one counts first."""
    document = {"spec": {"items": [{"name": "a"}], "gone": ["x"], "token": False}}
    for operation, condition in (
        ({"op": "add", "path": "/spec/items/-", "value": {"name": "b"}}, ".A"),
        ({"op": "add", "path": "/spec/env", "value": [{"name": "c"}]}, ".A"),
        ({"op": "remove", "path": "/spec/gone"}, ".A"),
        ({"op": "replace", "path": "/spec/token", "value": True}, ".A"),
        ({"op": "replace", "path": "/spec/token", "value": "x"}, ".B"),
    ):
        apply(document, operation, condition)
    assert list(lines(document)) == [
        "spec:",
        "  items:",
        "    - name: a",
        "    {{- if .A }}",
        "    - name: b",
        "    {{- end }}",
        "  {{- if not .A }}",
        "  gone:",
        "    - x",
        "  {{- end }}",
        "  token: {{ if .B }}x{{ else if .A }}true{{ else }}false{{ end }}",
        "  {{- if .A }}",
        "  env:",
        "    - name: c",
        "  {{- end }}",
    ]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "move", "path": "/spec/token", "from": "/spec/items"},
        {"op": "add", "path": "/spec/token", "value": 1},
        {"op": "add", "path": "/spec/items/0", "value": 1},
        {"op": "replace", "path": "/spec/items", "value": []},
    ],
)
def test_a_patch_that_the_chart_cannot_say_is_refused(operation: dict[str, Any]) -> None:
    """With its path: nothing that a component does may be lost."""
    with pytest.raises(ValueError, match=f"{operation['path']}: the chart has no form for it"):
        apply({"spec": {"items": [1], "token": False}}, operation, ".A")


def test_names_of_objects_are_the_releases_but_what_an_environment_holds_is_none() -> None:
    """A user of Kafka keeps its name whatever the release is called."""
    named = {"secretName": "surescale-access-agent", "name": "surescale-agent", "value": "surescale-agent"}
    assert list(lines(named)) == [
        'secretName: {{ include "surescale.name" (list $ "access") }}-agent',
        'name: {{ include "surescale.name" (list $ "agent") }}',
        "value: surescale-agent",
    ]
