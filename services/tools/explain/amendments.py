"""What each guardrail means, for people who read an explanation."""

from collections.abc import Iterable

from contracts.messages import TaskDecision

MEANINGS = {
    "pinned": "the task, or one on a forward edge to it, is pinned to its size",
    "floor": "the measured load needs at least this many",
    "emergency": "the load of the last minute or two needs at least this many at once",
    "backlog_hold": "nothing shrinks while the job works off a backlog",
    "max_step": "one decision changes a task only by so much; an overloaded one may double, or reach what its load needs",
    "tied": "tasks on a forward edge keep one size, the widest of theirs",
    "bounds": "the owner, the engine, the partitions or the key groups allow no other size",
    "aligned": "this size deals key groups or partitions out evenly, or the fewest subtasks do that are as fast",
    "excluded": "the moment is in an excluded period",
    "total_limit": "the job's total leaves no more",
}
"""By the guardrail's name, in the order in which guardrails come."""


def meanings_of(tasks: Iterable[TaskDecision]) -> list[str]:
    """Return a line for each guardrail that amended one of these tasks, in the guardrails' order.

    >>> from contracts.messages import Amendment
    >>> amendment = Amendment(rule="total_limit", before=9, after=4)
    >>> meanings_of([TaskDecision(task="a", current=2, ratio=4.5, proposed=9, desired=4, amendments=(amendment,))])
    ["total_limit: the job's total leaves no more"]
    """
    named = {amendment.rule for task in tasks for amendment in task.amendments}
    return [f"{rule}: {meaning}" for rule, meaning in MEANINGS.items() if rule in named]
