"""What a ScaledStream is: its definition for the API server, and the fields of one that are read."""

from functools import cache
from typing import Any, get_type_hints

import msgspec

from surescale.contracts.job_settings import SETTINGS, JobSettings, Setting
from surescale.engines.kubernetes.answers import ObjectMeta
from surescale.engines.kubernetes.target import namespaced

GROUP, VERSION = "surescale.dev", "v1alpha1"
API = f"{GROUP}/{VERSION}"
KIND, PLURAL = "ScaledStream", "scaledstreams"
_COLUMNS = (
    ("Job", "string", ".spec.job"),
    ("Mode", "string", ".status.mode"),
    ("Health", "string", ".status.health"),
    ("Subtasks", "integer", ".status.subtasks"),
    ("Wanted", "integer", ".status.wanted"),
    ("Set", "string", '.status.conditions[?(@.type=="Set")].status'),
    ("Age", "date", ".metadata.creationTimestamp"),
)


class ScaledStream(msgspec.Struct, frozen=True):
    """One resource. ``spec`` holds ``job`` and settings by option; ``status`` is what was written last."""

    metadata: ObjectMeta
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}

    @property
    def job(self) -> str:
        """Return the job that it is for."""
        return str(self.spec.get("job", ""))

    @property
    def settings(self) -> dict[str, Any]:
        """Return its settings, by option."""
        return {option: value for option, value in self.spec.items() if option != "job"}

    @property
    def where(self) -> str:
        """Return what it is known by: in messages, and as the origin of a job's settings."""
        return origin(self.metadata.namespace, self.metadata.name)

    @property
    def path(self) -> str:
        """Return where the API has it."""
        return f"{path_in(self.metadata.namespace)}/{self.metadata.name}"


def origin(namespace: str, name: str) -> str:
    """Return what a resource is known by."""
    return f"{PLURAL}/{namespace}/{name}"


def path_in(namespace: str) -> str:
    """Return where the API has the resources of a namespace."""
    return f"{namespaced(API, namespace)}/{PLURAL}"


def definition() -> dict[str, Any]:
    """Return the CustomResourceDefinition. Settings have the names that options, labels and files have."""
    settings = {setting.option: _schema(field, setting) for field, setting in SETTINGS.items()}
    job = {
        "type": "string",
        "pattern": r"^[^/*?\[]+/[^*?\[]+\z",  # as Go reads it
        "maxLength": 256,
        "description": "The job, as CLUSTER/NAME. It need not be known yet.",
    }
    spec = {"type": "object", "required": ["job"], "properties": {"job": job, **settings}}
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec, "status": status}}
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": name, "type": kind, "jsonPath": path} for name, kind, path in _COLUMNS],
    }
    names = {"kind": KIND, "plural": PLURAL, "singular": KIND.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def _schema(field: str, setting: Setting) -> dict[str, Any]:
    """Return what the API server accepts for a setting; what else is wrong with a value is said in the resource's status."""
    if setting.form:
        return {"type": "array", "items": {"type": "string"}, "description": f"{setting.help} Each: {setting.form}."}
    if setting.words:
        kind: dict[str, Any] = {"type": "boolean"} if "yes" in setting.words else {"type": "string", "enum": [*setting.words]}
        return {**kind, "description": setting.help}
    found = msgspec.json.schema(_hints()[field])["anyOf"][0]
    if "$defs" in found or "$ref" in found or field == "objective":
        return {"type": "string", "description": setting.help}
    if "enum" in found:
        return {"type": "string", "enum": found["enum"], "description": setting.help}
    kept = {name: found[name] for name in ("type", "minimum", "maximum", "maxLength") if name in found}
    if "exclusiveMinimum" in found:  # a number in JSON Schema, a flag beside `minimum` in OpenAPI 3.0
        kept |= {"minimum": found["exclusiveMinimum"], "exclusiveMinimum": True}
    return {**kept, "description": setting.help}


@cache
def _hints() -> dict[str, Any]:
    return get_type_hints(JobSettings, include_extras=True)
