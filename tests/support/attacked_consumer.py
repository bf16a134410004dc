"""One role that reads hostile records: how they and good ones reach it, and how it is started, watched and ended."""

import contextlib
import logging
import subprocess
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

from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import TOPICS, TopicNames
from surescale.contracts.wire import encode
from surescale.rescaler.service.transactions import partition_of
from surescale.runtime.kafka import LogReader, admin_client, create_topics, producer, wait_for_topics
from surescale.runtime.ports import free_port
from tests.support import hostile_records
from tests.support.any_headers import send_with_headers
from tests.support.builders import JOB
from tests.support.command_line import started
from tests.support.hostile_records import Hostile
from tests.support.rescaler_pipeline import health
from tests.support.waiting import PATIENT_S, wait_until

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

    def __init__(self, settings: PipelineSettings, folder: Path) -> None:
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
        environment = self.environment() | self.more
        self.process = started(self.settings, self.folder / f"{self.role}.log", "run", self.role, **environment)

    def kill(self) -> None:
        """End the role and what it started, at once."""
        if self.process is not None and self.process.poll() is None:
            for each in self._processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
            self.process.wait(PATIENT_S)

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
                if not record.headers:
                    self._send_hostile(topic, record)
            odd = [(record.key, record.value, record.headers) for record in records if record.headers]
            send_with_headers(self.settings.bootstrap, self._names(topic), self._partition(topic), odd)
            sent += len(records)
        for client in self._producers.values():
            assert client.flush(60) == 0
        return sent

    def memory_used_mib(self) -> float:
        """Return the memory of the role's processes."""
        used = 0
        for each in self._processes():
            with contextlib.suppress(psutil.NoSuchProcess):  # Spark's workers come and go
                used += each.memory_info().rss
        return used / 2**20

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
        where = self._partition(topic)
        client.produce(self._names(topic), record.value, record.key, partition=where, timestamp=record.timestamp_ms)
        client.poll(0)

    def _partition(self, topic: str) -> int:
        """Return that of the good records: behind a record that cannot be passed, they would wait."""
        return partition_of(self.good_key(topic), TOPICS[topic].partitions)

    @staticmethod
    def good_key(topic: str) -> str:
        """Return the key of good records."""
        return {"job": JOB, "pipeline": "main"}.get(TOPICS[topic].key, "sim")

    def _allow_any_codec_and_time(self) -> None:
        """Let the topics take whatever comes, as a broker may that somebody else has set up."""
        wanted = _ANY_CODEC | (_ANY_TIME if self.any_time else {})
        changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in wanted.items()]
        asked = [ConfigResource("topic", self._names(topic), incremental_configs=changes) for topic in self.reads]
        admin = admin_client(self.settings)
        for resource in asked:  # the client takes one topic at a time
            for future in admin.incremental_alter_configs([resource]).values():
                future.result(20)


@contextlib.contextmanager
def consumer_of(
    kind: type[Consumer], settings: PipelineSettings, folder: Path, more: Mapping[str, str] | None = None
) -> Iterator[Consumer]:
    """Yield a consumer that runs, with more variables than its settings; everything of it ends with the block."""
    made = kind(settings, folder)
    made.more |= more or {}
    try:
        made.start()
        yield made
    finally:
        made.close()
