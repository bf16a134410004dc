"""The agent's view of ``job-settings`` and ``policy-releases``, as of the last refresh."""

import logging
import threading
from collections.abc import Iterable

from confluent_kafka import KafkaException, Message

from contracts.errors import RecordRejected
from contracts.job_settings import JobSettings
from contracts.releases import ReleaseRecord, Releases, ScopedRelease
from contracts.settings import PipelineSettings
from contracts.topics import JOB_SETTINGS, POLICY_RELEASES, TopicNames
from contracts.wire import decode
from runtime.backoff import wait_for
from runtime.kafka import LogReader
from runtime.metrics import Tally

_AWAY = (KafkaException, TimeoutError)


def newest(known: dict[str, JobSettings], raw: bytes | None) -> dict[str, JobSettings]:
    """Return ``known`` with one more record applied; a version older than the known one changes nothing.

    Raises:
        RecordRejected: the record does not parse.
    """
    settings = decode(raw, JobSettings)
    before = known.get(settings.job)
    if before is not None and before.version > settings.version:
        return known
    return known | {settings.job: settings}


class JobSettingsView:
    """Settings by job, and releases, read from the whole topics. A job without settings has the defaults.

    Calls block while Kafka is away, so make them from a worker thread. A record that does not parse is counted and skipped with a
    warning; earlier ones stay in force.
    """

    def __init__(
        self, settings: PipelineSettings, *, stop: threading.Event, log: logging.Logger, rejected: Tally | None = None
    ) -> None:
        """``rejected`` counts records that do not parse, by topic (bare name)."""
        self._settings, self._stop, self._log = settings, stop, log
        self._rejected = rejected or Tally()
        self._reader: LogReader | None = None
        self._known: dict[str, JobSettings] = {}
        self._releases = Releases()
        self._release_topic = TopicNames(settings.topic_prefix)(POLICY_RELEASES)

    def refresh(self) -> None:
        """Read everything that was committed before this call.

        Raises:
            runtime.backoff.Stopped: the process was told to stop while Kafka was away.
        """
        what = f"Kafka at {self._settings.bootstrap}"
        self._take(wait_for(what, self._read, expected=_AWAY, stop=self._stop, log=self._log))

    def of(self, job: str) -> JobSettings:
        """Return the job's settings."""
        return self._known.get(job) or JobSettings(job=job)

    def released(self, job: str, at_ms: int) -> ScopedRelease | None:
        """Return the release that serves a job at an event time, if any."""
        return self._releases.serving(job, at_ms)

    def former(self, job: str, at_ms: int) -> ScopedRelease | None:
        """Return the release that would serve a job at an event time if no tournament had been held, if any."""
        return self._releases.serving(job, at_ms, has_tournaments=False)

    def shadows(self, job: str, at_ms: int) -> tuple[ScopedRelease, ...]:
        """Return the policies that look on at a job at an event time."""
        return self._releases.shadows(job, at_ms)

    def close(self) -> None:
        """Leave the broker."""
        if self._reader is not None:
            self._reader.close()

    def _read(self) -> list[Message]:
        reader, self._reader = self._reader or LogReader(self._settings, [JOB_SETTINGS, POLICY_RELEASES]), None
        try:
            records = list(reader.read_to_end())
        except _AWAY:
            # What it had read so far is lost, and its metadata may be out of date: the next reader starts from the beginning.
            reader.close()
            raise
        self._reader = reader
        return records

    def _take(self, records: Iterable[Message]) -> None:
        for record in records:
            try:
                if record.topic() == self._release_topic:
                    self._releases.add(decode(record.value(), ReleaseRecord))
                else:
                    self._known = newest(self._known, record.value())
            except RecordRejected as error:
                self._rejected.add(POLICY_RELEASES if record.topic() == self._release_topic else JOB_SETTINGS)
                where = f"{record.topic()}[{record.partition()}]@{record.offset()}"
                self._log.warning("the record at %s is ignored: %s", where, error)
