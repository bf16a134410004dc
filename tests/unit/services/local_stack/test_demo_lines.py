"""What the demo prints of jobs: by name while they are few, together when they are many."""

from typing import Any

from msgspec.structs import replace

from services.engine.documents import Report, ReportedJob
from services.local_stack.demo_lines import host_lines, progress_line, rent_lines
from services.local_stack.demo_report import ClusterCost, JobCost, JobFigures, together
from simulation.engine.rescales import Rescale

RENT = JobCost(dollars=12.5, per_s=0.001, per_day=86.4, saved_round_robin=30.0, saved_default=20.25)


def running(**changes: Any) -> ReportedJob:
    """Return an engine's figures of one running job on 20 subtasks, changed as asked."""
    plain = ReportedJob(
        state="running",
        load_records_per_minute=100.0,
        parallelism=(30, 20),
        rescale=None,
        reward=0.2,
        latency_mean_s=1.0,
        latency_p99_s=2.0,
        utilisation=0.5,
        task_minutes=50,
        rescales=1,
        overload_minutes=0,
        minutes=2,
    )
    return replace(plain, **changes)


def report(*jobs: ReportedJob) -> Report:
    """Return an engine's report of these jobs at minute 20 of 240."""
    named = {f"sim/{number}": each for number, each in enumerate(jobs)}
    return Report(
        minutes=240,
        minutes_done=20,
        start_ms=0,
        end_ms=240 * 60_000,
        now_ms=20 * 60_000,
        started=True,
        finished=False,
        misses=0,
        waiting_for=[],
        jobs=named,
    )


WARMING = running(rescale=Rescale("sim/0#1.0", 1, 0, 0, state="warming", learners=3, lag_bytes=5 * 2**20))


def test_few_jobs_are_told_by_name() -> None:
    """Load, size, the gate's phase, and learners or a state that is not running."""
    line = progress_line(report(running(), WARMING, running(state="restarting")), {"sim/0": "Idling"})
    assert line == (
        "minute   20 of 240  sim/0: 100 records/min on 20 subtasks (steady)   "
        "sim/1: 100 records/min on 20 subtasks (3 learners, 5 MiB behind)   sim/2: 100 records/min on 20 subtasks (restarting)"
    )


def test_many_jobs_are_told_together() -> None:
    """Sums of load, size and learners; how many gates are in which phase; how many jobs do not run."""
    gates = {"sim/0": "Idling", "sim/1": "Idling", "sim/2": "Cooldown"}
    line = progress_line(report(*[running()] * 3, WARMING, WARMING, running(state="waiting")), gates)
    assert line == (
        "minute   20 of 240  6 jobs: 600 records/min on 120 subtasks "
        "(1 cooling down after a rescale, 2 steady, 6 learners, 10 MiB behind, 1 waiting)"
    )


def test_a_job_without_a_minute_is_not_told() -> None:
    """Before its first minute a job has no size."""
    assert "sim/0" not in progress_line(report(running(parallelism=())), {})


def test_together_figures_are_means_and_what_adds_up_is_summed() -> None:
    """Reward is a mean over the jobs; subtask minutes, rescales, overload and rent are sums; rent may be unknown."""
    one = JobFigures.of(running(), RENT)
    found = together({"a": {"sure": one}, "b": {"sure": replace(one, reward=0.4, rent=None)}})["sure"]
    assert (round(found.reward, 3), found.task_minutes, found.rescales) == (0.3, 100, 2)
    assert found.rent == RENT


def test_the_summary_shows_rent_and_savings_in_money() -> None:
    """One line per job for the policy that acted, and one for the hosts of each policy."""
    figures = JobFigures.of(running(), RENT)
    rent = {"static": ClusterCost(40.0), "sure": ClusterCost(12.5)}
    assert rent_lines({"sim/a": {"sure": figures, "static": figures}}, rent) == [
        "sim/a: hosts for $86.40 a day, $12.50 in this run; saved $30.00 against round robin, $20.25 against Flink's default",
        "all hosts in use, each paid once: static $40.00, sure $12.50",
    ]


def test_hosts_that_die_and_join_are_told_once_in_order() -> None:
    """However many minutes passed between two looks, and those with nothing too."""
    kills, joins = (90, 60), (60,)
    seen = [host_lines(kills, joins, after=after, until=until) for after, until in ((0, 59), (59, 60), (60, 60), (60, 240))]
    assert seen == [
        [],
        ["minute   60  a host joined", "minute   60  the busiest host was killed"],
        [],
        ["minute   90  the busiest host was killed"],
    ]
