"""Several monitors of one cluster, as real processes on a real broker: one watches, the others stand by."""

import contextlib
import dataclasses
import logging
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # these names are not in its __all__
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import TaskSample
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, JOB_TOPOLOGY, TASK_METRICS, TOPICS, TopicNames
from surescale.monitor import metrics
from surescale.monitor.delivery import DeliveryFailed, FencedReports, Outbox
from surescale.monitor.lease import Lease, fenced
from surescale.monitor.progress import HEADER
from surescale.monitor.settings import MonitorSettings
from surescale.runtime import kafka_transactions
from surescale.runtime.kafka import admin_client, batch, committed_offsets, consumer, create_topics, producer
from surescale.runtime.kafka_transactions import ATTEMPT_S, Fenced, TransactionalCalls
from surescale.runtime.ports import free_port
from surescale.runtime.topic_records import headers_of
from surescale.services.doctor.kafka_checks import KafkaChecks
from surescale.services.local_stack.servers import LocalBroker
from surescale.services.tools.health import Unhealthy, ask
from tests.conftest import KafkaForTests
from tests.integration.test_monitor import JOB, OTHER, MonitorPipeline
from tests.support.engine_stub import MINUTE, EngineStub
from tests.support.metrics import scraped
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration

TAKEN_OVER_WITHIN_S = 90.0  # 15 s of them are Kafka's; the rest is for a busy machine


class Monitors:
    """Monitors of one cluster, in front of an engine with one job."""

    def __init__(self, pipeline: MonitorPipeline, engine: EngineStub) -> None:
        self.pipeline, self.engine = pipeline, engine
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        """By the port of their health."""

    def start(self) -> int:
        """Start one, and return the port of its health."""
        port = free_port()
        words = ("--leader-elect", "--engine-url", self.engine.url, "--health-port", str(port))
        self.processes[port] = self.pipeline.start(*words)
        return port

    def await_state(self, port: int, state: str, timeout_s: float = PATIENT_S) -> None:
        """Wait until a monitor says so, and is ready."""

        def is_so() -> bool:
            with contextlib.suppress(Unhealthy):
                told = ask(port)
                return (told.get("state"), told.get("ready")) == (state, True)
            return False

        wait_until(is_so, timeout_s, f"the monitor to be {state}")

    def leader_and_standby(self) -> tuple[int, int]:
        """Start two; the first one watches."""
        leader = self.start()
        self.await_state(leader, "active")
        standby = self.start()
        self.await_state(standby, "standby")
        return leader, standby

    def name(self, port: int) -> str:
        """Return what a monitor calls itself."""
        return f"{socket.gethostname()}:{self.processes[port].pid}"

    def examined(self) -> tuple[str, str]:
        """Return what `surescale doctor` says of the monitors."""
        checks = KafkaChecks(self.pipeline.settings)
        assert [each.verdict for each in checks.broker()] == ["ok"]
        return next((each.verdict, each.detail) for each in checks.groups() if each.subject == "the monitors")

    def writers(self) -> list[str]:
        """Return who wrote each marker, in order, whether it was committed or not."""
        found = []
        name = TopicNames(self.pipeline.settings.topic_prefix)(TASK_METRICS)
        options = {"isolation.level": "read_uncommitted", "enable.partition.eof": True}
        with closing(consumer(self.pipeline.settings, "surescale-reader", **options)) as client:
            partitions = client.list_topics(name, timeout=PATIENT_S).topics[name].partitions
            client.assign([TopicPartition(name, number, OFFSET_BEGINNING) for number in partitions])
            ended = 0
            while ended < len(partitions):
                for message in batch(client, 100, 1.0):
                    if message.error() is not None:
                        ended += 1
                        continue
                    found += [(value or b"").decode() for header, value in headers_of(message) if header == HEADER]
        return [each.rpartition(":")[2] for each in found]


@pytest.fixture
def monitors(kafka: KafkaForTests, tmp_path: Path) -> Iterator[Monitors]:
    """No monitor yet, an engine with three minutes."""
    with EngineStub() as engine:
        engine.add_minutes(JOB, range(1, 4))
        pipeline = MonitorPipeline(kafka, tmp_path)
        yield Monitors(pipeline, engine)
        pipeline.close()


