"""The Flink actuator beside a real Flink, without the pipeline before it."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from surescale.engines.flink.actuator import FlinkEngine
from surescale.engines.flink.client import FlinkClient
from surescale.engines.ports.actuator import REQUIREMENT_CHANGED, EngineRefused
from tests.support.flink_commands import CLUSTER, carry_out, command
from tests.support.live_flink import LiveFlink, problems_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.flink]


@contextmanager
def engine_of(flink: LiveFlink) -> Iterator[FlinkEngine]:
    """An actuator's engine with a connection of its own."""
    client = FlinkClient(flink.rest_url)
    yield FlinkEngine(client, CLUSTER)
    client.close()


def test_a_rise_and_a_fall_are_applied_and_a_foreign_change_stays(flink: LiveFlink) -> None:
    """Checkpoints come every five minutes, so it is the one on request that counts; nothing is lost or doubled on the way."""
    with (
        flink.job(parse_rounds=1_000, parse_wait_micros=200, checkpoint_s=300) as job,
        engine_of(flink) as engine,
    ):
        job.send(2_000)
        flink.request("POST", f"/jobs/{job.job_id}/checkpoints", {})
        wait_until(job.checkpoints, 60, "the first checkpoint")

        accepted, risen = carry_out(engine, command(engine, job, 1, parse=3))
        assert (accepted.status, risen.status) == ("accepted", "applied")
        assert job.parallelism() == {"source": 1, "parse": 3, "count": 1, "sink": 1}
        job.send(2_000)

        late = command(engine, job, 2, parse=4)
        job.require(count=2)
        with pytest.raises(EngineRefused) as refused:
            engine.request(late)
        assert refused.value.code == REQUIREMENT_CHANGED
        assert job.requirements() == {"source": 1, "parse": 3, "count": 2, "sink": 1}

        *_, fallen = carry_out(engine, command(engine, job, 3, parse=1))
        assert fallen.status == "applied"
        assert job.parallelism() == {"source": 1, "parse": 1, "count": 2, "sink": 1}
        for report in (risen, fallen):
            # Flink leaves some time between two rescales, and after the start; far less than the interval of checkpoints.
            assert report.waited_ms is not None
            assert report.waited_ms < 60_000
            assert report.still_ms is not None
            assert report.still_ms < 15_000
        flink.request("POST", f"/jobs/{job.job_id}/checkpoints", {})
        wait_until(lambda: len(job.output()) >= job.sent, 60, "all results")
        assert problems_of(job.output(), job.sent) == []


def test_a_job_without_checkpoints_is_refused(flink: LiveFlink) -> None:
    """Flink itself would take the requirement without a word, and begin all over."""
    with flink.job(checkpoint_s=None) as job, engine_of(flink) as engine:
        with pytest.raises(EngineRefused) as refused:
            engine.request(command(engine, job, 1, parse=2))
        assert refused.value.code == "NO_CHECKPOINTS"
        assert "execution.checkpointing.interval" in refused.value.detail
        assert job.requirements()["parse"] == 1
