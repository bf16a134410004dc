"""The rescaler as a process with the actuator `kubernetes`: a real broker, and a fake API server over real HTTP."""

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from surescale.contracts.job_settings import JobSettings
from surescale.contracts.topics import CLUSTER_TOPOLOGY, JOB_SETTINGS, JOB_TOPOLOGY
from surescale.engines.groups.chains import read_chains
from surescale.engines.kubernetes import KUBERNETES
from surescale.engines.kubernetes.client import KubernetesClient
from surescale.engines.kubernetes.requirement import requirement_of
from surescale.rescaler.service.settings import RescalerSettings
from tests.conftest import KafkaForTests
from tests.support.controller_world import JOB, START_MS, cluster, decision, job
from tests.support.fake_api_server import FakeApiServer, autoscaler
from tests.support.fake_engine import FakeEngine
from tests.support.kubernetes_rig import shipped_rules
from tests.support.rescaler_pipeline import Pipeline, is_active, opened
from tests.support.role_settings import role_settings
from tests.support.stub_server import StubRequest
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration
BEFORE = {"map": 2, "join": 2}
AFTER = {"map": 4, "join": 3}
WITHIN_S = 60.0


@dataclass
class Cluster:
    """A pipeline to a job of two Deployments, which its settings allow to act."""

    pipeline: Pipeline
    server: FakeApiServer

    @property
    def required(self) -> dict[str, int]:
        """What the cluster is asked for."""
        return {each.name: each.replicas for each in self.server.workloads}

    def kill_between_writes(self, process: "subprocess.Popen[str]") -> None:
        """Kill a process when its first write was accepted: what it asks for next is not heard."""

        def before(_: StubRequest) -> None:
            if self.server.puts:
                self.server.before = self.tick
                self.server.is_away = True
                process.kill()

        self.server.before = before

    def tick(self, _: StubRequest) -> None:
        """Let the cluster's clock be the wall's."""
        self.server.now_ms = time.time_ns() // 1_000_000


@pytest.fixture
def played(kafka: KafkaForTests, tmp_path: Path) -> Iterator[Cluster]:
    """As the monitor would have seen it."""
    groups = {task: {"kubernetes": {"namespace": "shop", "name": task}} for task in BEFORE}
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({JOB.partition("/")[2]: {"groups": groups}}))
    server = FakeApiServer(rules=shipped_rules(), asks_token=False)
    for task, count in BEFORE.items():
        server.deploy(task, count)
    with server.serving() as answering:
        settings = role_settings(
            RescalerSettings,
            bootstrap=kafka.bootstrap,
            topic_prefix=kafka.topic_prefix(),
            engine="kafka",
            actuator="kubernetes",
            groups_file=str(file),
            kubernetes_url=answering.url,
            pipeline_clock=True,
        )
        with opened(settings, FakeEngine(now_ms=START_MS, jobs=set())) as pipeline:
            found = Cluster(pipeline, server)
            server.before = found.tick
            (chain,) = read_chains(file).values()
            required = requirement_of(KubernetesClient(answering.url), chain)
            assert required is not None
            tasks = tuple(
                msgspec.structs.replace(spec, units=(), required=BEFORE.get(spec.task), scalable=spec.task in BEFORE)
                for spec in job().tasks
            )
            topology = msgspec.structs.replace(
                job(), version=2, tasks=tasks, epoch=required.epoch, requirement_id=required.id, engine="kafka"
            )
            pipeline.send(CLUSTER_TOPOLOGY, "sim", msgspec.structs.replace(cluster(), version=2, hosts=(), engine=KUBERNETES))
            pipeline.send(JOB_TOPOLOGY, JOB, topology)
            pipeline.send(JOB_SETTINGS, JOB, JobSettings(job=JOB, version=1, mode="act", scale_down_after_minutes=0))
            yield found


def test_a_decision_becomes_pods(played: Cluster) -> None:
    """Commanded, accepted, applied when all pods are ready; each scale was written once."""
    _, port = played.pipeline.process()
    wait_until(lambda: is_active(port), WITHIN_S, "the rescaler")
    act = decision(START_MS, AFTER)
    played.pipeline.decide(act)
    wait_until(lambda: played.pipeline.statuses() == ["accepted", "applied"], WITHIN_S, "the pods")
    assert played.pipeline.said(act) == [("commanded", "desired")]
    assert sorted(played.server.puts) == sorted(AFTER.items())
    assert {each.name: each.running(played.server.now_ms) for each in played.server.workloads} == AFTER


def test_killed_between_two_writes_the_next_one_goes_on(played: Cluster) -> None:
    """SIGKILL after the first scale was written: its successor writes the second and no more."""
    process, port = played.pipeline.process()
    wait_until(lambda: is_active(port), WITHIN_S, "the rescaler")
    played.kill_between_writes(process)
    played.pipeline.decide(decision(START_MS, AFTER))
    assert process.wait(WITHIN_S) == -signal.SIGKILL
    assert len(played.server.puts) == 1
    played.server.is_away = False
    played.pipeline.process()
    wait_until(lambda: "applied" in played.pipeline.statuses(), WITHIN_S, "the pods")
    assert played.required == AFTER
    assert sorted(played.server.puts) == sorted(AFTER.items())


def test_what_an_autoscaler_owns_is_held_and_named(played: Cluster) -> None:
    """The command fails with one line, and nothing is written."""
    played.server.autoscalers.append(autoscaler("map-hpa", played.server.workloads[0]))
    _, port = played.pipeline.process()
    wait_until(lambda: is_active(port), WITHIN_S, "the rescaler")
    played.pipeline.decide(decision(START_MS, AFTER))
    wait_until(lambda: played.pipeline.statuses() == ["failed"], WITHIN_S, "the refusal")
    (failed,) = played.pipeline.progress
    assert failed.code == "OTHER_OWNER"
    assert failed.detail == (
        "shop/deployments/map: HorizontalPodAutoscaler map-hpa scales it; "
        "delete that, or leave shop/deployments/map out of surescale"
    )
    assert (played.server.puts, played.required) == ([], BEFORE)
