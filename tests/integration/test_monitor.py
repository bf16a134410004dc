"""The monitor as a real process on a real broker, in front of a small engine whose failures can be set."""

import contextlib
import itertools
import json
import logging
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from msgspec.structs import replace

from surescale.contracts.messages import (
    ClockSegment,
    ClusterTopology,
    EngineEvent,
    JobTopology,
    MinuteMarker,
    SlotPrice,
    TaskSample,
)
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, CLUSTER_TOPOLOGY, ENGINE_EVENTS, JOB_TOPOLOGY, TASK_METRICS
from surescale.contracts.wire import decode, encode
from surescale.engines.flink.source import FlinkSource
from surescale.monitor import metrics
from surescale.monitor.service import Monitor
from surescale.monitor.settings import MonitorSettings
from surescale.runtime.backoff import wait_for
from surescale.runtime.kafka import LogReader, create_topics, producer
from surescale.runtime.ports import free_port
from surescale.services.tools.health import Unhealthy, ask
from tests.conftest import KafkaForTests
from tests.support.command_line import started
from tests.support.engine_stub import CLUSTER, EVENT, HISTORY, MINUTE, EngineStub, job_chain, sample_of
from tests.support.fake_flink import FakeFlink, QuickClock, fake_flink
from tests.support.metrics import scraped
from tests.support.view_pipeline import send
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration

JOB, OTHER = "sim/clicks", "sim/views"
BROKEN = b'"records_in": -1'
Message = TaskSample | MinuteMarker


