"""Where records are read from: a recording, or the topics of a pipeline. Reads partition by partition, never all into memory."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Protocol

from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient

from surescale.contracts.errors import PATH_SHOWN_MAX, RecordRejected, SettingsError, reason_of
from surescale.contracts.job_settings import JobSettings
from surescale.contracts.plurals import listed
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import RECORDER_GROUP, SNAPSHOTS, TopicNames
from surescale.contracts.windows import Window, decode_window
from surescale.runtime.kafka import REQUEST_TIMEOUT_S, admin_client, batch, committed_offsets, consumer
from surescale.runtime.kafka_errors import is_record, readable_errors
from surescale.runtime.topic_records import headers_of
from surescale.services.tools.recording.format import RawRecord, Recording, job_of

Say = Callable[[str], None]

SAY_EVERY_S = 2.0
STALLED_S = 30.0
_POLL_S = 0.5
_BATCH = 500
_EAGER: dict[str, object] = {"enable.partition.eof": True, "fetch.wait.max.ms": 20, "log_level": 0}


class Source(Protocol):
    """Something that holds records of a pipeline's topics."""

    @property
    def name(self) -> str:
        """Return its name in messages."""
        ...

    @property
    def partitions(self) -> Mapping[str, int]:
        """Return its topics with the number of their partitions."""
        ...

    def records(self, topics: Iterable[str]) -> Iterator[RawRecord]:
        """Yield the records of these topics (those it has), each partition's together and in order."""
        ...


class FileSource:
    """The records of a recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.name = str(recording.path)
        self.partitions: Mapping[str, int] = {topic.name: topic.partitions for topic in recording.header.topics}

    def records(self, topics: Iterable[str]) -> Iterator[RawRecord]:
        """Yield the recording's records of these topics; raises RecordingRejected if the file turns out to be damaged."""
        wanted = frozenset(topics)
        return (record for record in self._recording.records() if record.topic in wanted)


class KafkaSource:
    """The records committed to a pipeline's topics when this source was created; later ones are not read."""

    def __init__(self, settings: PipelineSettings, topics: Iterable[str], *, say: Say | None = None) -> None:
        """Look up how far the topics (bare names) go.

        Raises:
            ConnectionError: Kafka does not answer, or a topic does not exist.
        """
        self._settings, self._say = settings, say
        self._full = TopicNames(settings.topic_prefix)
        self.name = f"Kafka at {settings.bootstrap}"
        with readable_errors(settings):
            admin = admin_client(settings)
            self.partitions: Mapping[str, int] = self._count(admin, list(topics))
            places = [TopicPartition(self._full(topic), at) for topic, count in self.partitions.items() for at in range(count)]
            self._begins = committed_offsets(admin, places, "beginning")
            self._ends = committed_offsets(admin, places, "end")

    def records(self, topics: Iterable[str]) -> Iterator[RawRecord]:
        """Yield the records between the beginning and the end found when this source was created.

        Raises:
            ConnectionError: Kafka does not deliver.
        """
        with readable_errors(self._settings), closing(consumer(self._settings, RECORDER_GROUP, **_EAGER)) as client:
            client.list_topics(timeout=REQUEST_TIMEOUT_S)  # otherwise each topic new to the client costs a second
            wanted = [topic for topic in topics if topic in self.partitions]
            progress = _Progress(self._say, sum(self._length(topic) for topic in wanted))
            for topic in wanted:
                for partition in range(self.partitions[topic]):
                    yield from self._partition(client, topic, partition, progress)

    def _partition(self, client: Consumer, topic: str, partition: int, progress: "_Progress") -> Iterator[RawRecord]:
        at, end = self._bounds(topic, partition)
        if at >= end:
            return
        client.assign([TopicPartition(self._full(topic), partition, at)])
        arrived_s = time.monotonic()
        while at < end:
            messages = batch(client, _BATCH, _POLL_S)
            if messages:
                arrived_s = time.monotonic()
            elif time.monotonic() - arrived_s > STALLED_S:
                raise ConnectionError(f"{self.name} stopped delivering {self._full(topic)}")
            for message in messages:
                offset = message.offset() or 0
                if is_record(message):
                    if offset < end:
                        yield record_of(topic, message)
                    offset += 1
                progress.move(topic, min(offset, end) - at)
                at = max(at, offset)

    def _count(self, admin: AdminClient, topics: list[str]) -> dict[str, int]:
        known = admin.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        missing = [self._full(topic) for topic in topics if self._full(topic) not in known]
        if missing:
            raise ConnectionError(f"{self.name} has no topic {missing[0]}")
        return {topic: len(known[self._full(topic)].partitions) for topic in topics}

    def _length(self, topic: str) -> int:
        return sum(end - begin for begin, end in (self._bounds(topic, at) for at in range(self.partitions[topic])))

    def _bounds(self, topic: str, partition: int) -> tuple[int, int]:
        place = self._full(topic), partition
        return self._begins[place], self._ends[place]


