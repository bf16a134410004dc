"""A pipeline with a rescaler as its only role: topics, processes, an engine behind real HTTP, and what was written."""

import contextlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaException, Producer

from surescale.contracts.commands import EventRecord, Outcome, Progress, RescheduleCommand
from surescale.contracts.decisions import Decision
from surescale.contracts.messages import ClockSegment, Message
from surescale.contracts.rescaler_state import RescalerRecord
from surescale.contracts.settings import to_environment
from surescale.contracts.topics import (
    CLOCK,
    CLUSTER_TOPOLOGY,
    DECISIONS,
    JOB_TOPOLOGY,
    RESCHEDULE_COMMANDS,
    RESCHEDULE_EVENTS,
    TOPICS,
    TopicNames,
)
from surescale.contracts.wire import decode, encode
from surescale.engines.ports.actuator import EngineRefused
from surescale.rescaler.control.controller import Unreadable
from surescale.rescaler.service.memory import remembered
from surescale.rescaler.service.settings import RescalerSettings
from surescale.runtime.kafka import LogReader, create_topics, producer, wait_for_topics
from surescale.runtime.ports import free_ports
from tests.support.controller_world import JOB, START_MS, cluster, job
from tests.support.fake_engine import FakeEngine
from tests.support.http_server import Handler, serving
from tests.support.waiting import wait_until


@contextlib.contextmanager
def served(engine: FakeEngine, port: int = 0) -> Iterator[str]:
    """The engine behind a real HTTP server, by its address."""
    with serving(handler(engine), port) as url:
        yield url


def handler(fake: FakeEngine) -> type[Handler]:
    """The engine's two calls that an actuator needs."""

    class Calls(Handler):
        def do_PUT(self) -> None:
            command = decode(self.body(), RescheduleCommand)
            self.answer(lambda: vars_of(fake.request(command)))

        def do_GET(self) -> None:
            def look() -> dict[str, Any]:
                seen = fake.look(f"sim/{self.path.split('/')[2]}")
                return {"generation": seen.generation, "rescale": seen.rescale and vars_of(seen.rescale)}

            self.answer(look)

        def answer(self, call: Callable[[], dict[str, Any]]) -> None:
            try:
                status, answer = 200, call()
            except EngineRefused as refusal:
                status, answer = 409, {"code": refusal.code, "message": refusal.detail}
            self.reply(status, json.dumps(answer).encode())

    return Calls


def vars_of(value: Any) -> dict[str, Any]:
    """The fields of a slotted dataclass."""
    return {name: getattr(value, name) for name in value.__slots__}


@dataclass
class Pipeline:
    """A pipeline of its own: topics, a producer, and what the rescaler wrote."""

    settings: RescalerSettings
    engine: FakeEngine
    client: Producer
    events: LogReader
    commands_log: LogReader
    segments: int = 0
    outcomes: list[Outcome] = field(default_factory=list)
    progress: list[Progress] = field(default_factory=list)
    commands: list[RescheduleCommand] = field(default_factory=list)
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def send(self, topic: str, key: str, message: Message | bytes) -> None:
        """Produce one record and wait until it is acknowledged."""
        value = message if isinstance(message, bytes) else encode(message)
        self.client.produce(TopicNames(self.settings.topic_prefix)(topic), key=key, value=value)
        assert self.client.flush(30) == 0

    def clock(self, until_ms: int) -> None:
        """Move the pipeline's clock to a stop."""
        self.segments += 1
        wall_ms = time.time_ns() // 1_000_000 - 1_000
        self.engine.now_ms = until_ms
        segment = ClockSegment(pipeline="main", sequence=self.segments, e0_ms=0, w0_ms=wall_ms, speed=1e6, until_ms=until_ms)
        self.send(CLOCK, "main", segment)

    def decide(self, *decisions: Decision) -> None:
        """Send decisions."""
        for each in decisions:
            self.send(DECISIONS, "sim", each)

    def process(self, *words: str) -> tuple[subprocess.Popen[str], int]:
        """Start a rescaler, or what ``words`` name after ``python -m``; returns it and its health port."""
        process, port = started(self.settings, *words)
        self.started.append(process)
        return process, port

    def read(self) -> "Pipeline":
        """Take in what was written since the last look."""
        for record in self.events.read_to_end():
            event = decode(record.value(), EventRecord)  # type: ignore[arg-type]  # a union
            (self.outcomes if isinstance(event, Outcome) else self.progress).append(event)
        self.commands += [decode(record.value(), RescheduleCommand) for record in self.commands_log.read_to_end()]
        return self

    def reconnect(self) -> None:
        """Read from the beginning, at a broker that has come back."""
        self.outcomes, self.progress, self.commands = [], [], []
        self.events.close()
        self.commands_log.close()
        self.events, self.commands_log = reader(self.settings, RESCHEDULE_EVENTS), reader(self.settings, RESCHEDULE_COMMANDS)

    def said(self, of: Decision) -> list[tuple[str, str]]:
        """Status and reason of each outcome of a decision so far."""
        outcomes = [outcome for outcome in self.read().outcomes if outcome.decision_id == of.decision_id]
        return [(outcome.status, outcome.reason) for outcome in outcomes]

    def statuses(self) -> list[str]:
        """What the actuator reported so far."""
        return [progress.status for progress in self.read().progress]


