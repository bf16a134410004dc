"""The rescaler and the simulated engine as processes in lockstep, and their twin in the simulator: one series, one bill.

The test itself stands for monitor, Spark and agent, in process, so that no other role is needed.
"""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pytest
from confluent_kafka import Producer

from benchmarks.archive import load_job, where
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.messages import ClusterTopology, EngineEvent, HourlyLoad, JobTopology, Message, MinuteMarker, TaskSample
from surescale.contracts.settings import to_environment
from surescale.contracts.topics import CLUSTER_TOPOLOGY, DECISIONS, ENGINE_EVENTS, JOB_SETTINGS, JOB_TOPOLOGY, TOPICS, TopicNames
from surescale.contracts.wire import encode
from surescale.policies.answer import Answer, answer_in_ratios
from surescale.policies.decide import decide
from surescale.policies.policy import is_span_end
from surescale.policies.question import Question
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.twin import run_twin
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import create_topics, producer, wait_for_topics
from surescale.runtime.ports import free_ports
from surescale.services.local_stack.pipeline_figures import read_figures
from surescale.simulation.engine.cluster import RunOptions
from surescale.simulation.load.workload import load_workload
from surescale.simulation.model.costs import with_learners
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from tests.conftest import KafkaForTests
from tests.support.record_columns import records_of
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration
JOBS = ("j_1351665", "j_2521346")
MINUTES = 40
RESTORE_MIB_PER_S = 2.0  # so that learners take minutes


