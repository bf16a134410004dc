"""The rescaler's view of the world, read from topics: clock, topologies, settings, and what happened to the engine."""

import logging
import time
from collections.abc import Callable, Mapping

from surescale.contracts.clock import pipeline_time_ms
from surescale.contracts.ids import cluster_of
from surescale.contracts.job_settings import JobSettings, newer
from surescale.contracts.messages import ClockSegment, ClusterTopology, EngineEvent, JobTopology
from surescale.contracts.record_keys import decode_under
from surescale.contracts.topics import (
    CLOCK,
    CLUSTER_TOPOLOGY,
    ENGINE_EVENTS,
    JOB_SETTINGS,
    JOB_TOPOLOGY,
    TopicNames,
)
from surescale.contracts.topology import check_cluster, check_topology
from surescale.contracts.wire import decode
from surescale.rescaler.control.job.job import RELEVANT_EVENTS
from surescale.rescaler.control.world import View
from surescale.rescaler.service.settings import RescalerSettings
from surescale.rescaler.service.status import Status
from surescale.runtime.kafka import LogReader
from surescale.runtime.latest_of import LatestOf

APART_MS_LEAST = 2_000
VIEWED = (CLOCK, JOB_TOPOLOGY, CLUSTER_TOPOLOGY, JOB_SETTINGS, ENGINE_EVENTS)


class PipelineView:
    """Reads the topics of the view from their beginning; what was acknowledged before `refresh` is visible after it."""

    def __init__(self, settings: RescalerSettings, opened: Callable[[], LogReader], status: Status, log: logging.Logger) -> None:
        """Begin with an empty world; ``opened`` opens a reader of `VIEWED`, and `close` closes it."""
        self._settings, self._status = settings, status
        self._clock: ClockSegment | None = None
        self._cluster: ClusterTopology | None = None
        self._jobs: dict[str, JobTopology] = {}
        self._events = 0  # sequence of the newest engine event
        self._allowed: dict[str, JobSettings] = {}
        take: dict[str, Callable[[bytes | None, bytes | None], EngineEvent | None]] = {
            CLOCK: self._take_clock,
            JOB_TOPOLOGY: self._take_job,
            CLUSTER_TOPOLOGY: self._take_cluster,
            JOB_SETTINGS: self._take_settings,
            ENGINE_EVENTS: self._take_engine_event,
        }
        self._topics = LatestOf(TopicNames(settings.topic_prefix), take, opened, log, count=self._count)

    def refresh(self) -> list[EngineEvent]:
        """Read everything committed before now, and return the events in it that matter; each is returned once.

        Raises:
            TimeoutError, KafkaException: Kafka does not answer.
        """
        return self._topics.refresh()

    def look(self) -> tuple[list[EngineEvent], bool]:
        """Return events that have arrived meanwhile, without asking for more, and whether the world has changed."""
        news, topics = self._topics.look()
        return news, bool(topics - {ENGINE_EVENTS})

    def now_ms(self) -> int | None:
        """Return the pipeline's time; None while its clock has not been seen."""
        if self._clock is None and self._settings.pipeline_clock:
            return None
        return self.at_ms(time.time_ns() // 1_000_000)

    def at_ms(self, wall_ms: int) -> int:
        """Return the pipeline's time at a time of the wall."""
        return pipeline_time_ms(self._clock if self._settings.pipeline_clock else None, wall_ms)

    def apart_ms_max(self) -> int:
        """Return how far the wall's clock may be from Kafka's: records that far ahead would be refused."""
        speed = self._clock.speed if self._clock is not None and self._settings.pipeline_clock else 1.0
        return max(APART_MS_LEAST, int(self._settings.ahead_of_clock_ms_max / max(speed, 1.0)))

    @property
    def is_in_lockstep(self) -> bool:
        """The clock waits at its stops."""
        return self._settings.pipeline_clock and self._clock is not None and self._clock.told is not None

    def is_up_to_date(self) -> bool:
        """Say whether all news is known that must be known before acting."""
        clock = self._clock if self._settings.pipeline_clock else None
        return clock is None or knows_all(clock, self._cluster, self._jobs, self._events)

    def stop_ms(self) -> int | None:
        """Return where the clock stops next or has stopped; None: it runs free, or has not been seen."""
        return self._clock.until_ms if self._clock and self._settings.pipeline_clock else None

    def view(self) -> View:
        """Return the world as last seen."""
        return View(cluster=self._cluster, jobs=dict(self._jobs), settings=dict(self._allowed))

    def close(self) -> None:
        """Leave the broker."""
        self._topics.close()

    def _count(self, topic: str, taken: bool) -> None:
        self._status.count_read(topic)
        if not taken:
            self._status.count("rejected")

    def _take_clock(self, key: bytes | None, raw: bytes | None) -> None:
        segment = decode_under(key, raw, ClockSegment)
        newer = self._clock is None or segment.sequence >= self._clock.sequence or segment.w0_ms > self._clock.w0_ms
        if segment.pipeline == self._settings.pipeline and newer:
            self._clock = segment

    def _take_job(self, key: bytes | None, raw: bytes | None) -> None:
        topology = decode_under(key, raw, JobTopology)
        if self._is_ours(topology.job):
            check_topology(topology)
            self._jobs[topology.job] = topology

    def _take_cluster(self, key: bytes | None, raw: bytes | None) -> None:
        topology = decode_under(key, raw, ClusterTopology)
        if topology.cluster == self._settings.cluster:
            check_cluster(topology)
            self._cluster = topology

    def _take_settings(self, key: bytes | None, raw: bytes | None) -> None:
        allowed = decode_under(key, raw, JobSettings)
        if self._is_ours(allowed.job):
            self._allowed[allowed.job] = newer(self._allowed.get(allowed.job), allowed)

    def _take_engine_event(self, key: bytes | None, raw: bytes | None) -> EngineEvent | None:
        event = decode(raw, EngineEvent)
        if event.cluster == self._settings.cluster:
            self._events = max(self._events, event.sequence)
        return event if event.cluster == self._settings.cluster and event.kind in RELEVANT_EVENTS else None

    def _is_ours(self, job: str) -> bool:
        return cluster_of(job) == self._settings.cluster


def knows_all(clock: ClockSegment, cluster: ClusterTopology | None, jobs: Mapping[str, JobTopology], newest_event: int) -> bool:
    """Say whether hosts, jobs and events are known as they were when the clock stopped.

    A clock in lockstep says when it is stopped and what had happened by then (``contracts.messages.ClockPrerequisites``). Acting
    while it moves, or before all of that is known, could mean acting on an old world. A clock that runs free says nothing, so it
    is never waited for.
    """
    told = clock.told
    if told is None:
        return True
    stands = clock.e0_ms >= clock.until_ms
    has_all = told.events <= newest_event and told.hosts <= (cluster.version if cluster else 0)
    return stands and has_all and all(job in jobs and version <= jobs[job].version for job, version in told.jobs.items())
