"""Many jobs of two clusters in one pipeline: one Spark job, two agents of one group, jobs that come and go, a killed agent.

One JVM start costs ten seconds and more, so the tests share one pipeline and run in the order they are written.
"""

import signal
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Message

from benchmarks.pipeline.fleet import FIRST_MINUTE, Fleet
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.decisions import Decision
from surescale.contracts.ids import cluster_of
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import DECISIONS, SNAPSHOTS, TASK_METRICS, TopicNames
from surescale.contracts.windows import Window, decode_window
from surescale.contracts.wire import decode, encode
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import LogReader, create_topics, producer
from surescale.runtime.ports import free_port
from surescale.services.local_stack.roles import spark_environment
from tests.conftest import KafkaForTests
from tests.support.command_line import started
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration

FLEET = Fleet(jobs=12, tasks=3, subtasks=2, seed=5, clusters=2)
SPAN_MINUTES = 10  # of the rule
AGENTS = ("agent-1", "agent-2")
START_TIMEOUT_S = 240.0


class ManyJobs:
    """Topics of one test module, a Spark job and agents that serve them."""

    def __init__(self, kafka: KafkaForTests, folder: Path) -> None:
        self.settings = PipelineSettings(
            bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix(), policy="target-utilisation"
        )
        create_topics(self.settings)
        self._folder = folder
        self._producer = producer(self.settings)
        self._reader = LogReader(self.settings, [SNAPSHOTS, DECISIONS])
        self._found: dict[str, list[Message]] = {SNAPSHOTS: [], DECISIONS: []}
        self._ports: dict[str, int] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str, *arguments: str, **environment: str) -> None:
        """Start a role under a name of its own; its log goes to the test's folder."""
        self._ports[name] = free_port()
        own = {"SURESCALE_HEALTH_PORT": str(self._ports[name])} | environment
        self._processes[name] = started(self.settings, self._folder / f"{name}.log", *arguments, **own)

    def health(self, name: str) -> dict[str, int]:
        """Return a role's health, {} while it is not ready."""
        assert self._processes[name].poll() is None, (self._folder / f"{name}.log").read_text()
        try:
            return dict(fetch_json(f"http://127.0.0.1:{self._ports[name]}/health"))
        except OSError:
            return {}

    def kill(self, name: str) -> None:
        """Kill a role as kill -9 does."""
        self._processes[name].send_signal(signal.SIGKILL)
        self._processes[name].wait(20)

    def send(self, jobs: Iterable[int], minutes: range, fleet: Fleet = FLEET) -> None:
        """Send minutes of jobs of a fleet, minute by minute, jobs in turn."""
        topic = TopicNames(self.settings.topic_prefix)(TASK_METRICS)
        for minute in minutes:
            for job in jobs:
                for message in (*fleet.samples(job, minute), fleet.marker(job, minute)):
                    self._producer.produce(topic, encode(message), message.job.encode())
        assert self._producer.flush(30) == 0

    def windows(self) -> list[Window]:
        """Return every window that has arrived so far."""
        self._read()
        return [decode_window(record.value()) for record in self._found[SNAPSHOTS]]

    def decisions(self) -> list[Message]:
        """Return every decision that has arrived so far."""
        self._read()
        return self._found[DECISIONS]

    def close(self) -> None:
        """Stop what runs."""
        for process in self._processes.values():
            process.terminate()
        for process in self._processes.values():
            process.wait(PATIENT_S)
        self._reader.close()

    def _read(self) -> None:
        for record in self._reader.read_to_end():
            self._found[(record.topic() or "").removeprefix(self.settings.topic_prefix)].append(record)


@pytest.fixture(scope="module")
def pipeline(kafka: KafkaForTests, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyJobs]:
    """A Spark job on two cores and two agents, both with partitions."""
    folder = tmp_path_factory.mktemp("many")
    shared = ManyJobs(kafka, folder)
    spark = spark_environment(lambda _line: None)
    try:
        shared.start("spark", "run", "spark", "--master", "local[2]", "--checkpoint", str(folder / "checkpoint"), **spark)
        for name in ("agent-1", "agent-2"):
            shared.start(name, "run", "agent", OMP_NUM_THREADS="1")
        agents = ("agent-1", "agent-2")
        wait_until(
            lambda: all(shared.health(name).get("partitions") == 2 for name in agents), 60, "partitions shared by two agents"
        )
        wait_until(lambda: shared.health("spark").get("ready"), START_TIMEOUT_S, "the Spark job")
        yield shared
    finally:
        shared.close()


