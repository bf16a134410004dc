"""The session cluster and the job that live tests and the demo stand on."""

import pytest

from tests.support.live_flink import LiveFlink, problems_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.flink]


def test_a_rescale_by_hand_loses_and_doubles_nothing(flink: LiveFlink) -> None:
    """Exactly-once sink, read committed, default triggers: every record once, and every key counted on where it was."""
    with flink.job(labels={"surescale.mode": "advise"}, parse_rounds=1000, parse_wait_micros=200) as job:
        assert job.parallelism() == {"source": 1, "parse": 1, "count": 1, "sink": 1}
        job.send(2000)
        job.require(parse=3, count=2)
        assert job.requirements() == {"source": 1, "parse": 3, "count": 2, "sink": 1}
        wait_until(lambda: job.parallelism().get("parse") == 3, 90.0, "the rescale")
        job.send(2000)
        wait_until(lambda: len(job.output()) >= job.sent, 60.0, "the whole output")
        assert problems_of(job.output(), job.sent) == []
        shown = flink.request("GET", f"/jobs/{job.job_id}/config")["execution-config"]["user-config"]
        assert shown == {"surescale.mode": "advise"}