def test_the_standby_takes_over_from_one_that_is_killed(monitors: Monitors) -> None:
    """Each minute is there once, and metrics and health say who watches."""
    leader, standby = monitors.leader_and_standby()
    monitors.pipeline.await_minutes(1, 2, 3)
    assert [scraped(port)[metrics.ACTIVE] for port in (leader, standby)] == [1, 0]
    assert monitors.examined() == ("ok", f"{monitors.name(leader)} watches sim; {monitors.name(standby)} stands by")
    monitors.processes[leader].kill()
    monitors.engine.add_minutes(JOB, range(4, 6))
    monitors.await_state(standby, "active", TAKEN_OVER_WITHIN_S)
    monitors.pipeline.await_minutes(1, 2, 3, 4, 5)
    samples = [record for record in monitors.pipeline.records() if isinstance(record, TaskSample)]
    assert [sample.sampled_at_ms // MINUTE for sample in samples] == [1, 2, 3, 4, 5]
    assert scraped(standby)[metrics.ACTIVE] == 1
    assert monitors.examined() == ("warning", f"{monitors.name(standby)} watches sim, and none stands by")


def test_one_that_was_suspended_publishes_nothing_more(monitors: Monitors) -> None:
    """It holds the engine's answer when it is stopped, and wakes up after another one has published the same minute."""
    leader, standby = monitors.leader_and_standby()
    monitors.pipeline.await_minutes(1, 2, 3)
    process, held = monitors.processes[leader], threading.Event()
    monitors.engine.slow[JOB] = held
    monitors.engine.add_minutes(JOB, range(4, 5))
    wait_until(lambda: monitors.engine.held[JOB] > 0, what="the leader to ask")
    process.send_signal(signal.SIGSTOP)
    try:
        del monitors.engine.slow[JOB]
        held.set()
        monitors.await_state(standby, "active", TAKEN_OVER_WITHIN_S)
        monitors.pipeline.await_minutes(1, 2, 3, 4)
    finally:
        process.send_signal(signal.SIGCONT)
    assert process.wait(PATIENT_S) == 1
    assert "another process is the monitor of cluster 'sim' now" in monitors.pipeline.log()
    monitors.engine.add_minutes(JOB, range(5, 7))
    monitors.pipeline.await_minutes(1, 2, 3, 4, 5, 6)
    old, new = str(process.pid), str(monitors.processes[standby].pid)
    assert monitors.writers() == [old] * 3 + [new] * 3
    again = monitors.start()  # as a supervisor does
    monitors.await_state(again, "standby")


def test_one_that_is_told_to_stop_hands_over(monitors: Monitors) -> None:
    """At once, without waiting for the session to end; and who joins takes nothing from the one that watches."""
    leader, standby = monitors.leader_and_standby()
    third = monitors.start()
    monitors.await_state(third, "standby")
    monitors.await_state(leader, "active")
    monitors.processes[leader].terminate()
    assert monitors.processes[leader].wait(PATIENT_S) == 0
    wait_until(lambda: sum(scraped(port)[metrics.ACTIVE] for port in (standby, third)) == 1, what="one of the two")
    monitors.engine.add_minutes(JOB, range(4, 6))
    monitors.pipeline.await_minutes(1, 2, 3, 4, 5)


def test_a_kafka_that_was_away_finds_the_same_one_watching(tmp_path: Path) -> None:
    """It has kept what it knows, so the others let it come back first, though its session is over."""
    broker = LocalBroker(tmp_path / "kafka")
    broker.start()
    try:
        broker.wait_ready()
        with EngineStub() as engine:
            engine.add_minutes(JOB, range(1, 4))
            pipeline = MonitorPipeline(KafkaForTests(broker.bootstrap), tmp_path)
            monitors = Monitors(pipeline, engine)
            try:
                leader, standby = monitors.leader_and_standby()
                pipeline.await_minutes(1, 2, 3)
                broker.kill()
                wait_until(lambda: "out of touch with Kafka" in pipeline.log(), TAKEN_OVER_WITHIN_S, "the end of the session")
                wait_until(lambda: ask(standby)["ready"] is False, what="the standby to say that it would not take over")
                engine.add_minutes(JOB, range(4, 6))
                broker.start()
                broker.wait_ready()
                pipeline.await_minutes(1, 2, 3, 4, 5)
                monitors.await_state(leader, "active")
                wait_until(lambda: monitors.examined()[0] == "ok", TAKEN_OVER_WITHIN_S, "the standby to come back")
                monitors.await_state(standby, "standby")
                assert monitors.writers() == [str(monitors.processes[leader].pid)] * 5
            finally:
                pipeline.close()
    finally:
        broker.stop()


@pytest.fixture
def settings(kafka: KafkaForTests) -> MonitorSettings:
    """Of a pipeline whose topics are there."""
    found = MonitorSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(found)
    return found


@pytest.fixture
def stop() -> Iterator[threading.Event]:
    """Ends what the test began."""
    event = threading.Event()
    yield event
    event.set()


def outbox(settings: PipelineSettings, reports: FencedReports, stop: threading.Event) -> Outbox:
    """Return an outbox of one watcher."""
    return Outbox(reports, TopicNames(settings.topic_prefix), stop=stop, log=logging.getLogger("test"))


def test_a_clock_of_several_partitions_is_refused(kafka: KafkaForTests, stop: threading.Event) -> None:
    """As a broker makes it that creates topics by itself: each monitor would own a partition, and fence the other one."""
    found = MonitorSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(found, [dataclasses.replace(TOPICS[CLOCK], partitions=2)])
    with pytest.raises(SettingsError, match=r"clock has 2 partitions and must have one.*surescale topics create"):
        Lease(found, stop, logging.getLogger("test"))


def test_what_is_sent_after_another_one_began_is_refused(settings: MonitorSettings, stop: threading.Event) -> None:
    """Whoever sends ends with one line, and nothing of it counts as acknowledged."""
    first_stop = threading.Event()
    first = fenced(settings, first_stop)
    box = outbox(settings, first, first_stop)
    box.send(TASK_METRICS, JOB, b"{}")
    assert box.await_acknowledged()
    second = fenced(settings, stop)
    box.send(TASK_METRICS, JOB, b"{}")
    assert not box.await_acknowledged()
    assert first_stop.is_set()
    assert isinstance(first.ended, Fenced)
    other = outbox(settings, second, stop)
    other.send(TASK_METRICS, JOB, b"{}")
    assert other.await_acknowledged()


def test_whose_transaction_kafka_ended_is_not_told_of_another_monitor_alone(
    settings: MonitorSettings, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a process stood still, or was cut off: Kafka refuses it just as if another one had taken over."""
    monkeypatch.setattr(kafka_transactions, "TRANSACTION_MS", 1_000)
    topic, options = TopicNames(settings.topic_prefix)(CLOCK), {"transaction.timeout.ms": kafka_transactions.TRANSACTION_MS}
    client = producer(settings, **{"transactional.id": f"{settings.topic_prefix}still", **options})
    calls = TransactionalCalls(client, "the monitor of cluster 'sim'", stop)
    calls.persist(lambda: client.init_transactions(ATTEMPT_S))
    calls.begin()
    client.produce(topic, key="c", value=b"{}")
    assert client.flush(PATIENT_S) == 0
    admin, place = admin_client(settings), TopicPartition(topic, 0)
    wait_until(lambda: committed_offsets(admin, [place], "end")[topic, 0] > 0, what="Kafka to end the transaction")
    with pytest.raises(Fenced, match=r"Kafka ended a transaction of the monitor of cluster 'sim', which had been open for \d+ s"):
        calls.persist(lambda: client.commit_transaction(ATTEMPT_S))


def test_a_client_that_can_begin_no_transaction_ends_the_monitor(settings: MonitorSettings) -> None:
    """Or each job would try again for ever, with a client that can send nothing."""
    stop = threading.Event()
    reports = fenced(settings, stop)
    reports.client.begin_transaction()  # one more is an error, whatever is done about it
    with pytest.raises(DeliveryFailed):
        outbox(settings, reports, stop).send(TASK_METRICS, JOB, b"{}")
    assert stop.is_set()
    assert "the client of Kafka gave up" in str(reports.ended)


def test_a_job_whose_records_are_refused_holds_up_no_other_one(settings: MonitorSettings, stop: threading.Event) -> None:
    """Though what is sent at one moment is committed together, and both try again and again."""
    resource = ConfigResource(ResourceType.TOPIC, TopicNames(settings.topic_prefix)(JOB_TOPOLOGY))
    resource.add_incremental_config(ConfigEntry("max.message.bytes", "1000", incremental_operation=AlterConfigOpType.SET))
    admin = admin_client(settings)
    (altered,) = admin.incremental_alter_configs([resource]).values()
    altered.result()
    reports = fenced(settings, stop)
    refused, over = list[str](), threading.Event()

    def send(box: Outbox, job: str, size: int) -> bool:
        try:
            box.send(JOB_TOPOLOGY, job, b" " * size)
            return box.await_acknowledged()
        except DeliveryFailed as failed:
            if size > 1000:
                refused.append(str(failed))
        return False

    bad, good = (outbox(settings, reports, stop) for _ in range(2))
    wait_until(lambda: send(bad, OTHER, 5_000) is False and refused, what="the first refusal")
    trouble = threading.Thread(target=lambda: [send(bad, OTHER, 5_000) for _ in iter(over.is_set, True)])
    trouble.start()
    for _ in range(5):
        before = len(refused)
        wait_until(lambda: send(good, JOB, 2), what="the other job's record")
        wait_until(lambda before=before: len(refused) > before, what="another refusal")  # type: ignore[misc]
    over.set()
    trouble.join(PATIENT_S)
    assert any("large" in words for words in refused)
    assert reports.ended is None
