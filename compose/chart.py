"""Makes the definition of ScaledStreams, and the Helm chart's templates from the kustomize base and its components.

`python -m compose.chart`, or `make chart`.

The manifests are the source. What a component adds stands in the chart under a condition, the value that switches it on.
The tables below say which fields are values of a release; names, images and labels come from `_helpers.tpl`.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from surescale.services.state.scaled_streams.definition import definition

MANIFESTS = Path(__file__).parent / "kubernetes"
CHART = Path(__file__).parent / "helm/surescale"
COMPONENTS = {
    "flink": "flink",
    "consumers": "consumers",
    "flink-operator": "flinkOperator",
    "secure": "secure",
    "notify": "notify",
    "scaled-streams": "scaledStreams",
    "keda": "keda",
}
"""The components that the chart has, in the order in which they apply, and the value that switches each on."""
SPREAD = "production", ".Values.spread"
"""The overlay whose patch of several objects is a choice too, and its condition. Its other patches are sizes: values."""
DEFINITIONS = MANIFESTS / "scaling/scaled-streams/definition.yaml", CHART / "crds/scaledstreams.yaml"
"""Where the definition of ScaledStreams stands: for kubectl, and for Helm, which installs it before anything else."""
ROLES = ("monitor", "spark", "agent", "rescaler", "state")
ALERTS = Path(__file__).parent / "observability/alerts.yml"
HEADER = "{{- /* Made from compose/kubernetes by `make chart`; changes belong there. */}}\n"
CHECKS = """\
{{- if and .Values.flink.enabled .Values.consumers.enabled }}
{{- fail "flink.enabled, consumers.enabled: a release serves one cluster; install one release for each" }}
{{- end }}
{{- if and .Values.flinkOperator.enabled (not .Values.flink.enabled) }}
{{- fail "flinkOperator.enabled: set flink.enabled too, which says where the figures come from" }}
{{- end }}
{{- if and .Values.scaledStreams.enabled (not .Values.scaledStreams.namespaces) }}
{{- fail "scaledStreams.namespaces: name the namespaces whose ScaledStreams set jobs" }}
{{- end }}
{{- if lt (int .Values.agent.replicas.max) (int .Values.agent.replicas.min) }}
{{- fail "agent.replicas: max is less than min; set a max of at least that" }}
{{- end }}
"""
SETTINGS = {
    ("flink", "SURESCALE_ENGINE_URL"): ".Values.flink.url",
    ("flink", "SURESCALE_CLUSTER"): ".Values.flink.cluster",
    ("consumers", "SURESCALE_CLUSTER"): ".Values.consumers.cluster",
    ("scaled-streams", "SURESCALE_STREAM_NAMESPACES"): '(join "," .Values.scaledStreams.namespaces)',
}
"""Settings of a component that are values."""
LEADER_ELECT = '{{- $settings = merge (dict "SURESCALE_LEADER_ELECT" "true") $settings }}'
"""Of several monitors one watches."""
FILES = {
    "surescale-groups": ("consumers", "groups.toml", "groups", "say what scales each group, as TOML"),
    "surescale-flink-jobs": ("flink-operator", "jobs.toml", "jobs", "say which resource runs each job, as TOML"),
}
"""Config maps with a file: component, name of the file, its value, and what to do where that is missing."""


@dataclass(frozen=True, slots=True)
class Template:
    """What Helm computes: text behind a key, or lines of their own, where INDENT stands for their indentation."""

    text: str
    has_lines: bool = False


@dataclass(frozen=True, slots=True)
class When:
    """An object, an item of a list or a key's value that is there only under a condition."""

    condition: str
    value: Any


@dataclass(frozen=True, slots=True)
class Choice:
    """A scalar that is another one under each of some conditions; the first that holds counts."""

    cases: tuple[tuple[str, Any], ...]
    otherwise: Any


def _lines_of(value: str) -> Template:
    return Template(f"{{{{- toYaml {value} | nindent INDENT }}}}", has_lines=True)


