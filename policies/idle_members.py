"""Members of a consumer group that have no partition, as after a topic was made anew with fewer: they go."""

import numpy as np

from surescale.contracts.job_limits import has_members
from surescale.contracts.plurals import counted
from surescale.policies.graph import Int64
from surescale.policies.question import Question

ANY = 2**53
"""More subtasks than a task can have."""


def useful_of(question: Question) -> Int64:
    """Return int64 [N], the most members that can have a partition; ``ANY`` where that is no bound.

    To a rule a size that carries as much is as good as another, and to a plan the gain is less than a restart. On other engines a
    subtask without a partition may have other work.
    """
    things = question.graph.dealt
    is_bound = has_members(question.window.topology.engine) & (things > 0) & (things < question.current)
    return np.where(is_bound, things, ANY)


def idle_in_words(question: Question, desired: Int64) -> str:
    """Return which task loses members that have no partition, empty if none does."""
    useful = useful_of(question)
    idle = np.flatnonzero((question.current > useful) & (desired < question.current)).tolist()
    if not idle:
        return ""
    spec, most = question.window.topology.tasks[idle[0]], int(useful[idle[0]])
    spare = counted(int(question.current[idle[0]]) - most, "member")
    return f"{spec.label or spec.task}: {spare} more than its {counted(most, 'partition')}, and without one nobody has work."
