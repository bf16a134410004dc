"""The figures of the jobs' files. They show the present only, so collectors make minutes of looks."""

import threading
import time
from collections.abc import Callable

from surescale.contracts.messages import ClusterTopology, EngineEvent, HourlyLoad, JobTopology, TaskSample, TaskSpec
from surescale.engines.ports.event_log import EventLog
from surescale.engines.ports.minutes import Clock, JobSnapshot, MinuteCollectors, WallClock
from surescale.engines.ports.source import FinishedMinute, Source, SourceUnavailable, UnknownJob
from surescale.engines.settings import SourceSettings
from tiny_engine.actuator import CAN
from tiny_engine.jobs import Away, Job, Jobs


class TinySource(Source):
    """The jobs of the folder that are to be watched. Thread-safe."""

    def __init__(self, settings: SourceSettings, clock: Callable[[threading.Event], Clock] = WallClock) -> None:
        """``clock`` makes the clock of a collector."""
        self._settings, self._jobs = settings, Jobs.of(settings)
        self._events = EventLog(settings.cluster)
        self._collectors = MinuteCollectors(self._looks_at, clock, settings.look_spread_s)

    def jobs(self) -> list[str]:
        """Return the jobs that are to be watched."""
        try:
            return [job for job in self._jobs.ids() if self._settings.watches(job.partition("/")[2])]
        except Away as away:
            raise SourceUnavailable(str(away)) from None

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return the minutes that are kept."""
        return self._collectors.minutes(job, after_ms)

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return nothing: a file has no past."""
        return ()

    def cluster_topology(self) -> ClusterTopology:
        """Return what the engine can do; it has no hosts."""
        return ClusterTopology(cluster=self._settings.cluster, version=1, at_ms=1, hosts=(), engine=CAN)

    def events(self, after_id: str) -> list[EngineEvent]:
        """Return what happened after an event."""
        return self._events.after(after_id)

    def close(self) -> None:
        """Stop looking."""
        self._collectors.close()

    def _looks_at(self, job: str) -> Callable[[], JobSnapshot]:
        if job not in self.jobs():
            raise UnknownJob(f"there is no job {job!r} in {self._jobs.folder}")
        return lambda: self._look(job)

    def _look(self, job: str) -> JobSnapshot:
        try:
            found = self._jobs.read(job)
        except Away as away:
            raise SourceUnavailable(str(away)) from None
        if found is None:
            raise UnknownJob(f"there is no job {job!r} any more")
        now_ms = time.time_ns() // 1_000_000
        self._events.add("job_started", f"started:{job}:{found.submission}", now_ms, job=job)
        return JobSnapshot(_topology(job, found, now_ms), tuple(_samples(job, found, now_ms)))


def _topology(job: str, found: Job, now_ms: int) -> JobTopology:
    names = list(found.tasks)
    tasks = tuple(
        TaskSpec(
            task=name,
            upstream=tuple(names[:at][-1:]),
            parallelism=task.running,
            required=task.required,
            max_parallelism=128,
        )
        for at, (name, task) in enumerate(found.tasks.items())
    )
    return JobTopology(
        job=job,
        version=now_ms,
        at_ms=now_ms,
        tasks=tasks,
        attempt=found.attempt,
        engine="tiny",
        epoch=str(found.submission),
        requirement_id=found.requirement_id,
    )


def _samples(job: str, found: Job, now_ms: int) -> list[TaskSample]:
    """Return a sample of each subtask. What the file does not say is unknown, which is null and not 0."""
    return [
        TaskSample(
            job=job,
            task=name,
            subtask=subtask,
            attempt=found.attempt,
            sampled_at_ms=now_ms,
            records_in=task.records // task.running,
            records_out=task.records // task.running,
            bytes_in=0,
            bytes_out=0,
            busy_ms=None,
            idle_ms=None,
            backpressured_ms=None,
            queued_records=None,
            parallelism=task.running,
        )
        for name, task in found.tasks.items()
        for subtask in range(task.running)
    ]
