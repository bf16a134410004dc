"""What came of a job's latest decision, and whether a limit kept it from what the load needs. Pure."""

from collections.abc import Collection
from typing import Protocol

from surescale.contracts.decisions import PolicyUsed, TaskDecision
from surescale.contracts.messages import TaskSpec
from surescale.services.state.read.words import reason_words

_LIMITS = ("bounds", "total_limit")


class Answer(Protocol):
    """What the rescaler said to a decision."""

    @property
    def status(self) -> str:
        """What it did."""

    @property
    def reason(self) -> str:
        """Why, in one word."""


def is_at_limit(tasks: Collection[TaskDecision], topology: Collection[TaskSpec]) -> bool:
    """Say whether a limit keeps an overloaded task of a decision from the size that its load needs.

    >>> kept = TaskDecision(task="a", current=10, ratio=1.2, proposed=12, desired=10, overloaded=True, floor=12)
    >>> is_at_limit([kept], [TaskSpec(task="a", parallelism=10)]), is_at_limit([kept], [TaskSpec(task="a", max_parallelism=20)])
    (True, False)
    """
    most = {spec.task: spec.max_parallelism for spec in topology}
    for task in tasks:
        limited = any(each.rule in _LIMITS and each.after < each.before for each in task.amendments)
        if task.overloaded and task.floor > task.desired and (limited or task.desired >= most.get(task.task, task.desired + 1)):
            return True
    return False


def outcome_in_words(action: str, outcome: Answer | None) -> str:
    """Return what came of a decision in the words of people.

    >>> from types import SimpleNamespace as Said
    >>> outcome_in_words("act", Said(status="commanded", reason="advise"))
    'advised'
    >>> outcome_in_words("act", Said(status="refused", reason="observe"))
    'observed'
    >>> outcome_in_words("act", Said(status="refused", reason="no_change"))
    'refused: no change'
    """
    if outcome is None:
        return f"{action}, not answered yet"
    reason, words = outcome.reason, outcome.reason.replace("_", " ")
    match outcome.status:
        case "held":
            return "hold" if reason == "hold" else f"left: {words}"
        case "commanded":
            return "advised" if reason == "advise" else "acted in part" if reason == "sufficient" else "acted"
        case "pending":
            return f"waits ({reason_words(reason)})"
        case "refused":
            return "observed" if reason == "observe" else f"refused: {words}"
    return outcome.status


def policy_in_words(policy: PolicyUsed) -> str:
    """Return what decided, and for which policy if a rule took over.

    >>> policy_in_words(PolicyUsed(name="ds2", asked="sure", fallback_reason="no package"))
    'ds2 for sure'
    """
    return f"{policy.name} for {policy.asked}" if policy.fallback_reason else policy.name
