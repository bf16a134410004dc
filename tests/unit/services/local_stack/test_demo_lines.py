"""What the demo prints of jobs: by name while they are few, together when they are many."""

from typing import Any

import pytest
from msgspec.structs import replace

from surescale.contracts.commands import Rescale
from surescale.services.engine.documents import EngineReport, ReportedJob
from surescale.services.local_stack.demo_command import _cell
from surescale.services.local_stack.demo_report import (
    ClusterCost,
    DemoReport,
    Endpoints,
    JobCost,
    JobFigures,
    PolicyRan,
    host_lines,
    progress_line,
    result_lines,
    together,
)
from surescale.services.local_stack.pipeline_figures import Counts, Freshness, JobRescales, Percentiles, Rescaling, Spread

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


def report(*jobs: ReportedJob) -> EngineReport:
    """Return an engine's report of these jobs at minute 20 of 240."""
    named = {f"sim/{number}": each for number, each in enumerate(jobs)}
    return EngineReport(
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


WARMING = running(rescale=Rescale("sim/0#1.0", "warming", 0, 0, learners=3, lag_bytes=5 * 2**20))


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
    """Reward is a mean over the jobs; subtask minutes, rescales and overload are sums; a shared host is in two bills."""
    one = JobFigures.of(running(), RENT)
    found = together({"a": {"sure": one}, "b": {"sure": replace(one, reward=0.4)}})["sure"]
    assert (round(found.reward, 3), found.task_minutes, found.rescales, found.rent) == (0.3, 100, 2, None)


def ended(policies: dict[str, JobFigures], rent: dict[str, ClusterCost], **changes: Any) -> DemoReport:
    """Return the report of one job that ran for two minutes under the first of these policies."""
    first = next(iter(policies))
    spent = JobRescales(rescales=1, learners=0, warm_up_s=Spread(None, None), pause_s=Spread(1.0, 1.0), failed={})
    never = Percentiles(p50=None, p99=None, samples=0)
    plain = DemoReport(
        jobs={"sim/a": policies},
        rent=rent,
        counts=Counts(
            metrics=1, windows=1, decisions={}, outcomes={}, commands=1, events=0, late=0, duplicates=0, dead_letters=0
        ),
        rescaling=Rescaling(jobs={"sim/a": spent}, waits={}, checkpoints=0, incidents=()),
        freshness_s=Freshness(pipeline=never, live=never),
        policy=PolicyRan(first, ""),
        decided_by={},
        window_minutes=60,
        span_minutes=10,
        minutes=20,
        seed=0,
        pace="lockstep",
        lockstep_misses=0,
        wall_s=1.0,
        endpoints=Endpoints(kafka="", redis="", http=""),
    )
    return replace(plain, **changes)


def test_the_result_says_what_was_saved_and_what_it_cost_the_jobs() -> None:
    """Beside the configured sizes, also where they would have been smaller; a run of few minutes may have no rent."""
    own, large = JobFigures.of(running(overload_minutes=3), None), JobFigures.of(running(task_minutes=100), None)
    rent = {"static": ClusterCost(40.0), "sure": ClusterCost(12.5)}
    assert result_lines(ended({"sure": own, "static": large}, rent)) == [
        "sure ran 1 job on 50 subtask-minutes, 50% fewer than the configured sizes take, for $12.50 of hosts instead of $40.00.",
        "Jobs were over capacity in 3 of 20 minutes (0 at the configured sizes) "
        "and rescaled 1 time, with a pause of 1 s at most.",
    ]
    pays, _ = result_lines(ended({"sure": large, "static": own}, {}))
    assert pays == "sure ran 1 job on 100 subtask-minutes, 100% more than the configured sizes take."


@pytest.mark.parametrize("policies", [("static", "target-utilisation"), ("sure", "ds2")])
def test_a_result_without_the_configured_sizes_beside_it_compares_nothing(policies: tuple[str, str]) -> None:
    """The policy is the one that keeps them, or nobody kept them."""
    figures = JobFigures.of(running(rescales=0), None)
    none = Rescaling(jobs={}, waits={}, checkpoints=0, incidents=())
    assert result_lines(ended(dict.fromkeys(policies, figures), {}, rescaling=none)) == [
        f"{policies[0]} ran 1 job on 50 subtask-minutes.",
        "Jobs were over capacity in 0 of 20 minutes and rescaled 0 times.",
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


@pytest.mark.parametrize(("value", "shown"), [(0.0, "0"), (0.00194, "0.0019"), (5.46, "5.5"), (92.81, "92.8"), (2_342, "2,342")])
def test_small_latencies_are_not_shown_as_none(value: float, shown: str) -> None:
    """Two digits of what is small; counts as they are."""
    assert _cell(value) == shown