def _ports_of(value: str) -> Template:
    return Template(f"{{{{- range {value} }}}}\n- port: {{{{ . }}}}\n{{{{- end }}}}", has_lines=True)


def _more(field: str) -> Template:
    """Return what `pods` has for every pod, to stand among what the role has itself."""
    return Template(f"{{{{- with .Values.pods.{field} }}}}\n{{{{- toYaml . | nindent INDENT }}}}\n{{{{- end }}}}", has_lines=True)


_LABELS = Template('{{- include "surescale.labels" $ | nindent INDENT }}', has_lines=True)
_OWN_PODS = {
    "matchExpressions": [
        {"key": "app.kubernetes.io/name", "operator": "In", "values": [f"surescale-{role}" for role in ROLES]},
    ]
}
"""In place of all pods of a namespace, which a release may share."""
VALUES: dict[tuple[str, str], dict[str, Any]] = {
    ("Deployment", "monitor"): {"/spec/replicas": Template("{{ .Values.monitor.replicas }}")},
    ("Deployment", "rescaler"): {"/spec/replicas": Template("{{ .Values.rescaler.replicas }}")},
    ("Deployment", "state"): {"/spec/replicas": Template("{{ .Values.state.replicas }}")},
    ("HorizontalPodAutoscaler", "agent"): {
        "/spec/minReplicas": Template("{{ .Values.agent.replicas.min }}"),
        "/spec/maxReplicas": Template("{{ .Values.agent.replicas.max }}"),
        "/spec/metrics/0/resource/target/averageUtilization": Template("{{ .Values.agent.averageCpuPercent }}"),
    },
    ("StatefulSet", "spark"): {
        "/spec/template/spec/containers/0/command/4": Template('"local[{{ int .Values.spark.threads }}]"'),
        "/spec/volumeClaimTemplates/0/spec/storageClassName": When(
            ".Values.spark.storage.className", Template("{{ .Values.spark.storage.className }}")
        ),
        "/spec/volumeClaimTemplates/0/spec/resources/requests/storage": Template("{{ .Values.spark.storage.size }}"),
    },
    ("NetworkPolicy", "nothing"): {"/spec/podSelector": _OWN_PODS},
    ("NetworkPolicy", "names"): {"/spec/podSelector": _OWN_PODS},
    ("NetworkPolicy", "kafka"): {"/spec/egress/0/ports": _ports_of(".Values.networkPolicy.kafkaPorts")},
    ("NetworkPolicy", "redis"): {"/spec/egress/0/ports": _ports_of(".Values.networkPolicy.redisPorts")},
    ("NetworkPolicy", "engine"): {"/spec/egress/0/ports": _ports_of(".Values.networkPolicy.enginePorts")},
    ("NetworkPolicy", "notify"): {"/spec/egress/0/ports": _ports_of(".Values.notify.ports")},
    ("NetworkPolicy", "metrics"): {
        "/spec/ingress/0/from/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name": Template(
            "{{ .Values.networkPolicy.monitoringNamespace }}"
        )
    },
    ("NetworkPolicy", "keda"): {
        "/spec/ingress/0/from/0/namespaceSelector/matchLabels/kubernetes.io~1metadata.name": Template(
            "{{ .Values.keda.namespace }}"
        )
    },
    ("RoleBinding", "operator"): {"/subjects/0/name": Template("{{ .Values.operatorsGroup }}")},
}
"""Fields that are values: by kind and name of an object, then by JSON pointer."""
WITHIN = {"network.yaml": ".Values.networkPolicy.enabled", "access.yaml": ".Values.operatorsGroup"}
"""Files that a release may leave out, and the condition."""


