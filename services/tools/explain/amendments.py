"""What each guardrail means, for people who read an explanation."""

from collections.abc import Iterable

from contracts.decisions import TaskDecision
from services.state.read.words import WORDS


def meanings_of(tasks: Iterable[TaskDecision]) -> list[str]:
    """Return a line for each guardrail that amended one of these tasks, in the guardrails' order.

    >>> from contracts.decisions import Amendment
    >>> amendment = Amendment(rule="total_limit", before=9, after=4)
    >>> meanings_of([TaskDecision(task="a", current=2, ratio=4.5, proposed=9, desired=4, amendments=(amendment,))])
    ["total_limit: the job's total allows no more"]
    """
    named = {amendment.rule for task in tasks for amendment in task.amendments}
    return [f"{rule}: {meaning}" for rule, meaning in WORDS.guardrails.items() if rule in named]
