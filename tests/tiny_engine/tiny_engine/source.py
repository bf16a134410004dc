"""The figures of the jobs' files. They show the present only, so collectors make minutes of looks."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from surescale.contracts.messages import ClusterTopology, JobTopology, TaskSample, TaskSpec
from surescale.engines.ports.event_log import EventLog
from surescale.engines.ports.minutes import Clock, CollectedSource, JobSnapshot, WallClock
from surescale.engines.ports.source import SourceUnavailable, UnknownJob
from surescale.engines.settings import SourceSettings
from tiny_engine.actuator import CAN
from tiny_engine.jobs import Away, Job, Jobs


@dataclass(frozen=True, slots=True)
class TinyJob:
    """One job, as its file shows it."""

    job: str
    jobs: Jobs
    events: EventLog

    def look(self) -> JobSnapshot:
        """Read the file."""
        try:
            found = self.jobs.read(self.job)
        except Away as away:
            raise SourceUnavailable(str(away)) from None
        if found is None:
            raise UnknownJob(f"there is no job {self.job!r} any more")
        now_ms = time.time_ns() // 1_000_000
        self.events.add("job_started", f"started:{self.job}:{found.submission}", now_ms, job=self.job)
        return JobSnapshot(_topology(self.job, found, now_ms), tuple(_samples(self.job, found, now_ms)))


class TinySource(CollectedSource[TinyJob]):
    """The jobs of the folder that are to be watched."""

    def __init__(self, settings: SourceSettings, clock: Callable[[threading.Event], Clock] = WallClock) -> None:
        """``clock`` makes the clock of a collector."""
        super().__init__(clock, settings.look_spread_s, EventLog(settings.cluster))
        self._settings, self._jobs = settings, Jobs.of(settings)

    def jobs(self) -> list[str]:
        """Return the jobs that are to be watched."""
        try:
            return [job for job in self._jobs.ids() if self._settings.watches(job.partition("/")[2])]
        except Away as away:
            raise SourceUnavailable(str(away)) from None

    def cluster_topology(self) -> ClusterTopology:
        """Return what the engine can do; it has no hosts."""
        return ClusterTopology(cluster=self._settings.cluster, version=1, at_ms=1, hosts=(), engine=CAN)

    def _check_known(self, job: str) -> None:
        if job not in self.jobs():
            raise UnknownJob(f"there is no job {job!r} in {self._jobs.folder}")

    def _looks_at(self, job: str, clock: Clock) -> TinyJob:
        return TinyJob(job, self._jobs, self._events)


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
