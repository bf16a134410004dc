"""Consumer groups of one Kafka cluster as a source, through Kafka's Admin API."""

import threading
from collections.abc import Callable

import msgspec

from surescale.contracts.clock import pipeline_time_ms
from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import ClockSegment, ClusterTopology, EngineEvent, HourlyLoad, JobTopology
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK, own_groups
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.groups.chains import Chain, chains_of, single
from surescale.engines.groups.job import ENGINE, ChainJob
from surescale.engines.groups.workers import WorkerTopology
from surescale.engines.kafka.offsets import TopicOffsets
from surescale.engines.ports.event_log import EventLog
from surescale.engines.ports.minutes import Clock, MinuteCollectors, WallClock
from surescale.engines.ports.source import FinishedMinute, Source, SourceUnavailable, UnknownJob
from surescale.engines.settings import SourceSettings
from surescale.runtime.beats import pause
from surescale.runtime.kafka_clock import wall_ms
from surescale.runtime.topic_records import parsed, read_topics


class ConsumerGroupSource(Source):
    """The jobs of the groups file; without one, every group that has members. Thread-safe. Each job has a collector."""

    def __init__(
        self, settings: SourceSettings, clock: Callable[[threading.Event], Clock] | None = None, speed: float = 1.0
    ) -> None:
        """Read the groups file; connect to nothing yet.

        Args:
            settings: which Kafka, which jobs, and what the actuator is.
            clock: makes the clock of a collector; its waiting ends when the event is set. None: as the settings say.
            speed: milliseconds of that clock in one of the wall's.

        Raises:
            SettingsError: the file or the credentials cannot be used, or nobody has published the pipeline's clock.
            ConnectionError: Kafka does not answer, or refuses to tell that clock.
        """
        if clock is None:
            clock, speed = clock_of_pipeline(settings) if settings.pipeline_clock else (WallClock, 1.0)
        self._settings, self._clock, self._speed = settings, clock, speed
        self._groups, self._broker = GroupReader(settings.source_kafka()), TopicOffsets(settings.source_kafka())
        self._chains = chains_of(settings) if settings.part(GroupsSettings).groups_file else None
        self._workers = WorkerTopology(settings)
        self._own = own_groups(settings.topic_prefix, settings.cluster)
        self._events = EventLog(settings.cluster)
        self._lock = threading.Lock()
        self._live: dict[str, Chain] = {}
        self._collectors = MinuteCollectors(lambda job: self.follow(job).look, clock, settings.look_spread_s)
        self._followed: dict[str, ChainJob] = {}

    def jobs(self) -> list[str]:
        """Return the jobs that are to be watched."""
        chains = self._chains
        if chains is None:
            try:
                found = [single(group) for group in self._groups.names() if group not in self._own]
            except GroupsUnavailable as problem:
                raise SourceUnavailable(str(problem)) from None
            chains = {chain.name: chain for chain in found}
        live = {f"{self._settings.cluster}/{name}": chain for name, chain in chains.items() if self._settings.watches(name)}
        with self._lock:
            self._live = live
        return sorted(live)

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return the minutes that are kept; waits half a second for one."""
        return self._collectors.minutes(job, after_ms)

    def end_of(self, last: JobTopology) -> JobTopology | None:
        """Return the end of a job that the groups file no longer has: a renamed one must not seem silent for ever.

        Without a file it returns nothing: a group without members may have some again.
        """
        cluster, _, name = last.job.partition("/")
        is_ours = last.engine == ENGINE and cluster == self._settings.cluster and self._settings.watches(name)
        if self._chains is None or name in self._chains or not is_ours:
            return None
        now_ms = max(wall_ms(), last.version + 1)
        told = "it left SURESCALE_GROUPS_FILE; its consumers, if they run, are not touched"
        self._events.add("job_stopped", f"left:{last.job}:{last.version}", now_ms, job=last.job, detail=told)
        return msgspec.structs.replace(last, state="finished", version=now_ms, at_ms=now_ms, groups=(), quiet=None)

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return nothing: offsets have no past."""
        self._chain(job)
        return ()

    def cluster_topology(self) -> ClusterTopology:
        """Return this machine with its room for workers, if there is an actuator, and what that can do."""
        return self._workers.topology()

    def events(self, after_id: str) -> list[EngineEvent]:
        """Return what happened after an event, as far as the looks have shown."""
        return self._events.after(after_id)

    def follow(self, job: str) -> ChainJob:
        """Return what looks at a job; its collector looks in one thread.

        Raises:
            UnknownJob: there is no such job.
        """
        chain = self._chain(job)
        with self._lock:
            if job not in self._followed:
                clock = self._clock(threading.Event())
                self._followed[job] = ChainJob(
                    job,
                    chain,
                    self._groups,
                    self._broker,
                    self._workers.requirements.required,
                    self._workers.requirements.failing,
                    self._workers.requirements.workers,
                    self._events,
                    clock,
                    self._speed,
                )
            return self._followed[job]

    def close(self) -> None:
        """Stop looking."""
        self._collectors.close()
        self._workers.requirements.close()

    def _chain(self, job: str) -> Chain:
        with self._lock:
            chain = self._live.get(job)
        if chain is None:
            raise UnknownJob(f"there is no job {job!r}: name it in SURESCALE_GROUPS_FILE, or start its consumers")
        return chain


class SegmentClock:
    """The clock of one segment that runs free: a demo publishes one, so that minutes are short. Real deployments have none."""

    def __init__(self, segment: ClockSegment, closed: threading.Event) -> None:
        """``closed`` ends all waiting."""
        self._segment, self._closed = segment, closed

    def now_ms(self) -> int:
        """Return the present time."""
        return pipeline_time_ms(self._segment, wall_ms())

    def wait(self, seconds: float) -> bool:
        """Wait for so many seconds of this clock."""
        return pause(self._closed, max(0.0, seconds / self._segment.speed))


def clock_of_pipeline(settings: PipelineSettings) -> tuple[Callable[[threading.Event], Clock], float]:
    """Return what makes the clocks of a pipeline, and how fast they run.

    Raises:
        SettingsError: nobody has published its clock.
        ConnectionError: Kafka does not answer or refuses.
    """
    segments = parsed(read_topics(settings, [CLOCK])[CLOCK], ClockSegment)
    own = [segment for segment in segments if segment.pipeline == settings.pipeline]
    if not own:
        raise SettingsError(
            f"SURESCALE_PIPELINE_CLOCK: no clock has been published for {settings.pipeline!r}; unset it for the wall clock"
        )
    return lambda closed: SegmentClock(own[-1], closed), own[-1].speed
