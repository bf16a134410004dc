"""What a limit that nobody set is, on each kind of engine."""

import pytest

from surescale.contracts.job_limits import (
    bounds_of,
    most_in_words,
    parallelism_max,
    scale_down_after_minutes,
    total_limit,
)
from surescale.contracts.job_settings import JobSettings, TaskLimits
from surescale.contracts.messages import TaskSpec

FREE = JobSettings(job="prod/orders")
REAL = ("flink", "kafka", "kubernetes")


def test_the_simulated_engine_keeps_its_published_limits() -> None:
    """Ten a task, 200 a job, and no wait before a task shrinks."""
    assert (parallelism_max(FREE, "simulated"), total_limit(FREE, "simulated")) == (10, 200)
    assert scale_down_after_minutes(FREE, "simulated") == 0
    assert bounds_of(FREE, TaskSpec(task="map", parallelism=5, max_parallelism=100), "simulated").most == 10


@pytest.mark.parametrize("engine", REAL)
def test_a_real_engine_has_no_limits_but_its_own(engine: str) -> None:
    """No maximum, no total; a lower need waits half an hour."""
    assert parallelism_max(FREE, engine) is total_limit(FREE, engine) is FREE.utilisation is None
    assert scale_down_after_minutes(FREE, engine) == 30
    assert bounds_of(FREE, TaskSpec(task="map", parallelism=40, max_parallelism=128), engine).most == 128
    assert bounds_of(FREE, TaskSpec(task="source", parallelism=4, max_parallelism=128, useful_max=8), engine).most == 8


@pytest.mark.parametrize("engine", REAL)
def test_a_maximum_that_nobody_set_holds_for_growth_only(engine: str) -> None:
    """A task wider than the ceiling, or than its partitions, may stay as wide as it runs."""
    wide = TaskSpec(task="map", parallelism=300, max_parallelism=32_768)
    assert bounds_of(FREE, wide, engine).most == 300
    assert bounds_of(FREE, TaskSpec(task="map", parallelism=40, max_parallelism=32_768), engine).most == 200
    assert bounds_of(FREE, TaskSpec(task="source", parallelism=8, max_parallelism=128, useful_max=4), engine).most == 8


@pytest.mark.parametrize("engine", ["simulated", *REAL])
def test_what_the_owner_sets_holds_on_every_engine(engine: str) -> None:
    """Also above the ceiling, and below what runs; a task's own maximum comes before the job's."""
    spec = TaskSpec(task="map", parallelism=40, max_parallelism=1_000)
    own = {"map": TaskLimits(parallelism_max=30)}
    assert bounds_of(JobSettings(job="a/b", parallelism_max=500), spec, engine).most == 500
    assert bounds_of(JobSettings(job="a/b", parallelism_max=12), spec, engine).most == 12
    assert bounds_of(JobSettings(job="a/b", parallelism_max=12, tasks=own), spec, engine).most == 30
    assert total_limit(JobSettings(job="a/b", total_limit=7), engine) == 7
    assert scale_down_after_minutes(JobSettings(job="a/b", scale_down_after_minutes=0), engine) == 0


def test_what_a_task_may_have_at_most_is_told_with_its_reason() -> None:
    """Yours, the partitions, the key groups, the ceiling of growth, or what runs; the engine's own needs no word."""
    wide = TaskSpec(task="map", parallelism=4, max_parallelism=32_768)
    told = [
        most_in_words(FREE, TaskSpec(task="source", parallelism=2, max_parallelism=128, useful_max=4), "flink"),
        most_in_words(JobSettings(job="a/b", parallelism_max=3), wide, "flink"),
        most_in_words(FREE, wide, "flink"),
        most_in_words(FREE, TaskSpec(task="map", parallelism=300, max_parallelism=32_768), "flink"),
        most_in_words(FREE, TaskSpec(task="map", stateful=True, vnodes=64, max_parallelism=128), "flink"),
        most_in_words(FREE, TaskSpec(task="map", max_parallelism=128), "flink"),
    ]
    assert told == ["4, partitions", "3, max", "200, for growth", "300, as it runs", "64, key groups", "128"]
