"""Real Flink jobs with 128 key groups under a constant load: once each has its size, it keeps it.

Work for 10.5 subtasks of the keyed vertex. Of 13 and of 14 subtasks the fullest has ten key groups, so 14 are no faster than 13.
A minute of the clock is three seconds of the wall's. Figures come from a real cluster, whose requirements are changed; minutes
are assembled, decided on and gated in this process, since Spark needs longer for a minute. ``make constant-load-test`` runs this.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np
import pytest

from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClockSegment
from surescale.engines.flink import source as flink_source
from surescale.engines.flink.actuator import FlinkEngine
from surescale.engines.flink.answers import IoMetrics, VertexDetail, known
from surescale.engines.flink.client import FlinkClient
from surescale.engines.flink.source import FlinkSource
from surescale.engines.groups.source import SegmentClock
from surescale.engines.ports.source import FinishedMinute, SourceUnavailable
from surescale.monitor.settings import MonitorSettings
from surescale.policies.registry import load_policy
from surescale.rescaler.control.settings import ControlSettings
from surescale.rescaler.execution import RequirementExecution
from surescale.services.local_stack.comparison.load import Load
from surescale.services.local_stack.flink.cluster import FlinkCluster
from surescale.services.local_stack.flink.scaled_job import JobOptions, job_jar, submit
from tests.conftest import KafkaForTests
from tests.e2e.test_constant_load import HOUR, POLICIES, assert_settled, since
from tests.support.deciding import DecidingJob
from tests.support.flink_commands import CLUSTER, now_ms
from tests.support.live_flink import LiveFlink, LiveJob

pytestmark = [pytest.mark.e2e, pytest.mark.flink, pytest.mark.nightly("takes five minutes of the wall's time")]

SPEED, MINUTES = 20.0, 90
KEY_GROUPS, SLOTS, BEGIN = 128, 16, 8
BUSY_SUBTASKS, SECONDS_A_RECORD = 10.5, 0.0102
KEYS = [f"k{number}" for number in range(20_000)]  # some 156 in each key group
ADAPTIVE = "jobmanager.adaptive-scheduler."
# What Flink waits for in the wall's time would be half an hour of this clock.
QUICK = {
    "metrics.fetcher.update-interval": "100",
    "web.refresh-interval": "100",
    ADAPTIVE + "executing.cooldown-after-rescaling": "0 s",
    ADAPTIVE + "executing.resource-stabilization-timeout": "0 s",
    ADAPTIVE + "submission.resource-stabilization-timeout": "0 s",
}


class QuickClient(FlinkClient):
    """Flink's REST API where what subtasks spent is told in the time of the quick clock."""

    def vertex(self, job: str, vertex: str) -> VertexDetail:
        """Return the counters of each subtask."""
        found = super().vertex(job, vertex)
        subtasks = tuple(msgspec.structs.replace(each, metrics=_quick(each.metrics)) for each in found.subtasks)
        return msgspec.structs.replace(found, subtasks=subtasks)


def _quick(metrics: IoMetrics) -> IoMetrics:
    names = ("accumulated_busy_time", "accumulated_idle_time", "accumulated_backpressured_time")
    spent = {name: known(getattr(metrics, name)) for name in names}
    return msgspec.structs.replace(metrics, **{name: None if ms is None else ms * SPEED for name, ms in spent.items()})


@pytest.fixture
def quick_flink(kafka: KafkaForTests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveFlink]:
    """A session cluster that waits for nothing before it rescales, with ``SLOTS`` for the job of each policy."""
    monkeypatch.setattr(flink_source, "FlinkClient", QuickClient)
    cluster = FlinkCluster(tmp_path / "flink", slots=SLOTS, settings=QUICK)
    jar = job_jar(cluster.flink)
    try:
        cluster.start()
        cluster.wait_ready()
        yield LiveFlink(cluster, jar, kafka.bootstrap)
    finally:
        cluster.stop()


