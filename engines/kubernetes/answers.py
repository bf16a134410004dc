"""The fields of the API's answers that are read. Names are the API's own, in snake case; everything else is ignored."""

from typing import Any, Generic, TypeVar

import msgspec

from surescale.contracts.messages import Size

T = TypeVar("T")


class OwnerReference(msgspec.Struct, frozen=True):
    """Another object that this one belongs to. ``controller``: that object's controller keeps this one as it wants it."""

    kind: str = ""
    name: str = ""
    controller: bool | None = None


class ManagedFields(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that one writer has set last. ``operation``: ``Apply`` (and will again) or ``Update`` (once)."""

    manager: str = ""
    operation: str = ""
    subresource: str = ""
    fields: dict[str, Any] | None = msgspec.field(default=None, name="fieldsV1")


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel"):
    """``uid`` names one life of the object, ``resource_version`` one state of it, ``generation`` one wish (its ``spec``)."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    owner_references: tuple[OwnerReference, ...] | None = None
    deletion_timestamp: str | None = None


class WrittenMeta(ObjectMeta, frozen=True, rename="camel"):
    """Also who wrote what of the object: most of the memory that it takes, so it is read of few."""

    annotations: dict[str, str] | None = None
    managed_fields: tuple[ManagedFields, ...] | None = None


class ReviewStatus(msgspec.Struct, frozen=True):
    """Whether the account may do what was asked about."""

    allowed: bool = False


class Review(msgspec.Struct, frozen=True):
    """The answer to a question about a right."""

    status: ReviewStatus


class ScaleSpec(msgspec.Struct, frozen=True):
    """How many pods are wanted; the API leaves 0 out. Of a custom resource it gives any number that somebody wrote there."""

    replicas: Size = 0


class ScaleStatus(msgspec.Struct, frozen=True):
    """``selector``: of the pods, as a query."""

    replicas: int = 0
    selector: str = ""


class Scale(msgspec.Struct, frozen=True):
    """The scale subresource."""

    metadata: ObjectMeta
    spec: ScaleSpec = msgspec.field(default_factory=ScaleSpec)
    status: ScaleStatus = msgspec.field(default_factory=ScaleStatus)


class Workload(msgspec.Struct, frozen=True, rename="camel"):
    """The scaled object itself. ``status`` is of its own kind."""

    kind: str
    api_version: str
    metadata: WrittenMeta
    status: dict[str, Any] | None = None


class ScaleTargetRef(msgspec.Struct, frozen=True, rename="camel"):
    """What an autoscaler scales. KEDA takes a Deployment of ``apps/v1`` where it is not told otherwise."""

    name: str
    kind: str = ""
    api_version: str = ""


class AutoscalerSpec(msgspec.Struct, frozen=True, rename="camel"):
    """``scale_target_ref`` is missing in a KEDA object that starts jobs of its own."""

    scale_target_ref: ScaleTargetRef | None = None


class Autoscaler(msgspec.Struct, frozen=True):
    """A HorizontalPodAutoscaler, or a ScaledObject of KEDA."""

    metadata: ObjectMeta
    spec: AutoscalerSpec


class Condition(msgspec.Struct, frozen=True):
    """One condition of a pod or a workload."""

    type: str = ""
    status: str = ""
    reason: str | None = ""
    message: str | None = ""


class Waiting(msgspec.Struct, frozen=True):
    """Why a container does not run."""

    reason: str = ""
    message: str = ""


class Terminated(msgspec.Struct, frozen=True, rename="camel"):
    """How a container ended."""

    reason: str = ""
    exit_code: int = 0


class ContainerState(msgspec.Struct, frozen=True):
    """At most one of these."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, frozen=True, rename="camel"):
    """One container of a pod."""

    name: str = ""
    image: str = ""
    restart_count: int = 0
    state: ContainerState = msgspec.field(default_factory=ContainerState)
    last_state: ContainerState = msgspec.field(default_factory=ContainerState)


class PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    """``phase``: Pending, Running, Succeeded, Failed or Unknown."""

    phase: str = ""
    conditions: tuple[Condition, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(msgspec.Struct, frozen=True):
    """One pod."""

    metadata: ObjectMeta
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    def condition(self, kind: str) -> Condition | None:
        """Return a condition of the pod."""
        return next((each for each in self.status.conditions or () if each.type == kind), None)

    @property
    def is_up(self) -> bool:
        """Return whether it works: it is ready, or was asked to end and drains."""
        ready = self.condition("Ready")
        is_ready = ready is not None and ready.status == "True"
        return self.status.phase == "Running" and (is_ready or self.metadata.deletion_timestamp is not None)


class Event(msgspec.Struct, frozen=True, rename="camel"):
    """Something that a controller said about an object. Times are RFC 3339 in UTC, one of them is set."""

    message: str | None = ""
    last_timestamp: str | None = None
    event_time: str | None = None

    @property
    def at(self) -> str:
        """Return when it was said last; later ones sort after earlier ones."""
        return self.last_timestamp or self.event_time or ""


class ListMeta(msgspec.Struct, frozen=True, rename="camel"):
    """``continue_``: asks for the next page; empty on the last one."""

    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    metadata: ListMeta = msgspec.field(default_factory=ListMeta)
    items: tuple[T, ...] | None = None


class Status(msgspec.Struct, frozen=True):
    """What comes in place of an answer."""

    kind: str
    reason: str = ""
    message: str = ""
