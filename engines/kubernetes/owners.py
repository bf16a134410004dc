"""Who else decides how many pods a workload has. Pure.

Whoever only wrote the number once, by creating the object or by ``kubectl scale``, is no owner: that is compared with what a
command expects, as everywhere. An owner is who will write it again.
"""

from collections.abc import Iterable, Mapping

import msgspec

from surescale.engines.kubernetes.answers import Autoscaler, ManagedFields, OwnerReference, Workload
from surescale.engines.kubernetes.client import FIELD_MANAGER
from surescale.engines.kubernetes.target import Target

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation in which `kubectl apply` keeps what it applied."""
_KEDA_DEFAULT = ("apps", "Deployment")


class _Spec(msgspec.Struct, frozen=True):
    replicas: int | None = None


class _Applied(msgspec.Struct, frozen=True):
    spec: _Spec | None = None


def other_owner(
    target: Target, workload: Workload, autoscalers: Iterable[Autoscaler], scaled_objects: Iterable[Autoscaler]
) -> str | None:
    """Return who else decides, and what to do, in one line; None: nobody.

    Args:
        target: that is to be scaled.
        workload: the object.
        autoscalers: the HorizontalPodAutoscalers of its namespace.
        scaled_objects: the objects of KEDA there.
    """
    for each in scaled_objects:
        if _scales(each, workload, _KEDA_DEFAULT):
            return f"KEDA's ScaledObject {each.metadata.name} scales it; delete that, or leave {target} out of surescale"
    for each in autoscalers:
        if _scales(each, workload):
            maker = controller_of(each.metadata.owner_references or ())
            made_by = f" (made by {maker})" if maker else ""
            name = f"HorizontalPodAutoscaler {each.metadata.name}{made_by}"
            return f"{name} scales it; delete that, or leave {target} out of surescale"
    maker = controller_of(workload.metadata.owner_references or ())
    if maker:
        return f"it belongs to {maker}, whose controller sets its replicas; scale that instead, if it has a scale subresource"
    for entry in workload.metadata.managed_fields or ():
        if entry.operation == "Apply" and entry.manager != FIELD_MANAGER and _sets_replicas(entry):
            return f"{entry.manager} applies its spec.replicas; leave replicas out of what {entry.manager} applies"
    if _is_in_last_applied(workload.metadata.annotations or {}):
        return (
            "`kubectl apply` sets its spec.replicas every time; "
            "leave replicas out of the manifest, and out of `kubectl apply edit-last-applied`"
        )
    return None


def is_ours(workload: Workload) -> bool:
    """Return whether we wrote the number of pods last: a field leaves our entry when somebody else changes it."""
    entries = workload.metadata.managed_fields or ()
    return any(entry.manager == FIELD_MANAGER and entry.subresource == "scale" and entry.fields for entry in entries)


def _sets_replicas(entry: ManagedFields) -> bool:
    """Return whether a writer has the number of pods among its fields."""
    spec = (entry.fields or {}).get("f:spec")
    return isinstance(spec, dict) and "f:replicas" in spec


def _scales(autoscaler: Autoscaler, workload: Workload, default: tuple[str, str] = ("", "")) -> bool:
    ref = autoscaler.spec.scale_target_ref
    if ref is None or ref.name != workload.metadata.name:
        return False
    group = ref.api_version.rpartition("/")[0] if ref.api_version else default[0]
    return (group, ref.kind or default[1]) == (workload.api_version.rpartition("/")[0], workload.kind)


def controller_of(references: Iterable[OwnerReference]) -> str:
    """Return the object whose controller keeps this one as it wants it; empty if there is none."""
    return next((f"{each.kind} {each.name}" for each in references if each.controller), "")


def _is_in_last_applied(annotations: Mapping[str, str]) -> bool:
    try:
        applied = msgspec.json.decode(annotations.get(LAST_APPLIED, "{}").encode(), type=_Applied)
    except msgspec.MsgspecError:
        return False
    return applied.spec is not None and applied.spec.replicas is not None
