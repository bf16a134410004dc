"""Consumer groups of one Kafka cluster as a source, through Kafka's Admin API."""

import threading
from collections.abc import Callable

from surescale.contracts.clock import MINUTE_MS, pipeline_time_ms
from surescale.contracts.errors import SettingsError
from surescale.contracts.messages import ClockSegment, ClusterTopology, JobTopology
from surescale.contracts.settings import PipelineSettings
from surescale.contracts.topics import CLOCK
from surescale.engines.groups import GroupsSettings
from surescale.engines.groups.broker import GroupReader, GroupsUnavailable
from surescale.engines.groups.chains import Chain, chains_of, single
from surescale.engines.groups.job import ENGINE, ChainJob
from surescale.engines.groups.workers import WorkerTopology
from surescale.engines.kafka.offsets import TopicOffsets
from surescale.engines.ports.event_log import EventLog
from surescale.engines.ports.minutes import Clock, CollectedSource, WallClock
from surescale.engines.ports.source import SourceUnavailable, UnknownJob, become
from surescale.engines.settings import SourceSettings
from surescale.runtime.backoff import Throttle
from surescale.runtime.beats import pause
from surescale.runtime.kafka_clock import wall_ms
from surescale.runtime.topic_records import parsed, read_topics

ASK_EVERY_S = 60.0


class ConsumerGroupSource(CollectedSource[ChainJob]):
    """The jobs of the groups file; without one, every group that has members."""

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
        super().__init__(clock, settings.look_spread_s, EventLog(settings.cluster))
        self._settings, self._speed = settings, speed
        self._groups, self._broker = GroupReader(settings.source_kafka()), TopicOffsets(settings.source_kafka())
        self._chains = chains_of(settings) if settings.part(GroupsSettings).groups_file else None
        self._workers = WorkerTopology(settings)
        self._live: dict[str, Chain] = {}
        self._there: frozenset[str] = frozenset()  # names of all groups, with or without members
        self._asked: dict[str, Throttle] = {}  # of jobs whose groups are not listed

    def jobs(self) -> list[str]:
        """Return the jobs that are to be watched."""
        chains = self._chains
        if chains is None:
            try:
                listed = self._groups.listed()
                live = self._groups.names(listed)
            except GroupsUnavailable as problem:
                raise SourceUnavailable(str(problem)) from None
            found = {group: single(group) for group in listed}
            self._there = frozenset(chain.name for chain in found.values())
            chains = {found[group].name: found[group] for group in live}
        jobs = {f"{self._settings.cluster}/{name}": chain for name, chain in chains.items() if self._settings.watches(name)}
        with self._lock:
            self._live = jobs
        return sorted(jobs)

    def end_of(self, last: JobTopology) -> JobTopology | None:
        """Return the end of a job that the groups file no longer has: a renamed one must not seem silent for ever.

        Without a file a job ends with its group: when Kafka has neither members nor offsets of it. Until then it may have members
        again; one that lost them while nobody looked is suspended, and told of every minute as if it were looked at.
        """
        cluster, _, name = last.job.partition("/")
        is_ours = last.engine == ENGINE and cluster == self._settings.cluster and self._settings.watches(name)
        if not is_ours or (self._chains is not None and name in self._chains):
            return None
        told = "it left SURESCALE_GROUPS_FILE; its consumers, if they run, are not touched"
        if self._chains is None:
            if name in self._there:
                is_told = last.job in self._live or (last.state == "suspended" and wall_ms() - last.at_ms < MINUTE_MS)
                return None if is_told else become(last, "suspended")
            if not self._is_gone(name, last):
                return None
            told = "Kafka no longer has its group: it has had no members for too long, or was deleted"
            with self._lock:
                self._followed.pop(last.job, None)  # a group that comes back begins anew
        ended = become(last, "finished")
        self._events.add("job_stopped", f"left:{last.job}:{last.version}", ended.at_ms, job=last.job, detail=told)
        return ended

    def _is_gone(self, name: str, last: JobTopology) -> bool:
        """Return whether the broker says that there is no such group; that none is listed may be a matter of rights."""
        if not self._asked.setdefault(last.job, Throttle(ASK_EVERY_S)).is_time():
            return False
        group = last.groups[0].group if last.groups else name
        try:
            is_gone = self._groups.look([group])[group].state == "dead"
        except GroupsUnavailable:
            return False
        if is_gone:
            self._asked.pop(last.job)
        return is_gone

    def cluster_topology(self) -> ClusterTopology:
        """Return this machine with its room for workers, if there is an actuator, and what that can do."""
        return self._workers.topology()

    def close(self) -> None:
        """Stop looking."""
        super().close()
        self._groups.close()
        self._workers.requirements.close()

    def _looks_at(self, job: str, clock: Clock) -> ChainJob:
        return ChainJob(
            job,
            self._live[job],
            self._groups,
            self._broker,
            self._workers.requirements.required,
            self._workers.requirements.failing,
            self._workers.requirements.workers,
            self._events,
            clock,
            self._speed,
        )

    def _check_known(self, job: str) -> None:
        if job not in self._live:
            raise UnknownJob(f"there is no job {job!r}: name it in SURESCALE_GROUPS_FILE, or start its consumers")


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
