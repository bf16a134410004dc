"""The documents of the HTTP API about shadow policies. Public, as those in `record_documents`."""

from msgspec import UNSET, UnsetType

from surescale.contracts.decisions import ServedDecision, ShadowDecision, ShadowStatus, TaskDifference, Verdict
from surescale.services.state.record_documents import ViewDocument

LARGEST_SHOWN = 3


class ShadowComparison(ViewDocument, frozen=True, kw_only=True):
    """The decision and the shadow's answer to one window."""

    served: Verdict
    """What was decided."""
    shadow: Verdict
    """What the shadow policy would have decided."""
    took_ms: float
    """Milliseconds that the shadow's answer took."""
    tasks: int
    """Scalable tasks of the job."""
    differing: int
    """Those of them that the two give another parallelism."""
    largest: tuple[TaskDifference, ...]
    """The largest differences, largest first."""


class StoredAnswer(ViewDocument, frozen=True, kw_only=True):
    """What a shadow policy made of one window, as the view keeps it."""

    shadow_id: str
    """Identity of the answer."""
    job: str
    """Id of the job, ``cluster/name``."""
    span_end_ms: int
    """End of the span that the decision is about."""
    policy: str
    """The shadow policy."""
    sha256: str
    """Hash of its package; empty for a rule."""
    served: ServedDecision
    """The decision that was made, and by which policy."""
    status: ShadowStatus
    """``answered``; ``failed``; ``late``: it took too long; ``skipped``: too many windows were waiting."""
    reason: str
    """The policy's own reason, or why there is no answer."""
    comparison: ShadowComparison | None
    """The two answers; null if there is only one."""


class ShadowSummary(ViewDocument, frozen=True, kw_only=True):
    """The record of one shadow policy: all its answers that are kept, beside the decisions that were made.

    Differences are the shadow's figure less the one of the decision. Each answer starts from the sizes that the decisions had led
    to, so these are no figures of a cluster that the shadow rules.
    """

    cluster: str
    """The cluster."""
    policy: str
    """The shadow policy."""
    sha256: str
    """Hash of its package; empty for a rule."""
    beside: tuple[str, ...]
    """Policies that decided meanwhile, sorted."""
    jobs: tuple[str, ...]
    """Jobs that it looked at, sorted."""
    from_ms: int
    """End of the first span."""
    to_ms: int
    """End of the last span."""
    answered: int
    """Windows on which there are two answers."""
    failed: int
    """Windows to which it gave no answer."""
    late: int
    """Windows for which it took too long."""
    skipped: int
    """Windows for which it was not asked, since too many were waiting."""
    decisions_equal: float | None
    """Share of its answers that give every task the same parallelism; null: there is no answer."""
    tasks_equal: float | None
    """Share of all tasks of all answers to which both give the same parallelism."""
    acts: int
    """Its answers that would have changed a task."""
    served_acts: int
    """Decisions beside them that did want to."""
    subtasks_difference: float | None
    """Mean difference in a job's subtasks."""
    subtask_minutes_per_day: float | None
    """Difference of all its jobs in a day."""
    dollars_per_day: float | None
    """What that costs at the mean price of a unit in the cluster; null while no host has a price."""
    utilisation: float | None
    """Mean utilisation of the busiest task that its answers predict; 1 is full."""
    served_utilisation: float | None
    """The same of the decisions."""
    overloaded: float | None
    """Share of its answers that predict a task with more work than it can do."""
    served_overloaded: float | None
    """The same of the decisions."""
    took_ms: float | None
    """Mean time of an answer, milliseconds."""
    took_ms_max: float | None
    """The longest."""
    served_took_ms: float | None
    """Mean time of the decisions beside it, from the window's arrival."""
    newest_problem: str | UnsetType = UNSET
    """Why its newest window has no answer; absent if it has one."""


def answer_of(record: ShadowDecision) -> StoredAnswer:
    """Return a record as the view keeps it: of its differences only the largest."""
    found = record.comparison
    compared = None
    if found is not None:
        by_size = sorted(found.differences, key=lambda each: (-abs(each.shadow - each.served), each.task))
        compared = ShadowComparison(
            served=found.served,
            shadow=found.shadow,
            took_ms=found.took_ms,
            tasks=found.tasks,
            differing=len(found.differences),
            largest=tuple(by_size[:LARGEST_SHOWN]),
        )
    return StoredAnswer(
        shadow_id=record.shadow_id,
        job=record.job,
        span_end_ms=record.span_end_ms,
        policy=record.policy,
        sha256=record.sha256,
        served=record.served,
        status=record.status,
        reason=record.reason,
        comparison=compared,
    )
