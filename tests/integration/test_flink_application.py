"""A real Flink in application mode: observed, rescaled, and shown as ended when it is gone."""

import uuid
from pathlib import Path

import pytest

from surescale.engines.flink.actuator import FlinkEngine
from surescale.engines.flink.client import FlinkClient
from surescale.services.local_stack.flink.scaled_job import JobOptions
from tests.conftest import KafkaForTests
from tests.support.flink_application import ApplicationCluster
from tests.support.flink_commands import CLUSTER, carry_out, command
from tests.support.flink_looks import look_until, parallelism, total, watched
from tests.support.live_flink import LiveFlink, LiveJob, problems_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.flink, pytest.mark.nightly("starts a Flink cluster for each job")]

SENT = 2_000


def test_the_job_of_an_application_is_watched_and_rescaled(kafka: KafkaForTests, tmp_path: Path) -> None:
    """Its labels stand in the cluster's own configuration."""
    own = f"t{uuid.uuid4().hex[:8]}"
    options = JobOptions(
        bootstrap=kafka.bootstrap,
        from_topic=f"{own}-in",
        to_topic=f"{own}-out",
        name="an application",
        parse_rounds=1_000,
        parse_wait_micros=200,
        labels={"surescale.mode": "act", "surescale.job": "shop"},
    )
    cluster = ApplicationCluster(tmp_path, options, slots=4)
    flink = LiveFlink(cluster, Path(), kafka.bootstrap)
    flink.create_topics(options.from_topic, options.to_topic)
    try:
        cluster.start()
        cluster.wait_ready()
        (entry,) = wait_until(lambda: flink.request("GET", "/jobs/overview")["jobs"], 60, "the job")
        job = LiveJob(flink, entry["jid"], options)
        job.wait_running()
        with watched(flink, job) as (source, name):
            assert name == "flink/shop"
            job.send(SENT)
            wait_until(job.checkpoints, 60, "the first checkpoint")
            client = FlinkClient(flink.rest_url)
            engine = FlinkEngine(client, CLUSTER)
            *_, applied = carry_out(engine, command(engine, job, 1, parse=3))
            client.close()
            assert applied.status == "applied"
            known = look_until(source, name, lambda look: total(look, "arrived_records") > 0, "what has arrived before")
            before = total(known, "arrived_records")
            job.send(SENT)
            look = look_until(source, name, lambda look: total(look, "arrived_records") == before + SENT, "what has arrived")
            assert parallelism(look)["parse"] == 3
            assert look.topology.labels["surescale.mode"] == "act"
            wait_until(lambda: len(job.output()) >= job.sent, 60, "all results")
            assert problems_of(job.output(), job.sent) == []
    finally:
        cluster.stop()