def started(settings: RescalerSettings, *words: str) -> tuple[subprocess.Popen[str], int]:
    """Start a rescaler, or what ``words`` name after ``python -m``; returns it and its health port."""
    (port,) = free_ports(1)
    environment = os.environ | to_environment(settings) | {"SURESCALE_HEALTH_PORT": str(port)}
    command = [sys.executable, "-m", *(words or ("surescale.services.cli", "run", "rescaler"))]
    # A file takes any number of lines; a pipe that nobody reads would stop the process when it is full.
    with tempfile.TemporaryFile("w+") as lines:
        process = subprocess.Popen(command, env=environment, stderr=lines.fileno(), text=True)
        process.stderr = os.fdopen(os.dup(lines.fileno()), "r")
    return process, port


@contextlib.contextmanager
def opened(settings: RescalerSettings, engine: FakeEngine) -> Iterator[Pipeline]:
    """Topics with a job of two units, and the clock at the first decision; ends every process at the end."""
    create_topics(settings)
    wait_for_topics(settings, list(TOPICS), stop=threading.Event(), log=logging.getLogger("test"))
    events, commands = reader(settings, RESCHEDULE_EVENTS), reader(settings, RESCHEDULE_COMMANDS)
    pipeline = Pipeline(settings, engine, producer(settings), events, commands)
    pipeline.send(CLUSTER_TOPOLOGY, "sim", cluster())
    pipeline.send(JOB_TOPOLOGY, JOB, job())
    pipeline.clock(START_MS)
    try:
        yield pipeline
    finally:
        for process in pipeline.started:
            process.kill()
            process.wait()
            if process.stderr:
                process.stderr.close()
        pipeline.events.close()
        pipeline.commands_log.close()


def reader(settings: RescalerSettings, *topics: str) -> LogReader:
    """A reader of topics that were made a moment ago."""

    def attempt() -> LogReader | None:
        with contextlib.suppress(KafkaException):  # the broker may not know yet who leads a new partition
            return LogReader(settings, topics)
        return None

    return wait_until(attempt, 20, "the new topics")  # type: ignore[return-value]  # waits until it is not None


def kept(settings: RescalerSettings) -> list[RescalerRecord]:
    """What the rescaler remembers; all of it can be read."""
    found = remembered(settings)
    assert not [record for record in found if isinstance(record, Unreadable)]
    return [record for record in found if isinstance(record, RescalerRecord)]


def health(port: int) -> dict[str, Any]:
    """The health document; empty while nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
            return dict(json.loads(answer.read()))
    except urllib.error.HTTPError as error:
        return dict(json.loads(error.read()))
    except OSError:
        return {}


def is_active(port: int) -> bool:
    """The process is the active one."""
    return health(port).get("state") == "active"
