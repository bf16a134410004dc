"""Who else decides how many subtasks the vertices of an operated job have. Pure.

As with workloads, an owner is who will write again, not who wrote once. But nobody has this key by default: where Helm has it
among its fields, the chart sets it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from surescale.contracts.errors import UNREADABLE
from surescale.contracts.wire import decoder
from surescale.engines.flink.requirements import AUTOSCALER_KEYS
from surescale.engines.flink_operator.answers import FlinkResource
from surescale.engines.flink_operator.overrides import KEY, flat, is_key
from surescale.engines.kubernetes.answers import ManagedFields
from surescale.engines.kubernetes.client import FIELD_MANAGER
from surescale.engines.kubernetes.owners import LAST_APPLIED, controller_of

_HELM = "helm"


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    flink_configuration: dict[str, Any] | None = None


class _Applied(msgspec.Struct, frozen=True):
    spec: _Spec | None = None


def other_owner(resource: FlinkResource, effective: Mapping[str, str]) -> str | None:
    """Return who else decides, and what to do, in one line; None: nobody.

    Args:
        resource: of the job.
        effective: its configuration, flat, with what its session cluster adds.
    """
    for key in AUTOSCALER_KEYS:
        if effective.get(key, "").strip().lower() == "true":
            return f'the operator\'s own autoscaler scales it ({key}); set that to "false", or leave the job out of surescale'
    maker = controller_of(resource.metadata.owner_references or ())
    if maker:
        return f"it belongs to {maker}, whose controller sets its specification; have that not set {KEY}, or leave the job out"
    for entry in resource.metadata.managed_fields or ():
        is_again = entry.operation == "Apply" or entry.manager == _HELM
        if is_again and entry.manager != FIELD_MANAGER and _sets_overrides(entry):
            what = "the chart" if entry.manager == _HELM else f"what {entry.manager} applies"
            return f"{entry.manager} sets {KEY}; leave that key out of {what}"
    if _is_in_last_applied(resource.metadata.annotations or {}):
        return (
            f"`kubectl apply` sets {KEY} every time; leave that key out of the manifest, "
            "and out of `kubectl apply edit-last-applied`"
        )
    return None


def _sets_overrides(entry: ManagedFields) -> bool:
    """Return whether a writer has the overrides, one of them, or the whole configuration in one piece among its fields."""
    spec = (entry.fields or {}).get("f:spec")
    configuration = spec.get("f:flinkConfiguration") if isinstance(spec, dict) else None
    if not isinstance(configuration, dict):
        return False
    return not configuration or any(is_key(name) for name in _names(configuration, ""))


def _names(fields: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, below in fields.items():
        if name.startswith("f:"):
            here = f"{above}{name[2:]}"
            yield here
            if isinstance(below, dict):
                yield from _names(below, f"{here}.")


def _is_in_last_applied(annotations: Mapping[str, str]) -> bool:
    try:
        applied = decoder(_Applied).decode(annotations.get(LAST_APPLIED, "{}").encode())
    except UNREADABLE:
        return False
    return applied.spec is not None and any(is_key(name) for name in flat(applied.spec.flink_configuration))
