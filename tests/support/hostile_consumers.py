"""Every role as a consumer of hostile records: what it reads, how good records reach it, what shows that they were handled."""

import contextlib
import logging
import os
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import psutil
from confluent_kafka import Message as KafkaRecord
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from contracts import topics
from contracts.clock import MINUTE_MS
from contracts.commands import Outcome, Progress
from contracts.decisions import Decision
from contracts.ids import decision_id
from contracts.job_settings import JobSettings
from contracts.messages import ClockSegment, DeadLetter, MinuteMarker
from contracts.settings import RoadSettings, to_environment
from contracts.topics import TOPICS, TopicNames
from contracts.windows import decode_window
from contracts.wire import encode
from rescaler.actuators.fake import FakeEngine
from rescaler.service.loop import NEEDED
from rescaler.service.partitions import partition_of
from rescaler.service.road_view import VIEWED
from rescaler.service.settings import RescalerSettings
from runtime.kafka import LogReader, admin_client, create_topics, producer, wait_for_topics
from runtime.ports import free_port
from runtime.whole_topics import parsed
from services.local_stack.artifacts import fetch
from services.local_stack.locked_jars import SPARK_KAFKA
from services.state.write.projections import PROJECTED
from spark_streaming.settings import SparkSettings
from tests.support import controller_world, hostile_records
from tests.support.builders import JOB, topology
from tests.support.engine_stub import EngineStub
from tests.support.hostile_records import Hostile
from tests.support.rescaler_road import health, served
from tests.support.view_road import a_road, get
from tests.support.waiting import wait_until
from tests.unit.spark_streaming.road import graph, marker, sample, spec

SURESCALE = [sys.executable, "-c", "from services.cli import main; main()"]
GOOD_WITHIN_S = 180.0  # Spark needs a minute to start on a busy machine
_ANY_CODEC = {"compression.type": "producer"}
_ANY_TIME = {"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": str(2**63 - 1)}


