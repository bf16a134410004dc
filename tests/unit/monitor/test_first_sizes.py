"""The size that a job's author configured is what was asked for when a submission was first seen."""

from collections.abc import Mapping

from surescale.contracts.messages import JobTopology, TaskSpec
from surescale.monitor.first_sizes import FirstSizes


def job(asked: Mapping[str, int], epoch: str = "e1", state: str = "running", **configured: int) -> JobTopology:
    """Return a job of which this is asked."""
    tasks = tuple(
        TaskSpec(task=task, parallelism=1, required=count, configured_parallelism=configured.get(task), max_parallelism=64)
        for task, count in asked.items()
    )
    return JobTopology(job="prod/orders", version=1, at_ms=0, tasks=tasks, epoch=epoch, state=state, engine="flink")  # type: ignore[arg-type]


def sizes(topology: JobTopology) -> dict[str, int | None]:
    """Return the author's sizes."""
    return {spec.task: spec.configured_parallelism for spec in topology.tasks}


def test_it_stays_while_the_submission_lives() -> None:
    """However it is scaled; a task that comes later counts from then on."""
    known = FirstSizes()
    assert sizes(known.noted(job({"map": 8}))) == {"map": 8}
    assert sizes(known.noted(job({"map": 3}))) == {"map": 8}
    assert sizes(known.noted(job({"map": 3, "sink": 2}))) == {"map": 8, "sink": 2}


def test_a_new_submission_begins_anew_unless_it_begins_as_the_last_one_ended() -> None:
    """As jobs do that Flink's operator submits again, with the overrides of before."""
    known = FirstSizes()
    known.noted(job({"map": 8}))
    known.noted(job({"map": 3}))
    assert sizes(known.noted(job({"map": 3}, "e2"))) == {"map": 8}
    assert sizes(known.noted(job({"map": 6}, "e3"))) == {"map": 6}


def test_it_outlives_the_monitor() -> None:
    """The last topology says it."""
    after = FirstSizes(FirstSizes(job({"map": 3}, map=8)).noted(job({"map": 3})))
    assert sizes(after.noted(job({"map": 2}))) == {"map": 8}


def test_a_job_that_does_not_run_says_nothing_of_its_author() -> None:
    """What waits for slots may be asked for less for a while; and what a source tells itself counts."""
    known = FirstSizes()
    assert sizes(known.noted(job({"map": 1}, state="created"))) == {"map": None}
    assert sizes(known.noted(job({"map": 8}))) == {"map": 8}
    assert sizes(FirstSizes().noted(job({"map": 3}, map=5))) == {"map": 5}
