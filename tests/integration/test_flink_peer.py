"""Flink's own autoscaler, as the demo runs it beside surescale: it sees a real job's load and has Flink rescale it."""

from pathlib import Path

import pytest

from benchmarks.rivals.flink_peer import Peer
from surescale.services.local_stack.child_process import ChildProcess
from surescale.services.local_stack.flink.flink_pipeline import FlinkPipelineOptions
from tests.support.flink_pipeline import loaded
from tests.support.live_flink import LiveFlink
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.flink, pytest.mark.nightly("waits minutes until Flink's own autoscaler acts")]

RESCALED_WITHIN_S = 400.0


def test_the_upstream_autoscaler_rescales_its_job_and_no_other(flink: LiveFlink, tmp_path: Path) -> None:
    """The slow vertex gets more subtasks, through the requirements that Flink keeps."""
    slow = {"parse_rounds": 0, "parse_wait_micros": 10_000}
    with flink.job(**slow) as job, flink.job(**slow) as other, loaded(job, 160.0), loaded(other, 160.0):
        logging = flink.cluster.folder / "conf" / "log4j.properties"
        command = Peer(flink.cluster.flink).command(flink.rest_url, job.job_id, FlinkPipelineOptions(), logging)
        process = ChildProcess(command, log_path=tmp_path / "upstream.log")
        try:
            wait_until(lambda: job.requirements()["parse"] > 1, RESCALED_WITHIN_S, "upstream to ask for more subtasks of parse")
            wait_until(lambda: job.parallelism().get("parse", 1) > 1, 120.0, "them to run")
            assert process.is_running
        finally:
            process.kill()
        assert set(other.requirements().values()) == {1}
