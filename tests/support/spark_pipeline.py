"""A real Spark job on a real broker, with an independent computation of the expected windows."""

import contextlib
import json
import logging
import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import msgspec
import numpy as np
import psutil
import zstandard
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka import Message as KafkaRecord
from confluent_kafka.admin import NewPartitions

from surescale.contracts.messages import DeadLetter, MinuteMarker, TaskSample
from surescale.contracts.settings import to_environment
from surescale.contracts.topics import DEAD_LETTERS, SNAPSHOTS, TASK_METRICS, TopicNames
from surescale.contracts.windows import decode_window, encode_window
from surescale.contracts.wire import decode, encode
from surescale.runtime.backoff import wait_for
from surescale.runtime.kafka import LogReader, admin_client, create_topics, end_offsets, producer
from surescale.runtime.ports import free_port
from surescale.runtime.tracing.context import TraceContext, context_of
from surescale.services.local_stack.artifacts import SPARK_KAFKA, fetch
from surescale.spark_streaming.columns import Coordinates
from surescale.spark_streaming.manifest import FOLDER, Manifest
from surescale.spark_streaming.minutes import MinuteRules, Minutes
from surescale.spark_streaming.places import place_of
from surescale.spark_streaming.settings import SparkSettings
from surescale.spark_streaming.state import StateRefused
from surescale.spark_streaming.state_files import StateFiles
from tests.conftest import KafkaForTests
from tests.support.command_line import SURESCALE
from tests.support.metrics import Scraped, scraped
from tests.support.record_columns import records_of
from tests.support.secure_broker import SecureBroker
from tests.support.waiting import PATIENT_S, wait_until

Message = TaskSample | MinuteMarker


def secure_spark_pipeline(broker: SecureBroker, folder: Path) -> "SparkPipeline":
    """Return a Spark job on a broker that wants TLS and a password."""
    security = {name: value for name, value in broker.scram.items() if name != "bootstrap"}
    return SparkPipeline(KafkaForTests(broker.secure), folder, **security)


