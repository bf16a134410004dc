"""Who else decides how many pods a workload has. Pure.

Whoever only wrote the number once, by creating the object or by ``kubectl scale``, is no owner: that is compared with what a
command expects, as everywhere. An owner is who will write it again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from surescale.contracts.errors import UNREADABLE, SettingsError, SurescaleError
from surescale.contracts.wire import decoder
from surescale.engines.kubernetes import KubernetesSettings
from surescale.engines.kubernetes.answers import Autoscaler, ManagedFields, OwnerReference, Workload
from surescale.engines.kubernetes.client import FIELD_MANAGER, KubernetesClient, Right, client_of
from surescale.engines.kubernetes.errors import ApiUnavailable, NotAuthenticated, NotKubernetes
from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.findings import Finding
from surescale.engines.settings import SourceSettings

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
        applied = decoder(_Applied).decode(annotations.get(LAST_APPLIED, "{}").encode())
    except UNREADABLE:
        return False
    return applied.spec is not None and applied.spec.replicas is not None


_REMEDY = "docs/kubernetes.md says what is needed"


class Seen(NamedTuple):
    """One object: why no act on it is carried out, if so, and else what it is asked for."""

    why_not: str | None
    wanted: str


@dataclass(frozen=True, slots=True)
class ScaledObject:
    """One object to check. ``name``: of what it scales, a task or a job."""

    name: str
    target: Target
    rights: tuple[Right, ...]
    look: Callable[[KubernetesClient], Seen]


def check_objects(
    settings: SourceSettings, subject: str, role: str, listed: Callable[[], Iterable[ScaledObject]]
) -> Iterator[Finding]:
    """Check every object with the caller's account; ``role``: the folder of the one that has all rights."""
    try:
        objects, client = list(listed()), client_of(settings.part(KubernetesSettings))
    except SettingsError as error:
        yield Finding("problem", subject, str(error), _REMEDY)
        return
    try:
        for each in objects:
            yield _check(client, each, subject, role)
    except (ApiUnavailable, NotAuthenticated, NotKubernetes) as problem:  # the next one would say the same
        yield Finding("problem", subject, str(problem), _REMEDY)
    finally:
        client.close()


def _check(client: KubernetesClient, each: ScaledObject, subject: str, role: str) -> Finding:
    try:
        missing = [str(right) for right in each.rights if not client.may(right)]
        if missing:
            detail = f"{each.name}: {each.target}: the account that asks may not {', '.join(missing)}"
            return Finding("problem", subject, detail, f"give the rescaler's account these rights ({role}), and run this with it")
        seen = each.look(client)
    except (ApiUnavailable, NotAuthenticated, NotKubernetes):
        raise
    except SurescaleError as problem:
        return Finding("problem", subject, f"{each.name}: {problem}", _REMEDY)
    if seen.why_not is not None:
        detail = f"{each.name}: {each.target}: {seen.why_not}"
        return Finding("problem", subject, detail, "until then no act on its job is carried out")
    return Finding("ok", subject, f"{each.name}: {each.target}, {seen.wanted}; all rights are there")
