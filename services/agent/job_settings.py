"""The agent's view of ``job-settings`` and ``policy-releases``, as of the last refresh."""

import logging
import threading

from confluent_kafka import KafkaException

from surescale.contracts.job_settings import JobSettings, newer
from surescale.contracts.record_keys import decode_under
from surescale.contracts.releases import Release, Releases
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import JOB_SETTINGS, POLICY_RELEASES, TopicNames
from surescale.runtime.backoff import wait_for
from surescale.runtime.kafka import LogReader
from surescale.runtime.latest_of import LatestOf
from surescale.runtime.metrics import Tally

_AWAY = (KafkaException, TimeoutError)


class JobSettingsView:
    """Settings by job, and releases, read from the whole topics. A job without settings has the defaults.

    Calls block while Kafka is away, so make them from a worker thread.
    """

    def __init__(
        self, settings: PipelineSettings, *, stop: threading.Event, log: logging.Logger, rejected: Tally | None = None
    ) -> None:
        """``rejected`` counts records that do not parse, by topic (bare name)."""
        self._stop, self._log, self._rejected = stop, log, rejected or Tally()
        self._known: dict[str, JobSettings] = {}
        self._releases = Releases()
        self._what = f"Kafka at {settings.bootstrap}"
        take = {JOB_SETTINGS: self._take_settings, POLICY_RELEASES: self._take_release}
        self._topics: LatestOf[None] = LatestOf(
            TopicNames(settings.topic_prefix), take, lambda: LogReader(settings, list(take)), log, count=self._count
        )

    def refresh(self) -> None:
        """Read everything that was committed before this call.

        Raises:
            runtime.backoff.Stopped: the process was told to stop while Kafka was away.
        """
        wait_for(self._what, self._topics.refresh, expected=_AWAY, stop=self._stop, log=self._log)

    def of(self, job: str) -> JobSettings:
        """Return the job's settings."""
        return self._known.get(job) or JobSettings(job=job)

    def released(self, job: str, at_ms: int) -> Release | None:
        """Return the release that serves a job at an event time, if any."""
        return self._releases.serving(job, at_ms)

    def former(self, job: str, at_ms: int) -> Release | None:
        """Return the release that would serve a job at an event time if no tournament had been held, if any."""
        return self._releases.serving(job, at_ms, has_tournaments=False)

    def shadows(self, job: str, at_ms: int) -> tuple[Release, ...]:
        """Return the policies that look on at a job at an event time."""
        return self._releases.shadows(job, at_ms)

    def close(self) -> None:
        """Leave the broker."""
        self._topics.close()

    def _take_settings(self, key: bytes | None, raw: bytes | None) -> None:
        settings = decode_under(key, raw, JobSettings)
        self._known[settings.job] = newer(self._known.get(settings.job), settings)

    def _take_release(self, key: bytes | None, raw: bytes | None) -> None:
        self._releases.add(decode_under(key, raw, Release))

    def _count(self, topic: str, taken: bool) -> None:
        if not taken:
            self._rejected.add(topic)