class SparkPipeline:
    """Topics of one test, and the Spark job that serves them."""

    def __init__(self, kafka: KafkaForTests, folder: Path, **security: str) -> None:
        self.checkpoint = folder / "checkpoint"
        self._folder = folder
        self._settings = SparkSettings(
            bootstrap=kafka.bootstrap,
            topic_prefix=kafka.topic_prefix(),
            window_minutes=5,
            spark_master="local[1]",
            spark_checkpoint=str(self.checkpoint),
            spark_jars=",".join(map(str, fetch(SPARK_KAFKA))),
            **security,  # type: ignore[arg-type]  # the settings of Kafka's security are texts
        )
        create_topics(self._settings)
        self.names = TopicNames(self._settings.topic_prefix)
        self._producer = producer(self._settings)
        self._reader = reader_of(self._settings, [SNAPSHOTS, DEAD_LETTERS])
        self._seen: list[KafkaRecord] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._starts = 0

    def start(self, *command: str, **more: str) -> None:
        """Start the job, by a command of the test's own or with more variables if there are any; its log goes to the folder."""
        assert self._process is None or self._process.poll() is not None
        self._settings = replace(self._settings, health_port=free_port())
        self._starts += 1
        with self._log_file().open("wb") as log:
            environment = os.environ | to_environment(self._settings) | more
            self._process = subprocess.Popen(command or [*SURESCALE, "run", "spark"], env=environment, stdout=log, stderr=log)

    def log(self) -> str:
        """Return what the newest process has said."""
        return self._log_file().read_text()

    def health(self) -> dict[str, Any] | None:
        """Return the health document, None while there is none."""
        assert self.process.poll() is None, self.log()
        try:
            with urlopen(f"http://127.0.0.1:{self._settings.health_port}/health", timeout=5) as answer:
                return dict(json.load(answer))
        except HTTPError:
            return None  # not ready yet
        except URLError:
            return None

    def metrics(self) -> Scraped:
        """Return what the job shows at /metrics."""
        return scraped(self._settings.health_port)

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        """The newest process."""
        assert self._process is not None
        return self._process

    def processes(self) -> list[psutil.Process]:
        """Return the driver, its JVM and their workers."""
        driver = psutil.Process(self.process.pid)
        return [driver, *driver.children(recursive=True)]

    def signal_all(self, number: int) -> None:
        """Send a signal to the driver, its JVM and their workers."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):  # a worker that ended by itself, or with the one before it
                process.send_signal(number)

    def close(self) -> None:
        """Stop what runs."""
        if self._process is not None and self._process.poll() is None:
            self.signal_all(signal.SIGKILL)
            self._process.wait(PATIENT_S)
        self._reader.close()

    def send(self, *messages: Message | tuple[str, bytes], headers: Sequence[tuple[str, bytes]] = ()) -> None:
        """Append messages, or raw values with their key, and wait until they are acknowledged."""
        for message in messages:
            key, value = message if isinstance(message, tuple) else (message.job, encode(message))
            self._producer.produce(self.names(TASK_METRICS), value, key.encode(), headers=dict(headers))
        assert self._producer.flush(20) == 0

    def send_in_transaction(self, *messages: Message, commit: bool) -> None:
        """Append messages as a monitor of several does; without ``commit`` as one that another has taken over from."""
        client = producer(self._settings, **{"transactional.id": "a monitor"})
        client.init_transactions(20)
        client.begin_transaction()
        for message in messages:
            client.produce(self.names(TASK_METRICS), encode(message), message.job.encode())
        assert client.flush(20) == 0
        (client.commit_transaction if commit else client.abort_transaction)(20)

    def renew_producer(self) -> None:
        """Send with a new client from now on, which asks the broker how many partitions there are."""
        self._producer = producer(self._settings)

    def add_partitions(self, count: int) -> tuple[int, int]:
        """Add so many partitions to ``task-metrics``; return how many there were and are."""
        name, admin = self.names(TASK_METRICS), admin_client(self._settings)
        before = len(admin.list_topics(name, timeout=10).topics[name].partitions)
        for added in admin.create_partitions([NewPartitions(name, before + count)]).values():
            added.result()
        return before, before + count

    def expire_task_metrics(self) -> None:
        """Delete all records that were sent, as the broker does when they are old."""
        name, admin = self.names(TASK_METRICS), admin_client(self._settings)
        partitions = [TopicPartition(name, each) for each in admin.list_topics(name, timeout=10).topics[name].partitions]
        ends = end_offsets(admin, partitions, timeout_s=10)
        for deleted in admin.delete_records([TopicPartition(*place, end) for place, end in ends.items()]).values():
            deleted.result()

    def make_task_metrics_again(self) -> None:
        """Delete the topic, and create it empty."""
        name, admin = self.names(TASK_METRICS), admin_client(self._settings)
        for deleted in admin.delete_topics([name]).values():
            deleted.result()
        wait_until(lambda: name not in admin.list_topics(timeout=10).topics, what="the end of the topic")
        create_topics(self._settings)

    def see(self, timeout_s: float = 0.0) -> None:
        """Take what has arrived on the job's topics, waiting for a first record at most so long."""
        self._seen += self._reader.poll(timeout_s)

    def windows(self) -> dict[str, list[bytes]]:
        """Return the bytes of each window's every delivery, by identity."""
        found: dict[str, list[bytes]] = {}
        for record in self._seen:
            if record.topic() == self.names(SNAPSHOTS):
                value = record.value() or b""
                found.setdefault(decode_window(value).id, []).append(value)
        return found

    def manifest(self) -> Manifest | None:
        """Return the newest manifest, None before the first.

        Raises:
            FileNotFoundError: a newer one came meanwhile.
        """
        newest = max((self.checkpoint / FOLDER).glob("manifest-*"), default=None)
        return newest and msgspec.json.decode(zstandard.decompress(newest.read_bytes()), type=Manifest)

    def unsaved(self) -> bool:
        """Say whether a window has arrived that the newest manifest's states do not know of."""
        try:
            manifest = self.manifest()
            if manifest is None:
                return bool(self.windows())
            held = StateFiles(place_of(str(self.checkpoint)) / FOLDER).load(manifest, manifest.states)
        except (FileNotFoundError, StateRefused):  # a newer one came meanwhile
            return False
        closed_ms = {name: job.closed_ms for name, job in held.minutes.jobs.items()}
        seen = [decode_window(values[0]) for values in self.windows().values()]
        return any(window.window_end_ms > closed_ms.get(window.job, 0) for window in seen)

    def traces(self) -> dict[str, TraceContext | None]:
        """Return where each window is in its trace, by identity."""
        seen = [record for record in self._seen if record.topic() == self.names(SNAPSHOTS)]
        return {decode_window(record.value()).id: context_of(record.headers()) for record in seen}

    def dead_letters(self) -> list[DeadLetter]:
        """Return the dead letters seen so far."""
        return [decode(each.value(), DeadLetter) for each in self._seen if each.topic() == self.names(DEAD_LETTERS)]

    def has_windows(self, count: int) -> bool:
        """Say whether so many distinct windows have arrived."""
        assert self.process.poll() is None, self.log()
        self.see(0.2)
        return len(self.windows()) >= count

    def expected(self) -> dict[str, bytes]:
        """Compute the windows from the topic itself, all records in one batch."""
        reader = LogReader(self._settings, [TASK_METRICS])
        good = [(_coordinates(record), message) for record in reader.read_to_end() if (message := _message(record))]
        reader.close()
        minutes = Minutes(MinuteRules(window_minutes=5))
        good.sort(key=lambda each: (each[0].append_ms, each[0].partition, each[0].offset))  # a job may change partitions
        windows = minutes.feed(records_of(good), np.array([at.append_ms for at, _ in good])).windows
        return {window.id: encode_window(window) for window in windows}

    def _log_file(self) -> Path:
        return self._folder / f"spark-{self._starts}.log"


def reader_of(settings: SparkSettings, names: Sequence[str]) -> LogReader:
    """Return a reader of topics that may have been created only now: their partitions get leaders a moment later."""
    return wait_for(
        "the new topics",
        lambda: LogReader(settings, names),
        expected=(KafkaException,),
        stop=threading.Event(),
        log=logging.getLogger("test"),
    )


def _coordinates(record: KafkaRecord) -> Coordinates:
    return Coordinates(record.partition() or 0, record.offset() or 0, record.timestamp()[1])


def _message(record: KafkaRecord) -> Message | None:
    try:
        return decode(record.value(), TaskSample | MinuteMarker)
    except Exception:
        return None
