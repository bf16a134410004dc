"""The port that every source of figures fits."""

from dataclasses import dataclass
from typing import Protocol

import msgspec

from surescale.contracts.errors import SurescaleError
from surescale.contracts.messages import ClusterTopology, EngineEvent, HourlyLoad, JobState, JobTopology, TaskSample
from surescale.runtime.kafka_clock import wall_ms

HELD = "until then its figures are unknown and it is held"
"""What follows for a job that cannot be looked at; ends the line that says why."""


class SourceUnavailable(SurescaleError):
    """The source does not answer now; try again later."""


class UnknownJob(SurescaleError):
    """The source does not know this job, or no longer does."""


def become(last: JobTopology, state: JobState) -> JobTopology:
    """Return the topology, by the clock of now, of a job that has come to a state unseen; what was seen of its groups goes."""
    now_ms = max(wall_ms(), last.version + 1)
    return msgspec.structs.replace(last, state=state, version=now_ms, at_ms=now_ms, groups=(), quiet=None)


@dataclass(frozen=True, slots=True)
class FinishedMinute:
    """One finished minute of one job: everything sampled in it, and the topology at its end.

    ``reached_wall_ms`` is the wall time when the pipeline's clock reached the minute's end, None in a live pipeline.
    ``malformed`` holds documents that are not valid samples. They are sent unchanged, so the snapshot stage refuses them with
    their coordinates and nothing else waits. ``age_ms`` is that of the oldest figure at the minute's end, ``observer`` the run of
    the monitor that took the figures, where the source is looked at instead of keeping its own minutes.
    """

    minute_end_ms: int
    samples: tuple[TaskSample, ...]
    topology: JobTopology
    reached_wall_ms: int | None = None
    malformed: tuple[bytes, ...] = ()
    age_ms: int | None = None
    observer: str = ""


class Source(Protocol):
    """An engine, or a recording of one. Every method may raise ``SourceUnavailable``; those that name a job, ``UnknownJob``.

    A subclass need not say that it has no end, nor that it cannot tell how a job has ended.
    """

    @property
    def is_finite(self) -> bool:
        """Return whether an empty answer means the end, as it does for a recording; an engine has none."""
        return False

    def jobs(self) -> list[str]:
        """Return the ids of the current jobs, sorted."""
        ...

    def minutes(self, job: str, after_ms: int) -> list[FinishedMinute]:
        """Return finished minutes that end after ``after_ms``, oldest first; may wait a moment for one, may return none."""
        ...

    def end_of(self, last: JobTopology) -> JobTopology | None:
        """Return how a job has ended that `jobs` no longer lists, or, each minute, that it is suspended, given its last topology.

        None while there is nothing to tell, if it is not this source's to tell, or if the source's minutes tell it.
        """
        return None

    def load_history(self, job: str) -> tuple[HourlyLoad, ...]:
        """Return the job's known load before the first minute the source can give, oldest first."""
        ...

    def cluster_topology(self) -> ClusterTopology | None:
        """Return the hosts, None if the source does not know them."""
        ...

    def close(self) -> None:
        """Stop what runs by itself; nothing is asked afterwards."""
        ...

    def events(self, after_id: str) -> list[EngineEvent]:
        """Return the events after the one with this identity, in order; all of them, if it is empty or not known."""
        ...
