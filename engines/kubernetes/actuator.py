"""Workloads of a Kubernetes cluster as an actuator sees them: each task has a scale, and the cluster starts and ends the pods.

What is asked for stands in the cluster alone. It is read, compared and written with the resource version that was read, so a
change in between is never lost. The scales of a job's tasks are several objects: a command that was interrupted between two of
them is known by its numbers, each either as before or as wanted, and is carried on or put back.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from surescale.contracts.capabilities import Capabilities
from surescale.contracts.commands import RescheduleCommand
from surescale.contracts.wire import learned
from surescale.engines.groups.actuator import UNKNOWN_TASK, ScalesChains
from surescale.engines.groups.chains import SETTING, Chain, chains_of
from surescale.engines.kubernetes import KUBERNETES, KubernetesSettings
from surescale.engines.kubernetes.answers import Condition, ContainerStatus, Event, Pod, Scale
from surescale.engines.kubernetes.client import KubernetesClient, client_of
from surescale.engines.kubernetes.errors import ApiRefused, Conflict, KubernetesError, NotAllowed, NotFound
from surescale.engines.kubernetes.owners import is_ours, other_owner
from surescale.engines.kubernetes.requirement import Requirement, requirement_of, targets_of
from surescale.engines.kubernetes.target import Target
from surescale.engines.ports.actuator import (
    EPOCH_CHANGED,
    REQUIREMENT_CHANGED,
    EngineError,
    EngineRefused,
    EngineUnavailable,
    JobStatus,
)
from surescale.engines.ports.requirement import in_words
from surescale.engines.settings import ClusterSettings
from surescale.runtime.printable import one_line

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
            condition = msgspec.convert(each, learned(Condition))
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


TARGET_GONE = "TARGET_GONE"
"""The cluster has no such object, or it has no scale subresource."""
OTHER_OWNER = "OTHER_OWNER"
"""Somebody else decides how many pods it has."""
NO_SELECTOR = "NO_SELECTOR"
"""The scale of a custom resource does not say which pods are its."""
NO_PERMISSION = "NO_PERMISSION"
"""The account lacks a right."""
KUBERNETES_REFUSED = "KUBERNETES_REFUSED"
"""The API server or an admission controller refused, for a reason that was not known beforehand."""
WRITES_MAX = 8
"""Of one scale: its resource version changes with every pod that starts, so a write may come too late several times."""
_log = logging.getLogger("surescale.kubernetes")


@dataclass(frozen=True, slots=True)
class KubernetesEngine(ScalesChains[Requirement]):
    """``EngineApi`` on the workloads of one cluster. Keeps nothing.

    Attributes:
        client: of the API server.
        chains: the jobs, by name.
        cluster: its name in the settings, the part before the slash of a job's id.
    """

    unscaled = "names nothing to scale; add its kubernetes"
    recreated = "an object that the job is scaled by was deleted and created again"
    client: KubernetesClient
    chains: Mapping[str, Chain]
    cluster: str

    @classmethod
    def of(cls, settings: ClusterSettings, timeout_s: float) -> Self:
        """Return the one of a role's settings.

        Raises:
            SettingsError: the groups file or the API server's address cannot be used.
        """
        return cls(
            client_of(settings.part(KubernetesSettings), timeout_s=timeout_s), chains_of(settings, "kubernetes"), settings.cluster
        )

    # The port

    def capabilities(self) -> Capabilities:
        """Return what a cluster can do."""
        return KUBERNETES

    def look(self, job: str) -> JobStatus:
        """Return what is asked for, and the pods that are ready. One that drains still runs."""
        with answers_of_the_port(SETTING, is_look=True):
            chain = self._chain(job)
            required, running, hindrances = self._required(chain), dict[str, int](), dict[str, Hindrance]()
            for task, target in targets_of(chain).items():
                scale = required.scales[task]
                pods = self.client.pods(target.namespace, scale.status.selector) if scale.status.selector else []
                running[task] = sum(pod.is_up for pod in pods)
                if running[task] < scale.spec.replicas:
                    hindrances[task] = self._hindrance(target, scale, pods)
        return JobStatus(
            epoch=required.epoch,
            requirement_id=required.id,
            required=required.counts,
            running=running,
            state="running" if any(running.values()) else "restarting",
            waiting_for="slots" if any(each.is_room for each in hindrances.values()) else "",
            hindrance="; ".join(f"{task}: {each.words}" for task, each in sorted(hindrances.items())),
        )

    # Which job

    def _chains(self) -> Mapping[str, Chain]:
        return self.chains

    def _required(self, chain: Chain) -> Requirement:
        required = requirement_of(self.client, chain)
        if required is None:
            raise EngineRefused(UNKNOWN_TASK, f"{SETTING} names nothing to scale for {chain.name}; add kubernetes to its groups")
        return required

    # Checked, then written

    def _ask(self, chain: Chain, required: Requirement, command: RescheduleCommand) -> None:
        before = {**required.counts, **(command.expected.required if command.expected is not None else {})}
        foreign = _neither(required.counts, before, command.targets)
        if foreign:
            self._put_back_ours(chain, before, command.targets)
            raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else asked for {in_words(foreign)}")
        for task, count in command.targets.items():
            if required.counts[task] != count:
                self._check(targets_of(chain)[task], required.scales[task])
        self._write(chain, required, before, command.targets)

    def _ask_back(self, chain: Chain, required: Requirement, command: RescheduleCommand, put_back: Mapping[str, int]) -> None:
        foreign = _neither(required.counts, put_back, command.targets)
        if foreign:
            raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else asked for {in_words(foreign)}")
        for task, count in put_back.items():
            self._set(targets_of(chain)[task], required.scales[task], count)

    def _answers(self) -> AbstractContextManager[None]:
        return answers_of_the_port(SETTING)

    def _check(self, target: Target, scale: Scale) -> None:
        """Refuse what is somebody else's, and what we could not watch afterwards."""
        workload = self.client.workload(target)
        if workload.metadata.deletion_timestamp is not None:
            raise EngineRefused(TARGET_GONE, f"{target} is being deleted; create it again, or correct {SETTING}")
        autoscalers, scaled_objects = self.client.autoscalers(target.namespace), self.client.scaled_objects(target.namespace)
        owner = other_owner(target, workload, autoscalers, scaled_objects)
        if owner is not None:
            raise EngineRefused(OTHER_OWNER, f"{target}: {owner}")
        if not scale.status.selector:
            raise EngineRefused(NO_SELECTOR, f"{target}: its scale names no pods; set labelSelectorPath in its definition")
        self.client.pods(target.namespace, scale.status.selector)
        self.client.failures_to_create(target.namespace, scale.metadata.uid)

    def _write(self, chain: Chain, required: Requirement, before: Mapping[str, int], targets: Mapping[str, int]) -> None:
        """Write all scales; a refusal of one puts those back that were written before it."""
        named = targets_of(chain)
        for task, count in targets.items():
            try:
                self._set(named[task], required.scales[task], count)
            except (EngineRefused, NotAllowed, NotFound, ApiRefused):
                self._put_back_ours(chain, before, targets)
                raise

    def _set(self, target: Target, scale: Scale, count: int) -> None:
        """Write one scale, unless somebody has changed its number since it was read."""
        read = scale
        for _ in range(WRITES_MAX):
            if read.spec.replicas == count:
                return
            try:
                self.client.set_scale(target, read, count)
                return
            except Conflict:
                read = self.client.scale(target)
            if read.metadata.uid != scale.metadata.uid:
                raise EngineRefused(EPOCH_CHANGED, f"{target} was deleted and created again")
            if read.spec.replicas not in (scale.spec.replicas, count):
                raise EngineRefused(REQUIREMENT_CHANGED, f"somebody else asked for {read.spec.replicas} pods of {target}")
        raise EngineUnavailable(f"{target} changes faster than it can be written; it is tried again")

    def _put_back_ours(self, chain: Chain, before: Mapping[str, int], targets: Mapping[str, int]) -> None:
        """Put back what we wrote of a command that is refused now. What somebody else wrote stays, whatever the number is."""
        named = targets_of(chain)
        for task, count in targets.items():
            try:
                scale = self.client.scale(named[task])
                if before[task] != count == scale.spec.replicas and is_ours(self.client.workload(named[task])):
                    self._set(named[task], scale, before[task])
            except (EngineError, KubernetesError) as problem:
                _log.warning("%s: whether it is asked for %d pods again is unknown: %s", named[task], before[task], problem)

    # What is seen

    def _hindrance(self, target: Target, scale: Scale, pods: list[Pod]) -> Hindrance:
        if len(pods) >= scale.spec.replicas:
            return hindrance_of(target, pods, ())
        workload = self.client.workload(target)
        events = self.client.failures_to_create(target.namespace, scale.metadata.uid)
        return hindrance_of(target, pods, failures_in(workload.status, events))