def templates() -> dict[str, str]:
    """Return the chart's templates by the names of their files."""
    names = [name for name in _read(MANIFESTS / "base/kustomization.yaml")["resources"] if name != "namespace.yaml"]
    files = {name: _documents(MANIFESTS / "base" / name) for name in names}
    overlay, condition = SPREAD
    _patch(files, MANIFESTS / "overlays" / overlay, condition)
    for name, value in COMPONENTS.items():
        _patch(files, MANIFESTS / "components" / name, _is_on(value))
        for resource in _read(MANIFESTS / "components" / name / "kustomization.yaml").get("resources", ()):
            for document in _documents(MANIFESTS / "components" / name / resource):
                _add(files[resource], document, _is_on(value))
    made = {name: "".join(_text(each) for each in documents) for name, documents in files.items()}
    made |= {name: f"{{{{- if {needed} }}}}\n{made[name]}{{{{- end }}}}\n" for name, needed in WITHIN.items()}
    made |= {"settings.yaml": _settings(), "alerts.yaml": _alerts()}
    return {name: HEADER + text for name, text in made.items()}


def definitions() -> str:
    """Return the definition of ScaledStreams as YAML."""
    text = yaml.safe_dump(definition(), sort_keys=False, width=120, allow_unicode=True)
    return f"# Made from the table of job settings by `make chart`; changes belong there.\n{text}"


def apply(document: dict[str, Any], operation: Mapping[str, Any], condition: str) -> None:
    """Apply an operation of a JSON patch to an object, so that it holds under a condition only.

    Raises:
        ValueError: the chart has no form for it.
    """
    at, last = _place(document, operation["path"])
    match operation["op"], at:
        case "add", list() if last == "-":
            at.append(When(condition, operation["value"]))
        case "add", dict() if last not in at:
            at[last] = When(condition, operation["value"])
        case "remove", dict():
            at[last] = When(f"not {condition}", at[last])
        case "replace", dict() if not isinstance(at[last], dict | list | When):
            before = at[last]
            cases = before.cases if isinstance(before, Choice) else ()
            otherwise = before.otherwise if isinstance(before, Choice) else before
            at[last] = Choice(((condition, operation["value"]), *cases), otherwise)
        case _:
            raise ValueError(f"{operation['op']} {operation['path']}: the chart has no form for it")


def lines(value: dict[str, Any] | list[Any], indent: int = 0, key: str = "") -> Iterator[str]:
    """Yield the lines of a mapping or a list, which stands under ``key``."""
    for name, item in value.items() if isinstance(value, dict) else ((key, each) for each in value):
        condition, inner = (item.condition, item.value) if isinstance(item, When) else ("", item)
        if condition:
            yield f"{' ' * indent}{{{{- if {condition} }}}}"
        yield from _item(name, inner, indent, is_key=isinstance(value, dict))
        if condition:
            yield f"{' ' * indent}{{{{- end }}}}"


def _item(name: str, item: Any, indent: int, *, is_key: bool) -> Iterator[str]:
    margin = " " * indent
    if isinstance(item, Template) and item.has_lines:
        has_name = name.strip() and is_key
        if has_name:
            yield f"{margin}{name}:"
        within = indent + 2 if has_name else indent
        yield from (" " * within + line for line in item.text.replace("INDENT", str(within)).splitlines())
    elif isinstance(item, dict | list) and item:
        below = list(lines(item, indent + 2, name))
        if is_key:
            yield f"{margin}{name}:"
            yield from below
        else:
            yield f"{margin}- {below[0].lstrip()}"
            yield from below[1:]
    else:
        yield f"{margin}{name}: {_scalar(name, item)}" if is_key else f"{margin}- {_scalar(name, item)}"


def _scalar(key: str, value: Any) -> str:
    """Return a scalar as it is written. A name of an object of ours is the release's; what an environment holds is none."""
    if isinstance(value, Template):
        return value.text
    if isinstance(value, Choice):
        cases = "{{ else ".join(f"if {condition} }}}}{_scalar(key, chosen)}" for condition, chosen in value.cases)
        return f"{{{{ {cases}{{{{ else }}}}{_scalar(key, value.otherwise)}{{{{ end }}}}"
    if isinstance(value, str) and key != "value" and (own := re.fullmatch(r"surescale-(access(?=-))?(.+)", value)):
        return _name(own[1]) + own[2] if own[1] else _name(own[2])
    return str(yaml.safe_dump(value, width=1_000)).removesuffix("\n").removesuffix("\n...")


