"""Why fewer pods are ready than wanted, in words a person can act on. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from surescale.engines.kubernetes.answers import Condition, ContainerStatus, Event, Pod
from surescale.engines.kubernetes.errors import one_line
from surescale.engines.kubernetes.target import Target

_NO_IMAGE = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError"})
_NO_CONTAINER = frozenset({"CreateContainerConfigError", "CreateContainerError", "RunContainerError"})
_ENDS_AGAIN = "CrashLoopBackOff"
_QUOTA = "exceeded quota"


@dataclass(frozen=True, slots=True)
class Hindrance:
    """What keeps pods from being ready. ``is_room``: nodes or a quota have no room for more."""

    words: str
    is_room: bool = False


def hindrance_of(target: Target, pods: Iterable[Pod], failures: Iterable[str]) -> Hindrance:
    """Return the most telling hindrance.

    Args:
        target: that has too few ready pods.
        pods: all pods of it.
        failures: what its controller says about pods that it cannot create, the newest first.
    """
    waiting = sorted((pod for pod in pods if not pod.is_up and not _has_ended(pod)), key=lambda pod: pod.metadata.name)
    for look in (_image, _crash, _container):
        for pod in waiting:
            for container in (*(pod.status.init_container_statuses or ()), *(pod.status.container_statuses or ())):
                words = look(target, container)
                if words:
                    return Hindrance(f"pod {pod.metadata.name}: {words}{_others(len(waiting) - 1)}")
    failure = one_line(next(iter(failures), ""))
    if _QUOTA in failure:
        words = f"{target.namespace} may have no more pods: {failure}; raise that ResourceQuota, or lower the job's maximum"
        return Hindrance(words, is_room=True)
    if failure:
        return Hindrance(f"pods of {target} cannot be created: {failure}; correct its pod template")
    for pod in waiting:
        placed = pod.condition("PodScheduled")
        if placed is not None and placed.status == "False":
            why = one_line(placed.message or placed.reason or "")
            words = f"pod {pod.metadata.name} waits for a node: {why}; add nodes, or lower the pods' requests"
            return Hindrance(f"{words}{_others(len(waiting) - 1)}", is_room=True)
    if not waiting:
        return Hindrance(f"pods of {target} are not there yet")
    pod = waiting[0]
    if pod.status.phase == "Running":
        return Hindrance(f"pod {pod.metadata.name} runs and is not ready; see its readiness probe{_others(len(waiting) - 1)}")
    return Hindrance(f"pod {pod.metadata.name} is starting{_others(len(waiting) - 1)}")


def failures_in(status: Mapping[str, Any] | None, events: Iterable[Event]) -> list[str]:
    """Return what a controller says about pods that it cannot create, the newest first: in a condition, or by events.

    Args:
        status: of the workload; of any shape, as its kind may be anybody's.
        events: with that reason.
    """
    said, conditions = [], (status or {}).get("conditions")
    for each in conditions if isinstance(conditions, list) else ():
        try:
            condition = msgspec.convert(each, Condition)
        except msgspec.ValidationError:
            continue
        if condition.type == "ReplicaFailure" and condition.status == "True" and condition.message:
            said.append(condition.message)
    return said + [event.message for event in sorted(events, key=lambda event: event.at, reverse=True) if event.message]


def _image(_: Target, container: ContainerStatus) -> str:
    waiting = container.state.waiting
    if waiting is None or waiting.reason not in _NO_IMAGE:
        return ""
    why = one_line(waiting.message) or waiting.reason
    return f"image {container.image or '(none)'} cannot be pulled ({why}); correct its name, or the secret for its registry"


def _crash(target: Target, container: ContainerStatus) -> str:
    waiting, last = container.state.waiting, container.last_state.terminated or container.state.terminated
    if (waiting is None or waiting.reason != _ENDS_AGAIN) and (last is None or container.restart_count < 2):
        return ""
    how = f"with exit code {last.exit_code}{f' ({one_line(last.reason)})' if last.reason else ''}, " if last is not None else ""
    return (
        f"container {container.name} ends again and again, {how}{container.restart_count} restarts so far; "
        f"see kubectl logs --previous --namespace {target.namespace}"
    )


def _container(_: Target, container: ContainerStatus) -> str:
    waiting = container.state.waiting
    if waiting is None or waiting.reason not in _NO_CONTAINER:
        return ""
    return (
        f"container {container.name} cannot be started ({one_line(waiting.message) or waiting.reason}); correct the pod template"
    )


def _others(count: int) -> str:
    return "" if count <= 0 else f"; and {count} more {'pod is' if count == 1 else 'pods are'} not ready"


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")