@dataclass(frozen=True, slots=True)
class Jumpy:
    """Wants something else every time: what it wants depends on job and minute only."""

    span_minutes: int
    name: str = "jumpy"
    sha256: str = ""
    floor_applies: bool = False

    def answer(self, question: Question) -> Answer:
        """Want between a half and a double, for every third window or so no change."""
        window = question.window
        draw = np.random.default_rng([window.window_end_ms // MINUTE_MS, len(window.job), question.seed])
        ratios = draw.uniform(0.5, 2.0, len(question.current))
        return answer_in_ratios(np.ones_like(ratios) if draw.random() < 0.3 else ratios, question.current, "as drawn")


@dataclass
class Stand:
    """Monitor, Spark and agent in one: reads the engine's minutes and sends what the rescaler needs."""

    settings: RescalerSettings
    policy: Jumpy
    engine: str
    client: Producer
    minutes: Minutes = field(default_factory=lambda: Minutes(MinuteRules()))
    seen_ms: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    events: int = 0

    def send(self, topic: str, key: str, message: Message) -> None:
        """Produce a record."""
        self.client.produce(TopicNames(self.settings.topic_prefix)(topic), key=key, value=encode(message))

    def begin(self) -> None:
        """Tell hosts, jobs and limits."""
        self.send(CLUSTER_TOPOLOGY, "sim", msgspec.convert(fetch_json(f"{self.engine}/cluster"), ClusterTopology))
        for name in JOBS:
            topology = msgspec.convert(fetch_json(f"{self.engine}/jobs/{name}")["topology"], JobTopology)
            self.send(JOB_TOPOLOGY, topology.job, topology)
            self.send(JOB_SETTINGS, topology.job, JobSettings(job=topology.job, total_limit=200))
        assert self.client.flush(30) == 0

    def follow(self) -> None:
        """Take the minutes that have ended for every job and decide where a span has, one job after the other.

        Last job first: twins answer them in order of their ids, however they come.
        """
        ended = {
            name: fetch_json(f"{self.engine}/jobs/{name}/figures?after_ms={self.seen_ms.get(name, 0)}")["minutes"]
            for name in JOBS
        }
        self.tell_changes()
        for minutes in zip(*ended.values(), strict=False):
            for name, minute in reversed(list(zip(ended, minutes, strict=True))):
                self.seen_ms[name] = minute["minute_end_ms"]
                self.take(name, minute)
                assert self.client.flush(30) == 0
        assert self.client.flush(30) == 0

    def tell_changes(self) -> None:
        """Send hosts and events that are new, ahead of the minutes that they belong to."""
        hosts = msgspec.convert(fetch_json(f"{self.engine}/cluster"), ClusterTopology)
        if self.versions.get("hosts") != hosts.version:
            self.versions["hosts"] = hosts.version
            self.send(CLUSTER_TOPOLOGY, "sim", hosts)
        events = msgspec.convert(fetch_json(f"{self.engine}/events?after={self.events}")["events"], list[EngineEvent])
        self.events += len(events)
        for event in events:
            self.send(ENGINE_EVENTS, "sim", event)
        assert self.client.flush(30) == 0

    def take(self, name: str, minute: dict[str, Any]) -> None:
        """Close one minute of one job."""
        topology = msgspec.convert(minute["topology"], JobTopology)
        if self.versions.get(name) != topology.version:
            self.versions[name] = topology.version
            self.send(JOB_TOPOLOGY, topology.job, topology)
        hours = [] if topology.job in self.minutes.jobs else fetch_json(f"{self.engine}/jobs/{name}/history")["hours"]
        end_ms = minute["minute_end_ms"]
        marker = MinuteMarker(
            job=topology.job,
            minute_end_ms=end_ms,
            topology=topology,
            load_history=tuple(msgspec.convert(hour, HourlyLoad) for hour in hours),
        )
        samples = [msgspec.convert(sample, TaskSample) for sample in minute["samples"]]
        records = records_of([(Coordinates(0, 0, end_ms), record) for record in (*samples, marker)])
        (window,) = self.minutes.feed(records, records.append_ms).windows
        if is_span_end(window.window_end_ms, self.policy.span_minutes):
            allowed = JobSettings(job=topology.job, total_limit=200)
            self.send(DECISIONS, "sim", decide(window, self.policy, allowed, seed=0))


@contextmanager
def process(settings: RescalerSettings, *arguments: str, port: int) -> Iterator[str]:
    """A role of its own process that answers /health on this port; its address."""
    environment = os.environ | to_environment(settings) | {"SURESCALE_HEALTH_PORT": str(port)}
    started = subprocess.Popen([sys.executable, "-m", "surescale.services.cli", "run", *arguments], env=environment)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: answers(url), 60, f"surescale {arguments[0]}")
        yield url
    finally:
        started.terminate()
        assert started.wait(PATIENT_S) == 0


def answers(url: str) -> bool:
    """The role is ready."""
    try:
        return bool(fetch_json(f"{url}/health")["ready"])
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class Case:
    """What a pipeline goes through."""

    span_minutes: int = 5
    kills: tuple[int, ...] = ()
    joins: tuple[int, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)


CASES = {
    "a host dies": Case(kills=(17,)),
    "every minute": Case(1, settings={"cooldown_ms": 150_000}),
    "checkpoints, a host dies": Case(kills=(22,), settings={"gate": "checkpoint-interval=120000"}),
    # The act of minute 15 waits for a cooldown that ends in minute 19, at whose end the host dies.
    "a timer and a death at one minute": Case(kills=(13, 19), settings={"cooldown_ms": 120_000}),
    "hosts die and join, jobs are spread": Case(kills=(17,), joins=(8, 24), settings={"placement": "spread"}),
    "standbys": Case(kills=(17, 28), joins=(24,), settings={"standbys": 1}),
    "standbys, jobs are spread": Case(kills=(21,), joins=(8,), settings={"standbys": 1, "placement": "spread"}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_pipeline_and_its_twin_give_the_same_series(kafka: KafkaForTests, case: Case) -> None:
    """With acts that meet cooldowns, learners and hosts that come and go, processes on Kafka and the simulator agree."""
    engine_port, rescaler_port = free_ports(2)
    settings = RescalerSettings(
        bootstrap=kafka.bootstrap,
        topic_prefix=kafka.topic_prefix(),
        engine_url=f"http://127.0.0.1:{engine_port}",
        pipeline_clock=True,
        **case.settings,
    )
    create_topics(settings)
    wait_for_topics(settings, list(TOPICS), stop=threading.Event(), log=logging.getLogger("test"))
    engine = ["engine", "--port", str(engine_port), "--minutes", str(MINUTES), "--span-minutes", str(case.span_minutes)]
    engine += ["--checkpoint-interval-ms", "120000", "--restore-mib-per-s", str(RESTORE_MIB_PER_S)]
    for option, minutes in (("--kill-host", case.kills), ("--join-host", case.joins)):
        for minute in minutes:
            engine += [option, str(minute)]
    for job in JOBS:
        engine += ["--job", where(job)]
    engine += ["--workload", "clarknet"]
    policy = Jumpy(case.span_minutes)
    with process(settings, *engine, port=engine_port) as url, process(settings, "rescaler", port=rescaler_port):
        stand = Stand(settings, policy, url, producer(settings))
        stand.begin()
        fetch_json(f"{url}/clock/start", method="POST")
        while not (pipeline := fetch_json(f"{url}/report?tasks=1"))["finished"]:
            stand.follow()
        stand.follow()
    workload = load_workload("clarknet")
    jobs = [load_job(job, workload) for job in JOBS]
    options = RunOptions(
        minutes=MINUTES,
        cost=with_learners(restore_bytes_per_s=RESTORE_MIB_PER_S * 2**20),
        checkpoint_interval_ms=120_000,
        kill_host_minutes=case.kills,
        join_host_minutes=case.joins,
    )
    twin = run_twin(jobs, workload, policy, options=options, settings=settings.control())
    assert pipeline["misses"] == 0
    assert read_figures(settings).rent_costs(twin.cluster.end_ms) == twin.rent_costs
    for job, report in twin.reports.items():
        assert report.rescales > 1
        assert [tuple(minute) for minute in pipeline["jobs"][job]["task_parallelism"]] == list(report.task_parallelism)
        assert pipeline["jobs"][job]["reward"] == report.reward