def _name(of: str) -> str:
    return f'{{{{ include "surescale.name" (list $ "{of}") }}}}'


def _patch(files: Mapping[str, list[Any]], folder: Path, condition: str) -> None:
    """Apply the JSON patches of an overlay or a component that say which objects they are for."""
    for patch in _read(folder / "kustomization.yaml").get("patches", ()):
        target = patch.get("target")
        found = [each for documents in files.values() for each in documents if target and _is_meant(each, target)]
        for document in found:
            for operation in yaml.safe_load(patch["patch"]) if "patch" in patch else _read(folder / patch["path"]):
                apply(document, operation, condition)


def _is_meant(document: Any, target: Mapping[str, str]) -> bool:
    named = document if isinstance(document, dict) else document.value
    return named["kind"] == target["kind"] and re.fullmatch(target["name"], named["metadata"]["name"]) is not None


def _add(documents: list[Any], document: dict[str, Any], condition: str) -> None:
    """Add an object of a component; one that another component has too is there with either."""
    for at, other in enumerate(documents):
        if isinstance(other, When) and other.value == document:
            documents[at] = When(f"or {other.condition} {condition}", document)
            return
    documents.append(When(condition, document))


def _text(document: Any) -> str:
    """Return an object as a template."""
    if isinstance(document, When):
        return f"{{{{- if {document.condition} }}}}\n{_text(document.value)}{{{{- end }}}}\n"
    kind, role = document["kind"], document["metadata"]["name"].removeprefix("surescale-")
    for pointer, value in VALUES.get((kind, role), {}).items():
        at, last = _place(document, pointer)
        at[int(last) if isinstance(at, list) else last] = value
    document["metadata"]["labels"] = {"": _LABELS} | document["metadata"].get("labels", {})
    if kind in ("Deployment", "StatefulSet"):
        _choose(document["spec"]["template"], role)
    return "---\n" + "".join(f"{line}\n" for line in lines(document))


def _choose(template: dict[str, Any], role: str) -> None:
    """Make images, sizes, the secret and the trace of the settings in a pod's template values of the release."""
    about, pod = template["metadata"], template["spec"]
    about["labels"] = {"": _LABELS} | about["labels"] | {" ": _more("labels")}
    about["annotations"] = {  # a pod monitor would scrape each pod again
        **{name: When("not .Values.prometheus.podMonitor", value) for name, value in about["annotations"].items()},
        "checksum/settings": Template('{{ include (print $.Template.BasePath "/settings.yaml") $ | sha256sum }}'),
        " ": _more("annotations"),
    }
    for field in ("nodeSelector", "tolerations", "affinity", "priorityClassName"):
        pod[field] = When(f".Values.pods.{field}", _lines_of(f".Values.pods.{field}"))
    secrets = Template("{{- range .Values.image.pullSecrets }}\n- name: {{ . }}\n{{- end }}", has_lines=True)
    pod["imagePullSecrets"] = When(".Values.image.pullSecrets", secrets)
    first = pod.get("initContainers", [])
    for container in (*(first.value if isinstance(first, When) else first), *pod["containers"]):
        image = container["image"].removeprefix("surescale/")
        container["image"] = Template(f'{{{{ include "surescale.image" (list $ "{image}") }}}}')
        container["imagePullPolicy"] = Template("{{ .Values.image.pullPolicy }}")
        container["volumeMounts"] = _also(container.get("volumeMounts"), "volumeMounts")
        container["env"] = _also(container.get("env"), "env")
        for source in container["envFrom"]:
            if "secretRef" in source:
                source["secretRef"]["name"] = Template("{{ .Values.secret }}")
    pod["volumes"] = _also(pod.get("volumes"), "volumes")
    pod["containers"][0]["resources"] = _lines_of(f".Values.{role}.resources")


