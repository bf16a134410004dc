"""The port that every source of figures fits."""

from dataclasses import dataclass
from typing import Protocol

from contracts.errors import SurescaleError
from contracts.messages import ClusterTopology, EngineEvent, HourlyLoad, JobTopology, TaskSample


class SourceAway(SurescaleError):
    """The source does not answer now; it is asked again later."""


class UnknownJob(SurescaleError):
    """The source does not know this job (any more)."""


@dataclass(frozen=True, slots=True)
class FinishedMinute:
    """One minute of one job that is over, with everything that was sampled in it and the topology at its end.

    ``reached_wall_ms`` is the wall time at which the road's clock reached the minute's end, None on a live road. ``malformed``
    are documents among the samples that are none: they are sent on as they are, so that the snapshot stage refuses them with
    their coordinates and nobody else waits.
    """

    minute_end_ms: int
    samples: tuple[TaskSample, ...]
    topology: JobTopology
    reached_wall_ms: int | None = None
    malformed: tuple[bytes, ...] = ()


class Source(Protocol):
    """An engine, or a recording of one. Every method may raise ``SourceAway``; those that name a job, ``UnknownJob``."""

    @property
    def is_finite(self) -> bool:
        """Say whether no minutes means no more minutes: true of a recording."""
        ...

    def jobs(self) -> list[str]:
        """Return the ids of the jobs that there are now, sorted."""
        ...

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return finished minutes that end after ``after_ms``, oldest first; may wait a moment for one, may return none."""
        ...

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return what the source knows of the job's load before the first minute it can give, oldest first."""
        ...

    def cluster_topology(self) -> ClusterTopology | None:
        """Return the hosts, None if the source does not know them."""
        ...

    def events(self, after: int) -> list[EngineEvent]:
        """Return the events after the first ``after`` ones, in order."""
        ...
