"""The engine process in lockstep on a real Kafka: it stops, waits for what the pipeline owes, and counts what does not come."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaException

from benchmarks.archive import where
from surescale.contracts.clock import MINUTE_MS
from surescale.contracts.commands import EventRecord, Outcome, Progress
from surescale.contracts.messages import ClockSegment
from surescale.contracts.settings import PipelineSettings, to_environment
from surescale.contracts.topics import CLOCK, RESCHEDULE_EVENTS, TopicNames
from surescale.contracts.wire import decode, encode
from surescale.runtime.backoff import wait_for
from surescale.runtime.http import fetch_json
from surescale.runtime.kafka import LogReader, create_topics, producer, wait_for_topics
from surescale.runtime.ports import free_port
from tests.conftest import KafkaForTests
from tests.support.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.integration

LOG = logging.getLogger("test")
JOB = "sim/j_2521346"
SPAN_MS = 10 * MINUTE_MS


@pytest.fixture
def settings(kafka: KafkaForTests) -> PipelineSettings:
    """A pipeline of its own with all its topics."""
    settings = PipelineSettings(bootstrap=kafka.bootstrap, topic_prefix=kafka.topic_prefix())
    create_topics(settings)
    wait_for_topics(settings, [CLOCK, RESCHEDULE_EVENTS], stop=threading.Event(), log=LOG)
    return settings


@contextmanager
def running_engine(settings: PipelineSettings, *arguments: str) -> Iterator[str]:
    """Run an engine for 30 minutes of the trace, started; the value is its address."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        sys.executable,
        "-m",
        "surescale.services.cli",
        "run",
        "engine",
        "--port",
        str(port),
        "--workload",
        "clarknet",
        "--job",
        where("j_2521346"),
        "--minutes",
        "30",
    ]
    with subprocess.Popen([*command, *arguments], env=os.environ | to_environment(settings)) as process:
        try:
            wait_until(lambda: _is_ready(url), what="the engine")
            fetch_json(f"{url}/clock/start", method="POST")
            yield url
        finally:
            process.terminate()
            assert process.wait(PATIENT_S) == 0


def _is_ready(url: str) -> bool:
    try:
        return bool(fetch_json(f"{url}/health")["ready"])
    except OSError:
        return False


def new_reader(settings: PipelineSettings, topic: str) -> LogReader:
    """Return a reader of a topic that may only just have been created."""
    return wait_for(topic, lambda: LogReader(settings, [topic]), expected=(KafkaException,), stop=threading.Event(), log=LOG)


class Answerer:
    """Stands for the whole pipeline: as soon as the clock stops at a span's end, it says what became of the decision."""

    def __init__(self, settings: PipelineSettings, answer: Callable[[int], list[Outcome | Progress]]) -> None:
        self._clock = new_reader(settings, CLOCK)
        self._producer = producer(settings)
        self._topic = TopicNames(settings.topic_prefix)(RESCHEDULE_EVENTS)
        self._answer = answer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.segments: list[ClockSegment] = []

    def __enter__(self) -> "Answerer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._clock.close()

    def _run(self) -> None:
        while not self._stop.is_set():
            for record in self._clock.poll(0.1):
                segment = decode(record.value(), ClockSegment)
                if segment.e0_ms < segment.until_ms:
                    continue  # it moves; the next segment says that it stands
                self.segments.append(segment)
                for event in self._answer(segment.until_ms):
                    self._producer.produce(self._topic, key="sim", value=encode(event))
                self._producer.flush(10)


def held(span_end_ms: int, **changes: Any) -> Outcome:
    """Return the outcome of a decision to hold."""
    outcome = Outcome(
        cluster="sim",
        job=JOB,
        decision_id=f"{JOB}@{span_end_ms}/test",
        span_end_ms=span_end_ms,
        status="held",
        reason="hold",
        at_ms=span_end_ms,
    )
    return msgspec.structs.replace(outcome, **changes)


def report(url: str) -> dict[str, Any]:
    """Return the engine's report once the run has ended."""
    return wait_until(lambda: (seen := fetch_json(f"{url}/report"))["finished"] and seen, what="the end of the run")


def test_the_clock_moves_from_span_end_to_span_end_when_answered(settings: PipelineSettings) -> None:
    """The topic says when it stands, and nothing is missed."""
    with Answerer(settings, lambda until: [held(until)]) as pipeline, running_engine(settings) as url:
        seen = report(url)
    stops = [segment.until_ms - seen["start_ms"] for segment in pipeline.segments]
    assert (seen["misses"], seen["minutes_done"], stops) == (0, 30, [0, SPAN_MS, 2 * SPAN_MS, 3 * SPAN_MS])


def test_a_promised_wake_up_is_a_stop_of_its_own(settings: PipelineSettings) -> None:
    """Pending until minute 13 makes the clock stop there, until a further outcome is read."""
    promised: list[int] = []

    def answer(until_ms: int) -> list[Outcome | Progress]:
        if until_ms % SPAN_MS:
            return [held(promised[0], status="superseded", sequence=1)]
        if promised or until_ms == start_ms:
            return [held(until_ms)]
        promised.append(until_ms)
        return [held(until_ms, status="pending", until_ms=until_ms + 3 * MINUTE_MS)]

    start_ms = 810_543_600_000
    with Answerer(settings, answer) as pipeline, running_engine(settings) as url:
        assert report(url)["misses"] == 0
    stops = [(segment.until_ms - start_ms) // MINUTE_MS for segment in pipeline.segments]
    assert stops == [0, 10, 13, 20, 30]


def test_answers_that_do_not_come_are_counted(settings: PipelineSettings) -> None:
    """The clock goes on after the wall limit, with one miss for each stop."""
    with running_engine(settings, "--stop-wait-s", "0.2") as url:
        assert report(url)["misses"] == 3


def test_the_engine_says_what_it_waits_for(settings: PipelineSettings) -> None:
    """Health names the job and the minute."""
    with running_engine(settings) as url:
        words = wait_until(lambda: fetch_json(f"{url}/health")["waiting_for"], what="the first stop")
    assert words == [f"an outcome of {JOB} for the span that ends at minute 10"]


def test_outcomes_of_an_earlier_run_are_not_taken_for_answers(settings: PipelineSettings) -> None:
    """The engine reads what is written after it began to read."""
    client = producer(settings)
    for span in (1, 2, 3):
        old = held(810_543_600_000 + span * SPAN_MS)
        client.produce(TopicNames(settings.topic_prefix)(RESCHEDULE_EVENTS), key="sim", value=encode(old))
    client.flush(10)
    reader = new_reader(settings, RESCHEDULE_EVENTS)
    assert len([decode(record.value(), EventRecord) for record in reader.read_to_end()]) == 3
    reader.close()
    with running_engine(settings, "--stop-wait-s", "0.2") as url:
        assert report(url)["misses"] == 3