class _Progress:
    """Reports the progress of a long read every few seconds."""

    def __init__(self, say: Say | None, total: int) -> None:
        self._say, self._total, self._done, self._said_s = say, total, 0, time.monotonic()

    def move(self, topic: str, by: int) -> None:
        self._done += max(0, by)
        if self._say is not None and time.monotonic() - self._said_s > SAY_EVERY_S:
            self._said_s = time.monotonic()
            self._say(f"{self._done:,} of {self._total:,} records read, now {topic}")


def record_of(topic: str, message: Message) -> RawRecord:
    """Return a record of a topic (bare name) as Kafka delivered it."""
    key, value = message.key(), message.value()
    return RawRecord(
        topic=topic,
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        append_ms=message.timestamp()[1],
        key=key.encode() if isinstance(key, str) else key,
        value=value.encode() if isinstance(value, str) else value,
        headers=tuple(headers_of(message)),
    )


def opened_for(recording: Path, asked: str | None) -> tuple[Recording, str]:
    """Return a recording with the job asked for, or its only one.

    Raises:
        SettingsError: it cannot be read, does not have that job, or has several.
        RecordingRejected: it is no recording, or not whole.
    """
    try:
        opened = Recording(recording)
    except OSError as error:
        raise SettingsError(f"{str(recording)[:PATH_SHOWN_MAX]} cannot be read ({reason_of(error)}); name a recording") from None
    jobs = [each.job for each in opened.header.jobs]
    if asked is not None and asked in jobs:
        return opened, asked
    known = listed(jobs, 5) or "none"
    if asked is not None:
        raise SettingsError(f"--job: {opened.path} has no job {asked[:200]!r}; it has {known}")
    if len(jobs) != 1:
        raise SettingsError(f"--job: name one of the jobs in {opened.path}: {known}")
    return opened, jobs[0]


def settings_of(opened: Recording, job: str) -> JobSettings:
    """Return a job's settings at the time of recording, without its labels."""
    known = (each.settings for each in opened.header.jobs if each.job == job and each.settings)
    return next(known, JobSettings(job=job))


def windows_of(opened: Recording, job: str) -> Iterator[Window]:
    """Yield a job's windows in order of time; those that cannot be read are left out, as in the pipeline.

    Raises:
        SettingsError: there is none.
        RecordingRejected: the file is damaged.
    """
    found = unreadable = 0
    for record in opened.records():
        if record.topic != SNAPSHOTS or job_of(record) != job:
            continue
        try:
            window = decode_window(record.value)
        except RecordRejected:
            unreadable += 1
            continue
        found += 1
        yield window
    if not found:
        why = f"its {unreadable} windows cannot be read" if unreadable else f"it has no windows of {job}"
        raise SettingsError(f"{opened.path}: {why}; record topic {SNAPSHOTS} with this surescale")
