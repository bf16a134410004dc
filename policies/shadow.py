"""What a shadow policy makes of a window that another one decided on, beside that decision. Acts on nothing."""

from collections.abc import Collection
from dataclasses import dataclass

from surescale.contracts.decisions import (
    Comparison,
    Decision,
    ServedDecision,
    ShadowDecision,
    ShadowStatus,
    TaskDifference,
    Verdict,
)
from surescale.contracts.ids import shadow_id
from surescale.contracts.job_labels import in_force
from surescale.contracts.job_limits import minutes_known_min
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.windows import Window
from surescale.policies.decide import REASON_MAX
from surescale.policies.policy import Policy, is_span_end


@dataclass(frozen=True, slots=True)
class ShadowRun:
    """A shadow policy, by name and hash as it was released, next to the decision that was made.

    ``served_took_ms``: how long that decision took.
    """

    policy: str
    sha256: str
    served: Decision
    served_took_ms: float

    def answered(self, window: Window, own: Decision, took_ms: float) -> ShadowDecision:
        """Return the comparison with what the policy made of the same window, with the same settings and seed.

        No rule takes over from a policy that failed: its answer is that it failed.
        """
        if own.policy.fallback_reason is not None:
            return self.unanswered("failed", own.policy.fallback_reason)
        scalable = frozenset(spec.task for spec in window.topology.tasks if spec.scalable)
        compared = Comparison(
            served=_verdict(self.served, scalable),
            shadow=_verdict(own, scalable),
            took_ms=took_ms,
            tasks=len(scalable),
            differences=_differences(self.served, own, scalable),
        )
        return self._record("answered", own.reason, compared)

    def unanswered(self, status: ShadowStatus, reason: str) -> ShadowDecision:
        """Return that the policy gave no answer, and why."""
        return self._record(status, reason[:REASON_MAX] or "The policy gave no reason.", None)

    def _record(self, status: ShadowStatus, reason: str, comparison: Comparison | None) -> ShadowDecision:
        served = self.served
        return ShadowDecision(
            shadow_id=shadow_id(served.job, served.span_end_ms, self.policy, self.sha256),
            job=served.job,
            span_end_ms=served.span_end_ms,
            policy=self.policy,
            sha256=self.sha256,
            served=ServedDecision(
                decision_id=served.decision_id,
                policy=served.policy.name,
                sha256=served.policy.sha256,
                took_ms=self.served_took_ms,
            ),
            status=status,
            reason=reason,
            comparison=comparison,
        )


def is_asked(policy: Policy, window: Window, settings: JobSettings) -> bool:
    """Return whether a shadow policy has an answer to this window: a span of its own ends here, and enough is known."""
    least = minutes_known_min(in_force(settings, window.topology.labels))
    return is_span_end(window.window_end_ms, policy.span_minutes) and window.minutes_known >= least


def _verdict(decision: Decision, scalable: Collection[str]) -> Verdict:
    return Verdict(
        action=decision.action,
        subtasks=sum(task.desired for task in decision.tasks if task.task in scalable),
        utilisation=_predicted_utilisation(decision),
    )


def _predicted_utilisation(decision: Decision) -> float | None:
    """Return the busiest task's utilisation if its measured work were spread over the decided subtasks; above 1: overloaded.

    Decisions give no utilisation of a task that cannot be scaled.
    """
    found = [task.utilisation * task.current / task.desired for task in decision.tasks if task.utilisation is not None]
    return round(max(found), 6) if found else None


def _differences(served: Decision, own: Decision, scalable: Collection[str]) -> tuple[TaskDifference, ...]:
    """Return the scalable tasks to which the two give another parallelism; both are about the tasks of one window."""
    desired = {task.task: task.desired for task in served.tasks}
    return tuple(
        TaskDifference(task=task.task, current=task.current, served=desired[task.task], shadow=task.desired)
        for task in own.tasks
        if task.task in scalable and desired[task.task] != task.desired
    )
