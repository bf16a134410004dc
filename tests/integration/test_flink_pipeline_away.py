"""The whole pipeline beside a real Flink whose REST API cannot be reached for more than a minute, and whose job ends."""

import time
from pathlib import Path

import pytest

from surescale.runtime.ports import free_port
from tests.conftest import KafkaForTests
from tests.support.faults.proxy import Link, Proxies
from tests.support.flink_pipeline import FlinkPipeline, loaded, pipeline_beside
from tests.support.live_flink import LiveFlink, LiveJob, problems_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.flink, pytest.mark.nightly("takes several spans of the wall's time")]

AWAY_S = 75.0
SPANS_S = 300.0


def states(pipeline: FlinkPipeline, job: LiveJob) -> list[str]:
    """Return the states of a job that were published, in order."""
    return [topology.state for topology in pipeline.topologies(job)]


def available(pipeline: FlinkPipeline, job: LiveJob) -> tuple[bool, str]:
    """Return status and reason of the condition Available, as the state service shows it."""
    (found,) = (each for each in pipeline.view(job)["gate"]["record"]["conditions"] if each["type"] == "Available")
    return found["status"], found["reason"]


def test_an_api_that_is_away_for_a_minute_changes_nothing_and_the_end_of_a_job_is_shown(
    flink: LiveFlink, kafka: KafkaForTests, redis_url: str, tmp_path: Path
) -> None:
    """The job runs on and is not taken for ended; decisions go on afterwards; once it is cancelled, the view says so."""
    calm = {"parse_rounds": 0, "parse_wait_micros": 5_000, "labels": {"surescale.mode": "act"}}
    with Proxies() as proxies:
        link = proxies.add(Link("flink", free_port(), flink.cluster.job_manager.port))
        through = f"http://127.0.0.1:{link.port}"
        with (
            pipeline_beside(flink, kafka, redis_url, tmp_path, through) as pipeline,
            flink.job(**calm) as job,
            loaded(job, 60.0) as load,
        ):
            pipeline.decide_early(job)
            wait_until(lambda: "running" in states(pipeline, job), SPANS_S, "the running job")
            before = job.parallelism()
            proxies.cut(link)
            began_s = time.monotonic()
            wait_until(lambda: time.monotonic() - began_s > AWAY_S and link.refused > 1, 2 * AWAY_S, "a minute without the API")
            assert states(pipeline, job)[-1] == "running"
            seen = len(pipeline.decisions(job))
            link.restore()
            wait_until(lambda: len(pipeline.decisions(job)) > seen, SPANS_S, "the next decision")
            assert not {"finished", "failed"} & set(states(pipeline, job))
            assert job.parallelism() == before
            assert pipeline.drifts(job) == []
            load.stop()
            wait_until(lambda: len(job.output()) >= load.sent, 120.0, "the whole output")
            assert problems_of(job.output(), load.sent) == []
            job.cancel()
            wait_until(lambda: pipeline.view(job)["topology"]["record"]["state"] == "finished", 200.0, "the end in the view")
            wait_until(lambda: available(pipeline, job) == (False, "Finished"), 60.0, "the condition")
