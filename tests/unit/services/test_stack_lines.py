"""What the demo prints of jobs: by name while they are few, together when they are many."""

from typing import Any

from services.stack.lines import progress_line, together


def figures(**changes: Any) -> dict[str, Any]:
    """Return an engine's figures of one running job on 20 subtasks, changed as asked."""
    return {"load_records_per_minute": 100.0, "parallelism": [30, 20], "rescale": None, "state": "running"} | changes


def report(*jobs: dict[str, Any]) -> dict[str, Any]:
    """Return an engine's report of these jobs at minute 20 of 240."""
    return {"minutes_done": 20, "minutes": 240, "jobs": {f"sim/{number}": each for number, each in enumerate(jobs)}}


WARMING = figures(rescale={"state": "warming", "learners": 3, "lag_bytes": 5 * 2**20})


def test_few_jobs_are_told_by_name() -> None:
    """Load, size, the gate's phase, and learners or a state that is not running."""
    line = progress_line(report(figures(), WARMING, figures(state="restarting")), {"sim/0": "Idling"})
    assert line == (
        "minute   20 of 240  sim/0: 100 records/min on 20 subtasks (Idling)   "
        "sim/1: 100 records/min on 20 subtasks (3 learners, 5 MiB behind)   sim/2: 100 records/min on 20 subtasks (restarting)"
    )


def test_many_jobs_are_told_together() -> None:
    """Sums of load, size and learners; how many gates are in which phase; how many jobs do not run."""
    gates = {"sim/0": "Idling", "sim/1": "Idling", "sim/2": "Cooldown"}
    line = progress_line(report(*[figures()] * 3, WARMING, WARMING, figures(state="waiting")), gates)
    assert line == (
        "minute   20 of 240  6 jobs: 600 records/min on 120 subtasks (1 Cooldown, 2 Idling, 6 learners, 10 MiB behind, 1 waiting)"
    )


def test_a_job_without_a_minute_is_not_told() -> None:
    """Before its first minute a job has no size."""
    assert "sim/0" not in progress_line(report(figures(parallelism=[])), {})


def test_together_figures_are_means_and_what_adds_up_is_summed() -> None:
    """Reward is a mean over the jobs; subtask minutes, rescales, overload and rent are sums; rent may be unknown."""
    one = {"reward": 0.2, "task_minutes": 10, "rescales": 1, "overload_minutes": 0, "parallelism": [1], "rent": {"dollars": 2.5}}
    other = one | {"reward": 0.4, "rent": None}
    found = together({"a": {"sure": one}, "b": {"sure": other}})["sure"]
    assert (round(found["reward"], 3), found["task_minutes"], found["rescales"]) == (0.3, 20, 2)
    assert found["rent"] == {"dollars": 2.5}