class Consumer(ABC):
    """One role on topics of its own. ``rounds`` counts the good records that it was seen to handle."""

    role: str
    reads: tuple[str, ...]
    memory_mib: int
    """What Compose gives the role."""
    any_time = True
    """Its topics take the timestamps of producers, as a broker's default is."""
    reads_again = True
    """It reads topics from their beginning when it starts."""

    def __init__(self, settings: RoadSettings, folder: Path) -> None:
        self.settings = replace(settings, health_port=free_port())
        self.folder = folder
        self.more: dict[str, str] = {}
        """Variables of the role besides its settings, such as a user of its own towards Kafka."""
        self.rounds = 0
        self.process: subprocess.Popen[bytes] | None = None
        self._opened = contextlib.ExitStack()
        create_topics(self.settings)
        wait_for_topics(self.settings, list(TOPICS), stop=threading.Event(), log=logging.getLogger("test"))
        self._names = TopicNames(settings.topic_prefix)
        self._producers = {codec: producer(settings, **{"compression.type": codec}) for codec in ("none", "gzip")}
        self._seen: dict[str, list[KafkaRecord]] = {}
        self._readers: dict[str, LogReader] = {}

    @abstractmethod
    def send_good(self) -> None:
        """Send the good records of round ``rounds``, counted from 1."""

    @abstractmethod
    def has_handled(self) -> bool:
        """Say whether the good records of this round were handled."""

    @abstractmethod
    def refused(self) -> int:
        """Return how many records the role says it refused since it started, or has set aside as dead letters."""

    def environment(self) -> dict[str, str]:
        """Return variables besides the settings."""
        return {}

    def start(self) -> None:
        """Start the role; its log goes to the test's folder."""
        with (self.folder / f"{self.role}.log").open("ab") as log:
            environment = os.environ | to_environment(self.settings) | self.environment() | self.more
            self.process = subprocess.Popen([*SURESCALE, self.role], env=environment, stdout=log, stderr=log)

    def kill(self) -> None:
        """End the role and what it started, at once."""
        if self.process is not None and self.process.poll() is None:
            for each in self._processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            self.process.wait(20)

    def close(self) -> None:
        """Stop what runs."""
        self.kill()
        for reader in self._readers.values():
            reader.close()
        self._opened.close()

    def round(self) -> None:
        """Send good records and wait until they are handled; the role must not end meanwhile."""
        self.rounds += 1
        self.send_good()
        wait_until(self._is_handled_and_alive, GOOD_WITHIN_S, f"{self.role} to handle good records, round {self.rounds}")

    def attack(self) -> int:
        """Send every hostile record of every topic the role reads, in front of its next good ones; return how many."""
        self._allow_any_codec_and_time()
        sent = 0
        for topic in self.reads:
            records = hostile_records.hostile_records(topic)
            for record in records:
                self._send_hostile(topic, record)
            sent += len(records)
        for client in self._producers.values():
            assert client.flush(60) == 0
        return sent

    def memory_used_mib(self) -> float:
        """Return the memory of the role's processes."""
        return sum(each.memory_info().rss for each in self._processes()) / 2**20

    def log(self) -> str:
        """Return what the role has said."""
        return (self.folder / f"{self.role}.log").read_text(errors="replace")

    def health(self) -> dict[str, Any]:
        """Return the health document, {} while nobody answers."""
        return health(self.settings.health_port)

    def send(self, topic: str, key: str, message: msgspec.Struct | bytes | None) -> None:
        """Append one record and wait until it is acknowledged."""
        value = encode(message) if isinstance(message, msgspec.Struct) else message
        client = self._producers["none"]
        client.produce(self._names(topic), value, key.encode())
        assert client.flush(20) == 0

    def records(self, topic: str) -> list[KafkaRecord]:
        """Return everything on a topic so far."""
        if topic not in self._readers:
            self._readers[topic] = LogReader(self.settings, [topic])
        self._seen.setdefault(topic, []).extend(self._readers[topic].read_to_end())
        return self._seen[topic]

    def _is_handled_and_alive(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, f"{self.role} has ended:\n{self.log()[-4_000:]}"
        return self.has_handled()

    def _processes(self) -> list[psutil.Process]:
        assert self.process is not None
        own = psutil.Process(self.process.pid)
        return [own, *own.children(recursive=True)]

    def _send_hostile(self, topic: str, record: Hostile) -> None:
        client = self._producers.get(record.codec)
        if client is None:
            client = self._producers[record.codec] = producer(self.settings, **{"compression.type": record.codec})
        # Into the partition of the good records: behind a record that cannot be passed, they would wait.
        where = partition_of(self.good_key(topic), TOPICS[topic].partitions)
        client.produce(self._names(topic), record.value, record.key, partition=where, timestamp=record.timestamp_ms)
        client.poll(0)

    @staticmethod
    def good_key(topic: str) -> str:
        """Return the key of good records."""
        return {"job": JOB, "road": "main"}.get(TOPICS[topic].key, "sim")

    def _allow_any_codec_and_time(self) -> None:
        """Let the topics take whatever comes, as a broker may that somebody else has set up."""
        wanted = _ANY_CODEC | (_ANY_TIME if self.any_time else {})
        changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()]
        asked = [ConfigResource("topic", self._names(topic), incremental_configs=changes) for topic in self.reads]
        admin = admin_client(self.settings)
        for resource in asked:  # the client takes one topic at a time
            for future in admin.incremental_alter_configs([resource]).values():
                future.result(20)


