"""Conditions of a job whose engine places its subtasks itself."""

import pytest
from msgspec.structs import replace

from surescale.contracts.messages import JobState, JobTopology, TaskSpec
from surescale.rescaler.control.conditions import available, degraded
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


@pytest.mark.parametrize(
    ("state", "hindrance", "reason"),
    [
        ("created", "worker 0 failed to start, 9 times in a row", "Hindered"),
        ("waiting", "group count is not there", "Hindered"),
        ("created", "", "WaitingForSlots"),
        ("suspended", "group count has no members", "Suspended"),
    ],
)
def test_a_job_that_does_not_start_says_what_hinders_it(state: JobState, hindrance: str, reason: str) -> None:
    """Slots are what it lacks only where nothing else is known."""
    topology = JobTopology(job="shop/orders", version=1, at_ms=1, tasks=(TaskSpec(task="count", hindrance=hindrance),))
    _, status, found, words = available(replace(topology, state=state), JobMemory(job="shop/orders"))
    assert (status, found, hindrance in words) == (False, reason, reason == "Hindered" or not hindrance)
