"""Unaligned checkpoints on a real Flink: a rescale under back pressure does not wait, and what was in flight is not lost."""

import pytest

from surescale.engines.flink.actuator import FlinkEngine
from surescale.engines.flink.client import FlinkClient
from surescale.engines.ports.minutes import JobSnapshot
from tests.support.flink_commands import CLUSTER, carry_out, command
from tests.support.flink_looks import attempt_of, look_until, parallelism, total, watched
from tests.support.live_flink import LiveFlink, LiveJob, problems_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.flink, pytest.mark.nightly("keeps a real job under back pressure for minutes")]

SENT, MORE = 40_000, 40_000  # the second takes half a minute: figures may be ten seconds old
WORK_MICROS = 2_000  # some four hundred records a second and subtask
UNALIGNED = {"execution.checkpointing.unaligned.enabled": "true"}
INTERVAL_S = 600  # so that only checkpoints on request count


def test_a_rescale_under_back_pressure_does_not_wait_for_what_is_in_flight(flink: LiveFlink) -> None:
    """Thousands of records lie in the buffers. The checkpoint holds them, and the new graph begins with them."""
    with (
        flink.job(parse_rounds=0, parse_wait_micros=WORK_MICROS, checkpoint_s=INTERVAL_S, settings=UNALIGNED) as job,
        watched(flink, job) as (source, name),
    ):
        checkpoint(job)
        job.send(SENT)
        full = look_until(source, name, lambda look: on_the_way(look) > 5_000, "full buffers")
        assert full.topology.checkpointing is not None
        assert full.topology.checkpointing.unaligned

        client = FlinkClient(flink.rest_url)
        engine = FlinkEngine(client, CLUSTER)
        *_, applied = carry_out(engine, command(engine, job, 1, parse=3))
        client.close()
        assert applied.status == "applied"
        work_s = on_the_way(full) * WORK_MICROS / 1e6
        assert checkpoint_took_s(job) < work_s / 2, f"{work_s:.0f} s of work lay before the barrier"

        look_until(source, name, lambda look: attempt_of(look) > attempt_of(full), "the new graph")
        done = look_until(source, name, Drained(SENT), "all records to be taken in", timeout_s=180)
        assert parallelism(done)["parse"] == 3
        in_flight = taken(done) - total(done, "records_out")
        assert in_flight > 0, "records that the new graph began with"

        job.send(MORE)
        busy = look_until(source, name, lambda look: total(look, "arrived_records") == SENT + MORE and let_in(look), "the rest")
        assert on_the_way(busy) == total(busy, "records_out") + in_flight - taken(busy), "counted as before, in spite of them"
        look_until(source, name, Drained(SENT + MORE), "the rest to be taken in", timeout_s=180)
        checkpoint(job)
        wait_until(lambda: len(job.output()) >= job.sent, 60, "all results")
        assert problems_of(job.output(), job.sent) == []


def checkpoint(job: LiveJob) -> None:
    """Take a checkpoint."""
    asked = job.flink.request("POST", f"/jobs/{job.job_id}/checkpoints", {})
    path = f"/jobs/{job.job_id}/checkpoints/{asked['request-id']}"
    wait_until(lambda: job.flink.request("GET", path)["status"]["id"] == "COMPLETED", 90, "a checkpoint")


def checkpoint_took_s(job: LiveJob) -> float:
    """Return how long the checkpoint took that the present graph began with, or a later one."""
    return float(job.flink.request("GET", f"/jobs/{job.job_id}/checkpoints")["latest"]["completed"]["end_to_end_duration"]) / 1e3


def on_the_way(look: JobSnapshot) -> int:
    """Return the records that wait for parse in Flink's buffers."""
    return total(look, "queued_records", "parse")


def taken(look: JobSnapshot) -> int:
    """Return the records that parse has taken in."""
    return total(look, "records_in", "parse")


def let_in(look: JobSnapshot) -> bool:
    """Say whether the source has read something that parse has not."""
    return on_the_way(look) > 0


class Drained:
    """Holds of the second of two readings between which nothing was taken in, once all that was sent has arrived."""

    def __init__(self, sent: int) -> None:
        """Remember no reading yet."""
        self._sent, self._last = sent, (0, -1)

    def __call__(self, look: JobSnapshot) -> bool:
        """Compare a look with the last one."""
        read_ms = min((sample.as_of_ms or 0 for sample in look.samples), default=0)
        last_ms, last = self._last
        if read_ms > last_ms:
            self._last = (read_ms, taken(look))
        is_over = total(look, "arrived_records") == self._sent and total(look, "queued_records") == 0
        return is_over and read_ms > last_ms and taken(look) == last
