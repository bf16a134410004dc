"""The roles of the pipeline beside a live Flink: monitor, Spark, agent, rescaler and state service, and what they wrote."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from surescale.contracts.commands import Drift, EventRecord, Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DECISIONS, JOB_SETTINGS, JOB_TOPOLOGY, RESCHEDULE_COMMANDS, RESCHEDULE_EVENTS, TopicNames
from surescale.contracts.wire import encode
from surescale.engines.settings import ClusterSettings
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import create_topics, producer
from surescale.runtime.ports import LOOPBACK
from surescale.services.local_stack.comparison.load import Load
from surescale.services.local_stack.roles import PipelinePorts, pipeline_roles, spark_environment
from surescale.services.local_stack.supervisor import Supervisor
from tests.conftest import KafkaForTests
from tests.support.live_flink import LiveFlink, LiveJob
from tests.support.topic_records import records

CLUSTER = "live"
M = TypeVar("M")


class FlinkPipeline:
    """Roles that serve one live cluster, deciding every minute."""

    def __init__(self, settings: PipelineSettings, supervisor: Supervisor, ports: PipelinePorts) -> None:
        self.settings = settings
        self.supervisor = supervisor
        self._ports = ports

    def decide_early(self, *jobs: LiveJob) -> None:
        """Have jobs decided on after a single minute; their mode stays what their label says."""
        client = producer(self.settings)
        for job in jobs:
            settings = JobSettings(job=_id(job), version=1, minutes_known_min=1, scale_down_after_minutes=0, set_by="test")
            client.produce(TopicNames(self.settings.topic_prefix)(JOB_SETTINGS), key=settings.job, value=encode(settings))
        assert client.flush(30) == 0

    def view(self, job: LiveJob) -> Any:
        """Return what the state service shows of a job."""
        return fetch_json(f"http://{LOOPBACK}:{self._ports.http}/jobs/{CLUSTER}/{job.known_as}")

    def decisions(self, job: LiveJob) -> list[Decision]:
        """Return the job's decisions."""
        return [each for each in self._read(DECISIONS, Decision) if each.job == _id(job)]

    def outcomes(self, job: LiveJob) -> list[Outcome]:
        """Return what became of them."""
        found: list[Any] = self._read(RESCHEDULE_EVENTS, EventRecord)
        return [each for each in found if isinstance(each, Outcome) and each.job == _id(job)]

    def progress(self, job: LiveJob) -> list[Progress]:
        """Return what the actuator reported."""
        found: list[Any] = self._read(RESCHEDULE_EVENTS, EventRecord)
        return [each for each in found if isinstance(each, Progress) and each.job == _id(job)]

    def commands(self, job: LiveJob) -> list[RescheduleCommand]:
        """Return the commands for the job."""
        return [each for each in self._read(RESCHEDULE_COMMANDS, RescheduleCommand) if each.job == _id(job)]

    def drifts(self, job: LiveJob) -> list[Drift]:
        """Return the records of foreign changes."""
        found: list[Any] = self._read(RESCHEDULE_EVENTS, EventRecord)
        return [each for each in found if isinstance(each, Drift) and each.job == _id(job)]

    def topologies(self, job: LiveJob) -> list[JobTopology]:
        """Return what the monitor said of the job's topology."""
        return [each for each in self._read(JOB_TOPOLOGY, JobTopology) if each.job == _id(job)]

    def _read(self, topic: str, kind: type[M] | Any) -> list[M]:
        self.supervisor.check()
        return records(self.settings, topic, kind)


@contextlib.contextmanager
def pipeline_beside(
    flink: LiveFlink, kafka: KafkaForTests, redis_url: str, folder: Path, engine_url: str = ""
) -> Iterator[FlinkPipeline]:
    """Run the roles beside the cluster, under the rule target-utilisation with a span of one minute.

    ``engine_url``: where they reach its REST API, if not directly.
    """
    settings = ClusterSettings(
        bootstrap=kafka.bootstrap,
        topic_prefix=kafka.topic_prefix(),
        redis_url=redis_url,
        cluster=CLUSTER,
        engine="flink",
        engine_url=engine_url or flink.rest_url,
        policy="target-utilisation",
        span_minutes=1,
    )
    create_topics(settings)
    ports = PipelinePorts.free()
    arguments = ["--master", "local[1]", "--checkpoint", str(folder / "checkpoint")]
    with Supervisor(folder / "pipeline") as supervisor:
        roles = pipeline_roles(
            settings, ports, spark_env=spark_environment(lambda _line: None), spark_arguments=arguments, one_process=True
        )
        supervisor.start_together(roles)
        yield FlinkPipeline(settings, supervisor, ports)


@contextlib.contextmanager
def loaded(job: LiveJob, per_second: float, seconds: int = 3_600) -> Iterator[Load]:
    """Send a steady load into the job's topic until the block ends."""
    load = Load(job.flink.bootstrap, job.options.from_topic, np.full(seconds, per_second))
    load.start()
    try:
        yield load
    finally:
        load.stop()


def _id(job: LiveJob) -> str:
    return f"{CLUSTER}/{job.known_as}"
