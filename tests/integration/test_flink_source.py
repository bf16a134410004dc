"""A real Flink job fed from a real Kafka, as the monitor sees it: the figures equal the truth."""

import os
from contextlib import suppress

import psutil
import pytest

from surescale.engines.flink.source import FlinkSource
from surescale.engines.kafka.offsets import OffsetsUnavailable, TopicOffsets
from surescale.engines.ports.minutes import JobSnapshot
from surescale.engines.ports.source import SourceUnavailable, UnknownJob
from surescale.monitor.settings import MonitorSettings
from surescale.runtime.ports import free_port
from tests.support.flink_looks import attempt_of, look_until, parallelism, runs, total, watched
from tests.support.live_flink import LiveFlink
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.flink]
WORK_MICROS = 1_000  # a thousand records a second and subtask at most
SENT = 60_000  # more than Flink's buffers hold
FIRST = 160  # some for each of eight partitions, but for one time in ten million
APART = 2_000  # records that the source may read between Flink's readings of two gauges: two seconds' worth


def job_manager_of(flink: LiveFlink) -> psutil.Process:
    """Return the process of the JobManager."""
    folder = str(flink.cluster.folder / "conf")
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            words = each.cmdline() if each.name() == "java" else []
            if folder in words and any("ClusterEntrypoint" in part for part in words):
                return each
    raise AssertionError("no JobManager runs")


FETCHED_WITHIN_MS = 10_000
"""So old Flink's answers may be: a later look may find that a subtask started earlier."""
WOBBLE_MS = 200
"""Busy time is what is left of the time since the start, and sometimes falls a little."""


def clocks(look: JobSnapshot) -> list[int]:
    """Return when each subtask started, as its own counters have it."""
    return [
        sample.as_of_ms - sample.busy_ms - sample.idle_ms - sample.backpressured_ms
        for sample in look.samples
        if None not in (sample.as_of_ms, sample.busy_ms, sample.idle_ms, sample.backpressured_ms)
    ]


def kinds(source: FlinkSource) -> list[str]:
    """Return what happened."""
    return [event.kind for event in source.events("") if not event.kind.startswith("checkpoint")]


def adds_up(look: JobSnapshot) -> bool:
    """Say whether what was read and what waits is all that was sent."""
    waiting = total(look, "queued_records")
    return waiting > 0 and abs(total(look, "records_in") + waiting - FIRST - SENT) <= APART


def knows_all_positions(look: JobSnapshot) -> bool:
    """Say whether the first records were read. The position in a partition of which nothing was read yet is unknown."""
    return total(look, "records_in") == FIRST and not any(spec.backlog_partly_unknown for spec in look.topology.tasks)


class Quiet:
    """Holds of the second of two readings that show the same records, more than before, and no lag.

    Once is not enough: records that were fetched no longer count as lag before they count as read, and just after a rescale
    the lag is unknown and nothing is through yet.
    """

    def __init__(self, since: int = 0) -> None:
        """Remember nothing yet."""
        self._since, self._last = since, (0, 0)

    def __call__(self, look: JobSnapshot) -> bool:
        """Compare a look with the last one."""
        last_ms, last = self._last
        read_ms = min((sample.as_of_ms or 0 for sample in look.samples), default=0)
        read = total(look, "records_out")
        if read_ms > last_ms:
            self._last = (read_ms, read)
        return read_ms > last_ms and read == last > self._since and total(look, "queued_records") == 0


def test_counters_arrivals_and_lag_are_those_of_the_topic(flink: LiveFlink) -> None:
    """While the job cannot keep up, and when it has; the topic's name has dots, which Flink writes otherwise."""
    topic = f"orders.in.{os.getpid()}"
    with flink.job(parse_rounds=0, parse_wait_micros=WORK_MICROS, from_topic=topic) as job, watched(flink, job) as (source, name):
        job.send(FIRST)
        look_until(source, name, knows_all_positions, "each partition to be read")
        job.send(SENT)
        # The first readings may be of a time when not all was sent, and Flink reads its gauges one after the other while the
        # source goes on: most slowly while it fills its buffers.
        behind = look_until(source, name, adds_up, "a lag that adds up")
        let_in, taken = total(behind, "records_out"), total(behind, "records_in", "parse")
        assert total(behind, "queued_records", "parse") == let_in - taken > 1_000, "what lies in Flink's buffers"
        first = attempt_of(behind)
        wait_until(job.checkpoints, 60.0, "a checkpoint to begin from")  # its barrier waits behind the records in the buffers
        job.require(parse=4)
        done = look_until(source, name, Quiet(), "no lag, and nothing on its way")
        assert [spec.useful_max for spec in done.topology.tasks if not spec.upstream] == [8]
        assert done.topology.version > behind.topology.version
        assert attempt_of(done) > first
        assert parallelism(done)["parse"] == 4
        memory = [spec.memory for spec in done.topology.tasks]
        assert all(each is not None and each.gc_share is not None and each.heap_share for each in memory), memory
        assert {each.managed_share for each in memory if each is not None} == {None}, "this cluster has none"
        before = total(done, "records_out")
        job.send(500)
        fresh = look_until(source, name, Quiet(since=before), "the rest to be read")
        assert total(fresh, "arrived_records") == total(done, "arrived_records") + 500
        assert total(fresh, "records_out") == before + 500
        assert {total(fresh, "queued_records", label) for label in ("parse", "count")} == {0}
        happened = {event.kind: event.detail for event in source.events("")}
        assert happened["requirement_changed"] == "parse 1 -> 4"
        assert happened["rescaled"].startswith("parse 1 -> 4, from checkpoint ")


