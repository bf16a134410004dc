"""What shadow policies would have decided: records that nothing acts on.

They have a topic of their own, which the rescaler neither reads nor may read, and a type that no decision has. They follow the
conventions of ``contracts.messages``.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from contracts.ids import shadow_id
from contracts.messages import Count, Identity, Message, Parallelism, Part, PlainName, Sentence, Sha256, Text, TimeMs

Action = Literal["act", "hold"]
ShadowStatus = Literal["answered", "failed", "late", "skipped"]
Milliseconds = Annotated[float, Meta(ge=0.0, le=1e9)]
Utilisation = Annotated[float, Meta(ge=0.0, le=1e9)]


class ServedDecision(Part, frozen=True, kw_only=True):
    """The decision that was made, and by which policy."""

    decision_id: Identity
    policy: Text
    sha256: Sha256 = ""
    took_ms: Milliseconds  # from the window's arrival to the decision


class Verdict(Part, frozen=True, kw_only=True):
    """What one policy's answer came to once the guardrails had amended it."""

    action: Action
    subtasks: Count  # over the job's scalable tasks
    utilisation: Utilisation | UnsetType = UNSET  # predicted of the busiest task, 1 is full; unset: no task's is known


class TaskDifference(Part, frozen=True, kw_only=True):
    """A scalable task to which the two policies give another parallelism."""

    task: Text
    current: Parallelism
    served: Parallelism
    shadow: Parallelism


class Comparison(Part, frozen=True, kw_only=True):
    """The two answers to one window."""

    served: Verdict
    shadow: Verdict
    took_ms: Milliseconds  # of the shadow: features, policy and guardrails
    tasks: Count  # scalable ones
    differences: Annotated[tuple[TaskDifference, ...], Meta(max_length=10_000)] = ()


class ShadowDecision(Message, frozen=True, kw_only=True, tag="shadow-decision/1"):
    """A policy's answer on a window that another policy decided on. Identity: ``shadow_id``.

    ``comparison`` is set if ``status`` is ``answered``. ``failed`` means that the policy gave no answer or its process ended,
    ``late`` that it took too long, ``skipped`` that it was not asked because too many windows were waiting.
    """

    shadow_id: Identity
    job: Text
    span_end_ms: TimeMs
    policy: PlainName
    sha256: Sha256
    served: ServedDecision
    status: ShadowStatus
    reason: Sentence  # the policy's own, or why there is no answer
    comparison: Comparison | None = None

    def __post_init__(self) -> None:
        """Check what the types do not say, so that no reader needs to.

        Raises:
            ValueError: the fields contradict one another.
        """
        if (self.comparison is not None) != (self.status == "answered"):
            raise ValueError("comparison must be set if, and only if, the status is answered")
        if self.comparison is not None and len(self.comparison.differences) > self.comparison.tasks:
            raise ValueError("comparison names more differences than the job has scalable tasks")
        if self.shadow_id != shadow_id(self.job, self.span_end_ms, self.policy, self.sha256):
            raise ValueError("shadow_id: it does not follow from job, span_end_ms, policy and sha256")
