"""A real Flink with two JobManagers: the one that leads is killed, and the other takes over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from surescale.contracts.commands import Progress
from surescale.engines.flink.actuator import FlinkEngine
from surescale.engines.flink.client import FlinkClient
from surescale.rescaler.execution import RequirementExecution
from surescale.services.local_stack.flink.scaled_job import job_jar
from tests.conftest import KafkaForTests
from tests.support.flink_commands import CLUSTER, command, now_ms
from tests.support.flink_ha import HighlyAvailable
from tests.support.flink_pipeline import FlinkPipeline, loaded, pipeline_beside
from tests.support.live_flink import LiveFlink, LiveJob, problems_of
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.flink,
    pytest.mark.nightly("kills the leaders of a Flink with two JobManagers"),
]

LABELS = {"surescale.mode": "act", "surescale.job": "shop"}
"""Flink does not tell them for a while when another JobManager has taken over."""
ENDED_S = 240.0
SPANS_S = 300.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HighlyAvailable]:
    """Both JobManagers run."""
    made = HighlyAvailable(tmp_path_factory.mktemp("flink-ha"), slots=8)
    try:
        made.start()
        made.wait_ready()
        yield made
    finally:
        made.stop()


@pytest.fixture
def flink(cluster: HighlyAvailable, kafka: KafkaForTests) -> LiveFlink:
    """The same, for jobs."""
    return LiveFlink(cluster, job_jar(cluster.flink), kafka.bootstrap)


def test_a_command_under_way_is_carried_out_under_the_next_leader(cluster: HighlyAvailable, flink: LiveFlink) -> None:
    """The requirement lies where the next leader finds it, and the actuator waits until it can be asked about the job again."""
    with flink.job(parse_rounds=1_000, parse_wait_micros=200, labels=LABELS, name="a shop") as job:
        job.send(2_000)
        wait_until(job.checkpoints, 60, "the first checkpoint")
        client = FlinkClient(cluster.rest_urls)
        engine, reports = FlinkEngine(client, CLUSTER), list[Progress]()
        work = RequirementExecution(command(engine, job, 1, parse=3, within_s=ENDED_S))
        problems: set[str] = set()

        def ended() -> bool:
            reports.extend(work.step(engine, now_ms=now_ms(), wall_ms=now_ms()))
            problems.add(work.away)
            return work.ended

        ended()
        assert [report.status for report in reports] == ["accepted"]
        cluster.fail_over()
        wait_until(ended, ENDED_S + 60, "the end of the command")
        client.close()
        assert reports[-1].status == "applied", reports
        assert problems - {""}, "the engine was away for a while"
        assert job.parallelism() == {"source": 1, "parse": 3, "count": 1, "sink": 1}
        job.send(2_000)
        wait_until(lambda: len(job.output()) >= job.sent, 90, "all results")
        assert problems_of(job.output(), job.sent) == []
        cluster.bring_back()


def test_the_pipeline_follows_to_the_next_leader(
    cluster: HighlyAvailable, flink: LiveFlink, kafka: KafkaForTests, redis_url: str, tmp_path: Path
) -> None:
    """The job keeps its name, its size and its owner; decisions go on, and a fall after it is followed."""
    slow = {"parse_rounds": 0, "parse_wait_micros": 10_000, "labels": LABELS}
    with (
        pipeline_beside(flink, kafka, redis_url, tmp_path, cluster.rest_urls) as pipeline,
        flink.job(name="a shop", **slow) as job,
        loaded(job, 150.0) as load,
    ):
        pipeline.decide_early(job)
        wait_until(lambda: job.parallelism().get("parse", 0) >= 2, SPANS_S, "a rise")
        wait_until(lambda: [report for report in pipeline.progress(job) if report.status == "applied"], 60, "its report")
        before, attempt = job.parallelism(), pipeline.topologies(job)[-1].attempt
        cluster.fail_over()
        wait_until(lambda: pipeline.topologies(job)[-1].attempt > attempt, SPANS_S, "the job as the next leader shows it")
        assert pipeline.topologies(job)[-1].state == "running"
        assert {topology.job for topology in pipeline.topologies(job)} == {f"{CLUSTER}/{job.known_as}"}
        assert not {"finished", "failed"} & states(pipeline, job)
        for topology in pipeline.topologies(job):
            assert sum(not task.upstream for task in topology.tasks) == 1, "a graph without its edges"
        seen = len(pipeline.decisions(job))
        wait_until(lambda: len(pipeline.decisions(job)) > seen, SPANS_S, "the next decision")
        assert pipeline.drifts(job) == []
        load.stop()
        wait_until(lambda: 0 < sum(job.parallelism().values()) < sum(before.values()), 2 * SPANS_S, "a fall")
        wait_until(lambda: pipeline.progress(job)[-1].status == "applied", 60, "its report")
        wait_until(lambda: len(job.output()) >= load.sent, 120, "the whole output")
        assert problems_of(job.output(), load.sent) == []
        assert pipeline.drifts(job) == []
    cluster.bring_back()


def states(pipeline: FlinkPipeline, job: LiveJob) -> set[str]:
    """Return the states of a job that were published."""
    return {topology.state for topology in pipeline.topologies(job)}
