"""The clusters of whose jobs no monitor tells, while that of another one writes."""

import pytest
from msgspec.structs import replace

from surescale.contracts.messages import JobState
from surescale.services.doctor.kafka_checks import silent_clusters
from tests.support.builders import topology

NOW_S = 1_000_000.0


@pytest.mark.parametrize(
    ("told", "silent"),
    [
        ([("a/x", "running", "kafka", 30)], {}),
        ([("a/x", "running", "kafka", 1_500), ("b/x", "running", "kafka", 30)], {"a": 1_500.0}),
        ([("a/x", "running", "kafka", 1_500), ("a/y", "running", "kafka", 30)], {}),
        ([("a/x", "suspended", "flink", 1_500), ("a/y", "resting", "kafka", 900)], {"a": 900.0}),
        ([("a/x", "created", "kafka", 1_500)], {"a": 1_500.0}),
        ([("a/x", "running", "kafka", 1_500), ("a/x", "running", "kafka", 30)], {}),
        ([("a/x", "running", "kafka", 3_000), ("a/x", "finished", "kafka", 1_500)], {}),
        ([("a/x", "failed", "flink", 1_500)], {}),
        ([("a/x", "running", "simulated", 1_500)], {}),
        ([("a/x", "finished", "kafka", 10), ("a/y", "running", "kafka", 1_500)], {"a": 1_500.0}),
        ([], {}),
    ],
)
def test_a_cluster_of_whose_jobs_nobody_tells_is_named(
    told: list[tuple[str, JobState, str, int]], silent: dict[str, float]
) -> None:
    """By the newest of its jobs that are still there; real engines are told of every minute."""
    records = [(replace(topology(), job=job, state=state, engine=engine), NOW_S - age_s) for job, state, engine, age_s in told]
    assert silent_clusters(records, NOW_S) == silent