class MonitorConsumer(Consumer):
    """Reads how far it came from the end of ``task-metrics`` when it starts."""

    role, reads, memory_mib = "monitor", (topics.TASK_METRICS,), 384
    reads_again = False  # it does so in the second round

    def __init__(self, settings: RoadSettings, folder: Path) -> None:
        super().__init__(settings, folder)
        self._engine = self._opened.enter_context(EngineStub())
        self.settings = replace(self.settings, engine_url=self._engine.url)

    def send_good(self) -> None:
        """The engine finishes a minute; after the attack, the monitor starts again."""
        self._engine.add_minutes(JOB, range(self.rounds, self.rounds + 1))
        if self.rounds == 2:
            self.kill()
            self.start()

    def has_handled(self) -> bool:
        """Each minute is marked once, in order."""
        markers = [each for each in parsed(self.records(topics.TASK_METRICS), MinuteMarker) if each.job == JOB]
        return [each.minute_end_ms // MINUTE_MS for each in markers] == list(range(1, self.rounds + 1))

    def refused(self) -> int:
        """The monitor passes what is no marker of its own in silence: Spark, whose input it is, refuses it."""
        return sys.maxsize


class SparkConsumer(Consumer):
    """Assembles windows from ``task-metrics``, by the clock of its pipeline."""

    role, reads, memory_mib = "spark", (topics.TASK_METRICS, topics.CLOCK), 2_500
    any_time = False  # Spark's own source overflows at a record from the year 292278994; the topics' LogAppendTime prevents it
    reads_again = False  # from its checkpoint on

    def __init__(self, settings: RoadSettings, folder: Path) -> None:
        jars = ",".join(map(str, fetch(SPARK_KAFKA)))
        own = SparkSettings(
            bootstrap=settings.bootstrap,
            topic_prefix=settings.topic_prefix,
            road_clock=True,
            window_minutes=5,
            spark_master="local[1]",
            spark_checkpoint=str(folder / "checkpoint"),
            spark_jars=jars,
        )
        super().__init__(own, folder)

    def send_good(self) -> None:
        """A minute of one sample, and where the clock stands."""
        end_ms = (10 + self.rounds) * MINUTE_MS
        segment = ClockSegment(road="main", sequence=self.rounds, e0_ms=0, w0_ms=0, speed=1e6, until_ms=end_ms)
        self.send(topics.CLOCK, "main", segment)
        chain = graph(spec("map"), job=JOB)
        self.send(topics.TASK_METRICS, JOB, sample(end_ms, 5, job=JOB, task="map"))
        self.send(topics.TASK_METRICS, JOB, marker(10 + self.rounds, chain))

    def has_handled(self) -> bool:
        """The minute's window is there."""
        windows = [decode_window(record.value()) for record in self.records(topics.SNAPSHOTS)]
        return (10 + self.rounds) * MINUTE_MS in {window.window_end_ms for window in windows if window.job == JOB}

    def refused(self) -> int:
        """Dead letters, which outlive the process."""
        return len(parsed(self.records(topics.DEAD_LETTERS), DeadLetter))


class AgentConsumer(Consumer):
    """Decides on windows, with the settings and releases that hold for them."""

    role, reads, memory_mib = "agent", (topics.SNAPSHOTS, topics.JOB_SETTINGS, topics.POLICY_RELEASES), 768

    def __init__(self, settings: RoadSettings, folder: Path) -> None:
        super().__init__(replace(settings, policy="target-utilisation"), folder)

    def send_good(self) -> None:
        """New settings, and the window that ends the next span."""
        from tests.integration.test_agent import windows

        self.send(topics.JOB_SETTINGS, JOB, JobSettings(job=JOB, version=self.rounds))
        self.send(topics.SNAPSHOTS, JOB, windows(600 + 10 * self.rounds, 600 + 10 * self.rounds)[0])

    def has_handled(self) -> bool:
        """The span has a decision made with these settings."""
        wanted = (JOB, (600 + 10 * self.rounds) * MINUTE_MS, self.rounds)
        made = parsed(self.records(topics.DECISIONS), Decision)
        return wanted in {(each.job, each.span_end_ms, each.settings_version) for each in made}

    def refused(self) -> int:
        """Windows in dead letters, and settings and releases that it counted."""
        return len(parsed(self.records(topics.DEAD_LETTERS), DeadLetter)) + int(self.health()["rejected"])


class RescalerConsumer(Consumer):
    """Answers decisions, by what it sees of the world; its actuator carries out its commands."""

    role, memory_mib = "rescaler", 384
    reads = (*VIEWED, topics.DECISIONS, topics.RESCHEDULE_COMMANDS, topics.RESCALER_STATE)

    def __init__(self, settings: RoadSettings, folder: Path) -> None:
        assert {*self.reads, topics.RESCHEDULE_EVENTS, topics.DEAD_LETTERS} == set(NEEDED)
        self._engine = FakeEngine(jobs={JOB})
        opened = contextlib.ExitStack()
        url = opened.enter_context(served(self._engine))
        own = RescalerSettings(bootstrap=settings.bootstrap, topic_prefix=settings.topic_prefix, engine_url=url, road_clock=True)
        super().__init__(own, folder)
        self._opened.push(opened)
        self.send(topics.CLUSTER_TOPOLOGY, "sim", controller_world.cluster())
        self.send(topics.JOB_TOPOLOGY, JOB, controller_world.job())
        self._clocks = 0

    def send_good(self) -> None:
        """A decision to act; once it is commanded the clock moves on to the end of the rescale."""
        at_ms = self._at_ms()
        self._clock(at_ms)
        self.send(topics.DECISIONS, "sim", controller_world.decision(at_ms, {"map": 3 + self.rounds % 2}))
        wait_until(self._is_commanded, GOOD_WITHIN_S, f"the command of round {self.rounds}")
        self._clock(at_ms + MINUTE_MS)

    def has_handled(self) -> bool:
        """The command of this round was applied; each look moves the clock on by a minute, for the steps of a rescale."""
        if len(self._applied()) >= self.rounds:
            return True
        self._clock(self._engine.now_ms + MINUTE_MS)
        return False

    def refused(self) -> int:
        """What it counted as unreadable or unknown, and dead letters."""
        told = self.health()
        return int(told.get("rejected", 0)) + int(told.get("unknown_commands", 0)) + len(self.records(topics.DEAD_LETTERS))

    def _at_ms(self) -> int:
        return controller_world.START_MS + self.rounds * 60 * MINUTE_MS

    def _is_commanded(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()[-4_000:]
        of = decision_id(JOB, self._at_ms(), "rule")
        outcomes = parsed(self.records(topics.RESCHEDULE_EVENTS), Outcome)
        return ("commanded", of) in {(outcome.status, outcome.decision_id) for outcome in outcomes}

    def _applied(self) -> set[int]:
        """Return the generations of commands that brought the job to its new size."""
        reports = parsed(self.records(topics.RESCHEDULE_EVENTS), Progress)
        return {each.desired_generation for each in reports if each.job == JOB and each.status == "applied"}

    def _clock(self, until_ms: int) -> None:
        self._clocks += 1
        self._engine.now_ms = until_ms
        segment = ClockSegment(road="main", sequence=self._clocks, e0_ms=0, w0_ms=0, speed=1e6, until_ms=until_ms)
        self.send(topics.CLOCK, "main", segment)


class StateConsumer(Consumer):
    """Projects every topic into the view, and answers HTTP from it."""

    role, reads, memory_mib = "state-service", PROJECTED, 384

    def __init__(self, settings: RoadSettings, folder: Path) -> None:
        super().__init__(settings, folder)
        self._api = f"http://127.0.0.1:{free_port()}"

    def environment(self) -> dict[str, str]:
        """The port of its API."""
        return {"SURESCALE_HTTP_PORT": self._api.rpartition(":")[2]}

    def send_good(self) -> None:
        """A whole road at first; then the job's graph changes."""
        for topic, key, message in a_road() if self.rounds == 1 else ():
            self.send(topic, key, message)
        self.send(topics.JOB_TOPOLOGY, JOB, topology(10 + self.rounds))

    def has_handled(self) -> bool:
        """The view shows the graph, and every page answers."""
        status, shown = get(f"{self._api}/jobs/{JOB}")
        if status != 200 or (shown["topology"] or {}).get("version") != 10 + self.rounds:
            return False
        pages = ("jobs", "counts", "clocks", "dead-letters", "clusters/sim", "clusters/sim/info", f"jobs/{JOB}/decisions")
        assert {page: get(f"{self._api}/{page}")[0] for page in pages} == dict.fromkeys(pages, 200)
        return True

    def refused(self) -> int:
        """What the view counts as unreadable."""
        return sum(get(f"{self._api}/counts")[1]["unreadable"].values())


CONSUMERS: tuple[type[Consumer], ...] = (MonitorConsumer, SparkConsumer, AgentConsumer, RescalerConsumer, StateConsumer)


@contextlib.contextmanager
def consumer_of(
    kind: type[Consumer], settings: RoadSettings, folder: Path, more: Mapping[str, str] | None = None
) -> Iterator[Consumer]:
    """Yield a consumer that runs, with more variables than its settings; everything of it ends with the block."""
    made = kind(settings, folder)
    made.more |= more or {}
    try:
        made.start()
        yield made
    finally:
        made.close()