@dataclass
class Served:
    """A running job under a policy: its minutes so far, and the command that is carried out."""

    deciding: DecidingJob
    minutes: list[int] = field(default_factory=list)
    work: RequirementExecution | None = None
    key_groups: set[int] = field(default_factory=set)

    def serve(self, source: FlinkSource, engine: FlinkEngine, clock: SegmentClock) -> None:
        """Decide on the minutes that have ended since, and go on with what is commanded."""
        cluster, minutes = source.cluster_topology(), list[FinishedMinute]()
        with contextlib.suppress(SourceUnavailable):  # the job restarted during the look
            minutes = source.minutes(self.deciding.job, self.minutes[-1] if self.minutes else 0)
        for minute in minutes:
            self.minutes.append(minute.minute_end_ms)
            self.key_groups |= {spec.max_parallelism for spec in minute.topology.tasks}
            for command in self.deciding.take(minute, cluster):
                self.work = RequirementExecution(command)
        if self.work is not None:
            for progress in self.work.step(engine, now_ms=clock.now_ms(), wall_ms=now_ms()):
                self.deciding.report(progress, cluster, clock.now_ms())
            self.work = None if self.work.ended else self.work


def served(flink: LiveFlink, policy: str, topic: str) -> Served:
    """Run a job that nobody cancels: its cluster ends with the test."""
    options = JobOptions(
        bootstrap=flink.bootstrap, from_topic=topic, to_topic=f"{topic}-{policy}", name=policy, uid_prefix=f"{policy}-",
        parallelism=BEGIN, max_parallelism=KEY_GROUPS, parse_rounds=0, parse_wait_micros=0, count_wait_micros=10_000,
        exactly_once=False, checkpoint_s=1,
    )  # fmt: skip
    flink.create_topics(options.from_topic, options.to_topic)
    LiveJob(flink, submit(flink.rest_url, flink.jar, options), options).wait_running()
    name = f"{CLUSTER}/{policy}"
    rules = ControlSettings(apply_ms_max=60 * MINUTE_MS)  # a rescale takes seconds of the wall's time
    return Served(DecidingJob(name, load_policy(policy), JobSettings(job=name, mode="act", parallelism_max=SLOTS), rules))


def test_a_job_of_128_key_groups_is_rescaled_at_most_once_after_its_first_hour(quick_flink: LiveFlink) -> None:
    """Though no size from 13 to 14 is any use to it."""
    settings = MonitorSettings(
        engine="flink", engine_url=quick_flink.rest_url, cluster=CLUSTER, source_bootstrap=quick_flink.bootstrap
    )
    topic = f"t{time.time_ns()}-in"
    jobs = {policy: served(quick_flink, policy, topic) for policy in POLICIES}
    rates = np.full(int((MINUTES + HOUR) * 60 / SPEED), BUSY_SUBTASKS / SECONDS_A_RECORD)
    load = Load(quick_flink.bootstrap, topic, rates, keys=KEYS)
    segment = ClockSegment(pipeline="p", sequence=1, e0_ms=now_ms(), w0_ms=now_ms(), speed=SPEED, until_ms=2**52)
    clock = SegmentClock(segment, threading.Event())
    with (
        contextlib.closing(FlinkClient(quick_flink.rest_url)) as client,
        contextlib.closing(FlinkSource(settings, lambda closed: SegmentClock(segment, closed))) as source,
    ):
        engine = FlinkEngine(client, CLUSTER)
        load.start()
        began_ms = clock.now_ms()
        while since(began_ms, clock.now_ms()) < MINUTES:
            assert set(source.jobs()) == {job.deciding.job for job in jobs.values()}
            for job in jobs.values():
                job.serve(source, engine, clock)
        load.stop()
    made = {
        policy: [(since(began_ms, command.issued_at_ms), dict(command.targets)) for command in job.deciding.commands]
        for policy, job in jobs.items()
    }
    known_minutes = {policy: len(job.minutes) for policy, job in jobs.items()}
    print(made, known_minutes)
    assert all(job.key_groups == {KEY_GROUPS} for job in jobs.values())
    if min(known_minutes.values()) < 0.95 * MINUTES:
        pytest.skip(f"the machine is too busy to look at a job every three seconds: {known_minutes} of {MINUTES} minutes")
    assert all(made.values()), f"from {BEGIN} subtasks each job must have grown"
    assert_settled(made)
