"""The rights that scaling a workload takes: the same as in the role that is shipped (`compose/kubernetes/scaling`)."""

from dataclasses import dataclass

from engines.kubernetes.target import Target


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one kind of object in a namespace. ``name``: of the only object; empty: all of that kind."""

    verb: str
    group: str
    resource: str
    namespace: str
    subresource: str = ""
    name: str = ""

    def __str__(self) -> str:
        kind = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{self.verb} {kind}{f'.{self.group}' if self.group else ''}"


def rights_for(target: Target) -> tuple[Right, ...]:
    """Return what the rescaler's account needs to scale a workload, and to say why pods are missing."""
    here, group, resource, name = target.namespace, target.group, target.resource, target.name
    return (
        Right("get", group, resource, here, "scale", name),
        Right("update", group, resource, here, "scale", name),
        Right("get", group, resource, here, "", name),
        Right("list", "autoscaling", "horizontalpodautoscalers", here),
        Right("list", "keda.sh", "scaledobjects", here),
        Right("list", "", "pods", here),
        Right("list", "", "events", here),
    )