class MonitorPipeline:
    """Topics of one test, and the monitor that writes them."""

    def __init__(self, kafka: KafkaForTests, folder: Path) -> None:
        self.settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
        create_topics(self.settings)
        self.values: dict[str, list[bytes]] = {}
        self._readers = {name: self._reader(name) for name in (TASK_METRICS, JOB_TOPOLOGY, CLUSTER_TOPOLOGY, ENGINE_EVENTS)}
        self._log = folder / "monitor.log"
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, *options: str) -> "subprocess.Popen[bytes]":
        """Start a monitor; its log goes to the test's folder."""
        process = started(self.settings, self._log, "run", "monitor", *options)
        self._processes.append(process)
        return process

    def log(self) -> str:
        """Return what the monitors have said."""
        return self._log.read_text()

    def read(self, name: str) -> list[bytes]:
        """Return everything on a topic up to now."""
        self.values.setdefault(name, []).extend(record.value() or b"" for record in self._readers[name].read_to_end())
        return self.values[name]

    def records(self, job: str = JOB) -> list[Message]:
        """Return a job's good records, in order."""
        found = [decode(value, Message) for value in self.read(TASK_METRICS) if BROKEN not in value]
        return [record for record in found if record.job == job]

    def jobs_shown(self) -> set[str]:
        """Return the jobs whose topology was published."""
        return {decode(value, JobTopology).job for value in self.read(JOB_TOPOLOGY)}

    def marked(self, job: str = JOB) -> list[int]:
        """Return the minutes marked for a job."""
        return [record.minute_end_ms // MINUTE for record in self.records(job) if isinstance(record, MinuteMarker)]

    def await_minutes(self, *minutes: int, job: str = JOB) -> None:
        """Wait until exactly these minutes are marked."""
        wait_until(lambda: self.marked(job) == list(minutes), what=f"the markers of {job}: {minutes}")

    def close(self) -> None:
        """Stop what runs."""
        for process in self._processes:
            process.kill()
            process.wait(PATIENT_S)
        for reader in self._readers.values():
            reader.close()

    def _reader(self, name: str) -> LogReader:
        new = lambda: LogReader(self.settings, [name])  # noqa: E731
        return wait_for("topics", new, expected=(KafkaException,), stop=threading.Event(), log=logging.getLogger("test"))


@contextlib.contextmanager
def watching(settings: PipelineSettings, flink: FakeFlink, jobs: str = "", prices: str = "") -> Iterator[None]:
    """Run a monitor in front of a fake Flink, under a clock on which a minute takes a second and a half."""
    own = MonitorSettings(
        bootstrap=settings.bootstrap, topic_prefix=settings.topic_prefix, engine="flink", engine_url=flink.url, cluster="flink",
        jobs=jobs, prices=prices,
    )  # fmt: skip
    stop = threading.Event()
    monitor = Monitor(own, FlinkSource(own, QuickClock), stop=stop, log=logging.getLogger("test"))
    thread = threading.Thread(target=monitor.run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(20)
    assert not thread.is_alive()


@pytest.fixture
def pipeline(kafka: KafkaForTests, tmp_path: Path) -> Iterator[MonitorPipeline]:
    """A pipeline of its own."""
    made = MonitorPipeline(kafka, tmp_path)
    yield made
    made.close()


@pytest.fixture
def engine() -> Iterator[EngineStub]:
    """An engine with one job of three minutes."""
    with EngineStub() as stub:
        stub.add_minutes(JOB, range(1, 4))
        yield stub


def test_a_minute_travels_whole_and_in_order(pipeline: MonitorPipeline, engine: EngineStub) -> None:
    """Samples before their marker, topology with each marker, history with the first, hosts and events on their topics."""
    monitor = pipeline.start("--engine-url", engine.url)
    pipeline.await_minutes(1, 2, 3)
    records = pipeline.records()
    assert [type(record) for record in records] == [TaskSample, MinuteMarker] * 3
    assert [record for record in records if isinstance(record, TaskSample)] == [sample_of(JOB, minute) for minute in (1, 2, 3)]
    markers = [record for record in records if isinstance(record, MinuteMarker)]
    assert [(marker.topology, marker.reached_wall_ms) for marker in markers] == [(job_chain(JOB), 7)] * 3
    assert [marker.load_history for marker in markers] == [HISTORY, (), ()]
    assert [decode(value, JobTopology) for value in pipeline.read(JOB_TOPOLOGY)] == [job_chain(JOB)]
    told = replace(CLUSTER, monitor=f"{socket.gethostname()}:{monitor.pid}")
    assert [decode(value, ClusterTopology) for value in pipeline.read(CLUSTER_TOPOLOGY)] == [told]
    assert [decode(value, EngineEvent) for value in pipeline.read(ENGINE_EVENTS)] == [EVENT]


def test_the_metrics_rise_with_what_was_acknowledged(pipeline: MonitorPipeline, engine: EngineStub) -> None:
    """Records by topic, minutes and samples, and how far each job has come."""
    port = free_port()
    pipeline.start("--engine-url", engine.url, "--health-port", str(port))
    pipeline.await_minutes(1, 2, 3)
    wait_until(
        lambda: scraped(port).of(metrics.LAST_MINUTE, streaming_job=JOB) == 3 * MINUTE / 1000, what="the last acknowledgement"
    )
    page = scraped(port)
    assert (page[metrics.JOBS], page[metrics.MINUTES], page[metrics.SAMPLES]) == (1, 3, 3)
    assert page.of(metrics.RECORDS_WRITTEN, topic=TASK_METRICS) == 6
    assert page.labels(metrics.RECORDS_WRITTEN) == {
        (name,) for name in (TASK_METRICS, JOB_TOPOLOGY, CLUSTER_TOPOLOGY, ENGINE_EVENTS)
    }


def test_a_killed_monitor_goes_on_behind_its_last_marker(pipeline: MonitorPipeline, engine: EngineStub) -> None:
    """It keeps no state of its own: the topic says how far it came."""
    first = pipeline.start("--engine-url", engine.url)
    pipeline.await_minutes(1, 2, 3)
    first.kill()
    first.wait(PATIENT_S)
    engine.add_minutes(JOB, range(4, 6))
    pipeline.start("--engine-url", engine.url)
    pipeline.await_minutes(1, 2, 3, 4, 5)
    assert [record.sampled_at_ms // MINUTE for record in pipeline.records() if isinstance(record, TaskSample)] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("clock", [None, 10 * MINUTE], ids=["wall clock", "clock of the pipeline"])
def test_a_forged_marker_of_the_future_hides_no_job(pipeline: MonitorPipeline, engine: EngineStub, clock: int | None) -> None:
    """A monitor that starts again believes no marker ahead of the clock."""
    forged_ms = 2**52 // MINUTE * MINUTE if clock is None else 60 * MINUTE
    segment = ClockSegment(pipeline="main", sequence=1, e0_ms=0, w0_ms=0, speed=1e6, until_ms=clock or 0)
    client = producer(pipeline.settings)
    for topic, key, record in [
        (TASK_METRICS, JOB, MinuteMarker(job=JOB, minute_end_ms=forged_ms, topology=job_chain(JOB))),
        *([(CLOCK, segment.pipeline, segment)] if clock is not None else []),
    ]:
        client.produce(f"{pipeline.settings.topic_prefix}{topic}", encode(record), key=key.encode())
    assert client.flush(20) == 0
    pipeline.start("--engine-url", engine.url)
    wait_until(lambda: sorted(pipeline.marked())[:3] == [1, 2, 3], what="the minutes of the job")


def test_a_monitor_is_ready_while_its_engine_answers(pipeline: MonitorPipeline) -> None:
    """Away, and back at the same address: the health endpoint tells."""
    port = free_port()

    def is_ready() -> object:
        with contextlib.suppress(Unhealthy):
            return ask(port)["ready"]
        return None

    with EngineStub() as engine:
        engine.add_minutes(JOB, range(1, 4))
        address = int(engine.url.rpartition(":")[2])
        pipeline.start("--engine-url", engine.url, "--health-port", str(port))
        wait_until(lambda: is_ready() is True, what="the monitor")
    wait_until(lambda: is_ready() is False, what="the monitor to miss its engine")
    with EngineStub(address) as engine:
        engine.add_minutes(JOB, range(1, 4))
        wait_until(lambda: is_ready() is True, what="the engine to be found again")


def test_a_job_that_fails_or_hangs_does_not_stop_the_others(pipeline: MonitorPipeline, engine: EngineStub) -> None:
    """Its own minutes follow when it has recovered."""
    engine.add_minutes(OTHER, range(1, 3))
    engine.add_minutes("sim/slow", range(1, 3))
    engine.failing.add(OTHER)
    engine.slow["sim/slow"] = threading.Event()
    pipeline.start("--engine-url", engine.url)
    pipeline.await_minutes(1, 2, 3)
    assert pipeline.marked(OTHER) == pipeline.marked("sim/slow") == []
    engine.failing.clear()
    engine.slow["sim/slow"].set()
    pipeline.await_minutes(1, 2, job=OTHER)
    pipeline.await_minutes(1, 2, job="sim/slow")
    assert "the figures of this job cannot be read" in pipeline.log()


def test_a_new_topology_is_published_before_the_minute_it_belongs_to(pipeline: MonitorPipeline, engine: EngineStub) -> None:
    """Only when its version has changed; a graph that cannot be used goes into the marker alone, which is refused later."""
    engine.add_minutes(JOB, range(4, 6), job_chain(JOB, version=2))
    cyclic = json.loads(encode(job_chain(JOB, version=3)))
    cyclic["tasks"][0]["upstream"] = ["sink"]
    engine.add_minutes(JOB, range(6, 7), decode(json.dumps(cyclic), JobTopology))
    pipeline.start("--engine-url", engine.url)
    pipeline.await_minutes(1, 2, 3, 4, 5, 6)
    assert [decode(value, JobTopology).version for value in pipeline.read(JOB_TOPOLOGY)] == [1, 2]
    markers = [record for record in pipeline.records() if isinstance(record, MinuteMarker)]
    assert [marker.topology.version for marker in markers] == [1, 1, 1, 2, 2, 3]


def test_a_job_that_leaves_and_comes_back_is_announced_again(pipeline: MonitorPipeline, engine: EngineStub) -> None:
    """Its minutes go on, and its topology and load history are sent again: it may be another job under the same name."""
    pipeline.start("--engine-url", engine.url)
    pipeline.await_minutes(1, 2, 3)
    left = engine.minutes.pop(JOB)
    wait_until(lambda: "watching ends" in pipeline.log(), what="the end of watching")
    engine.minutes[JOB] = left
    engine.add_minutes(JOB, range(4, 5))
    pipeline.await_minutes(1, 2, 3, 4)
    assert len(pipeline.read(JOB_TOPOLOGY)) == 2
    last = [record for record in pipeline.records() if isinstance(record, MinuteMarker)][-1]
    assert last.load_history == HISTORY


def test_a_flink_job_that_ends_is_published_as_ended(pipeline: MonitorPipeline) -> None:
    """While it was watched, and also while no monitor was there; before that it runs."""

    def states(job: str) -> list[str]:
        found = [decode(value, JobTopology) for value in pipeline.read(JOB_TOPOLOGY)]
        return [topology.state for topology in found if topology.job == job]

    def ends(flink: FakeFlink, state: str, *, name: str = "", jid: str = "") -> None:
        jobs = flink.body("GET /jobs/overview")["jobs"]
        entry = next(job for job in jobs if job["name"] == name or (jid and job["jid"].startswith(jid)))
        entry["state"] = state

    with fake_flink("2.3.0", "running") as flink:
        with watching(pipeline.settings, flink):
            wait_until(lambda: "running" in states("flink/orders"), what="the running job")
            ends(flink, "FAILED", name="Orders v17")
            wait_until(lambda: states("flink/orders")[-1] == "failed", what="its end")
        lonely = next(job for job in pipeline.jobs_shown() if job.startswith("flink/team a"))
        ends(flink, "CANCELED", jid=lonely.partition("~")[2])
        with watching(pipeline.settings, flink):
            wait_until(lambda: states(lonely)[-1] == "finished", what="the end that nobody saw")
        said = [*states(lonely), *states("flink/orders")]
        assert (said.count("finished"), said.count("failed")) == (1, 1), "each once"


def test_two_pipelines_share_a_cluster_by_their_jobs(kafka: KafkaForTests, tmp_path: Path) -> None:
    """Each has a prefix and watches its own jobs; together they watch all, and each knows all hosts."""
    first, second = (MonitorPipeline(kafka, tmp_path) for _ in range(2))
    try:
        with (
            fake_flink("2.3.0", "running") as flink,
            watching(first.settings, flink, "Orders*"),
            watching(second.settings, flink, "team a/*"),
        ):
            wait_until(lambda: first.marked("flink/orders"), what="a minute of the first")
            wait_until(lambda: len(second.jobs_shown()) == 2, what="the jobs of the second")
            wait_until(lambda: all(map(second.marked, second.jobs_shown())), what="their minutes")
        assert first.jobs_shown() == {"flink/orders"}
        assert {job.partition("~")[0] for job in second.jobs_shown()} == {"flink/team a_legacy job"}
        hosts = [decode(each.read(CLUSTER_TOPOLOGY)[-1], ClusterTopology).hosts for each in (first, second)]
        assert hosts[0] == hosts[1]
    finally:
        first.close()
        second.close()


def test_what_slots_have_cost_is_told_on_by_the_next_monitor(pipeline: MonitorPipeline) -> None:
    """The topic of the hosts keeps only the newest record, so it carries the prices of the days before."""
    yesterday = SlotPrice(at_ms=86_400_000, per_s=0.5)
    said = ClusterTopology(cluster="flink", version=1, at_ms=86_400_000, hosts=(), slot_prices=(yesterday,))
    send(pipeline.settings, (CLUSTER_TOPOLOGY, "flink", said))
    with fake_flink("2.3.0", "running") as flink, watching(pipeline.settings, flink, prices="*=3600"):
        told = lambda: decode(pipeline.read(CLUSTER_TOPOLOGY)[-1], ClusterTopology)  # noqa: E731
        wait_until(lambda: len(told().slot_prices) == 2, what="the prices")
        found = told()
    slots = found.hosts[0].slots or 0
    assert found.slot_prices == (yesterday, SlotPrice(at_ms=found.at_ms, per_s=1 / slots))


def test_a_malformed_sample_travels_as_it_is(pipeline: MonitorPipeline, engine: EngineStub) -> None:
    """The minute's good samples and its marker are not held up."""
    bad = json.loads(encode(sample_of(JOB, 4))) | {"records_in": -1}
    engine.add_minutes(JOB, range(4, 5), None, bad)
    pipeline.start("--engine-url", engine.url)
    pipeline.await_minutes(1, 2, 3, 4)
    assert [json.loads(value) for value in pipeline.read(TASK_METRICS) if BROKEN in value] == [bad]
    assert sample_of(JOB, 4) in pipeline.records()


def test_an_engine_that_is_away_is_waited_for(pipeline: MonitorPipeline) -> None:
    """The monitor says so, and goes on when the engine is there; SIGTERM ends it in order."""
    port = free_port()
    monitor = pipeline.start("--engine-url", f"http://127.0.0.1:{port}")
    wait_until(lambda: "waiting for the engine" in pipeline.log(), what="the word")
    with EngineStub(port) as engine:
        engine.add_minutes(JOB, range(1, 3))
        pipeline.await_minutes(1, 2)
        monitor.terminate()
        assert monitor.wait(PATIENT_S) == 0


def test_a_recording_is_sent_to_its_end(pipeline: MonitorPipeline, tmp_path: Path) -> None:
    """Then the monitor ends by itself; a second run finds nothing left to send."""
    lines: list[bytes] = []
    for minute in (1, 2):
        marker = MinuteMarker(job=JOB, minute_end_ms=minute * MINUTE, topology=job_chain(JOB))
        lines += [encode(sample_of(JOB, minute)), encode(marker)]
    trace = tmp_path / "trace.jsonl"
    trace.write_bytes(b"\n".join(lines))
    for _ in range(2):
        assert pipeline.start("--trace", str(trace)).wait(PATIENT_S) == 0, pipeline.log()
    assert [encode(record) for record in pipeline.records()] == lines


def test_two_monitors_of_one_cluster_both_say_so(pipeline: MonitorPipeline, engine: EngineStub) -> None:
    """Each names the other in its log and its health."""
    ports = free_port(), free_port()
    processes = [pipeline.start("--engine-url", engine.url, "--health-port", str(port)) for port in ports]
    minutes = itertools.count(4)

    def others() -> list[str]:
        minute = next(minutes)
        engine.add_minutes(JOB, range(minute, minute + 1))
        found = []
        for port in ports:
            with contextlib.suppress(Unhealthy):
                found.append(str(ask(port).get("other_monitor", "")))
        return found if len(found) == len(ports) and all(found) else []

    found = wait_until(others, 90, "both to know of each other")
    assert [name.rpartition(":")[2] for name in found] == [str(each.pid) for each in reversed(processes)]
    wait_until(lambda: pipeline.log().count("watches cluster sim too") == len(ports), 30, "both to say so")