def _also(items: Any, field: str) -> Any:
    """Return a list, which may be there under a condition only, with what `pods` adds to it."""
    more = _more(field)
    if items is None:
        return When(f".Values.pods.{field}", [more])
    if isinstance(items, When):
        return When(f"or {items.condition} .Values.pods.{field}", [*(When(items.condition, each) for each in items.value), more])
    return [*items, more]


def _alerts() -> str:
    """Return the alert rules as a template; what Prometheus fills in itself stays as it is."""
    rules = ALERTS.read_text(encoding="utf-8").partition("groups:\n")[2].replace("{{", '{{ "{{" }}')
    linked = rules.replace("runbook_url: docs/runbook.md", "runbook_url: {{ $.Values.prometheus.runbook }}")
    labels = Template('{{- include "surescale.prometheusLabels" $ | nindent INDENT }}', has_lines=True)
    about = {"name": "surescale-alerts", "labels": labels}
    head = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": about}
    text = "".join(f"{line}\n" for line in lines(head)) + "spec:\n  groups:\n"
    body = "".join(f"  {line}\n" if line else "\n" for line in linked.splitlines())
    return f"{{{{- if .Values.prometheus.rules }}}}\n---\n{text}{body}{{{{- end }}}}\n"


def _settings() -> str:
    """Return the template of the config maps: the roles' settings, and files that are values."""
    chosen = _read(CHART / "values.yaml")["settings"]
    fixed = {name: value for name, value in _literals(MANIFESTS / "base").items() if name not in chosen}
    text = f"{{{{- $settings := dict {_pairs('', fixed)} }}}}\n"
    for name, value in COMPONENTS.items():
        if literals := _literals(MANIFESTS / "components" / name):
            merged = f"{{{{- $settings = merge $settings (dict {_pairs(name, literals)}) }}}}"
            text += f"{{{{- if {_is_on(value)} }}}}\n{merged}\n{{{{- end }}}}\n"
    text += f"{{{{- if gt (int .Values.monitor.replicas) 1 }}}}\n{LEADER_ELECT}\n{{{{- end }}}}\n"
    every = "{{- range $name, $value := merge $settings .Values.settings }}\n{{ $name }}: {{ $value | quote }}\n{{- end }}"
    text += _text(_config_map("surescale-pipeline", Template(every, has_lines=True)))
    for name, (component, file, value, remedy) in FILES.items():
        whole = f"{COMPONENTS[component]}.{value}"
        content = f'{file}: |\n  {{{{- required "{whole}: {remedy}" .Values.{whole} | nindent 4 }}}}'
        text += _text(When(_is_on(COMPONENTS[component]), _config_map(name, Template(content, has_lines=True))))
    return CHECKS + text


def _config_map(name: str, data: Template) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def _literals(folder: Path) -> dict[str, str]:
    """Return the settings that a kustomization gives the roles."""
    made = {each["name"]: each for each in _read(folder / "kustomization.yaml").get("configMapGenerator", ())}
    return dict(each.split("=", 1) for each in made.get("surescale-pipeline", {}).get("literals", ()))


def _pairs(component: str, settings: Mapping[str, str]) -> str:
    values = {name: SETTINGS.get((component, name), f'"{value}"') for name, value in settings.items()}
    return " ".join(f'"{name}" {value}' for name, value in values.items())


def _place(document: Any, pointer: str) -> tuple[Any, str]:
    """Return the mapping or list in which a JSON pointer ends, and the last step."""
    *way, last = (part.replace("~1", "/") for part in pointer.removeprefix("/").split("/"))
    at = document
    for part in way:
        at = at[int(part)] if isinstance(at, list) else at[part]
        at = at.value if isinstance(at, When) else at
    return at, last


def _is_on(value: str) -> str:
    return f".Values.{value}.enabled"


def _read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def main() -> None:
    """Write the definition and the templates."""
    for path in DEFINITIONS:
        path.write_text(definitions(), encoding="utf-8")
    for name, text in templates().items():
        (CHART / "templates" / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
