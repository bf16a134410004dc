"""The whole pipeline with figures from a real Prometheus: it finds real workers, scrapes them, and more of them are started.

Prometheus keeps the wall's time, so decisions come by the minute: ``make prometheus-test`` runs this.
"""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from surescale.contracts.commands import EventRecord, Progress
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import JobTopology
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import JOB_SETTINGS, JOB_TOPOLOGY, RESCHEDULE_EVENTS
from surescale.engines.prometheus.doctor import figures
from surescale.engines.settings import SourceSettings
from surescale.runtime.atomic_files import replace_atomically
from surescale.runtime.kafka import create_topics
from surescale.runtime.topic_records import send_all
from surescale.services.local_stack.comparison.load import Load
from surescale.services.local_stack.roles import PipelinePorts, pipeline_roles, spark_environment
from surescale.services.local_stack.supervisor import Supervisor
from tests.conftest import KafkaForTests
from tests.support.live_groups import CLUSTER, JOB, LiveChain
from tests.support.live_prometheus import LivePrometheus, binary
from tests.support.role_settings import role_settings
from tests.support.topic_records import records
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.nightly("Prometheus keeps the wall's time, so it takes minutes")]
if not binary()[0]:
    pytest.skip(f"a real Prometheus: {binary()[1]}", allow_module_level=True)

WAIT_MS = 20.0  # a worker takes about 45 records a second
TOO_MUCH = 100.0
ID = f"{CLUSTER}/{JOB}"
FILE = f"""
[{JOB}]
subtask = ["instance"]
joined_by = "topics"
[{JOB}.tasks.parse]
[{JOB}.tasks.count]
upstream = ["parse"]
[{JOB}.figures]
records_in = 'worker_records_total{{task=~"$tasks"}}'
records_out = 'worker_records_total{{task=~"$tasks"}}'
busy = 'worker_busy_seconds_total{{task=~"$tasks"}}'
"""


class Discovery:
    """Tells Prometheus which workers live, as the discovery of a cluster does."""

    def __init__(self, chain: LiveChain, file: Path) -> None:
        self._chain, self.file = chain, file

    def tell(self) -> dict[str, int]:
        """Write down the workers that live, and return how many each task has."""
        workers = [each for each in self._chain.reconciler.store.workers(JOB) if each.port and each.draining_ms is None]
        targets = [{"targets": [f"127.0.0.1:{each.port}"], "labels": {"task": each.task}} for each in workers]
        replace_atomically(self.file, json.dumps(targets))
        return dict(Counter(each.task for each in workers))


def test_a_job_known_from_prometheus_grows(kafka: KafkaForTests, redis_url: str, tmp_path: Path) -> None:
    """The group that cannot keep up gets more workers; Prometheus finds them, and so does the monitor. No record is lost."""
    prefix = kafka.topic_prefix()
    file = tmp_path / "prometheus.toml"
    file.write_text(FILE)
    with LiveChain(kafka.bootstrap, prefix, tmp_path, wait_ms=WAIT_MS, parse=1, count=1) as chain:
        discovery = Discovery(chain, tmp_path / "targets.json")
        discovery.tell()
        with LivePrometheus(tmp_path, discovered=discovery.file) as prometheus, Supervisor(tmp_path / "pipeline") as supervisor:
            settings = role_settings(
                SourceSettings,
                bootstrap=kafka.bootstrap,
                topic_prefix=prefix,
                redis_url=redis_url,
                cluster=CLUSTER,
                engine="kafka",
                source="prometheus",
                actuator="processes",
                prometheus_url=prometheus.url,
                prometheus_file=str(file),
                groups_file=str(chain.file),
                workers_folder=str(tmp_path / "workers"),
                workers_max=16,
                policy="target-utilisation",
                span_minutes=1,
            )
            create_topics(settings)
            allowed = JobSettings(
                job=ID,
                version=1,
                mode="act",
                parallelism_max=4,
                scale_down_after_minutes=0,
                minutes_known_min=1,
                set_by="test",
            )
            send_all(settings, JOB_SETTINGS, [(ID.encode(), allowed)])
            arguments = ["--master", "local[1]", "--checkpoint", str(tmp_path / "checkpoint")]
            spark = spark_environment(lambda _line: None)
            roles = pipeline_roles(settings, PipelinePorts.free(), spark_env=spark, spark_arguments=arguments, one_process=True)
            supervisor.start_together(roles)

            def workers() -> dict[str, int]:
                supervisor.check()
                return discovery.tell()

            wait_until(lambda: workers() == {"parse": 1, "count": 1}, 60.0, "the workers that the file asks for")
            load = Load(kafka.bootstrap, chain.topics[0], np.full(3_600, TOO_MUCH))
            load.start()
            wait_until(lambda: workers().get("parse", 0) > 1, 420.0, "more workers of parse")
            wait_until(lambda: _seen(settings) == workers() or None, 240.0, "the monitor to see what runs")
            assert [each.detail for each in figures(settings) if each.verdict != "ok"] == []
            load.stop()
            wait_until(lambda: workers() and len(chain.output()) == load.sent, 180.0, "all records at the end")
            assert set(chain.output()) == set(range(load.sent))
            assert "applied" in {
                each.status for each in records(settings, RESCHEDULE_EVENTS, EventRecord) if isinstance(each, Progress)
            }


def _seen(settings: PipelineSettings) -> dict[str, int]:
    """Return the subtasks of each task by the last topology."""
    topologies = [each for each in records(settings, JOB_TOPOLOGY, JobTopology) if each.job == ID]
    return {spec.task: spec.parallelism for spec in topologies[-1].tasks} if topologies else {}