def test_an_upgrade_by_savepoint_is_the_same_job_in_a_new_epoch(flink: LiveFlink) -> None:
    """Under the same task ids and a higher attempt; meanwhile there is no such job. A cancelled one ends."""
    with flink.job(parse_rounds=0, parse_wait_micros=100, parallelism=2) as job, watched(flink, job) as (source, name):
        job.send(200)
        old = look_until(source, name, lambda look: total(look, "records_out") == 200, "all records").topology
        savepoint = job.stop_with_savepoint()
        assert source.jobs() == []
        with pytest.raises(UnknownJob):
            source.follow(name).look()
        options = {each: getattr(job.options, each) for each in ("name", "from_topic", "to_topic", "parse_rounds")}
        with flink.job(savepoint=savepoint, parse_wait_micros=100, **options) as upgraded:
            upgraded.send(100)
            new = look_until(source, name, lambda look: total(look, "records_out") == 100, "the new records")
            assert (new.topology.epoch, old.epoch) == (upgraded.job_id, job.job_id)
            assert new.topology.attempt > old.attempt
            assert {spec.task for spec in new.topology.tasks} == {spec.task for spec in old.tasks}
            assert total(new, "queued_records") == 0
            upgraded.cancel()
            source.jobs()
            with pytest.raises(UnknownJob):
                source.follow(name).look()
        assert kinds(source) == ["job_started", "job_stopped"] * 2


def test_a_task_manager_that_dies_is_seen_as_a_restart(flink: LiveFlink) -> None:
    """What is asked for stays; what runs is told apart from it; afterwards everything counts from 0 under a higher attempt."""
    with flink.job(parse_rounds=0, parse_wait_micros=100, parallelism=2) as job, watched(flink, job) as (source, name):
        job.send(200)
        before = look_until(source, name, lambda look: total(look, "records_out") == 200, "all records")
        used = flink.request("GET", f"/jobs/{job.job_id}/vertices/{before.samples[0].task}")["subtasks"][0]["taskmanager-id"]
        dead = next(each for each in flink.cluster.task_managers if each.name == used)
        dead.kill()
        try:
            after = look_until(source, name, lambda look: attempt_of(look) > attempt_of(before) and runs(look), "the restart")
        finally:
            dead.start()
            dead.wait_ready()
        assert {spec.required for spec in after.topology.tasks} == {2}
        assert {"exception", "job_restarted"} <= set(kinds(source))
        arrived = total(before, "arrived_records")
        look_until(source, name, lambda look: total(look, "arrived_records") == arrived, "what has arrived since the beginning")


def test_an_engine_that_hangs_loses_nothing_but_its_silence(flink: LiveFlink) -> None:
    """The same counters go on, and the time that they cover is known."""
    with flink.job(parse_rounds=0, parse_wait_micros=100) as job, watched(flink, job) as (source, name):
        job.send(200)
        before = look_until(source, name, lambda look: total(look, "records_out") == 200, "all records")
        process = job_manager_of(flink)
        process.suspend()
        try:
            with pytest.raises(SourceUnavailable, match="timed out"):
                source.follow(name).look()
            job.send(300)
        finally:
            process.resume()
        after = look_until(source, name, lambda look: total(look, "records_out") >= 500, "the rest")
        assert (attempt_of(after), total(after, "records_out")) == (attempt_of(before), 500)
        for early, late in zip(clocks(before), clocks(after), strict=True):
            assert early - FETCHED_WITHIN_MS <= late <= early + WOBBLE_MS, "when each subtask started, by its own clock"


def test_demand_is_unknown_while_the_broker_of_the_source_is_not_reached(
    flink: LiveFlink, caplog: pytest.LogCaptureFixture
) -> None:
    """Named in one line; the other figures go on."""
    nobody = f"127.0.0.1:{free_port()}"
    with (
        flink.job(parse_rounds=0, parse_wait_micros=100) as job,
        watched(flink, job, source_bootstrap=nobody) as (source, name),
    ):
        job.send(200)
        look = look_until(source, name, lambda look: total(look, "records_out") == 200, "all records")
        sources = {spec.task for spec in look.topology.tasks if not spec.upstream}
        of_source = [each for each in look.samples if each.task in sources]
        assert {(each.arrived_records, each.queued_records) for each in of_source} == {(None, None)}
    assert f"demand is unknown, so the job is held: Kafka at {nobody}, which sources read, does not answer" in caplog.text


def test_offsets_of_a_real_broker(flink: LiveFlink) -> None:
    """All partitions at once; what cannot be told is one line, in time."""
    with flink.job(parse_rounds=0, parse_wait_micros=100) as job:
        job.send(321)
        broker = TopicOffsets(MonitorSettings(bootstrap=flink.bootstrap))
        ends = broker.ends([job.options.from_topic])
        assert (len(ends), sum(ends.values())) == (8, 321)
        assert job.options.from_topic in broker.topics()
        with pytest.raises(OffsetsUnavailable, match=r"has no topic nothing\.here; set SURESCALE_SOURCE_BOOTSTRAP"):
            broker.ends(["nothing.here"])
        assert broker.ends([job.options.from_topic]) == ends