def spans(jobs: Iterable[int], minutes: range) -> set[tuple[str, int]]:
    """Return the (job, span end) that these minutes of these jobs must be decided on."""
    ends = [FIRST_MINUTE + minute + 1 for minute in minutes]
    return {(FLEET.job(job), end * MINUTE_MS) for job in jobs for end in ends if end % SPAN_MINUTES == 0}


def decided(pipeline: ManyJobs) -> Counter[tuple[str, int]]:
    """Return how often each (job, span end) was decided."""
    found = (decode(record.value(), Decision) for record in pipeline.decisions())
    return Counter((decision.job, decision.span_end_ms) for decision in found)


def test_every_span_of_every_job_is_decided_exactly_once(pipeline: ManyJobs) -> None:
    """Twelve jobs of two clusters, four spans each, two agents that both work: no span is missing, none comes twice."""
    jobs, minutes = range(10), range(40)
    pipeline.send(jobs, minutes)
    expected = spans(jobs, minutes)
    wait_until(lambda: decided(pipeline).keys() >= expected, 60, "all decisions")
    assert decided(pipeline) == Counter(expected)
    assert all(pipeline.health(name)["windows"] > 0 for name in AGENTS)


def test_decisions_lie_under_their_cluster(pipeline: ManyJobs) -> None:
    """Each record's key is the job's cluster, and both clusters have decisions."""
    keys = {(record.key() or b"").decode() for record in pipeline.decisions()}
    assert keys == {"bench0", "bench1"}
    assert all(
        (record.key() or b"").decode() == cluster_of(decode(record.value(), Decision).job) for record in pipeline.decisions()
    )


def test_jobs_come_and_go_and_the_others_do_not_notice(pipeline: ManyJobs) -> None:
    """Two jobs fall silent, two new ones are seen: each has the windows of its own minutes, and of no others.

    The first minute of the new ones is masked: their counters began before anyone watched.
    """
    pipeline.send(range(2, 12), range(40, 60))
    expected = {(FLEET.job(job), minute) for job in range(12) for minute in (*range(40), *range(40, 60)) if lives(job, minute)}
    wait_until(lambda: len(pipeline.windows()) >= len(expected), 60, "all windows")
    assert Counter((window.job, minute_of(window)) for window in pipeline.windows()) == Counter(expected)
    newest = {window.job: window for window in pipeline.windows()}
    assert {newest[FLEET.job(job)].minutes_known for job in (10, 11)} == {19}
    assert {newest[FLEET.job(job)].minutes_known for job in range(2, 10)} == {60}


def lives(job: int, minute: int) -> bool:
    """Say whether a job of the fleet sends in a minute: the first two until minute 40, the last two from then on."""
    return minute < 40 if job < 2 else minute >= 40 if job >= 10 else True


def minute_of(window: Window) -> int:
    """Return the fleet's number of the minute that a window ends with."""
    return window.window_end_ms // MINUTE_MS - FIRST_MINUTE - 1


def test_a_killed_agents_partitions_are_taken_over(pipeline: ManyJobs) -> None:
    """Killed with windows before it: every span is still decided, and what comes twice is the same byte for byte."""
    jobs, minutes = range(2, 12), range(60, 90)
    pipeline.send(jobs, range(60, 75))
    wait_until(
        lambda: len(decided(pipeline)) > len(spans(jobs, range(40, 60))) + len(spans(range(10), range(40))), 60, "a first span"
    )
    pipeline.kill("agent-1")
    pipeline.send(jobs, range(75, 90))
    expected = spans(range(10), range(40)) | spans(jobs, range(40, 60)) | spans(jobs, minutes)
    wait_until(lambda: decided(pipeline).keys() >= expected, 60, "all decisions")
    assert decided(pipeline).keys() == expected
    bodies = {(decode(record.value(), Decision).decision_id, record.value()) for record in pipeline.decisions()}
    assert len(bodies) == len(expected)
    wait_until(lambda: pipeline.health("agent-2")["partitions"] == 4, 30, "all partitions at the agent that is left")


def test_a_job_of_a_thousand_tasks_passes_every_client(pipeline: ManyJobs) -> None:
    """Its markers, windows and decisions are larger than the defaults of any client, and its spans are decided like others."""
    wide = Fleet(jobs=1, tasks=1_000, subtasks=1, seed=5, clusters=1)
    pipeline.send(range(1), range(20), wide)
    expected = {(wide.job(0), (FIRST_MINUTE + minute) * MINUTE_MS) for minute in (10, 20)}
    wait_until(lambda: {key for key in decided(pipeline) if key[0] == wide.job(0)} == expected, 60, "both decisions")
    last = [found for record in pipeline.decisions() if (found := decode(record.value(), Decision)).job == wide.job(0)][-1]
    assert len(last.tasks) == 1_000