def _neither(counts: Mapping[str, int], before: Mapping[str, int], targets: Mapping[str, int]) -> dict[str, int]:
    """Return the tasks whose number is neither as it was nor as the command wants it."""
    tasks = before.keys() | targets.keys()
    return {task: counts.get(task, 0) for task in sorted(tasks) if counts.get(task) not in (before.get(task), targets.get(task))}


@contextmanager
def answers_of_the_port(setting: str, *, is_look: bool = False) -> Iterator[None]:
    """Turn the client's problems into the port's. What may pass by itself, or by a correction of the settings, is no refusal.

    A right that is missing for a look is one of these: what was asked for before must not be left behind for it.

    Args:
        setting: names the file that says which object scales what.
        is_look: whether nothing is written.
    """
    try:
        yield
    except NotAllowed as problem:
        if is_look:
            raise EngineUnavailable(str(problem)) from None
        raise EngineRefused(NO_PERMISSION, str(problem)) from None
    except NotFound as problem:
        raise EngineRefused(TARGET_GONE, f"{problem}; create it, or correct {setting}") from None
    except ApiRefused as problem:
        raise EngineRefused(KUBERNETES_REFUSED, str(problem)) from None
    except KubernetesError as problem:
        raise EngineUnavailable(str(problem)) from None
