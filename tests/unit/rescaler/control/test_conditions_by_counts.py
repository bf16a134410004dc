"""Conditions of a job whose engine places its subtasks itself."""

from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.rescaler.control.conditions import degraded
from surescale.rescaler.control.job.memory import JobMemory


def test_a_task_of_which_no_other_size_can_be_asked_for_is_named_first() -> None:
    """What hinders it besides can wait."""
    fixed = TaskSpec(task="parse", fixed="12 members run where 4 workers are asked for", hindrance="a hot key")
    topology = JobTopology(job="shop/orders", version=1, at_ms=1, tasks=(fixed,))
    said = "parse: 12 members run where 4 workers are asked for"
    assert degraded(JobMemory(job="shop/orders"), topology) == ("Degraded", True, "Fixed", said)


def test_a_task_that_more_subtasks_cannot_help_is_named() -> None:
    """With the words of the source, and by its label where it has one; also while the job does not run."""
    stuck = TaskSpec(task="parse", hindrance="partition orders[0] has not moved")
    empty = TaskSpec(task="c1", label="count", hindrance="group count has no members")
    topology = JobTopology(job="shop/orders", version=1, at_ms=1, tasks=(stuck, empty, TaskSpec(task="sink")), state="suspended")
    said = "parse: partition orders[0] has not moved; count: group count has no members"
    assert degraded(JobMemory(job="shop/orders"), topology) == ("Degraded", True, "Hindered", said)
